"""How an estimator's X is laid out: rows, images without channels, channels last or first; and back."""

from __future__ import annotations

import numpy as np

from unbraid.ground.errors import expect

CHANNELS = {"last": "nhwc", "first": "nchw"}
FEW = 4  # an axis of as many or fewer may hold channels


def layout_of(shape: tuple[int, ...], channels: str = "auto") -> str:
    """The layout of an X of this shape: 'nd', 'nhw', 'nhwc' or 'nchw'; what is not clear is asked for.

    >>> layout_of((10, 64, 64, 3)), layout_of((10, 3, 64, 64)), layout_of((10, 64, 64))
    ('nhwc', 'nchw', 'nhw')
    """
    expect(
        channels in ("auto", *CHANNELS), "channels of X come last or first", found=repr(channels),
        allowed=["auto", *CHANNELS],
    )  # fmt: skip
    expect(2 <= len(shape) <= 4, "X holds rows (n, d) or images (n, h, w) or (n, h, w, c)", found=f"shape {shape}")
    if len(shape) < 4:
        return "nd" if len(shape) == 2 else "nhw"
    if channels != "auto":
        return CHANNELS[channels]
    first, last = shape[1] <= FEW, shape[3] <= FEW
    expect(
        first != last,
        "it is not clear which axis of X holds the channels",
        found=f"shape {shape}",
        allowed="(n, h, w, c) or (n, c, h, w)",
        do="Say channels='last' or channels='first'.",
    )
    return CHANNELS["first" if first else "last"]


def as_images(rows: np.ndarray, layout: str) -> np.ndarray:
    """Rows or images as the images "n c h w" that a run takes."""
    if layout == "nd":
        return rows[:, :, None, None]
    if layout == "nchw":
        return rows
    return rows[:, None] if layout == "nhw" else np.moveaxis(rows, -1, 1)


def as_given(images: np.ndarray, layout: str, shape: tuple[int, ...]) -> np.ndarray:
    """Images "n c h w" as X came, each of this shape."""
    found = images if layout == "nchw" else np.moveaxis(images, 1, -1)
    return found.reshape(len(images), *shape)
