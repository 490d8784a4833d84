"""Conversion of arrays of any framework to numpy, by their methods; no other framework is imported."""

from __future__ import annotations

from typing import Any

import numpy as np

from unbraid.core.errors import expect


def as_numpy(array_like: Any) -> np.ndarray:
    """Convert a tensor (with gradients, on any device, in bfloat16), a data frame or any array-like to numpy.

    Args:
        array_like: the values.

    >>> as_numpy([1, 2]).tolist()
    [1, 2]
    """
    if hasattr(array_like, "detach"):
        array_like = array_like.detach()
        array_like = array_like.cpu() if hasattr(array_like, "cpu") else array_like
        try:
            return np.asarray(array_like)
        except TypeError:  # numpy has no bfloat16
            return np.asarray(array_like.float())
    if hasattr(array_like, "to_numpy"):
        return np.asarray(array_like.to_numpy())
    return np.asanyarray(array_like)


def column_names(frame: Any) -> list[str] | None:
    """The column names of a data frame; None for anything else.

    Args:
        frame: a data frame, or anything else.
    """
    framed = hasattr(frame, "columns") and (hasattr(frame, "to_numpy") or hasattr(frame, "__array__"))
    return [str(name) for name in frame.columns] if framed else None


def require_unmasked(codes: np.ndarray) -> np.ndarray:
    """Convert codes to a plain array; masked entries are an error, because every metric needs complete codes.

    Args:
        codes: the codes.
    """
    hidden = np.ma.getmaskarray(codes) if isinstance(codes, np.ma.MaskedArray) else np.zeros(0, bool)
    expect(
        not hidden.any(),
        "codes must be complete",
        found=f"{int(hidden.sum()):,} masked entries",
        do="Drop those rows from codes and factors, or fill them.",
    )
    return np.asarray(codes)


def fill_masked(labels: np.ndarray) -> np.ndarray:
    """Convert labels to a plain array; masked labels become NaN among numbers and None otherwise.

    Args:
        labels: the labels.
    """
    if not isinstance(labels, np.ma.MaskedArray):
        return labels
    if labels.dtype.kind in "biuf":
        return np.where(np.ma.getmaskarray(labels), np.nan, labels.data.astype(np.float64))
    out = labels.data.astype(object)
    out[np.ma.getmaskarray(labels)] = None
    return out
