"""Arrays of any framework as numpy arrays, by what they can do and never by importing whom they belong to."""

from __future__ import annotations

from typing import Any

import numpy as np

from unbraid.core.errors import expect


def as_numpy(array_like: Any) -> np.ndarray:
    """A tensor (also one with gradients, on another device or in bfloat16), a data frame or anything numpy takes.

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
    """The names of a data frame's columns; None for what has none."""
    framed = hasattr(frame, "columns") and (hasattr(frame, "to_numpy") or hasattr(frame, "__array__"))
    return [str(name) for name in frame.columns] if framed else None


def require_unmasked(codes: np.ndarray) -> np.ndarray:
    """A plain array; an error if entries are masked, as no metric can do without a part of a code."""
    hidden = np.ma.getmaskarray(codes) if isinstance(codes, np.ma.MaskedArray) else np.zeros(0, bool)
    expect(
        not hidden.any(),
        "codes must be complete",
        found=f"{int(hidden.sum()):,} masked entries",
        do="Drop those rows from codes and factors, or fill them.",
    )
    return np.asarray(codes)


def fill_masked(labels: np.ndarray) -> np.ndarray:
    """A plain array in which masked labels are missing: NaN among numbers, None among anything else."""
    if not isinstance(labels, np.ma.MaskedArray):
        return labels
    if labels.dtype.kind in "biuf":
        return np.where(np.ma.getmaskarray(labels), np.nan, labels.data.astype(np.float64))
    out = labels.data.astype(object)
    out[np.ma.getmaskarray(labels)] = None
    return out
