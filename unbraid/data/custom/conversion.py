"""Data sets from anywhere: torch, Hugging Face, or an iterable larger than the memory, made a memory map in the cache."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from unbraid.core.errors import UnbraidError, expect
from unbraid.core.files import ensure_writable_folder, read_npy, sha256, write_json
from unbraid.core.progress import progress_bar
from unbraid.data.cache import array_cache
from unbraid.data.custom.images import build_dataset, images_from_array, label_columns
from unbraid.data.custom.items import MAX_ITEMS, collate_labels, iterate_items, split_item, to_array
from unbraid.data.dataset import Dataset, Images, MemmapLocation
from unbraid.data.sets.toys import vector_dataset

CHUNK_BYTES = 1 << 24  # bytes written at a time
HEADER_BYTES = 128


def of(
    source: Any,
    labels: Mapping[str, Any] | Sequence[Any] | np.ndarray | None = None,
    *,
    image: str = "",
    columns: list[str] | None = None,
    size: int = 0,
    grey: bool = False,
    layout: str = "auto",
    partial: bool = False,
    max_items: int = MAX_ITEMS,
    name: str = "images",
    quiet: bool = False,
) -> Dataset:
    """A data set of a torch `Dataset` or `DataLoader`, a Hugging Face data set, an array, or any iterable.

    Items are images, pairs (image, label), or mappings in which `image` names the image and `columns` the labels; rows
    of numbers (one axis) become vectors. They are read once, one at a time, into a memory map in the cache, which is
    named by what is in it: the same items are kept once, and a run that is trained on them finds them again. What says
    its length is read to that; what says none up to `most` items. size and grey are for pictures, layout and partial as
    in `own.of_arrays`.

    >>> import torch
    >>> pairs = torch.utils.data.TensorDataset(torch.rand(6, 1, 8, 8), torch.arange(6) % 3)
    >>> data = of(pairs, quiet=True)
    >>> data.shape, len(data), data.factors.sizes
    ((1, 8, 8), 6, (3,))
    """
    classes = _class_names(source)
    if isinstance(source, np.ndarray):
        rows, path = _cache_array(source, layout, name, quiet)
    else:
        rows, path, own = _cache_items(source, image, columns, size, grey, max_items, quiet)
        expect(own is None or labels is None, "labels come once: in the items or beside them")
        labels = _replace_unknown(own, classes) if labels is None else labels
    named = build_dataset(name, images_from_rows(rows, layout, name), label_columns(labels), name, partial)
    named = replace(named, memmap_location=None if path is None else MemmapLocation(path, layout))
    return replace(named, factors=named.factors.with_class_names(classes, name)) if classes and named.factors else named


def as_dataset(source: Any, argument_name: str = "dataset", quiet: bool = False) -> Dataset:
    """What was given as data, as a `Dataset`: one as it is, anything else by `of`; `asked` is what an error calls it."""
    if isinstance(source, Dataset):
        return source
    expect(
        not isinstance(source, str | Path),
        f"{argument_name} is data, not a name",
        found=repr(str(source))[:80],
        allowed="a Dataset, a torch Dataset or DataLoader, a Hugging Face data set, an array or an iterable",
        do="Name it in the recipe (data = ...), or pass unbraid.data.load(name).",
    )
    try:
        return of(source, quiet=quiet)
    except UnbraidError as error:
        raise UnbraidError(f"{argument_name}: {error}") from error


def images_from_rows(rows: np.ndarray, layout: str, name: str) -> Images:
    """Rows of numbers as vectors, an array of more axes as images."""
    return (
        vector_dataset(name, _check_finite(rows), None, None).images
        if rows.ndim == 2
        else images_from_array(rows, layout, name)
    )


def _cache_array(source: np.ndarray, layout: str, name: str, quiet: bool) -> tuple[np.ndarray, Path | None]:
    """An array, checked and then kept as a map too; one that is mapped from an .npy already stays there."""
    expect(source.dtype.kind in "buif", "an array must hold numbers", found=f"{source.dtype} of shape {source.shape}")
    expect(source.ndim > 1 and len(source), "an array holds images or rows", found=f"shape {source.shape}")
    if isinstance(source, np.memmap):
        path = Path(str(source.filename)).absolute()
        whole = read_npy(path, "images", mmap=True) if path.suffix == ".npy" else source[:0]
        return np.asarray(source), path if (whole.shape, whole.dtype) == (source.shape, source.dtype) else None
    images_from_rows(source, layout, name)
    with progress_bar("keeping items", len(source), quiet) as advance:
        return cache_rows(iter(source), advance)


def _cache_items(
    source: Any, image: str, columns: list[str] | None, size: int, grey: bool, max_items: int, quiet: bool
) -> tuple[np.ndarray, Path, Any]:
    """The items as one array, mapped from the cache, the file they lie in, and their labels."""
    items, count = iterate_items(source, max_items)
    found: list[Any] = []

    def rows() -> Iterator[np.ndarray]:
        for place, item in enumerate(items):
            pixels, label = split_item(item, image, columns)
            found.append(label)
            yield to_array(pixels, place, size, grey)

    with progress_bar("reading items", count or max_items, quiet) as advance:
        whole, path = cache_rows(rows(), advance)
    return whole, path, collate_labels(found)


def cache_rows(rows: Iterator[np.ndarray], advance: Callable[..., None]) -> tuple[np.ndarray, Path]:
    """Rows of one shape, as many as come, as a memory map in the cache that is named by its content; and where it is."""
    folder = ensure_writable_folder(array_cache.cache_dir())
    _delete_stale_parts(folder)
    handle, temporary = tempfile.mkstemp(prefix=".stream-", suffix=".part", dir=folder)
    part = Path(temporary)
    try:
        with os.fdopen(handle, "w+b") as file:
            shape, dtype = _write_rows(rows, file, folder, advance)
            file.seek(0)
            file.write(_npy_header(shape, dtype))
            file.flush()
            os.fsync(file.fileno())
        digest = sha256(part)
        path = array_cache.cache_path(f"stream-{digest[:20]}")
        with array_cache.file_lock(path.with_suffix(".lock")):
            if not array_cache.is_cached(path.stem):
                os.replace(part, path)
                stat = path.stat()
                write_json(
                    path.with_suffix(".json"), {"sha256": digest, "bytes": stat.st_size, "mtime_ns": stat.st_mtime_ns}
                )
    except OSError as error:
        raise UnbraidError(f"cannot write into {folder}: {error.strerror or error}. Free some space.") from error
    finally:
        part.unlink(missing_ok=True)
    return np.asarray(read_npy(path, "cached items", mmap=True)), path.absolute()


def _write_rows(
    rows: Iterator[np.ndarray], file: BinaryIO, folder: Path, advance: Callable[..., None]
) -> tuple[Any, Any]:
    """Write all rows behind an empty header; their shape and type."""
    file.write(bytes(HEADER_BYTES))
    first, n, waiting = None, 0, CHUNK_BYTES
    for row in rows:
        first = row if first is None else first
        expect(
            row.shape == first.shape and row.dtype == first.dtype,
            "all images must have one size and one type",
            found=f"{row.shape} {row.dtype} at {n:,}, {first.shape} {first.dtype} at 0",
            do="" if first.ndim == 1 else "Pictures can be cropped, resized and made grey: size = 64, grey = True.",
        )
        if waiting >= CHUNK_BYTES:  # before each piece, not each row
            array_cache.check_disk_space(folder, 2 * CHUNK_BYTES + row.nbytes)
            waiting = 0
        file.write(np.ascontiguousarray(row).data)
        n, waiting = n + 1, waiting + row.nbytes
        advance()
    expect(n, "the data set gave no items")
    assert first is not None
    expect(
        1 <= first.ndim <= 3 and first.size,
        "an item is an image or a row of numbers",
        found=f"shape {first.shape} at 0",
    )
    return (n, *first.shape), first.dtype


def _npy_header(shape: tuple[int, ...], dtype: np.dtype) -> bytes:
    """The header of an .npy of version 1, always 128 bytes long, so that it can be written last."""
    text = repr({"descr": dtype.str, "fortran_order": False, "shape": shape}).encode()
    return b"\x93NUMPY\x01\x00" + (HEADER_BYTES - 10).to_bytes(2, "little") + text.ljust(HEADER_BYTES - 11) + b"\n"


def _delete_stale_parts(folder: Path, max_age: float = 86400.0) -> None:
    """Remove what killed processes left a day ago or longer."""
    for left in folder.glob(".stream-*.part"):
        with suppress(OSError):
            if time.time() - left.stat().st_mtime > max_age:
                left.unlink()


def _check_finite(rows: np.ndarray) -> np.ndarray:
    """Rows of numbers, none of them NaN or infinite, looked at piece by piece."""
    step = max(1, CHUNK_BYTES // max(rows[0].nbytes, 1))
    for start in range(0, len(rows), step):
        piece = rows[start : start + step]
        bad = ~np.isfinite(piece).all(axis=1)
        expect(not bad.any(), "rows must hold numbers", found=f"NaN or infinity in item {start + int(bad.argmax())}")
    return rows


def _class_names(source: Any) -> dict[str, list[str]]:
    """The names of classes that a Hugging Face data set has for its labels."""
    features = getattr(source, "features", None)
    if not isinstance(features, Mapping):
        return {}
    return {str(key): list(f.names) for key, f in features.items() if isinstance(getattr(f, "names", None), list)}


def _replace_unknown(labels: Any, classes: Mapping[str, Any]) -> Any:
    """Labels in which −1, which Hugging Face writes for 'no class', is None."""
    if not isinstance(labels, Mapping):
        return labels
    return {name: [None if v == -1 else v for v in c] if name in classes else c for name, c in labels.items()}
