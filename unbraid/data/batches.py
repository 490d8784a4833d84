"""Batches drawn without replacement as pure functions of seed and step: no workers, no state to save."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from unbraid.core.errors import expect
from unbraid.data.dataset import Images

if TYPE_CHECKING:
    from torch import Tensor


def batch_indices(seed: int, step: int, n: int, batch_size: int, stream: int = 0) -> np.ndarray:
    """Indices "b" of the batch at one step; an epoch is n // batch_size steps through one permutation.

    The permutation depends on (seed, stream, epoch) alone, so a resumed run sees the same batches as an uninterrupted
    one. No image repeats within an epoch; the n mod batch_size images left over differ from epoch to epoch.

    Args:
        seed: seed of the run.
        step: training step, from 0.
        n: number of images.
        batch_size: images per batch.
        stream: number of an independent sequence of batches.

    >>> batch_indices(0, 0, 10, 4).tolist() == batch_indices(0, 0, 10, 4).tolist()
    True
    >>> sorted({*batch_indices(0, 6, 9, 3), *batch_indices(0, 7, 9, 3), *batch_indices(0, 8, 9, 3)}) == list(range(9))
    True
    """
    if not 1 <= batch_size <= n:
        found = f"batch {batch_size:,}, {n:,} images"
        expect(
            False, "a batch must hold at least one image and at most all images", found=found, do="Change budget.batch."
        )
    if step < 0 or stream < 0:
        expect(False, "step and stream count from 0", found=f"step {step}, stream {stream}")
    epoch, place = divmod(step, n // batch_size)
    return permutation(seed, stream, epoch, n)[place * batch_size : (place + 1) * batch_size].astype(np.int64)


@lru_cache(maxsize=4)
def permutation(seed: int, stream: int, epoch: int, n: int) -> np.ndarray:
    """Permutation of n indices (int32 or int64) from the counter-based generator Philox.

    Random high bits are joined to the index in the low bits and sorted. The raw output of Philox is the same in every
    version of numpy, which does not hold for its shuffles, and sorting integers is fast: 8 ms for 737,280.

    Args:
        seed: seed of the run; with stream and epoch it is the key of the generator.
        stream: number of an independent sequence.
        epoch: epoch, from 0.
        n: number of indices.
    """
    key = np.array([seed % 2**64, stream * 2**40 + epoch], np.uint64)
    low = np.uint64(2 ** max(n - 1, 1).bit_length() - 1)
    words = np.random.Philox(key=key).random_raw(n) & ~low | np.arange(n, dtype=np.uint64)
    words.sort()
    order = (words & low).astype(np.int32 if n < 2**31 else np.int64)
    order.setflags(write=False)  # the cached array is shared by all callers
    return order


@dataclass(frozen=True)
class Batches:
    """The batches of a run: `batches(step)` is a float tensor "b c h w" on the device.

    Args:
        images: the images to draw from.
        batch_size: images per batch.
        seed: seed of the order.
        device: device of the tensors.
        stream: number of an independent sequence of batches.

    >>> from unbraid.data import load
    >>> Batches(load("sprites32").images, 64)(0).shape
    torch.Size([64, 1, 32, 32])
    """

    images: Images
    batch_size: int
    seed: int = 0
    device: Any = "cpu"
    stream: int = 0

    def indices(self, step: int) -> np.ndarray:
        """Indices of the images in the batch at `step`.

        Args:
            step: the step, counted from 0.
        """
        return batch_indices(self.seed, step, len(self.images), self.batch_size, self.stream)

    def __call__(self, step: int) -> Tensor:
        """The batch at `step`: gathered as stored bytes, moved to the device, then unpacked there."""
        return fetch_batch(self.images, self.indices(step), self.device)


def fetch_batch(images: Images, index: np.ndarray, device: Any = "cpu") -> Tensor:
    """Return images as a float tensor "b c h w" on a device.

    Args:
        images: the images to read.
        index: positions of the images.
        device: device of the tensor.
    """
    import torch

    rows = torch.from_numpy(images.take(index))
    if str(device) == "cpu":
        return images.unpack(rows)
    if str(device).startswith("cuda"):
        rows = rows.pin_memory()
    return images.unpack(rows.to(device, non_blocking=True))
