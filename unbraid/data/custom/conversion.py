"""Conversion of torch and Hugging Face data sets, arrays and iterables to memory-mapped data sets in the cache."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from unbraid.core.errors import UnbraidError, expect
from unbraid.core.files import ensure_writable_folder, read_npy, remove_partial_files, sha256
from unbraid.core.locks import file_lock
from unbraid.core.progress import progress_bar
from unbraid.data.cache import array_cache
from unbraid.data.custom.images import build_dataset, check_values, images_from_array, label_columns
from unbraid.data.custom.items import MAX_ITEMS, collate_labels, iterate_items, split_item, to_array
from unbraid.data.dataset import Dataset, Images, MemmapLocation
from unbraid.data.sets.toys import vector_dataset

CHUNK_BYTES = 1 << 24  # disk space is checked once per chunk
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
    """Convert a torch `Dataset` or `DataLoader`, a Hugging Face data set, an array or any iterable to a data set.

    Items are images, pairs (image, label), or mappings; one-dimensional items become vectors. They are read once, one
    at a time, into a memory map in the cache, named by its content. So equal items are stored once, and a run trained
    on them finds them again.

    Args:
        source: the items. A source with a length is read to its end, one without up to `max_items`.
        labels: labels of all images, if the items hold none; as in `custom.images.from_arrays`.
        image: key of the image in items that are mappings.
        columns: keys of the labels in items that are mappings; by default all single strings and numbers.
        size: crop Pillow images to a centred square and resize them to this side; 0 keeps their size.
        grey: convert Pillow images to grey.
        layout: order of the axes of the array: auto, nhw, nhwc or nchw.
        partial: allow missing labels: None, NaN or empty.
        max_items: limit for sources without a length.
        name: name of the data set.
        quiet: show no progress bar.

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
        rows, path, item_labels = _cache_items(source, image, columns, size, grey, max_items, quiet)
        expect(item_labels is None or labels is None, "labels must come once: in the items or as an argument")
        labels = _replace_unknown(item_labels, classes) if labels is None else labels
    named = build_dataset(name, images_from_rows(rows, layout, name), label_columns(labels), name, partial)
    named = replace(named, memmap_location=None if path is None else MemmapLocation(path, layout))
    return replace(named, factors=named.factors.with_class_names(classes, name)) if classes and named.factors else named


def as_dataset(source: Any, argument_name: str = "dataset", quiet: bool = False) -> Dataset:
    """Return a `Dataset` unchanged, and convert anything else with `of`.

    Args:
        source: a `Dataset`, a pair (images, labels), or what `of` accepts.
        argument_name: name of the argument in errors.
        quiet: show no progress bar.
    """
    if isinstance(source, Dataset):
        return source
    expect(
        not isinstance(source, str | Path),
        f"{argument_name} must be data, not a name",
        found=repr(str(source))[:80],
        allowed="a Dataset, a torch Dataset or DataLoader, a Hugging Face data set, an array or an iterable",
        do="Name it in the recipe (data = ...), or pass unbraid.data.load(name).",
    )
    try:
        pair = isinstance(source, tuple) and len(source) == 2 and _are_labels_of(source[1], source[0])
        return of(source[0], source[1], quiet=quiet) if pair else of(source, quiet=quiet)
    except UnbraidError as error:
        raise UnbraidError(f"{argument_name}: {error}") from error


def _are_labels_of(labels: Any, images: Any) -> bool:
    """Whether a pair is (images, labels) and not two images: labels by name, or one row of at most two axes per image."""
    if getattr(images, "ndim", 0) < 2:
        return False
    return isinstance(labels, Mapping) or (
        images.ndim > 2 and getattr(labels, "ndim", 9) < 3 and len(labels) == len(images) > 1
    )


def images_from_rows(rows: np.ndarray, layout: str, name: str) -> Images:
    """Convert a two-dimensional array to vectors, and an array of more dimensions to images.

    Args:
        rows: array with one row per item.
        layout: order of the axes of images.
        name: name of the data set in errors.
    """
    if rows.ndim != 2:
        return images_from_array(rows, layout, name)
    check_values(rows, name)
    return vector_dataset(name, rows, None, None).images


def _cache_array(source: np.ndarray, layout: str, name: str, quiet: bool) -> tuple[np.ndarray, Path | None]:
    """Check an array and store it in the cache; one that is already mapped from an .npy file stays there."""
    expect(source.dtype.kind in "buif", "an array must hold numbers", found=f"{source.dtype} of shape {source.shape}")
    expect(source.ndim > 1 and len(source), "an array must hold images or rows", found=f"shape {source.shape}")
    if isinstance(source, np.memmap):
        path = Path(str(source.filename)).absolute()
        whole = read_npy(path, "images", mmap=True) if path.suffix == ".npy" else source[:0]
        return np.asarray(source), path if (whole.shape, whole.dtype) == (source.shape, source.dtype) else None
    images_from_rows(source, layout, name)
    with progress_bar("caching items", len(source), quiet) as advance:
        return cache_rows(iter(source), advance)


def _cache_items(
    source: Any, image: str, columns: list[str] | None, size: int, grey: bool, max_items: int, quiet: bool
) -> tuple[np.ndarray, Path, Any]:
    """Store the items in the cache; return the mapped array, its file, and the labels."""
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
    """Write rows of one shape to a memory map in the cache, named by its content; return the array and its path.

    Args:
        rows: the rows; their number need not be known.
        advance: called once per row.
    """
    folder = ensure_writable_folder(array_cache.cache_dir())
    remove_partial_files(folder, ["stream"], min_age=86400.0)  # left by processes that were killed
    handle, temporary = tempfile.mkstemp(prefix=".stream.", suffix=".part", dir=folder)
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
        with file_lock(path.with_suffix(".lock")):
            if not array_cache.is_cached(path.stem):
                os.replace(part, path)
                array_cache.write_description(path, digest)
    except OSError as error:
        raise UnbraidError(f"cannot write into {folder}: {error.strerror or error}. Free some space.") from error
    finally:
        part.unlink(missing_ok=True)
    return np.asarray(read_npy(path, "cached items", mmap=True)), path.absolute()


def _write_rows(
    rows: Iterator[np.ndarray], file: BinaryIO, folder: Path, advance: Callable[..., None]
) -> tuple[Any, Any]:
    """Write all rows after an empty header; return the shape and type of the array."""
    file.write(bytes(HEADER_BYTES))
    first, n, unchecked = None, 0, CHUNK_BYTES
    for row in rows:
        first = row if first is None else first
        expect(
            row.shape == first.shape and row.dtype == first.dtype,
            "all images must have the same size and type",
            found=f"{row.shape} {row.dtype} at {n:,}, {first.shape} {first.dtype} at 0",
            do=""
            if first.ndim == 1
            else "Pillow images can be cropped, resized and converted to grey: size = 64, grey = True.",
        )
        if unchecked >= CHUNK_BYTES:
            array_cache.check_disk_space(folder, 2 * CHUNK_BYTES + row.nbytes)
            unchecked = 0
        file.write(np.ascontiguousarray(row).data)
        n, unchecked = n + 1, unchecked + row.nbytes
        advance()
    expect(n, "the data set has no items")
    assert first is not None
    expect(
        1 <= first.ndim <= 3 and first.size,
        "an item must be an image or a row of numbers",
        found=f"shape {first.shape} at 0",
    )
    return (n, *first.shape), first.dtype


def _npy_header(shape: tuple[int, ...], dtype: np.dtype) -> bytes:
    """Header of an .npy file of version 1, always 128 bytes long, so that it can be written last."""
    text = repr({"descr": dtype.str, "fortran_order": False, "shape": shape}).encode()
    return b"\x93NUMPY\x01\x00" + (HEADER_BYTES - 10).to_bytes(2, "little") + text.ljust(HEADER_BYTES - 11) + b"\n"


def _class_names(source: Any) -> dict[str, list[str]]:
    """Names of the classes by label, as a Hugging Face data set stores them."""
    features = getattr(source, "features", None)
    if not isinstance(features, Mapping):
        return {}
    return {str(key): list(f.names) for key, f in features.items() if isinstance(getattr(f, "names", None), list)}


def _replace_unknown(labels: Any, classes: Mapping[str, Any]) -> Any:
    """Replace −1, which Hugging Face uses for 'no class', by None."""
    if not isinstance(labels, Mapping):
        return labels
    return {name: [None if v == -1 else v for v in c] if name in classes else c for name, c in labels.items()}
