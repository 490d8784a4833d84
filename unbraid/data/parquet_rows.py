"""What is in a parquet table, batch by batch into the cache: rows of numbers, or pictures."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from unbraid.data import store
from unbraid.data.parquet import NUMBERS, Table, numbers
from unbraid.data.pictures import Damage, named, picture, planes
from unbraid.ground.errors import UnbraidError, expect
from unbraid.ground.progress import Advance


def vectors(table: Table, names: list[str], standardise: bool) -> tuple[np.ndarray, list[str]]:
    """The columns as rows "n d" of float32, mapped from the cache, and a name for each of the d."""
    for name in names:
        kind = table.kind(name)
        expect(
            kind in ("number", "vector"),
            f"vectors: column {name!r} of {table.where} holds no numbers",
            found=kind,
            do="Name it in labels if it is one; leave others out of the file."
            if kind != "picture"
            else "For pictures use the data set 'images'.",
        )
    expect(names, f"vectors: {table.where} has no data columns left")
    _, first = next(table.batches(names, 1))
    widths = {
        name: len(first.column(name)[0]) if table.kind(name) == "vector" and first.column(name)[0].is_valid else 1
        for name in names
    }
    titles = [
        title
        for name in names
        for title in ([name] if table.kind(name) == "number" else [f"{name}_{i}" for i in range(widths[name])])
    ]
    expect(titles, f"vectors: {table.where} holds empty lists")

    def fill(array: np.ndarray, advance: Advance) -> None:
        for start, batch in table.batches(names, max(1, NUMBERS // len(titles))):
            stop = start + batch.num_rows
            expect(stop <= len(array), f"{table.where} has more rows than it says", allowed=f"{len(array):,}")
            with np.errstate(over="ignore"):  # what is too large for float32 is found below
                array[start:stop] = np.concatenate(
                    [_block(table, batch.column(name), name, widths[name], start) for name in names], axis=1
                )
            bad = ~np.isfinite(array[start:stop])
            row, column = (int(i[0]) for i in np.nonzero(bad)) if bad.any() else (0, 0)
            expect(
                not bad.any(),
                f"vectors: column {titles[column]!r} of {table.where} must hold numbers",
                found=f"a null, NaN, infinity or more than float32 holds in row {start + row}",
                do="Fill in or drop such rows.",
            )
            advance(batch.num_rows)
        if standardise:
            _standardise(array, titles, table.where)

    name = f"vectors-{store.state(table.files, str(table.where.resolve()), names, standardise)}"
    return store.generated(name, (table.rows, len(titles)), np.float32, fill, table.rows), titles


def _block(table: Table, column: Any, name: str, width: int, start: int) -> np.ndarray:
    """One column of a batch as "rows width"; lists of another length are named."""
    if table.kind(name) == "number":
        return numbers(column)[:, None]
    from pyarrow import compute

    lengths = np.asarray(compute.fill_null(compute.list_value_length(column), -1))
    expect(
        (lengths == width).all(),
        f"vectors: the lists in column {name!r} of {table.where} must have one length",
        found=f"{'null' if lengths.min() < 0 else lengths[(lengths != width).argmax()]} in row "
        f"{start + int((lengths != width).argmax())}, {width} in row 0",
    )
    return numbers(column.flatten()).reshape(len(column), width)


def _standardise(array: np.ndarray, titles: list[str], where: Path) -> None:
    """Every column to mean 0 and standard deviation 1, in place and piece by piece."""
    step = max(1, NUMBERS // array.shape[1])
    pieces = [slice(start, start + step) for start in range(0, len(array), step)]
    mean = np.sum([array[piece].sum(axis=0, dtype=np.float64) for piece in pieces], axis=0) / len(array)
    square = np.sum([((array[piece] - mean) ** 2).sum(axis=0) for piece in pieces], axis=0) / len(array)
    expect(
        (square > 0).all(),
        f"vectors: {where} has a constant column",
        found=titles[int(square.argmin())],
        do="Leave it out, or say standardise = false.",
    )
    for piece in pieces:
        array[piece] = (array[piece] - mean) / np.sqrt(square)


def images(table: Table, key: str, size: int, grey: bool, skip: bool = False) -> tuple[np.ndarray, str, np.ndarray]:
    """The pictures of column `key` (the only one if empty) as uint8 "n c h w", mapped from the cache, its name, and
    which rows are damaged: they are refused, all in one error, or with `skip` black.
    """
    if not key:
        many = [name for name in table.names if table.kind(name) == "picture"]
        expect(
            len(many) == 1,
            f"{table.where} must hold one column of pictures",
            found=", ".join(many) or f"none among {', '.join(table.names)}",
            do='Say which one: key = "...".',
        )
        key = many[0]
    expect(
        key in table.names and table.kind(key) == "picture",
        f"{table.where} holds no pictures {key!r}",
        found=table.kind(key) if key in table.names else None,
        allowed=table.names,
    )
    every = store.state(table.files, str(table.where.resolve()), key)
    bad = _damaged(table, key, every) if skip else np.zeros(table.rows, bool)
    first = _first(table, key, size, grey)

    def fill(array: np.ndarray, advance: Advance) -> None:
        errors = Damage(str(table.where), table.rows)
        for row, value in _values(table, key):
            look = partial(_picture, value, row, key, size, grey)
            pixels = None if bad[row] else errors.read(look)
            if pixels is not None:
                pixels = planes(pixels, len(first))
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
        errors.refuse()

    name = f"parquet-2-{store.state(table.files, str(table.where.resolve()), key, size, grey)}"
    name += "-whole" if bad.any() else ""
    return store.generated(name, (table.rows, *first.shape), np.uint8, fill, table.rows), key, bad


def _values(table: Table, key: str) -> Iterator[tuple[int, Any]]:
    """(row, value) of one column; a table with more rows than it says is named."""
    for start, batch in table.batches([key], 64):
        expect(start + batch.num_rows <= table.rows, f"{table.where} has more rows than it says")
        yield from enumerate(batch.column(key), start)


def _first(table: Table, key: str, size: int, grey: bool) -> np.ndarray:
    """The first picture that can be read, channels first; if none can, all are named."""
    errors = Damage(str(table.where), table.rows)
    for row, value in _values(table, key):
        pixels = errors.read(partial(_picture, value, row, key, size, grey))
        if pixels is not None:
            return planes(pixels)
    errors.refuse()
    raise UnbraidError(f"{table.where} has no rows.")


def _damaged(table: Table, key: str, state: str) -> np.ndarray:
    """Which rows hold no picture that can be read; see `pictures.damaged`."""

    def fill(array: np.ndarray, advance: Advance) -> None:
        errors = Damage(str(table.where), table.rows)
        for row, value in _values(table, key):
            array[row] = errors.read(partial(_picture, value, row, key, 0, False)) is None
            advance()

    return np.array(store.generated(f"damaged-1-{state}", (table.rows,), np.bool_, fill, table.rows))


def _picture(value: Any, row: int, key: str, size: int, grey: bool) -> np.ndarray:
    found = value.as_py()
    raw = found.get("bytes") if isinstance(found, dict) else found
    if not isinstance(raw, bytes):
        only = isinstance(found, dict) and found.get("path")
        raise UnbraidError(
            f"column {key!r}, row {row} holds no picture: found "
            f"{'only a path, and paths in tables are never opened' if only else 'null'}. Save the table "
            "with its pictures in it, or give their folder."
        )
    return picture(named(raw, f"of column {key!r}, row {row}"), size, grey)
