"""Content of a Parquet table, read in batches into the cache: rows of numbers, or images."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from unbraid.core.errors import UnbraidError, expect
from unbraid.core.progress import Advance
from unbraid.data.cache import array_cache
from unbraid.data.formats.hdf5 import only_candidate
from unbraid.data.formats.image_files import (
    as_named_file,
    cache_images,
    cached_damage_mask,
    none_if_damaged,
    read_image,
)
from unbraid.data.formats.parquet import VALUES_PER_BATCH, ParquetTable, to_float64


def read_vectors(table: ParquetTable, names: list[str], standardise: bool) -> tuple[np.ndarray, list[str]]:
    """Read columns as rows "n d" of float32, memory-mapped from the cache; return them with the d names.

    Args:
        table: the table.
        names: columns of numbers, or of lists of one length.
        standardise: scale every column to mean 0 and standard deviation 1; constant columns become 0.
    """
    for name in names:
        kind = table.column_kind(name)
        expect(
            kind in ("number", "vector"),
            f"vectors: column {name!r} of {table.path} holds no numbers",
            found=kind,
            do="Name it in labels if it is one, else remove it from the file."
            if kind != "image"
            else "For images use the data set 'images'.",
        )
    expect(names, f"vectors: {table.path} has no data columns besides its labels")
    _, first = next(table.iterate_batches(names, 1))
    widths, titles = dict.fromkeys(names, 1), list[str]()
    for name in names:
        if table.column_kind(name) == "number":
            titles.append(name)
        else:
            widths[name] = len(first.column(name)[0]) if first.column(name)[0].is_valid else 1
            titles += [f"{name}_{i}" for i in range(widths[name])]
    expect(titles, f"vectors: {table.path} holds empty lists")

    def fill(array: np.ndarray, advance: Advance) -> None:
        for start, batch in table.iterate_batches(names, max(1, VALUES_PER_BATCH // len(titles))):
            stop = start + batch.num_rows
            expect(stop <= len(array), f"{table.path} has more rows than its metadata state", allowed=f"{len(array):,}")
            with np.errstate(over="ignore"):  # overflow of float32 is reported below
                blocks = [_column_block(table, batch.column(name), name, widths[name], start) for name in names]
                array[start:stop] = np.concatenate(blocks, axis=1)
            bad = ~np.isfinite(array[start:stop])
            row, column = (int(i[0]) for i in np.nonzero(bad)) if bad.any() else (0, 0)
            expect(
                not bad.any(),
                f"vectors: column {titles[column]!r} of {table.path} must be finite",
                found=f"a null, NaN, infinity or a value too large for float32 in row {start + row}",
                do="Fill in or drop these rows.",
            )
            advance(batch.num_rows)
        if standardise:
            _standardise(array)

    name = f"vectors-{array_cache.file_fingerprint(table.files, str(table.path.resolve()), names, standardise)}"
    return array_cache.load_or_generate(name, (table.num_rows, len(titles)), np.float32, fill, table.num_rows), titles


def _column_block(table: ParquetTable, column: Any, name: str, width: int, start: int) -> np.ndarray:
    """Convert one column of a batch to "rows width"; lists of another length raise an `UnbraidError`."""
    if table.column_kind(name) == "number":
        return to_float64(column)[:, None]
    from pyarrow import compute

    lengths = np.asarray(compute.fill_null(compute.list_value_length(column), -1))
    expect(
        (lengths == width).all(),
        f"vectors: the lists in column {name!r} of {table.path} must have the same length",
        found=f"{'null' if lengths.min() < 0 else lengths[(lengths != width).argmax()]} in row "
        f"{start + int((lengths != width).argmax())}, {width} in row 0",
    )
    return to_float64(column.flatten()).reshape(len(column), width)


def _standardise(array: np.ndarray) -> None:
    """Scale every column to mean 0 and standard deviation 1, in place and in chunks; constant columns become 0."""
    step = max(1, VALUES_PER_BATCH // array.shape[1])
    pieces = [slice(start, start + step) for start in range(0, len(array), step)]
    mean = np.sum([array[piece].sum(axis=0, dtype=np.float64) for piece in pieces], axis=0) / len(array)
    square = np.sum([((array[piece] - mean) ** 2).sum(axis=0) for piece in pieces], axis=0) / len(array)
    deviation = np.sqrt(square)
    deviation[deviation <= len(array) * np.finfo(np.float64).eps * np.abs(mean)] = 1.0  # constant up to rounding
    for piece in pieces:
        array[piece] = (array[piece] - mean) / deviation


def read_images(
    table: ParquetTable, key: str, size: int, grey: bool, skip_damaged: bool = False
) -> tuple[np.ndarray, str, np.ndarray]:
    """Read a column of images as a cached uint8 array "n c h w"; return it with its name and a mask of damaged rows.

    Args:
        table: the table.
        key: name of the column; by default the only column of images.
        size: crop to a centred square and resize to this side; 0 keeps the size.
        grey: convert to grey.
        skip_damaged: make damaged images black and mark them, instead of raising one error that lists them.
    """
    if not key:
        many = [name for name in table.column_names if table.column_kind(name) == "image"]
        found = ", ".join(many) or f"none among {', '.join(table.column_names)}"
        key = only_candidate(many, f"{table.path} must hold one column of images", found)
    expect(
        key in table.column_names and table.column_kind(key) == "image",
        f"{table.path} has no column of images {key!r}",
        found=table.column_kind(key) if key in table.column_names else None,
        allowed=table.column_names,
    )
    bad = _damaged_rows(table, key) if skip_damaged else np.zeros(table.num_rows, bool)

    def readers() -> Iterator[Callable[[], np.ndarray]]:
        return (partial(_decode_value, value, row, key, size, grey) for row, value in _iterate_column(table, key))

    name = f"parquet-2-{array_cache.file_fingerprint(table.files, str(table.path.resolve()), key, size, grey)}"
    name += "-whole" if bad.any() else ""
    return cache_images(name, str(table.path), readers, "row {}".format, bad), key, bad


def _iterate_column(table: ParquetTable, key: str) -> Iterator[tuple[int, Any]]:
    """Yield (row, value) of one column; raise if there are more rows than the metadata state."""
    for start, batch in table.iterate_batches([key], 64):
        expect(start + batch.num_rows <= table.num_rows, f"{table.path} has more rows than its metadata state")
        yield from enumerate(batch.column(key), start)


def _damaged_rows(table: ParquetTable, key: str) -> np.ndarray:
    """Mask of rows whose image cannot be decoded, cached by the state of the files."""
    fingerprint = array_cache.file_fingerprint(table.files, str(table.path.resolve()), key)
    values = _iterate_column(table, key)
    damaged = (none_if_damaged(_decode_value, value, row, key, 0, False) is None for row, value in values)
    return cached_damage_mask(fingerprint, damaged, table.num_rows)


def _decode_value(value: Any, row: int, key: str, size: int, grey: bool) -> np.ndarray:
    found = value.as_py()
    raw = found.get("bytes") if isinstance(found, dict) else found
    if not isinstance(raw, bytes):
        only_path = isinstance(found, dict) and found.get("path")
        raise UnbraidError(
            f"column {key!r}, row {row} holds no image: found "
            f"{'only a path, and paths in tables are never opened' if only_path else 'null'}. Save the table "
            "with its images in it, or give their folder."
        )
    return read_image(as_named_file(raw, f"of column {key!r}, row {row}"), size, grey)
