"""Images and codes in the forms that users pass: tensors, arrays or lists, bytes or floats."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from unbraid.core.errors import UnbraidError, expect

if TYPE_CHECKING:
    from torch import Tensor


def to_host(x: Any) -> Any:
    """Return a tensor on the CPU without its gradient; anything else unchanged.

    Args:
        x: a tensor, or any other object.
    """
    return x.detach().cpu() if hasattr(x, "detach") else x


def images_to_float32(x: Any) -> Tensor:
    """Return images as float32, scaled as in training.

    Args:
        x: images; bytes (uint8) are divided by 255.
    """
    import torch

    try:
        array = np.asarray(to_host(x))
        expect(array.dtype.kind in "buif", "images must be numbers", found=f"dtype {array.dtype}")
    except ValueError as error:
        raise UnbraidError(f"images must be one array of numbers ({error}).") from error
    if array.dtype == np.uint8:
        return torch.from_numpy(np.multiply(array, np.float32(1 / 255), dtype=np.float32))
    return torch.as_tensor(np.ascontiguousarray(array, dtype=np.float32))


def check_images(x: Any, shape: tuple[int, ...], pixel_range: tuple[float, float]) -> Tensor:
    """Return images "n c h w" as float32, after checking shape and values.

    Args:
        x: images "n c h w" or "c h w".
        shape: channels, height and width of the training images.
        pixel_range: the smallest and the largest value that is allowed.
    """
    images = images_to_float32(x)
    images = images.unsqueeze(0) if images.ndim == 3 else images
    expect(
        tuple(images.shape[1:]) == shape,
        "images must have the shape of the training images",
        found=tuple(images.shape),
        allowed=f"n × {shape}",
    )
    finite = bool(images.isfinite().all())
    expect(finite, "images must be finite numbers", found="NaN or infinity", do="Repair or drop those.")
    if images.numel():
        (low, high), least, most = pixel_range, float(images.min()), float(images.max())
        expect(
            low <= least and most <= high,
            f"images must have values in [{low:g}, {high:g}], as in training",
            found=f"{least:g} to {most:g}",
            do="Pass bytes as uint8, or divide by 255." if most > 1 else "Scale them as the training images were.",
        )
    return images
