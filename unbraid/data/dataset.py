"""What a data set is: images that can be taken by index, and the factors behind them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from unbraid.core.errors import expect
from unbraid.core.papers import papers_in
from unbraid.data.factors import Factors

if TYPE_CHECKING:
    from torch import Tensor


class Images(Protocol):
    """Images by index. `take` gathers stored bytes on the host; `unpack` makes pixels of them on the device.

    >>> from unbraid.data import load
    >>> load("sprites32").images.shape    # `Bits` and `Pixels` are two of them
    (1, 32, 32)
    """

    @property
    def shape(self) -> tuple[int, int, int]:
        """Channels, height, width of one image; (columns, 1, 1) for vectors."""

    def __len__(self) -> int: ...

    def take(self, index: np.ndarray) -> np.ndarray:
        """The stored rows at these indices, as cheap to move as possible."""

    def unpack(self, rows: Tensor) -> Tensor:
        """Rows, already on the device, as float32 images "b c h w" in [0, 1] (or any range for real vectors)."""


@dataclass(frozen=True)
class Pixels:
    """Images held as an array "n c h w": uint8 (0–255) or float. The array may be a memory map.

    With `last` the array is "n h w c", as pictures come, and the channels are moved on the device.

    >>> images = Pixels(np.zeros((10, 8, 8, 3), np.uint8), channels_last=True)
    >>> images.shape, len(images), images.take(np.array([0, 1])).shape
    ((3, 8, 8), 10, (2, 8, 8, 3))
    """

    array: np.ndarray
    channels_last: bool = False

    @property
    def shape(self) -> tuple[int, int, int]:
        """Channels, height, width."""
        a, b, c = self.array.shape[1:]
        return (c, a, b) if self.channels_last else (a, b, c)

    def __len__(self) -> int:
        return len(self.array)

    def take(self, index: np.ndarray) -> np.ndarray:
        """See `Images.take`."""
        # `take` is twice as fast as indexing, but it would copy a strided array whole
        rows = (
            self.array.take(index, axis=0) if self.array.flags.c_contiguous else np.ascontiguousarray(self.array[index])
        )
        # torch knows neither another machine's byte order nor long doubles
        return rows if rows.dtype.isnative and rows.itemsize <= 8 else rows.astype(np.float32)

    def unpack(self, rows: Tensor) -> Tensor:
        """See `Images.unpack`."""
        import torch

        if self.channels_last:
            rows = rows.permute(0, 3, 1, 2).contiguous()
        if rows.dtype != torch.uint8:
            return rows.float()
        if rows.device.type == "cpu":  # one pass over the memory, not two
            return torch.from_numpy(np.multiply(rows.numpy(), np.float32(1 / 255), dtype=np.float32))
        return rows.float().mul_(1 / 255)


@dataclass(frozen=True)
class Bits:
    """Binary images, eight pixels to a byte: an array "n bytes" (`numpy.packbits` of the flat image).

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
            "packed rows must hold whole images",
            found=f"{self.array.shape[1]} bytes a row for images of {self.shape}",
        )

    def __len__(self) -> int:
        return len(self.array)

    def take(self, index: np.ndarray) -> np.ndarray:
        """See `Images.take`."""
        return self.array.take(index, axis=0)

    def unpack(self, rows: Tensor) -> Tensor:
        """See `Images.unpack`: one look-up of 8 pixels per byte."""
        import torch

        if rows.device.type == "cpu":  # numpy's look-up is faster than torch's, and than unpacking and casting
            pixels = BIT_TABLE.take(rows.numpy().reshape(-1), axis=0)
            return torch.from_numpy(pixels.reshape(len(rows), *self.shape))
        return _bit_table_on(rows.device).index_select(0, rows.reshape(-1).int()).view(len(rows), *self.shape)


# 256 × 8: the bits of each byte, most significant first
BIT_TABLE = np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1).astype(np.float32)


def _bit_table_on(device: Any) -> Tensor:
    """`BITS`, once per device (`index_select` is 5 times faster than indexing there)."""
    if device not in _BIT_TABLES:
        import torch

        _BIT_TABLES[device] = torch.from_numpy(BIT_TABLE).to(device)
    return _BIT_TABLES[device]


_BIT_TABLES: dict[Any, Any] = {}


@dataclass(frozen=True)
class MemmapLocation:
    """Where the rows of a data set lie as an .npy that is mapped, and in which layout they are read."""

    path: Path
    layout: str = "auto"


@dataclass(frozen=True)
class Dataset:
    """Images and the factors behind them; `table` holds label rows "n k" unless the factors form the full grid.

    `mapped` says which file the images lie in, if `unbraid.data.of` made one of them: a run can open it again.

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
    memmap_location: MemmapLocation | None = field(default=None, repr=False)

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

    @property
    def shape(self) -> tuple[int, int, int]:
        """Channels, height, width of one image."""
        return self.images.shape

    def labels(self, index: np.ndarray | None = None) -> np.ndarray | None:
        """Label rows "n k" of these images (all by default), or None without factors."""
        if self.factors is None:
            return None
        index = None if index is None else self._check_indices(index)
        if self.table is not None:
            return self.table if index is None else self.table[index]
        return self.factors.labels(np.arange(len(self)) if index is None else index)

    def pixels(self, index: Any) -> np.ndarray:
        """Images at these indices as float32 "b c h w", on the host."""
        import torch

        rows = self.images.take(np.atleast_1d(self._check_indices(index)))
        return self.images.unpack(torch.from_numpy(np.ascontiguousarray(rows))).numpy()

    def _check_indices(self, index: Any) -> np.ndarray:
        """Indices as an array; what is no whole number or lies outside the set is named."""
        places = np.asarray(index)
        places = places.astype(np.int64) if places.size == 0 else places
        expect(places.dtype.kind in "iu", f"{self.name}: an image is found by a whole number", found=f"{places.dtype}")
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
    """An entry of `DATASETS`: how to describe and load one data set.

    `load(**options)` returns the `Dataset`, generating or reading it; its keyword arguments are what a recipe
    may say under `[data]`. `status()` is 'ready', 'can be generated' or 'needs a file: …'. `fetch()`, if there
    is one, downloads the original files into the cache, those that its own options name.

    Every set can be split by chance (`split`, `test`, `seed`; see `splits.split_of`), `test` being the share held out
    unless a recipe says otherwise. A set that comes in published parts is `official`: its `load` takes `split`.

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
        """Keys into `PAPERS`, as `cite` names them; none for data of your own."""
        return papers_in(self.cite)

    @cached_property
    def load_options(self) -> dict[str, Any]:
        """The options `load` takes, with their defaults."""
        import inspect

        return {p.name: p.default for p in inspect.signature(self.load).parameters.values()}

    @cached_property
    def options(self) -> dict[str, Any]:
        """The options of the set: those of `load`, and how it is split."""
        chance = {} if self.official else {"split": "all", "test": self.test, "seed": 0}
        return {
            **self.load_options,
            **{option: default for option, default in chance.items() if option not in self.load_options},
        }
