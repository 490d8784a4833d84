"""What is in a parquet table, batch by batch into the cache: rows of numbers, or pictures."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from unbraid.core.errors import UnbraidError, expect
from unbraid.core.progress import Advance
from unbraid.data.cache import array_cache
from unbraid.data.formats.image_files import DamageReport, as_named_file, read_image, to_chw
from unbraid.data.formats.parquet import VALUES_PER_BATCH, ParquetTable, to_float64


def read_vectors(table: ParquetTable, names: list[str], standardise: bool) -> tuple[np.ndarray, list[str]]:
    """The columns as rows "n d" of float32, mapped from the cache, and a name for each of the d."""
    for name in names:
        kind = table.column_kind(name)
        expect(
            kind in ("number", "vector"),
            f"vectors: column {name!r} of {table.path} holds no numbers",
            found=kind,
            do="Name it in labels if it is one; leave others out of the file."
            if kind != "picture"
            else "For pictures use the data set 'images'.",
        )
    expect(names, f"vectors: {table.path} has no data columns left")
    _, first = next(table.iterate_batches(names, 1))
    widths = {
        name: len(first.column(name)[0])
        if table.column_kind(name) == "vector" and first.column(name)[0].is_valid
        else 1
        for name in names
    }
    titles = [
        title
        for name in names
        for title in ([name] if table.column_kind(name) == "number" else [f"{name}_{i}" for i in range(widths[name])])
    ]
    expect(titles, f"vectors: {table.path} holds empty lists")

    def fill(array: np.ndarray, advance: Advance) -> None:
        for start, batch in table.iterate_batches(names, max(1, VALUES_PER_BATCH // len(titles))):
            stop = start + batch.num_rows
            expect(stop <= len(array), f"{table.path} has more rows than it says", allowed=f"{len(array):,}")
            with np.errstate(over="ignore"):  # what is too large for float32 is found below
                array[start:stop] = np.concatenate(
                    [_column_block(table, batch.column(name), name, widths[name], start) for name in names], axis=1
                )
            bad = ~np.isfinite(array[start:stop])
            row, column = (int(i[0]) for i in np.nonzero(bad)) if bad.any() else (0, 0)
            expect(
                not bad.any(),
                f"vectors: column {titles[column]!r} of {table.path} must hold numbers",
                found=f"a null, NaN, infinity or more than float32 holds in row {start + row}",
                do="Fill in or drop such rows.",
            )
            advance(batch.num_rows)
        if standardise:
            _standardise(array, titles, table.path)

    name = f"vectors-{array_cache.file_fingerprint(table.files, str(table.path.resolve()), names, standardise)}"
    return array_cache.load_or_generate(name, (table.num_rows, len(titles)), np.float32, fill, table.num_rows), titles


def _column_block(table: ParquetTable, column: Any, name: str, width: int, start: int) -> np.ndarray:
    """One column of a batch as "rows width"; lists of another length are named."""
    if table.column_kind(name) == "number":
        return to_float64(column)[:, None]
    from pyarrow import compute

    lengths = np.asarray(compute.fill_null(compute.list_value_length(column), -1))
    expect(
        (lengths == width).all(),
        f"vectors: the lists in column {name!r} of {table.path} must have one length",
        found=f"{'null' if lengths.min() < 0 else lengths[(lengths != width).argmax()]} in row "
        f"{start + int((lengths != width).argmax())}, {width} in row 0",
    )
    return to_float64(column.flatten()).reshape(len(column), width)


def _standardise(array: np.ndarray, titles: list[str], path: Path) -> None:
    """Every column to mean 0 and standard deviation 1, in place and piece by piece."""
    step = max(1, VALUES_PER_BATCH // array.shape[1])
    pieces = [slice(start, start + step) for start in range(0, len(array), step)]
    mean = np.sum([array[piece].sum(axis=0, dtype=np.float64) for piece in pieces], axis=0) / len(array)
    square = np.sum([((array[piece] - mean) ** 2).sum(axis=0) for piece in pieces], axis=0) / len(array)
    expect(
        (square > 0).all(),
        f"vectors: {path} has a constant column",
        found=titles[int(square.argmin())],
        do="Leave it out, or say standardise = false.",
    )
    for piece in pieces:
        array[piece] = (array[piece] - mean) / np.sqrt(square)


def read_images(
    table: ParquetTable, key: str, size: int, grey: bool, skip_damaged: bool = False
) -> tuple[np.ndarray, str, np.ndarray]:
    """The pictures of column `key` (the only one if empty) as uint8 "n c h w", mapped from the cache, its name, and
    which rows are damaged: they are refused, all in one error, or with `skip` black.
    """
    if not key:
        many = [name for name in table.column_names if table.column_kind(name) == "picture"]
        expect(
            len(many) == 1,
            f"{table.path} must hold one column of pictures",
            found=", ".join(many) or f"none among {', '.join(table.column_names)}",
            do='Say which one: key = "...".',
        )
        key = many[0]
    expect(
        key in table.column_names and table.column_kind(key) == "picture",
        f"{table.path} holds no pictures {key!r}",
        found=table.column_kind(key) if key in table.column_names else None,
        allowed=table.column_names,
    )
    every = array_cache.file_fingerprint(table.files, str(table.path.resolve()), key)
    bad = _damaged_rows(table, key, every) if skip_damaged else np.zeros(table.num_rows, bool)
    first = _first_readable_image(table, key, size, grey)

    def fill(array: np.ndarray, advance: Advance) -> None:
        errors = DamageReport(str(table.path), table.num_rows)
        for row, value in _iterate_column(table, key):
            look = partial(_decode_value, value, row, key, size, grey)
            pixels = None if bad[row] else errors.try_read(look)
            if pixels is not None:
                pixels = to_chw(pixels, len(first))
                expect(
                    len(pixels) == len(first),
                    "all pictures must be grey or coloured like the first",
                    found=f"colours in row {row}, none in row 0",
                    do="Say grey = true, or save them all in one mode.",
                )
                expect(
                    pixels.shape == first.shape,
                    "all pictures must have one size",
                    do="Say size = 64, and they are cropped and resized.",
                    found=f"{pixels.shape[1:]} in row {row}, {first.shape[1:]} in row 0",
                )
                array[row] = pixels
            advance()
        errors.raise_if_any()

    name = f"parquet-2-{array_cache.file_fingerprint(table.files, str(table.path.resolve()), key, size, grey)}"
    name += "-whole" if bad.any() else ""
    return array_cache.load_or_generate(name, (table.num_rows, *first.shape), np.uint8, fill, table.num_rows), key, bad


def _iterate_column(table: ParquetTable, key: str) -> Iterator[tuple[int, Any]]:
    """(row, value) of one column; a table with more rows than it says is named."""
    for start, batch in table.iterate_batches([key], 64):
        expect(start + batch.num_rows <= table.num_rows, f"{table.path} has more rows than it says")
        yield from enumerate(batch.column(key), start)


def _first_readable_image(table: ParquetTable, key: str, size: int, grey: bool) -> np.ndarray:
    """The first picture that can be read, channels first; if none can, all are named."""
    errors = DamageReport(str(table.path), table.num_rows)
    for row, value in _iterate_column(table, key):
        pixels = errors.try_read(partial(_decode_value, value, row, key, size, grey))
        if pixels is not None:
            return to_chw(pixels)
    errors.raise_if_any()
    raise UnbraidError(f"{table.path} has no rows.")


def _damaged_rows(table: ParquetTable, key: str, fingerprint: str) -> np.ndarray:
    """Which rows hold no picture that can be read; see `pictures.damaged`."""

    def fill(array: np.ndarray, advance: Advance) -> None:
        errors = DamageReport(str(table.path), table.num_rows)
        for row, value in _iterate_column(table, key):
            array[row] = errors.try_read(partial(_decode_value, value, row, key, 0, False)) is None
            advance()

    return np.array(
        array_cache.load_or_generate(f"damaged-1-{fingerprint}", (table.num_rows,), np.bool_, fill, table.num_rows)
    )


def _decode_value(value: Any, row: int, key: str, size: int, grey: bool) -> np.ndarray:
    found = value.as_py()
    raw = found.get("bytes") if isinstance(found, dict) else found
    if not isinstance(raw, bytes):
        only = isinstance(found, dict) and found.get("path")
        raise UnbraidError(
            f"column {key!r}, row {row} holds no picture: found "
            f"{'only a path, and paths in tables are never opened' if only else 'null'}. Save the table "
            "with its pictures in it, or give their folder."
        )
    return read_image(as_named_file(raw, f"of column {key!r}, row {row}"), size, grey)
