"""Encoding of one column of labels, numbers or strings, as value indices and numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from unbraid.core.errors import expect

MAX_MAGNITUDE = 1e151  # sums of squares of larger numbers overflow
MAX_DISCRETE_VALUES = 64  # a real-valued column with more distinct values than this is continuous


@dataclass(frozen=True)
class LabelColumn:
    """One encoded column of labels.

    Args:
        name: the factor.
        kind: its kind, one of `FACTOR_KINDS`.
        index: the value index of each row, −1 where it is missing.
        number: the value of each row; for strings, the index.
        levels: the values, in the order of their indices.
    """

    name: str
    kind: str
    index: np.ndarray
    number: np.ndarray
    levels: tuple[Any, ...]


def encode_column(raw: np.ndarray, name: str, kind: str | None = None, bins: int = 20) -> LabelColumn:
    """Encode one column of labels.

    Strings that are not all numbers are classes. NaN, None and "" are missing. Numbers are ordinal, or continuous when
    they are not whole and take more than 64 values. Continuous values are cut into bins of equal width for metrics that
    count, and kept as numbers for metrics that regress.

    Args:
        raw: the labels "n".
        name: the factor.
        kind: its kind; None infers it from the values.
        bins: the number of bins of a continuous factor.

    >>> encode_column(np.array(["b", "a", "", "b"]), "letter").index.tolist()
    [1, 0, -1, 1]
    """
    number, missing = _parse_numbers(raw)
    if number is None:
        texts = np.array(["" if m else str(r) for r, m in zip(raw.tolist(), missing, strict=True)])
        levels, found = np.unique(texts[~missing], return_inverse=True)
        index = np.full(len(raw), -1, np.int64)
        index[~missing] = found
        number = np.where(missing, np.nan, index.astype(float))
        kind = "class" if kind in (None, "continuous") else kind
        return LabelColumn(name, kind, index, number, tuple(levels.tolist()))
    expect(
        not np.isinf(number).any(),
        f"factor {name!r} must be finite",
        found="infinity",
        do="Mark missing labels as NaN.",
    )
    expect(
        not np.nan_to_num(np.abs(number)).max(initial=0) > MAX_MAGNITUDE,
        f"factor {name!r} must be small enough to be squared and summed",
        found=f"{np.nanmax(np.abs(number)):.3g}" if (~missing).any() else None,
        allowed=f"up to {MAX_MAGNITUDE:g}",
        do="Divide it by a power of ten.",
    )
    values, found = np.unique(number[~missing], return_inverse=True)
    whole = bool((values == np.round(values)).all())
    kind = kind or ("continuous" if not whole and len(values) > MAX_DISCRETE_VALUES else "ordinal")
    index = np.full(len(raw), -1, np.int64)
    if kind == "continuous" and len(values) > bins:
        edges = np.linspace(values[0], values[-1], bins + 1)
        levels, found = np.unique(np.digitize(number[~missing], edges[1:-1]), return_inverse=True)
        values = (edges[levels] + edges[levels + 1]) / 2
    index[~missing] = found
    return LabelColumn(name, kind, index, number, tuple(values.tolist()))


def _parse_numbers(raw: np.ndarray) -> tuple[np.ndarray | None, np.ndarray]:
    """The column as floats with NaN for missing, or None if a value is not a number; and the mask of missing rows."""
    if raw.dtype.kind in "biuf":
        number = raw.astype(np.float64)
        return number, np.isnan(number)
    missing = np.array([_is_missing(r) for r in raw.tolist()], dtype=bool)
    number = np.full(len(raw), np.nan)
    try:
        number[~missing] = [float(r) for r, m in zip(raw.tolist(), missing, strict=True) if not m]
    except (TypeError, ValueError):
        return None, missing
    return number, missing | np.isnan(number)


def _is_missing(value: Any) -> bool:
    if value is None or (isinstance(value, str) and not value.strip()):
        return True
    try:
        return bool(value != value)
    except TypeError:  # pandas.NA cannot be compared
        return True
