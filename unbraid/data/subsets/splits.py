"""Subsets of a data set with the same interface, and fixed train/test splits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from unbraid.core.errors import expect
from unbraid.data.batches import permutation
from unbraid.data.dataset import Dataset, Images
from unbraid.data.factors import Factors

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class Subset:
    """Some of the images, by index; nothing is copied.

    Args:
        images: the images to select from.
        index: positions of the selected images.
    """

    images: Images
    index: np.ndarray

    @property
    def shape(self) -> tuple[int, int, int]:
        """Channels, height and width of one image."""
        return self.images.shape

    def __len__(self) -> int:
        return len(self.index)

    def take(self, index: np.ndarray) -> np.ndarray:
        """Gather the stored rows at `index` of the subset; see `Images.take`."""
        return self.images.take(self.index[index])

    def unpack(self, rows: Tensor) -> Tensor:
        """Convert `rows` to images; see `Images.unpack`."""
        return self.images.unpack(rows)


def take_subset(dataset: Dataset, index: np.ndarray, note: str) -> Dataset:
    """Select images with their labels, in the order of `index`.

    Args:
        dataset: data set to select from.
        index: positions of the images.
        note: description of the subset, added to its notes.

    >>> from unbraid.data import load
    >>> small = take_subset(load("sprites32"), np.array([5, 7]), "two of them")
    >>> len(small), small.labels().tolist()
    (2, [[0, 0, 0, 5], [0, 0, 0, 7]])
    """
    expect(len(index) > 0, f"{dataset.name}: no image remains ({note})")
    factors = Factors(dataset.factors.items, grid=False) if dataset.factors else None
    images = dataset.images
    if isinstance(images, Subset):  # a subset of a subset needs one look-up, not two
        part = Subset(images.images, images.index[index])
    else:
        part = Subset(images, np.asarray(index, np.int64))
    notes = {**dataset.notes, "part": [*dataset.notes.get("part", []), note]}
    return replace(dataset, images=part, factors=factors, table=dataset.labels(index), notes=notes)


def split_indices(n: int, split: str, test: float = 0.1, seed: int = 0) -> np.ndarray:
    """Indices of a random split, in ascending order: ⌊test·n⌉ images drawn by `seed` are held out.

    Args:
        n: number of images.
        split: 'all', 'train' or 'test'.
        test: share of images in the test split.
        seed: seed of the draw.

    >>> sorted([*split_indices(10, "train", 0.2), *split_indices(10, "test", 0.2)]) == list(range(10))
    True
    """
    expect(split in ("all", "train", "test"), "unknown split", found=repr(split), allowed=("all", "train", "test"))
    expect(0 < test < 1, "test must be the share of images held out", found=test, allowed="between 0 and 1")
    if split == "all":
        return np.arange(n)
    held = round(test * n)
    expect(0 < held < n, "both splits must hold images", found=f"{held} of {n} held out", do="Change test.")
    order = permutation(seed, 2**20, 0, n)  # its own stream, so that no batch order repeats the split
    return np.sort(order[:held] if split == "test" else order[held:]).astype(np.int64)


def select_split(dataset: Dataset, options: Mapping[str, Any]) -> Dataset:
    """Select the 'train' or 'test' split at random, unless the set already is the published split.

    A loader that returns a published split names it in `notes["split"]`.

    Args:
        dataset: data set to split.
        options: values of split, test and seed.

    >>> from unbraid.data import load
    >>> [len(load("sprites32", split=part, test=0.25)) for part in ("all", "train", "test")]
    [4608, 3456, 1152]
    """
    part = options["split"]
    if part == "all" or dataset.notes.get("split") == part:
        return dataset
    return take_subset(dataset, split_indices(len(dataset), part, options["test"], options["seed"]), part)
