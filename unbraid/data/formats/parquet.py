"""Parquet tables through pyarrow, an optional package: vectors, labels, and pictures as Hugging Face stores them.

A table is one file or a folder of pieces (train-00000-of-00002.parquet). It is read a batch of rows at a time into
the cache, so it may be larger than the memory. Paths written inside a table are never opened.
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

VALUES_PER_BATCH = 1 << 18  # values read at a time
SPLIT_PREFIXES = {"train": ("train",), "test": ("test", "validation", "val")}


def is_parquet(path: Path) -> bool:
    """A .parquet file, or a folder that holds some."""
    if path.is_file():
        return path.suffix == ".parquet"
    return any(path.glob("*.parquet")) or any(path.glob("data/*.parquet"))


@dataclass(frozen=True)
class ParquetTable:
    """The pieces of a table that belong together; `given` is the part that their names say they are, or nothing."""

    path: Path
    files: tuple[Path, ...]
    split: str
    schema: Any
    num_rows: int

    @property
    def column_names(self) -> list[str]:
        """The columns, in their order."""
        return list(self.schema.names)

    def iterate_batches(self, columns: list[str], size: int) -> Iterator[tuple[int, Any]]:
        """(first row, record batch) of these columns, `size` rows at a time."""
        start = 0
        for file in self.files:
            with _open_parquet_file(file) as piece:
                for batch in piece.iter_batches(batch_size=size, columns=columns, use_threads=False):
                    batch.validate(full=True)  # words that are no UTF-8, lists that point outside
                    yield start, batch
                    start += batch.num_rows
        expect(start == self.num_rows, f"{self.path} is cut off", found=f"{start:,} rows", allowed=f"{self.num_rows:,}")

    def column_kind(self, name: str) -> str:
        """'number', 'word', 'vector', 'picture' or, for what is none of them, its type in parquet's words."""
        from pyarrow import types

        of = self.schema.field(name).type
        if types.is_dictionary(of):
            of = of.value_type
        if types.is_integer(of) or types.is_floating(of) or types.is_boolean(of) or types.is_decimal(of):
            return "number"
        if types.is_string(of) or types.is_large_string(of):
            return "word"
        if types.is_list(of) or types.is_large_list(of) or types.is_fixed_size_list(of):
            inner = of.value_type
            return (
                "vector" if types.is_integer(inner) or types.is_floating(inner) or types.is_boolean(inner) else str(of)
            )
        if types.is_binary(of) or types.is_large_binary(of):
            return "picture"
        raw = of.field("bytes").type if types.is_struct(of) and of.get_field_index("bytes") >= 0 else None
        return "picture" if raw is not None and (types.is_binary(raw) or types.is_large_binary(raw)) else str(of)

    def read_labels(self, names: list[str]) -> dict[str, np.ndarray]:
        """Label columns: words (missing: empty) or numbers (missing: NaN, and −1 where classes have names)."""
        classes, found = self.class_names(), {name: [] for name in names}  # type: dict[str, Any], dict[str, list]
        for name in names:
            expect(
                self.column_kind(name) in ("word", "number"),
                f"column {name!r} of {self.path} cannot be labels",
                found=self.column_kind(name),
                allowed="words or numbers",
            )
        for _, batch in self.iterate_batches(names, VALUES_PER_BATCH // 4) if names else ():
            for name in names:
                found[name].append(_label_values(batch.column(name), self.column_kind(name) == "word", name in classes))
        return {name: np.concatenate(pieces) for name, pieces in found.items()}

    def class_names(self) -> dict[str, list[str]]:
        """The names of classes that Hugging Face writes beside the columns (ClassLabel)."""
        try:
            features = json.loads((self.schema.metadata or {})[b"huggingface"])["info"]["features"]
            return {
                name: [str(n) for n in feature["names"]]
                for name, feature in features.items()
                if isinstance(feature, dict)
                and feature.get("_type") == "ClassLabel"
                and name in self.column_names
                and self.column_kind(name) == "number"
            }
        except (KeyError, TypeError, ValueError, AttributeError, RecursionError):
            return {}

    def with_class_names(self, factors: Factors) -> Factors:
        """The factors with those names in place of numbers."""
        return factors.with_class_names(self.class_names(), str(self.path))


def open_table(path: Path, split: str = "all") -> ParquetTable:
    """Open a table; what is damaged or does not fit is named. A folder's pieces called train… or test… are splits."""
    files = [path] if path.is_file() else sorted([*path.glob("*.parquet"), *path.glob("data/*.parquet")])
    mine = [file for file in files if file.name.startswith(SPLIT_PREFIXES.get(split, ()))] if len(files) > 1 else []
    expect(
        split not in SPLIT_PREFIXES
        or mine
        or not any(file.name.startswith(sum(SPLIT_PREFIXES.values(), ())) for file in files[1:]),
        f"{path} has no piece for split {split!r}",
        found=", ".join(file.name for file in files[:4]),
        allowed=[f"{name}….parquet" for name in SPLIT_PREFIXES.get(split, ())],
        do="Nothing is drawn from the other part: that would test on what was trained on.",
    )
    files, rows, schema = mine or files, 0, None
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
    expect(schema is not None and len(set(schema.names)) == len(schema.names), f"{path} names a column twice")
    expect(rows > 0, f"{path} has no rows")
    return ParquetTable(path, tuple(files), split if mine else "", schema, rows)


@contextmanager
def _open_parquet_file(path: Path) -> Iterator[Any]:
    """An open file; the missing package, a missing file and every kind of damage, also while reading, is named."""
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
    except Exception as error:  # pyarrow raises many kinds on damaged files
        raise UnbraidError(
            f"cannot read {path}: {str(error).rstrip('.')}. It is damaged, cut off or no parquet file."
        ) from error


def _label_values(column: Any, words: bool, has_class_names: bool) -> np.ndarray:
    import pyarrow as pa

    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if words:
        return np.array([value or "" for value in column.to_pylist()], dtype=np.str_)
    values = to_float64(column)
    return np.where(values == -1, np.nan, values) if has_class_names else values


def to_float64(column: Any) -> np.ndarray:
    """A column as float64, nulls as NaN."""
    import pyarrow as pa

    return column.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
