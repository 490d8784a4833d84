"""Read CSV: detects the delimiter and the header, and drops a row index."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np

from unbraid.core.errors import UnbraidError, expect
from unbraid.core.files import read_bytes

DELIMITERS = (",", ";", "\t", "|")
MAX_FIELD_LENGTH = 1 << 16  # characters in one field; a longer one is neither a label nor a number
MAX_COLUMN_BYTES = 1 << 30  # bytes that a column of text may take
MISSING_WORDS = ("NA", "N/A", "None", "null")  # in a first row these are entries, not names
SNIFF_ROWS = 100  # rows by which delimiter and header are detected


@dataclass(frozen=True)
class TextTable:
    """A table of text.

    Args:
        columns: one array of strings per column.
        names: their names, or None where there is no header.
        delimiter: the character between fields.
        dropped: the names of row indices that were left out.
    """

    columns: tuple[np.ndarray, ...]
    names: tuple[str, ...] | None
    delimiter: str
    dropped: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.columns[0]) if self.columns else 0

    @property
    def array(self) -> np.ndarray:
        """All columns as one array of strings "n k"."""
        return np.stack(self.columns, 1)


def read_table(
    path: str | Path,
    what: str = "table",
    header: bool | None = None,
    drop_row_numbers: bool = True,
    limit: int = 1 << 31,
) -> TextTable:
    """Read text separated by commas, semicolons, tabs or bars.

    A column without a name is the row index of a data frame. It is left out and listed in `dropped`.

    Args:
        path: the file, in UTF-8.
        what: what the file is, for errors.
        header: whether the first line names the columns. None detects it: text above numbers is a header, and so are
            whole numbers above fractions, and text that no row below repeats.
        drop_row_numbers: also drop a column that counts the rows (0, 1, … or 1, 2, …).
        limit: the largest file that is read, in bytes.

    >>> _ = (tmp / "y.csv").write_text(";shape;x\\n0;heart;3\\n1;square;4\\n2;heart;4\\n")
    >>> table = read_table(tmp / "y.csv")
    >>> table.names, table.delimiter, table.dropped, table.array.tolist()
    (('shape', 'x'), ';', ('(unnamed)',), [['heart', '3'], ['square', '4'], ['heart', '4']])
    """
    path = Path(path)
    text = _text(path, what, limit)
    delimiter = _delimiter(text, "\t" if path.suffix == ".tsv" else ",")
    rows = _rows(text, delimiter, f"{what} {path}")
    expect(rows, f"{what} {path} is empty", do="Its first line may name the columns; the others are rows.")
    widths = {len(row) for row in rows}
    if len(widths) > 1:
        line = next(i for i, row in enumerate(rows, 1) if len(row) != len(rows[0]))
        raise UnbraidError(
            f"{what} {path} has rows of different lengths: found {len(rows[0])} fields in line 1 and "
            f"{len(rows[line - 1])} in line {line}. Quote fields that hold {delimiter!r}."
        )
    named = _has_header(rows) if header is None else header
    names = tuple(cell.strip() for cell in rows[0]) if named else None
    body = rows[1:] if named else rows
    columns = [_column(column, delimiter, f"{what} {path}") for column in zip(*body, strict=True)]
    columns = columns or [np.empty(0, np.str_) for _ in rows[0]]
    return _without_index(columns, names, delimiter, drop_row_numbers)


def _text(path: Path, what: str, limit: int) -> str:
    try:
        text = read_bytes(path, what, limit).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UnbraidError(
            f"{what} {path} is not UTF-8 text ({error.reason} at byte {error.start}). Save it as UTF-8 CSV."
        ) from error
    expect("\0" not in text, f"{what} {path} is not text", found="a NUL byte", do="Save it as UTF-8 CSV.")
    return text


def _rows(text: str, delimiter: str, where: str, max_rows: int | None = None) -> list[list[str]]:
    """Rows of fields without blank lines, for any line ending."""
    found: list[list[str]] = []
    before = csv.field_size_limit(MAX_FIELD_LENGTH)
    try:
        for row in csv.reader(io.StringIO(text, newline=None), delimiter=delimiter, strict=True):
            if row:
                found.append(row)
            if max_rows is not None and len(found) >= max_rows:
                break
    except csv.Error as error:
        raise UnbraidError(
            f"{where} is not a table of text: {error}. Is a quote never closed, or is it another kind of file?"
        ) from error
    finally:
        csv.field_size_limit(before)
    return found


def _column(cells: tuple[str, ...], delimiter: str, where: str) -> np.ndarray:
    """One column as an array of strings; where commas do not separate fields, 1,5 is a number too."""
    stripped = [cell.strip() for cell in cells]
    longest = max(map(len, stripped))
    expect(
        4 * longest * len(stripped) <= MAX_COLUMN_BYTES or longest <= 64,
        f"{where} has a field too long for a label or a number",
        found=f"{longest:,} characters",
        do="Leave that column out.",
    )
    if delimiter != "," and any("," in cell for cell in stripped):
        dotted = [cell.replace(",", ".") for cell in stripped]
        stripped = dotted if all(not cell or _is_number(cell) for cell in dotted) else stripped
    return np.array(stripped, np.str_)


def _delimiter(text: str, default: str) -> str:
    """The delimiter that splits the first rows into the most fields, equally many in each; `default` when none does."""
    head = text[: MAX_FIELD_LENGTH * 4]
    best, most = default, 1
    for delimiter in (default, *(d for d in DELIMITERS if d != default)):
        try:
            rows = _rows(head, delimiter, "", SNIFF_ROWS)
        except UnbraidError:
            continue
        rows = rows[:-1] if len(head) < len(text) and len(rows) < SNIFF_ROWS else rows
        widths = {len(row) for row in rows}
        if len(widths) == 1 and max(widths) > most:
            best, most = delimiter, max(widths)
    return best


def _has_header(rows: list[list[str]]) -> bool:
    first = [cell.strip() for cell in rows[0]]
    if len(rows) < 2:
        return False
    if not first[0] and len(first) > 1 and _is_row_number(np.array([row[0].strip() for row in rows[1:]])):
        return True  # a data frame with its index
    below = [[cell.strip() for cell in column] for column in zip(*rows[1:SNIFF_ROWS], strict=True)]
    if any(_is_number(cell) for cell in first):
        return _is_numeric_header(first, below) or any(map(_is_name_above, first, below))
    if any(_is_number(cell) for column in below for cell in column):
        return True
    # a first row of text above rows of text is data, unless no row below has any of it
    return len(set(first)) == len(first) and not set(first) & {cell.strip() for row in rows[1:] for cell in row}


def _is_numeric_header(first: list[str], below: list[list[str]]) -> bool:
    """Whether the first row is 0, 1, 2, 3, …, or has whole numbers above fractions or words: a header of pandas.

    Different numbers must all stand above fractions, ascending ones above a column of them or of words.
    """
    if len(first) > 3 and first == [str(i) for i in range(len(first))]:
        return True
    whole = all(cell.isascii() and cell.isdigit() for cell in first) and len(set(first)) == len(first)
    fractions = [all(_is_number(c) and not c.lstrip("+-").isdigit() for c in column if c) for column in below]
    words = [all(c not in MISSING_WORDS and not _is_number(c) for c in column if c) and any(column) for column in below]
    telling = any(fractions) or any(words)
    if len(first) == 1:
        return telling and first[0] == "0"
    return whole and (all(fractions) or (telling and _counts_up(first)))


def looks_like_data(names: Sequence[str]) -> bool:
    """Whether the names of columns are rather the first row of a table without header: numbers that do not increase.

    Args:
        names: the names.

    >>> looks_like_data(["0.5", "-1"]), looks_like_data(["0", "1", "2"])
    (True, False)
    """
    return bool(names) and all(map(_is_number, names)) and not _counts_up(names)


def _counts_up(cells: Sequence[str]) -> bool:
    """Whether texts are whole numbers that increase, as the names that pandas gives to columns."""
    if not all(cell.isascii() and cell.isdigit() and len(cell) < 10 for cell in cells):
        return False
    return all(a < b for a, b in pairwise(map(int, cells)))


def _is_name_above(name: str, cells: list[str]) -> bool:
    """Whether a text names a column: all below it are numbers, or repeated words that never include it."""
    if not name or _is_number(name) or name in MISSING_WORDS or name in cells:
        return False
    known = [cell for cell in cells if cell and cell not in MISSING_WORDS]
    words = [cell for cell in known if not _is_number(cell)]
    return bool(known) and (not words or (len(words) == len(known) and 2 * len(set(words)) <= len(words)))


def _is_number(cell: str) -> bool:
    try:
        float(cell)
        return True
    except ValueError:
        return False


def _without_index(
    columns: list[np.ndarray], names: tuple[str, ...] | None, delimiter: str, drop_row_numbers: bool
) -> TextTable:
    unnamed = {i for i, name in enumerate(names or ()) if not name or name.startswith("Unnamed: ")}
    counting = [drop_row_numbers and _is_row_number(column) for column in columns]
    index = [i for i in range(len(columns)) if i in unnamed or counting[i]]
    if len(index) == len(columns):  # there is nothing else, so it is the data
        return TextTable(tuple(columns), names, delimiter)
    kept = [i for i in range(len(columns)) if i not in index]
    dropped = tuple((names[i] or "(unnamed)") if names is not None else f"column {i + 1}" for i in index)
    kept_names = None if names is None else tuple(names[i] for i in kept)
    return TextTable(tuple(columns[i] for i in kept), kept_names, delimiter, dropped)


def _is_row_number(column: np.ndarray) -> bool:
    """True for 0, 1, 2, … and 1, 2, 3, …"""
    n = len(column)
    if n < 3 or column[0] not in ("0", "1") or column[-1] not in (str(n - 1), str(n)):
        return False
    start = int(column[0])
    return bool((column == np.arange(start, start + n).astype(np.str_)).all())
