"""Reading ledger.jsonl: its rows as a list, and as one table of numbers."""

from __future__ import annotations

import csv
import io
import json
import sys
from pathlib import Path
from typing import Any

from unbraid.core.dataframes import make_dataframe
from unbraid.core.errors import UnbraidError, expect
from unbraid.core.files import read_bytes, write_text


class LedgerRows(list[dict[str, Any]]):
    """The rows of `ledger.jsonl`; as a table they have one column per term, and columns `price:…` and `score:…`.

    >>> rows = LedgerRows([{"step": 0, "loss": 3.0, "nats": {"kl": 1.0}, "prices": {"kl": 2.0}}])
    >>> rows.columns()
    {'step': [1], 'loss': [3.0], 'kl': [1.0], 'price:kl': [2.0]}
    >>> print(rows.csv())
    step,loss,kl,price:kl
    1,3.0,1.0,2.0
    <BLANKLINE>
    """

    def columns(self) -> dict[str, list[Any]]:
        """Return the numbers by column, None where a row has none; `step` is the number of steps done, as in snapshots."""
        flat = [_flatten_row(row) for row in self]
        first = ["step", "loss", "lr", "gradient"]
        names = dict.fromkeys(name for row in flat for name in row)
        order = [name for name in first if name in names] + [name for name in names if name not in first]
        return {name: [row.get(name) for row in flat] for name in order}

    def to_frame(self) -> Any:
        """Return a pandas DataFrame with one row per logged step."""
        return make_dataframe(self.columns())

    def csv(self) -> str:
        """Return the table as CSV with a header; missing values are empty."""
        columns, buffer = self.columns(), io.StringIO()
        lines = csv.writer(buffer, lineterminator="\n")
        lines.writerow(columns)
        lines.writerows(zip(*columns.values(), strict=True))
        return buffer.getvalue()

    def to_csv(self, path: str | Path) -> Path:
        """Write the table as CSV and return the path.

        Args:
            path: the file.
        """
        write_text(path, self.csv())
        return Path(path)


def _flatten_row(row: dict[str, Any]) -> dict[str, Any]:
    """A row without nested tables."""
    plain = {key: value for key, value in row.items() if isinstance(value, int | float) and key != "validation"}
    prices = {f"price:{key}": value for key, value in row["prices"].items()}
    scores = {f"score:{key}": value for key, value in row.get("scores", {}).items()}
    return {**plain, **row["nats"], **prices, **scores, "step": row["step"] + 1}


def read_ledger(path: Path) -> list[dict[str, Any]]:
    """Read all rows of a ledger; a last line cut off by a crash is left out, other damage is an error.

    Args:
        path: the file ledger.jsonl.
    """
    lines = read_bytes(path, "ledger", limit=1 << 32).split(b"\n")
    rows = []
    for number, line in enumerate(lines[:-1], 1):
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise UnbraidError(f"line {number} of {path} is damaged ({error}).") from error
        expect(_is_row(row), f"line {number} of {path} is damaged: it is not a ledger row")
        rows.append(row)
    return rows


def is_number_table(table: Any) -> bool:
    """Return whether a JSON value is a table of finite numbers; a whole number beyond the range of floats is none.

    Args:
        table: the value.

    >>> is_number_table({"kl": 1.5}), is_number_table({"kl": float("nan")}), is_number_table([1.5])
    (True, False, False)
    """
    if not isinstance(table, dict):
        return False
    numbers = all(isinstance(x, int | float) and not isinstance(x, bool) for x in table.values())
    return numbers and all(abs(x) <= sys.float_info.max for x in table.values())


def _is_row(row: Any) -> bool:
    """Whether a JSON value is a ledger row."""
    if not isinstance(row, dict) or not isinstance(row.get("step"), int):
        return False
    plain = {key: value for key, value in row.items() if isinstance(value, int | float) and not isinstance(value, bool)}
    scores = row.get("scores", {})
    known = {k: v for k, v in scores.items() if v is not None} if isinstance(scores, dict) else None
    return all(map(is_number_table, (row.get("nats"), row.get("prices"), plain, known)))
