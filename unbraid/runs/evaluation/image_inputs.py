"""Images and codes as callers hand them over: tensors, arrays or lists, bytes or floats."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from unbraid.core.errors import UnbraidError, expect

if TYPE_CHECKING:
    from torch import Tensor


def to_host(x: Any) -> Any:
    """A tensor without its gradient and on the host; anything else as it is."""
    return x.detach().cpu() if hasattr(x, "detach") else x


def images_to_float32(x: Any) -> Tensor:
    """Images as float32, scaled as `Pixels` scales them in training."""
    import torch

    try:
        array = np.asarray(to_host(x))
        expect(array.dtype.kind in "buif", "images must be numbers", found=f"dtype {array.dtype}")
    except ValueError as error:
        raise UnbraidError(f"images must be one array of numbers ({error}).") from error
    if array.dtype == np.uint8:
        return torch.from_numpy(np.multiply(array, np.float32(1 / 255), dtype=np.float32))
    return torch.as_tensor(np.ascontiguousarray(array, dtype=np.float32))
