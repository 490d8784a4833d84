"""Your own vectors: rows of numbers from .npy, .npz, .csv, .h5 or .parquet."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from unbraid.data import labels as label_files
from unbraid.data.dataset import Dataset, Source
from unbraid.data.splits import split_index, taken
from unbraid.data.toys import vectors
from unbraid.errors import UnbraidError, expect


def load(*, path: str, labels: list[str] | str = "", key: str = "", standardise: bool = False, partial: bool = False,
         split: str = "all", test: float = 0.1, seed: int = 0) -> Dataset:
    """Rows "n d" as a data set of shape (d, 1, 1), every value finite.

    labels: names of columns that are labels, not data (of a .csv, .npz or .parquet), or a path to a label file.
    key: which array of an .npz or .h5. standardise: every column to mean 0 and standard deviation 1.
    """
    where = Path(path).expanduser()
    expect(where.is_file(), f"vectors: {where} does not exist", do="Give a .npy, .npz, .csv, .h5 or .parquet file.")
    columns = _columns(where, key)
    names = [labels] if isinstance(labels, str) else list(labels)
    inside = {name: columns.pop(name) for name in names if name in columns}
    beside = [name for name in names if name and name not in inside]
    for name in beside:
        expect(Path(name).expanduser().is_file(), f"vectors: labels {name!r} are neither a column nor a file",
               allowed=columns)
        inside |= label_files.read_columns(name)
    rows = _numbers(columns, where)
    if standardise:
        spread = rows.std(axis=0)
        expect((spread > 0).all(), f"vectors: {where} has a constant column", found=list(columns)[int(spread.argmin())],
               do="Leave it out, or say standardise = false.")
        rows = (rows - rows.mean(axis=0)) / spread
    factors, table = label_files.factors_of(inside, len(rows), str(where), partial) if inside else (None, None)
    dataset = vectors(where.stem, rows, factors, table, columns=list(columns))
    return dataset if split == "all" else taken(dataset, split_index(len(dataset), split, test, seed), split)


def _columns(path: Path, key: str) -> dict[str, np.ndarray]:
    if path.suffix == ".parquet":
        return _parquet(path)
    if path.suffix in (".h5", ".hdf5"):
        from unbraid.data.hdf5 import read_hdf5

        expect(key, f"vectors: say which array of {path} holds the rows", do="key = \"...\".")
        table = read_hdf5(path, key)
        expect(table.ndim == 2, f"vectors: {key!r} in {path} must be a table", found=f"shape {table.shape}")
        return {f"column_{i}": column for i, column in enumerate(table.T)}
    columns = label_files.read_columns(path)
    if key:
        columns = {name: column for name, column in columns.items() if name == key or name.startswith(f"{key}_")}
        expect(columns, f"vectors: {path} holds no array {key!r}")
    return columns


def _parquet(path: Path) -> dict[str, np.ndarray]:
    try:
        import pyarrow.parquet as parquet
    except ImportError as error:
        raise UnbraidError(f"reading {path} needs pyarrow. Install it, or save the table as .csv or .npz.") from error
    try:
        table = parquet.read_table(path)
    except Exception as error:
        raise UnbraidError(f"cannot read {path}: {error}. It is damaged or no parquet file.") from error
    return {name: np.asarray(table[name].to_pylist()) for name in table.column_names}


def _numbers(columns: dict[str, np.ndarray], path: Path) -> np.ndarray:
    expect(columns, f"vectors: {path} has no data columns left")
    lengths = {len(column) for column in columns.values()}
    expect(len(lengths) == 1 and lengths != {0}, f"vectors: the columns of {path} must have one length, not zero",
           found=sorted(lengths))
    numbers = {}
    for name, column in columns.items():
        try:
            numbers[name] = column.astype(np.float64)
        except ValueError:
            raise UnbraidError(f"vectors: column {name!r} of {path} holds words. Name it in labels.") from None
        bad = ~np.isfinite(numbers[name])
        expect(not bad.any(), f"vectors: column {name!r} of {path} must hold numbers", found=f"NaN or infinity in row "
               f"{int(bad.argmax())}", do="Fill in or drop such rows.")
    return np.stack(list(numbers.values()), axis=1)


SOURCE = Source(
    name="vectors", about="your own: rows of numbers (.npy, .npz, .csv, .h5, .parquet)", load=load, size="any",
    factors="from label columns or a label file", status=lambda: "needs a file: yours", get="path = \"…\"",
)
