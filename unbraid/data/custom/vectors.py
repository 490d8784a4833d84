"""Custom vectors: rows of numbers from .npy, .npz, .csv, .h5 or .parquet."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np

from unbraid.core.errors import UnbraidError, expect
from unbraid.core.files import read_npy
from unbraid.data.dataset import Dataset, Source
from unbraid.data.factors import Factors
from unbraid.data.formats import label_files, parquet, parquet_rows
from unbraid.data.sets.toys import vector_dataset


def load(
    *,
    path: str,
    labels: list[str] | str = "",
    key: str = "",
    standardise: bool = False,
    partial: bool = False,
    split: str = "all",
) -> Dataset:
    """Rows "n d" as a data set of shape (d, 1, 1); all values must be finite.

    A .parquet (or a folder of its pieces) is read in batches into the cache: columns of numbers, or of lists of one
    length.

    Args:
        path: a .npy, .npz, .csv, .h5 or .parquet file.
        labels: names of columns that are labels, not data (of a .csv, .npz or .parquet), or the path of a label file.
        key: name of the array of an .npz or .h5 (required if an .h5 holds several), or of the column of a .parquet.
        standardise: scale every column to mean 0 and standard deviation 1; constant columns become 0.
        partial: allow missing labels.
        split: the pieces of a .parquet named 'train' or 'test', if there are any; else a random split.
    """
    source = Path(path).expanduser()
    names = [labels] if isinstance(labels, str) else list(labels)
    if parquet.is_parquet(source):
        return _load_parquet(source, [name for name in names if name], key, standardise, partial, split)
    expect(
        source.is_file(),
        f"vectors: {source} {'is a folder' if source.is_dir() else 'does not exist'}",
        do="Give a .npy, .npz, .csv, .h5 or .parquet file.",
    )
    columns = _read_columns(source, key)
    label_columns = {name: columns.pop(name) for name in names if name in columns}
    label_columns |= _read_label_files([name for name in names if name and name not in label_columns], columns)
    rows = _stack_columns(columns, source)
    largest, representable = np.abs(rows).max(), np.finfo(np.float32).max
    what = f"vectors: {source} holds numbers too large for float32"
    expect(largest < representable, what, found=f"{largest:g}", do="Scale them down.")
    scaling = {}
    if standardise:
        mean, scale = column_scaling(rows)
        rows, scaling = (rows - mean) / scale, {"mean": mean, "scale": scale}
    factors, table = _read_factors(label_columns, len(rows), source, partial)
    return vector_dataset(source.stem, rows, factors, table, columns=list(columns), **scaling)


def _read_factors(
    columns: dict[str, np.ndarray], n: int, path: Path, partial: bool
) -> tuple[Factors | None, np.ndarray | None]:
    return label_files.factors_from_columns(columns, n, str(path), partial) if columns else (None, None)


def column_scaling(rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the mean and the standard deviation of each column; the deviation of a constant column is 1.

    Args:
        rows: vectors "n d".

    >>> column_scaling(np.array([[1.0, 5.0], [3.0, 5.0]]))
    (array([2., 5.]), array([1., 1.]))
    """
    rows = np.asarray(rows, np.float64, order="C")
    mean, deviation = rows.mean(axis=0), rows.std(axis=0)
    constant = deviation <= len(rows) * np.finfo(np.float64).eps * np.abs(mean)  # up to rounding
    return mean, np.where(constant, 1.0, deviation)


def _read_label_files(names: list[str], columns: Iterable[str]) -> dict[str, np.ndarray]:
    """Read the label columns of files; `columns` are the names that an error lists."""
    labels: dict[str, np.ndarray] = {}
    for name in names:
        expect(
            Path(name).expanduser().is_file(),
            f"vectors: labels {name!r} are neither a column nor a file",
            allowed=columns,
        )
        labels |= label_files.read_columns(name)
    return labels


def _load_parquet(path: Path, names: list[str], key: str, standardise: bool, partial: bool, split: str) -> Dataset:
    table = parquet.open_table(path, split)
    inside = [name for name in names if name in table.column_names]
    expect(not key or key in table.column_names, f"vectors: {path} holds no column {key!r}", allowed=table.column_names)
    chosen = [key] if key else [name for name in table.column_names if name not in inside]
    rows, titles = parquet_rows.read_vectors(table, chosen, standardise)
    labels = table.read_labels(inside)
    labels |= _read_label_files([name for name in names if name not in inside], table.column_names)
    factors, values = _read_factors(labels, len(rows), path, partial)
    factors = table.with_class_names(factors) if factors else None
    part = {"split": table.split} if table.split else {}
    return vector_dataset(path.stem, rows, factors, values, columns=titles, **part)


def _read_columns(path: Path, key: str) -> dict[str, np.ndarray]:
    if path.suffix in (".h5", ".hdf5"):
        from unbraid.data.formats.hdf5 import read_hdf5

        table = read_hdf5(path, key, (1, 2), "rows")
        table = table[:, None] if table.ndim == 1 else table
        return label_files.table_columns("column", table, f"vectors: {key!r} in {path} must be a table")
    expect(
        path.suffix in (".csv", ".tsv", ".npz", ".npy"),
        "vectors must be a .csv, .npy, .npz, .h5 or .parquet file",
        found=path.name,
    )
    if path.suffix == ".npy":
        rows = read_npy(path, "vectors", mmap=True)
        expect(
            rows.ndim <= 2,
            f"vectors: {path} must hold rows of numbers",
            found=f"shape {rows.shape}",
            do="For images use the data set 'images'.",
        )
        columns = label_files.table_columns("column", rows, f"vectors: {path} must hold rows of numbers")
    else:
        columns = label_files.read_columns(path, drop_row_numbers=False)  # a column of row numbers may be data here
    if key:
        columns = {name: column for name, column in columns.items() if name == key or name.startswith(f"{key}_")}
        expect(columns, f"vectors: {path} holds no array {key!r}")
    return columns


def _stack_columns(columns: dict[str, np.ndarray], path: Path) -> np.ndarray:
    expect(columns, f"vectors: {path} has no data columns besides its labels")
    lengths = {len(column) for column in columns.values()}
    expect(
        len(lengths) == 1 and lengths != {0},
        f"vectors: the columns of {path} must be non-empty and of one length",
        found=sorted(lengths),
    )
    numbers = {}
    for name, column in columns.items():
        try:
            numbers[name] = column.astype(np.float64)
        except ValueError:
            raise UnbraidError(f"vectors: column {name!r} of {path} holds text. Name it in labels.") from None
        bad = ~np.isfinite(numbers[name])
        expect(
            not bad.any(),
            f"vectors: column {name!r} of {path} must be finite",
            found=f"NaN or infinity in row {int(bad.argmax())}",
            do="Fill in or drop these rows.",
        )
    return np.stack(list(numbers.values()), axis=1)


SOURCE = Source(
    name="vectors",
    about="your own vectors: rows of numbers (.npy, .npz, .csv, .h5, .parquet)",
    load=load,
    size="any",
    factors="from label columns or a label file",
    status=lambda: "needs a file: yours",
    how_to_get="path = a .csv, .npy, .npz, .h5 or .parquet",
)
