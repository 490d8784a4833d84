"""Sources of pictures for a discovery: a folder, or a data set of any kind, read in chunks of one shape."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from unbraid.core.errors import UnbraidError, did_you_mean, expect
from unbraid.data import DATASETS, Dataset, load
from unbraid.data.cache.array_cache import file_fingerprint
from unbraid.data.custom.conversion import as_dataset
from unbraid.data.formats.image_files import IMAGE_SUFFIXES, read_image
from unbraid.discovery.picture_files import choose_files, describe_skipped, list_pictures, read_pictures, resize_picture

DEFAULT_SIZE = 32  # side of the pictures in training, unless they are smaller
SMALLEST_SIZE = 8
GREY_TOLERANCE = 8  # largest difference of the channels of a grey pixel, of 255
PROBES = 100  # pictures that decide size and colour
VECTOR_SUFFIXES, FILE_SUFFIXES = (".csv", ".tsv"), (".npy", ".npz", ".h5", ".hdf5", ".parquet")


@dataclass(frozen=True)
class PictureSource:
    """An opened source.

    Args:
        name: where the data come from, for people.
        count: pictures in the source.
        limit: pictures that are read.
        size: side of the pictures in training; 0 for vectors.
        resize: how pictures become squares.
        grey: pictures are read with one channel.
        sizes: sizes in the source, as text.
        skipped: what was left out so far, with the reason.
        fingerprint: state of the source and of the options; "" for data in memory.
        files: the chosen files of a folder.
        folder: that folder.
        dataset: the data set, if the source is none.
        index: the chosen examples of the data set.
    """

    name: str
    count: int
    limit: int
    size: int
    resize: str
    grey: bool
    sizes: str
    skipped: dict[str, str] = field(default_factory=dict)
    fingerprint: str = ""
    files: tuple[Path, ...] = ()
    folder: Path = Path()
    dataset: Dataset | None = None
    index: np.ndarray | None = None

    @property
    def is_vectors(self) -> bool:
        """Whether the data are rows of numbers."""
        return self.size == 0

    def kind(self, array: np.ndarray) -> str:
        """Name the kind of the data: 'binary', 'grey', 'colour' or 'vectors'.

        Args:
            array: the examples.
        """
        if self.is_vectors:
            return "vectors"
        some = array[:: max(1, len(array) // 500)]
        between, bright = ((some > 2) & (some < 253)).mean(), (some > 127).mean()
        if between < 0.001 and between <= 0.1 * min(bright, 1 - bright):  # else a threshold would erase faint marks
            return "binary"
        return "grey" if array.shape[1] == 1 else "colour"

    def read_chunks(self, chunk: int, skipped: dict[str, str]) -> Iterator[tuple[np.ndarray, list[str]]]:
        """Read the examples in chunks: arrays "n c h w" (or "n columns") with the name of each example.

        Args:
            chunk: examples per chunk.
            skipped: receives what cannot be read.
        """
        for start in range(0, self.limit, chunk):
            if self.dataset is None:
                files = list(self.files[start : start + chunk])
                yield read_pictures(files, self.folder, self.size, self.resize, self.grey, skipped)
            else:
                assert self.index is not None
                index = self.index[start : start + chunk]
                pixels = self.dataset.pixels(index)
                names = [str(i) for i in index]
                if self.is_vectors:
                    yield pixels.reshape(len(pixels), -1).astype(np.float32), names
                else:
                    yield self._resize_all(np.rint(pixels * 255).clip(0, 255).astype(np.uint8)), names

    def _resize_all(self, pixels: np.ndarray) -> np.ndarray:
        """Pictures "n c h w" as squares of the working size with one or three channels."""
        channels = 1 if self.grey else 3
        if pixels.shape[1] != channels:
            pixels = pixels[:, :1] if channels == 1 else pixels.repeat(3, axis=1)
        if pixels.shape[2:] == (self.size, self.size):
            return pixels
        flat = [row[0] if self.grey else np.moveaxis(row, 0, -1) for row in pixels]
        return np.stack([resize_picture(np.ascontiguousarray(p), self.size, self.resize, self.grey) for p in flat])


def open_source(
    source: Any, size: int, resize: str, limit: int, options: dict[str, Any], quiet: bool = False
) -> PictureSource:
    """Open a source and decide size and channels; pictures are read later.

    Args:
        source: a folder, a file, the name of a data set, a `Dataset`, or what `unbraid.data.of` accepts.
        size: side of the pictures in training; 0 chooses it.
        resize: how pictures become squares.
        limit: largest number of examples.
        options: options of a named data set.
        quiet: show no progress bar.
    """
    named = isinstance(source, str | Path) and str(source) in DATASETS
    if named and (options or not Path(source).is_dir()):  # a folder of this name is what a user sees
        name = str(source)
        dataset = load(name, **options)
        return _open_dataset(
            dataset, name, size, resize, limit, json.dumps([name, options], sort_keys=True, default=str)
        )
    expect(not options or isinstance(source, str | Path), "options belong to a named data set or a file", found=options)
    if isinstance(source, str | Path):
        path = Path(source).expanduser()
        if path.is_dir():
            expect(not options, "a folder of pictures takes no --set", found=", ".join(options), do="Leave it out.")
            return _open_folder(path, size, resize, limit)
        expect(
            path.is_file(),
            f"there is no folder, file or data set {str(source)!r}",
            do=did_you_mean(str(source), DATASETS).strip() or "Give a folder of pictures.",
        )
        dataset = _load_file(path, options)
        return _open_dataset(dataset, str(path), size, resize, limit, file_fingerprint([path], sorted(options.items())))
    return _open_dataset(as_dataset(source, "data", quiet), "data in memory", size, resize, limit, "")


def _load_file(path: Path, options: dict[str, Any]) -> Dataset:
    """A data set of one file: rows of numbers if it holds a table, else images."""
    suffix = path.suffix.lower()
    expect(
        suffix in (*VECTOR_SUFFIXES, *FILE_SUFFIXES),
        f"cannot read {path}",
        found=suffix or "no ending",
        allowed=(*FILE_SUFFIXES, *VECTOR_SUFFIXES, "a folder of pictures"),
    )
    if suffix in VECTOR_SUFFIXES:
        return load("vectors", path=str(path), **options)
    try:
        return load("images", path=str(path), **options)
    except UnbraidError as images_error:
        try:
            return load("vectors", path=str(path), **options)
        except UnbraidError:
            raise images_error from None


def _open_folder(folder: Path, size: int, resize: str, limit: int) -> PictureSource:
    files, skipped = list_pictures(folder)
    expect(
        files,
        f"{folder} holds no pictures",
        found=describe_skipped(skipped),
        do=f"Give a folder with {', '.join(IMAGE_SUFFIXES)} files, at any depth."
        + (f" The data set {folder} is read from it with --set path={folder}." if str(folder) in DATASETS else ""),
    )
    chosen = choose_files(files, limit)
    sides, colour = [], False
    for file in chosen[:: max(1, len(chosen) // PROBES)]:
        try:
            pixels = read_image(file)
        except (UnbraidError, OSError, MemoryError):
            continue
        sides.append(pixels.shape[:2])
        colour = colour or (pixels.ndim == 3 and _has_colour(pixels))
    expect(
        sides,
        f"none of {min(len(chosen), PROBES):,} pictures of {folder} that were tried can be read",
        found=f"{len(files):,} files with endings of pictures",
        do="Check that they are pictures.",
    )
    size = size or _working_size(sides)
    fingerprint = file_fingerprint(chosen, str(folder.resolve()), size, resize, limit)
    return PictureSource(
        str(folder), len(files) + len(skipped), len(chosen), size, resize, not colour, _describe_sizes(sides),
        skipped, fingerprint, tuple(chosen), folder,
    )  # fmt: skip


def _open_dataset(dataset: Dataset, name: str, size: int, resize: str, limit: int, fingerprint: str) -> PictureSource:
    n, (channels, height, width) = len(dataset), dataset.shape
    index = np.arange(n)
    if n > limit:
        index = np.sort(np.random.Generator(np.random.Philox(0)).permutation(n)[:limit])
    vectors = (height, width) == (1, 1)
    expect(
        vectors or channels in (1, 3),
        f"pictures of {name} must have one or three channels",
        found=f"{channels} channels",
    )
    grey = channels == 1
    if not grey and not vectors:
        probe = dataset.pixels(index[:: max(1, len(index) // PROBES)])
        grey = not any(_has_colour(np.rint(np.moveaxis(row, 0, -1) * 255)) for row in probe)
    side = 0 if vectors else size or _working_size([(height, width)])
    text = "" if vectors else _describe_sizes([(height, width)])
    stamp = fingerprint and f"{fingerprint} {n} {side} {resize} {limit}"
    return PictureSource(name, n, len(index), side, resize, grey, text, fingerprint=stamp, dataset=dataset, index=index)


def _has_colour(pixels: np.ndarray) -> bool:
    """Whether a picture "h w 3" has a pixel whose channels differ."""
    values = pixels.astype(np.int16)
    return bool((values.max(-1) - values.min(-1) > GREY_TOLERANCE).mean() > 1e-3)


def _working_size(sides: list[tuple[int, ...]]) -> int:
    """The side in training: small squares of one size keep it, all others become 32×32."""
    first = sides[0]
    same = all(side == first for side in sides) and first[0] == first[1]
    return int(first[0]) if same and SMALLEST_SIZE <= first[0] <= DEFAULT_SIZE else DEFAULT_SIZE


def _describe_sizes(sides: list[tuple[int, ...]]) -> str:
    small, large = min(sides), max(sides)
    text = f"{small[0]}×{small[1]}"
    return text if small == large else f"{text} to {large[0]}×{large[1]}"
