"""Interface of data sets: images accessed by index, and their ground-truth factors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from unbraid.core.errors import expect
from unbraid.core.papers import papers_in
from unbraid.data.factors import Factors

if TYPE_CHECKING:
    from torch import Tensor

MAX_SHOWN_IMAGES = 24  # in a notebook


class Images(Protocol):
    """Images by index: `take` gathers stored bytes on the host, `unpack` converts them to pixels on the device.

    >>> from unbraid.data import load
    >>> load("sprites32").images.shape    # `Bits` and `Pixels` are two of them
    (1, 32, 32)
    """

    @property
    def shape(self) -> tuple[int, int, int]:
        """Channels, height and width of one image; (columns, 1, 1) for vectors."""

    def __len__(self) -> int: ...

    def take(self, index: np.ndarray) -> np.ndarray:
        """Gather the stored rows at `index`, in the most compact form.

        Args:
            index: row numbers.
        """

    def unpack(self, rows: Tensor) -> Tensor:
        """Convert `rows` on the device to float32 images "b c h w" in [0, 1] (any range for real vectors).

        Args:
            rows: stored rows, as `take` returns them.
        """


@dataclass(frozen=True)
class Pixels:
    """Images in an array, which may be a memory map.

    Args:
        array: "n c h w", uint8 (0–255) or float.
        channels_last: the array is "n h w c"; the channels are moved on the device.
        names: file names of the images, if they have any.

    >>> images = Pixels(np.zeros((10, 8, 8, 3), np.uint8), channels_last=True)
    >>> images.shape, len(images), images.take(np.array([0, 1])).shape
    ((3, 8, 8), 10, (2, 8, 8, 3))
    """

    array: np.ndarray
    channels_last: bool = False
    names: Sequence[str] | None = None

    @property
    def shape(self) -> tuple[int, int, int]:
        """Channels, height and width of one image."""
        a, b, c = self.array.shape[1:]
        return (c, a, b) if self.channels_last else (a, b, c)

    def __len__(self) -> int:
        return len(self.array)

    def take(self, index: np.ndarray) -> np.ndarray:
        """Gather the stored rows at `index`; see `Images.take`."""
        # `take` is twice as fast as indexing, but would copy all of a strided array
        dense = self.array.flags.c_contiguous
        rows = self.array.take(index, axis=0) if dense else np.ascontiguousarray(self.array[index])
        # torch supports neither foreign byte order nor long doubles
        return rows if rows.dtype.isnative and rows.itemsize <= 8 else rows.astype(np.float32)

    def unpack(self, rows: Tensor) -> Tensor:
        """Convert `rows` to images; see `Images.unpack`."""
        import torch

        if self.channels_last:
            rows = rows.permute(0, 3, 1, 2).contiguous()
        if rows.dtype != torch.uint8:
            return rows.float()
        if rows.device.type == "cpu":  # one pass over memory instead of two
            return torch.from_numpy(np.multiply(rows.numpy(), np.float32(1 / 255), dtype=np.float32))
        return rows.float().mul_(1 / 255)


@dataclass(frozen=True)
class Bits:
    """Binary images, packed eight pixels to a byte.

    Args:
        array: "n bytes", the `numpy.packbits` of the flattened images.
        shape: channels, height and width of one image.

    >>> images = Bits(np.packbits(np.eye(8, dtype=bool).reshape(1, -1), axis=1), (1, 8, 8))
    >>> import torch
    >>> images.unpack(torch.from_numpy(images.take(np.array([0])))).sum()
    tensor(8.)
    """

    array: np.ndarray
    shape: tuple[int, int, int]

    def __post_init__(self) -> None:
        expect(
            self.array.shape[1] * 8 == int(np.prod(self.shape)),
            "a packed row must hold exactly one image",
            found=f"{self.array.shape[1]} bytes per row for images of shape {self.shape}",
        )

    def __len__(self) -> int:
        return len(self.array)

    def take(self, index: np.ndarray) -> np.ndarray:
        """Gather the stored rows at `index`; see `Images.take`."""
        return self.array.take(index, axis=0)

    def unpack(self, rows: Tensor) -> Tensor:
        """Convert `rows` to images by one table look-up per byte; see `Images.unpack`."""
        import torch

        if rows.device.type == "cpu":  # numpy's look-up is faster than torch's, and than unpacking with a cast
            pixels = BIT_TABLE.take(rows.numpy().reshape(-1), axis=0)
            return torch.from_numpy(pixels.reshape(len(rows), *self.shape))
        return _bit_table_on(rows.device).index_select(0, rows.reshape(-1).int()).view(len(rows), *self.shape)


# 256 × 8: the bits of each byte, most significant first
BIT_TABLE = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1).astype(np.float32)


@cache
def _bit_table_on(device: Any) -> Tensor:
    """Return `BIT_TABLE` on a device, copied once (`index_select` is 5 times faster than indexing there)."""
    import torch

    return torch.from_numpy(BIT_TABLE).to(device)


@dataclass(frozen=True)
class MemmapLocation:
    """Location of the stored images of a data set.

    Args:
        path: the memory-mapped .npy file.
        layout: order of its axes, as in `unbraid.data.of`.
    """

    path: Path
    layout: str = "auto"


@dataclass(frozen=True, repr=False)
class Dataset:
    """Images with their ground-truth factors.

    Args:
        name: name of the set in errors and reports.
        images: the images.
        factors: the factors, or None.
        table: label rows "n k"; None if the factors form the full grid.
        cite: the paper to cite.
        notes: further facts, such as the split or the true mixing matrix.
        memmap_location: file of the images if `unbraid.data.of` wrote one; a run can open it again.

    >>> from unbraid.data import load
    >>> data = load("sprites32")
    >>> data.shape, data.pixels([0, 1]).shape, data.labels(np.array([17])).tolist()
    ((1, 32, 32), (2, 1, 32, 32), [[0, 0, 1, 1]])
    """

    name: str
    images: Images
    factors: Factors | None = None
    table: np.ndarray | None = None
    cite: str = ""
    notes: dict[str, Any] = field(default_factory=dict)
    memmap_location: MemmapLocation | None = None

    def __post_init__(self) -> None:
        if self.factors is not None and self.table is None:
            expect(
                self.factors.grid and self.factors.count == len(self.images),
                f"{self.name}: the factor grid must match the images",
                found=f"{self.factors.count:,} combinations, {len(self.images):,} images",
            )
        if self.table is not None:
            expect(
                self.factors is not None and self.table.shape == (len(self.images), len(self.factors)),
                f"{self.name}: there must be one row of labels per image and one column per factor",
                found=f"labels of shape {self.table.shape} for {len(self.images):,} images",
            )

    def __len__(self) -> int:
        return len(self.images)

    def __repr__(self) -> str:
        shape = "×".join(map(str, self.shape))
        items = f"vectors of {self.shape[0]} columns" if self.shape[1:] == (1, 1) else f"images of {shape}"
        sizes = [f"{item.name} {item.size}" for item in self.factors.items] if self.factors is not None else []
        return f"Dataset {self.name!r}: {len(self):,} {items}, factors {', '.join(sizes) or 'none'}"

    def _repr_html_(self) -> str:
        """The description with up to 24 images, spread from the first to the last, for notebooks."""
        from unbraid.core.inline_images import image_grid_html

        text = f"<p>{escape(repr(self))}</p>"
        if self.shape[0] not in (1, 3) or min(self.shape[1:]) < 4 or not len(self):
            return text  # vectors are no pictures
        index = np.unique(np.linspace(0, len(self) - 1, MAX_SHOWN_IMAGES).round().astype(np.int64))
        images = self.pixels(index)
        low, high = float(images.min()), float(images.max())
        images = (images - low) / max(high - low, 1e-9) if low < 0 or high > 1 else images
        columns = min(len(images), 12)
        rows = [images[i : i + columns] for i in range(0, len(images) // columns * columns, columns)]
        return text + image_grid_html(rows, f"images of {self.name}")

    @property
    def shape(self) -> tuple[int, int, int]:
        """Channels, height and width of one image."""
        return self.images.shape

    def labels(self, index: np.ndarray | None = None) -> np.ndarray | None:
        """Label rows "n k" of the images at `index` (all by default), or None without factors.

        Args:
            index: the images; None for all.
        """
        if self.factors is None:
            return None
        index = None if index is None else self._check_indices(index)
        if self.table is not None:
            return self.table if index is None else self.table[index]
        return self.factors.labels(np.arange(len(self)) if index is None else index)

    def pixels(self, index: Any) -> np.ndarray:
        """The images at `index` as float32 "b c h w", on the host.

        Args:
            index: the images: numbers, a slice or a mask.
        """
        import torch

        rows = self.images.take(np.atleast_1d(self._check_indices(index)))
        return self.images.unpack(torch.from_numpy(np.ascontiguousarray(rows))).numpy()

    def _check_indices(self, index: Any) -> np.ndarray:
        """Convert indices to an array; raise unless they are whole numbers within the set."""
        places = np.asarray(index)
        places = places.astype(np.int64) if places.size == 0 else places
        expect(places.dtype.kind in "iu", f"{self.name}: image indices must be whole numbers", found=f"{places.dtype}")
        wrong = places[(places < 0) | (places >= len(self))]
        expect(
            not wrong.size,
            f"{self.name}: there is no such image",
            found=wrong.reshape(-1)[0] if wrong.size else None,
            allowed=f"0 to {len(self) - 1:,}",
        )
        return places


@dataclass(frozen=True)
class Source:
    """An entry of `DATASETS`: description and loader of one data set.

    Every set can be split at random (`split`, `test`, `seed`; see `splits.select_split`).

    Args:
        name: name of the set.
        about: short description.
        load: returns the `Dataset`; its keyword arguments are the keys that a recipe may set under `[data]`.
        size: number and shape of the images, as text.
        factors: the factors, as text.
        status: returns 'ready', 'can be generated' or 'needs a file: …'.
        cite: the papers to cite.
        how_to_get: how to obtain the set, as text.
        fetch: downloads the original files into the cache, if there are any.
        test: default share of images in the random test split.
        official: the set has published splits and `load` takes `split`.

    >>> from unbraid.data import DATASETS
    >>> DATASETS["sprites32"].factors, list(DATASETS["sprites32"].options)
    ('shape 3, scale 6, (orientation 20,) x 16, y 16', ['orientation', 'split', 'test', 'seed'])
    """

    name: str
    about: str
    load: Callable[..., Dataset]
    size: str
    factors: str
    status: Callable[[], str]
    cite: str = ""
    how_to_get: str = ""
    fetch: Callable[..., object] | None = None
    test: float = 0.1
    official: bool = False

    @property
    def papers(self) -> tuple[str, ...]:
        """Keys into `PAPERS` that `cite` names; empty for custom data."""
        return papers_in(self.cite)

    @cached_property
    def load_options(self) -> dict[str, Any]:
        """The options of `load` with their defaults."""
        import inspect

        return {p.name: p.default for p in inspect.signature(self.load).parameters.values()}

    @cached_property
    def options(self) -> dict[str, Any]:
        """All options of the set with their defaults: those of `load` and those of the random split."""
        chance = {} if self.official else {"split": "all", "test": self.test, "seed": 0}
        return self.load_options | {name: value for name, value in chance.items() if name not in self.load_options}
