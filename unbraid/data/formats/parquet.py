"""Parquet tables with pyarrow, an optional package: vectors, labels, and images as Hugging Face stores them.

A table is one file or a folder of pieces (train-00000-of-00002.parquet). It is read in batches of rows into the
cache, so it may be larger than memory. Paths inside a table are never opened.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from unbraid.core.errors import UnbraidError, expect
from unbraid.data.factors import Factors
from unbraid.data.formats.image_folder import ALL_SPLIT_NAMES, SPLIT_NAMES

VALUES_PER_BATCH = 1 << 18


def is_parquet(path: Path) -> bool:
    """Return True if `path` is a .parquet file or a folder that contains one.

    Args:
        path: a file or a folder.
    """
    if path.is_file():
        return path.suffix == ".parquet"
    return any(path.glob("*.parquet")) or any(path.glob("data/*.parquet"))


@dataclass(frozen=True)
class ParquetTable:
    """A table in one or several files.

    Args:
        path: file or folder of the table.
        files: the files in order.
        split: the split that the file names state, or ''.
        schema: the common schema of the files.
        num_rows: number of rows in all files.
    """

    path: Path
    files: tuple[Path, ...]
    split: str
    schema: Any
    num_rows: int

    @property
    def column_names(self) -> list[str]:
        """Names of the columns, in order."""
        return list(self.schema.names)

    def iterate_batches(self, columns: list[str], size: int) -> Iterator[tuple[int, Any]]:
        """Yield (first row, record batch).

        Args:
            columns: names of the columns to read.
            size: rows per batch.
        """
        start = 0
        for file in self.files:
            with _open_parquet_file(file) as piece:
                for batch in piece.iter_batches(batch_size=size, columns=columns, use_threads=False):
                    batch.validate(full=True)  # finds text that is not UTF-8 and lists out of bounds
                    yield start, batch
                    start += batch.num_rows
        expect(
            start == self.num_rows, f"{self.path} is truncated", found=f"{start:,} rows", allowed=f"{self.num_rows:,}"
        )

    def column_kind(self, name: str) -> str:
        """Kind of the column `name`: 'number', 'text', 'vector', 'image', or else its Parquet type.

        Args:
            name: the name of the column.
        """
        from pyarrow import types

        kind = self.schema.field(name).type
        if types.is_dictionary(kind):
            kind = kind.value_type
        if types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind) or types.is_decimal(kind):
            return "number"
        if types.is_string(kind) or types.is_large_string(kind):
            return "text"
        if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
            inner = kind.value_type
            numeric = types.is_integer(inner) or types.is_floating(inner) or types.is_boolean(inner)
            return "vector" if numeric else str(kind)
        if types.is_struct(kind) and kind.get_field_index("bytes") >= 0:
            raw = kind.field("bytes").type
            return "image" if types.is_binary(raw) or types.is_large_binary(raw) else str(kind)
        return "image" if types.is_binary(kind) or types.is_large_binary(kind) else str(kind)

    def read_labels(self, names: list[str]) -> dict[str, np.ndarray]:
        """Read the label columns `names`: text (missing is empty) or numbers (missing is NaN, or −1 in named classes).

        Args:
            names: the names of the columns.
        """
        classes, found = self.class_names(), {name: [] for name in names}  # type: dict[str, Any], dict[str, list]
        for name in names:
            kind, what = self.column_kind(name), f"column {name!r} of {self.path} cannot hold labels"
            expect(kind in ("text", "number"), what, found=kind, allowed="text or numbers")
        for _, batch in self.iterate_batches(names, VALUES_PER_BATCH // 4) if names else ():
            for name in names:
                found[name].append(_label_values(batch.column(name), self.column_kind(name) == "text", name in classes))
        return {name: np.concatenate(pieces) for name, pieces in found.items()}

    def class_names(self) -> dict[str, list[str]]:
        """Names of the classes by column, as Hugging Face stores them (ClassLabel)."""
        try:
            features = json.loads((self.schema.metadata or {})[b"huggingface"])["info"]["features"]
            labels = {n: f for n, f in features.items() if isinstance(f, dict) and f.get("_type") == "ClassLabel"}
            numbers = [n for n in labels if n in self.column_names and self.column_kind(n) == "number"]
            return {name: [str(each) for each in labels[name]["names"]] for name in numbers}
        except (KeyError, TypeError, ValueError, AttributeError, RecursionError):
            return {}

    def with_class_names(self, factors: Factors) -> Factors:
        """Replace class numbers in `factors` by the class names.

        Args:
            factors: the factors.
        """
        return factors.with_class_names(self.class_names(), str(self.path))


def open_table(path: Path, split: str = "all") -> ParquetTable:
    """Open a table; damaged or inconsistent files raise an `UnbraidError`.

    Args:
        path: a .parquet file or a folder of pieces.
        split: 'train' or 'test' selects the pieces with such a name, if there are any.
    """
    files = [path] if path.is_file() else sorted([*path.glob("*.parquet"), *path.glob("data/*.parquet")])
    matching = [file for file in files if file.name.startswith(SPLIT_NAMES.get(split, ()))] if len(files) > 1 else []
    expect(
        split not in SPLIT_NAMES or matching or not any(file.name.startswith(ALL_SPLIT_NAMES) for file in files[1:]),
        f"{path} has no piece for split {split!r}",
        found=", ".join(file.name for file in files[:4]),
        allowed=[f"{name}….parquet" for name in SPLIT_NAMES.get(split, ())],
        do="Add it. It is not drawn from the other split, which would test on training data.",
    )
    files, rows, schema = matching or files, 0, None
    for file in files:
        with _open_parquet_file(file) as piece:
            schema = schema or piece.schema_arrow
            expect(
                piece.schema_arrow.equals(schema),
                f"{file} must have the columns of {files[0].name}",
                found=", ".join(piece.schema_arrow.names),
                allowed=schema.names,
            )
            expect(piece.metadata.num_rows >= 0, f"{file} is damaged", found=f"{piece.metadata.num_rows} rows")
            rows += piece.metadata.num_rows
    expect(schema is not None and len(set(schema.names)) == len(schema.names), f"{path} has two columns of one name")
    expect(rows > 0, f"{path} has no rows")
    return ParquetTable(path, tuple(files), split if matching else "", schema, rows)


@contextmanager
def _open_parquet_file(path: Path) -> Iterator[Any]:
    """Open a Parquet file; a missing package, a missing file and any damage raise an `UnbraidError`."""
    try:
        from pyarrow import parquet
    except ImportError as error:
        raise UnbraidError(
            f"reading {path} needs pyarrow. Install it: pip install 'unbraid[parquet]', or save the "
            "table as .csv or .npz."
        ) from error
    expect(path.is_file(), f"{path} does not exist")
    try:
        with parquet.ParquetFile(path, buffer_size=1 << 16, pre_buffer=False) as file:
            yield file
    except UnbraidError:
        raise
    except Exception as error:  # pyarrow raises many types of errors on damaged files
        raise UnbraidError(
            f"cannot read {path}: {str(error).rstrip('.')}. It is damaged, truncated or not a parquet file."
        ) from error


def _label_values(column: Any, is_text: bool, has_class_names: bool) -> np.ndarray:
    import pyarrow as pa

    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if is_text:
        return np.array([value or "" for value in column.to_pylist()], dtype=np.str_)
    values = to_float64(column)
    return np.where(values == -1, np.nan, values) if has_class_names else values


def to_float64(column: Any) -> np.ndarray:
    """Convert a `column` to float64, nulls to NaN.

    Args:
        column: the column.
    """
    import pyarrow as pa

    return column.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
