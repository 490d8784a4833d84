"""Array layouts of an estimator's X: rows, or images without channels, with channels last or first."""

from __future__ import annotations

import numpy as np

from unbraid.core.errors import expect

CHANNEL_LAYOUTS = {"last": "nhwc", "first": "nchw"}
MAX_CHANNELS = 4  # longer axes do not hold channels


def detect_layout(shape: tuple[int, ...], channels: str = "auto") -> str:
    """Determine the layout of X: 'nd', 'nhw', 'nhwc' or 'nchw'; an error when the shape is ambiguous.

    Args:
        shape: shape of X.
        channels: 'last', 'first', or 'auto' to infer it.

    >>> detect_layout((10, 64, 64, 3)), detect_layout((10, 3, 64, 64)), detect_layout((10, 64, 64))
    ('nhwc', 'nchw', 'nhw')
    """
    expect(
        channels in ("auto", *CHANNEL_LAYOUTS), "the channels of X are last or first", found=repr(channels),
        allowed=["auto", *CHANNEL_LAYOUTS],
    )  # fmt: skip
    expect(2 <= len(shape) <= 4, "X holds rows (n, d) or images (n, h, w) or (n, h, w, c)", found=f"shape {shape}")
    if len(shape) < 4:
        return "nd" if len(shape) == 2 else "nhw"
    if channels != "auto":
        return CHANNEL_LAYOUTS[channels]
    first, last = shape[1] <= MAX_CHANNELS, shape[3] <= MAX_CHANNELS
    expect(
        first != last,
        "it is not clear which axis of X holds the channels",
        found=f"shape {shape}",
        allowed="(n, h, w, c) or (n, c, h, w)",
        do="Set channels='last' or channels='first'.",
    )
    return CHANNEL_LAYOUTS["first" if first else "last"]


def to_nchw(rows: np.ndarray, layout: str) -> np.ndarray:
    """Convert X to images "n c h w", the layout of a run.

    Args:
        rows: the array.
        layout: its layout.
    """
    if layout == "nd":
        return rows[:, :, None, None]
    if layout == "nchw":
        return rows
    return rows[:, None] if layout == "nhw" else np.moveaxis(rows, -1, 1)


def from_nchw(images: np.ndarray, layout: str, shape: tuple[int, ...]) -> np.ndarray:
    """Convert images "n c h w" to the layout of X.

    Args:
        images: the images.
        layout: the layout.
        shape: shape of one row of X.
    """
    moved = images if layout == "nchw" else np.moveaxis(images, 1, -1)
    return moved.reshape(len(images), *shape)
