"""Reconstruction error per image."""

from __future__ import annotations

from typing import Any

import numpy as np

from unbraid.core.errors import choose, expect
from unbraid.metrics.evaluation.records import Score
from unbraid.metrics.inputs.array_like import as_numpy, require_unmasked


def reconstruction(images: Any, reconstructions: Any, *, kind: str = "squared") -> Score:
    """Reconstruction error per image; `table['per_pixel']` is the error per pixel.

    Args:
        images: images "n …".
        reconstructions: reconstructions of the same shape.
        kind: 'squared' Σ (x − x̂)²; 'bernoulli' −Σ x log x̂ + (1 − x) log(1 − x̂) in nats; 'absolute' Σ |x − x̂|. The
            value is the sum over pixels, averaged over images.

    >>> reconstruction(np.ones((2, 4)), np.zeros((2, 4))).value
    4.0
    """
    x, y = require_unmasked(as_numpy(images)), require_unmasked(as_numpy(reconstructions))
    expect(
        x.shape == y.shape and x.ndim >= 2 and len(x) > 0,
        "images and reconstructions must have the same shape, rows first",
        found=f"{x.shape} and {y.shape}",
    )
    expect(
        x.dtype.kind in "buif" and y.dtype.kind in "buif",
        "images and reconstructions must be numbers",
        found=f"{x.dtype} and {y.dtype}",
    )
    error = choose(kind, {"squared": _squared, "bernoulli": _bernoulli, "absolute": _absolute}, "reconstruction error")
    per_image = np.concatenate(
        [error(x[a : a + 1024].astype(np.float64), y[a : a + 1024].astype(np.float64)) for a in range(0, len(x), 1024)]
    )
    bad = int((~np.isfinite(per_image)).sum())
    expect(bad == 0, "images and reconstructions must be finite", found=f"NaN or infinity in {bad:,} of {len(x):,}")
    value, half = float(per_image.mean()), 1.96 * float(per_image.std()) / np.sqrt(len(x))
    rows = {"per_image": per_image, "per_pixel": value / int(np.prod(x.shape[1:]))}
    return Score("reconstruction", value, rows, (value - half, value + half), {"kind": kind, "images": len(x)}, "")


def _squared(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return ((x - y) ** 2).reshape(len(x), -1).sum(1)


def _absolute(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return np.abs(x - y).reshape(len(x), -1).sum(1)


def _bernoulli(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    expect(
        min(x.min(), y.min()) >= 0 and max(x.max(), y.max()) <= 1,
        "Bernoulli errors need pixels in [0, 1]",
        found=f"[{min(x.min(), y.min()):.3g}, {max(x.max(), y.max()):.3g}]",
        do="Divide by 255, or use kind='squared'.",
    )
    y = np.clip(y, 1e-7, 1 - 1e-7)
    return -(x * np.log(y) + (1 - x) * np.log1p(-y)).reshape(len(x), -1).sum(1)
