"""Label tables from files, and their conversion to factors."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from unbraid.core.csv_reader import looks_like_data, read_table
from unbraid.core.errors import UnbraidError, expect
from unbraid.core.files import read_npy
from unbraid.data.factors import Factor, Factors

FILE_COLUMNS = ("file_name", "filename", "file", "image", "path")
MISSING_VALUES = ("", "nan", "NaN", "NA", "None", "null")
MAX_ORDINAL_VALUES = 64  # a column of fractions with more distinct values is continuous


def factors_from_columns(
    columns: Mapping[str, Sequence[Any] | np.ndarray],
    num_rows: int,
    source_name: str,
    partial: bool = False,
    extra_values: Mapping[str, np.ndarray] | None = None,
) -> tuple[Factors, np.ndarray]:
    """Convert named columns to factors and the table "n k" of their values.

    Text becomes classes, whole numbers and few distinct fractions ordinals, many fractions continuous values. A missing
    entry (empty, None or NaN) is −1 in the table, or NaN in a continuous column.

    Args:
        columns: values by column name.
        num_rows: number of images.
        source_name: name of the labels in errors.
        partial: allow missing entries.
        extra_values: further values of the same columns (in the other split), so that label numbers agree.

    >>> factors, table = factors_from_columns({"shape": ["cat", "dog", "cat"], "size": [10, 20, 30]}, 3, "an example")
    >>> factors.items[0].values, table.tolist()
    (('cat', 'dog'), [[0, 0], [1, 1], [0, 2]])
    """
    expect(columns, f"{source_name} holds no label columns")
    items, values = [], []
    for name, column in columns.items():
        expect(
            len(column) == num_rows,
            f"{source_name}: there must be one label per image in column {name!r}",
            found=f"{len(column):,} labels, {num_rows:,} images",
        )
        item, value, missing = _factor_from_column(str(name), column)
        if extra_values and name in extra_values:
            both = np.concatenate([_as_plain_array(column), extra_values[name]])
            item, value, _ = _factor_from_column(str(name), both)
        expect(
            partial or not missing.any(),
            f"{source_name}: column {name!r} has missing labels",
            found=f"{int(missing.sum()):,} of {num_rows:,}, the first in row {int(missing.argmax())}",
            do="Fill them in, or set partial = true to allow them.",
        )
        items.append(item)
        values.append(value[:num_rows])
    whole = all(item.kind != "continuous" for item in items)
    return Factors(tuple(items), grid=False), np.stack(values, axis=1).astype(np.int64 if whole else np.float64)


def _factor_from_column(name: str, column: Sequence[Any] | np.ndarray) -> tuple[Factor, np.ndarray, np.ndarray]:
    """Convert a column to a factor, its values, and a mask of the missing ones."""
    raw = _as_plain_array(column)
    expect(
        raw.ndim == 1 and raw.dtype != object,
        f"label column {name!r} must be a plain list of numbers or text",
        found=f"{raw.dtype} of shape {raw.shape}",
    )
    missing = np.isin(raw, MISSING_VALUES) if raw.dtype.kind in "US" else np.zeros(len(raw), bool)
    if raw.dtype.kind in "US":
        try:
            raw = np.where(missing, "nan", raw).astype(np.float64)
        except ValueError:
            names, codes = np.unique(raw[~missing], return_inverse=True)
            value = np.full(len(raw), -1, np.int64)
            value[~missing] = codes
            return Factor(name, len(names), "class", tuple(str(n) for n in names)), value, missing
    if raw.dtype.kind == "f":
        missing = np.isnan(raw)
        expect(np.isfinite(raw[~missing]).all(), f"label column {name!r} has infinite values")
    kept, codes = np.unique(raw[~missing], return_inverse=True)
    if raw.dtype.kind == "f" and len(kept) > MAX_ORDINAL_VALUES and (kept % 1 != 0).any():
        return Factor(name, 0, "continuous"), raw, missing
    value = np.full(len(raw), -1, np.int64)
    value[~missing] = codes
    kind = "class" if name in ("shape", "class", "label", "category") else "ordinal"
    return Factor(name, len(kept), kind, tuple(float(k) for k in kept)), value, missing


def _as_plain_array(column: Sequence[Any] | np.ndarray) -> np.ndarray:
    """Convert a column to an array; None becomes an empty string among text, NaN among numbers."""
    try:
        raw = np.asarray(column)
        raw = np.char.decode(raw, "utf-8") if raw.dtype.kind == "S" else raw
    except ValueError as error:  # rows of different lengths, or bytes that are not text
        raise UnbraidError(f"labels must be a plain list of numbers or text ({error}).") from error
    if raw.dtype != object or raw.ndim != 1:
        return raw
    known = [entry for entry in raw if entry is not None]
    if all(isinstance(entry, str) for entry in known):
        return np.array(["" if entry is None else entry for entry in raw], np.str_)
    if all(isinstance(entry, (int, float, np.number, np.bool_)) for entry in known):
        return np.array([np.nan if entry is None else float(entry) for entry in raw])
    return raw


def read_columns(path: str | Path, drop_row_numbers: bool = True) -> dict[str, np.ndarray]:
    """Read named columns of a .csv or .tsv (with header), .npz (one array per factor, or a table) or .npy (a table).

    Args:
        path: the file.
        drop_row_numbers: leave out columns of a .csv or .tsv that only number the rows.
    """
    path = Path(path).expanduser()
    if path.suffix in (".csv", ".tsv"):
        return read_csv_columns(path, drop_row_numbers)
    if path.suffix == ".npy":
        return table_columns("factor", read_npy(path, "labels"), f"labels {path}: 'factor' must be a column or a table")
    expect(path.suffix == ".npz", "labels must be a .csv, .tsv, .npz or .npy file", found=path.name)
    from unbraid.data.formats.array_files import check_memory, npz_shapes, read_npz_array

    columns: dict[str, np.ndarray] = {}
    shapes = npz_shapes(path)
    check_memory(path, sum(8 * int(np.prod(shape, dtype=object)) for shape in shapes.values()))
    for name in shapes:
        requirement = f"labels {path}: {name!r} must be a column or a table"
        columns |= table_columns(name, read_npz_array(path, name), requirement)
    return columns


def table_columns(name: str, array: np.ndarray, requirement: str) -> dict[str, np.ndarray]:
    """Return an array with one axis under its name, and the columns of a table as NAME_0, NAME_1, …

    Args:
        name: the name.
        array: a column or a table.
        requirement: the rule that any other array breaks, for the error.
    """
    expect(array.ndim in (1, 2), requirement, found=f"shape {array.shape}")
    return {name: array} if array.ndim == 1 else {f"{name}_{i}": column for i, column in enumerate(array.T)}


def read_csv_columns(path: str | Path, drop_row_numbers: bool = True) -> dict[str, np.ndarray]:
    """Read the columns of a .csv or .tsv with header as text; a message names columns that are left out, or a doubtful header.

    Args:
        path: the file.
        drop_row_numbers: leave out columns that only number the rows.
    """
    table = read_table(path, header=True, drop_row_numbers=drop_row_numbers)
    names = table.names or ()
    shown = ", ".join([*names[:4], *(["…"] if len(names) > 4 else [])])
    doubt = f"The first row, {shown}, is read as names of columns. If it is data, write a row of names above it."
    doubt = doubt if looks_like_data(names) else ""
    expect(len(set(names)) == len(names), f"table {path} names a column twice", found=", ".join(names), do=doubt)
    if doubt:
        print(f"{path}: {doubt}", file=sys.stderr)
    if table.dropped:
        gone = ", ".join(table.dropped)
        print(f"{path}: left out {gone}, which only numbers the rows. Rename it to keep it.", file=sys.stderr)
    return dict(zip(names, table.columns, strict=True))
