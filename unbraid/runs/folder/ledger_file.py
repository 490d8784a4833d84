"""The rows of a ledger: a list of them, and one table of their numbers."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

from unbraid.core.dataframes import make_dataframe
from unbraid.core.errors import UnbraidError, expect
from unbraid.core.files import read_bytes, write_text


class LedgerRows(list[dict[str, Any]]):
    """Rows of `ledger.jsonl` as they are; as a table they have a column for each term, `price:` and `score:` before the others'.

    >>> rows = LedgerRows([{"step": 0, "loss": 3.0, "nats": {"kl": 1.0}, "prices": {"kl": 2.0}}])
    >>> rows.columns()
    {'step': [1], 'loss': [3.0], 'kl': [1.0], 'price:kl': [2.0]}
    >>> print(rows.csv())
    step,loss,kl,price:kl
    1,3.0,1.0,2.0
    <BLANKLINE>
    """

    def columns(self) -> dict[str, list[Any]]:
        """Numbers by column, None where a row has none; `step` is how many steps were done, as snapshots count them."""
        flat = [_flatten_row(row) for row in self]
        first = ["step", "loss", "lr", "gradient"]
        names = dict.fromkeys(name for row in flat for name in row)
        order = [name for name in first if name in names] + [name for name in names if name not in first]
        return {name: [row.get(name) for row in flat] for name in order}

    def to_frame(self) -> Any:
        """A pandas DataFrame, a row for each logged step."""
        return make_dataframe(self.columns())

    def csv(self) -> str:
        """The table as CSV with a header; what a row does not have is empty."""
        columns, buffer = self.columns(), io.StringIO()
        lines = csv.writer(buffer, lineterminator="\n")
        lines.writerow(columns)
        lines.writerows(zip(*columns.values(), strict=True))
        return buffer.getvalue()

    def to_csv(self, path: str | Path) -> Path:
        """Write the table as CSV."""
        write_text(path, self.csv())
        return Path(path)


def _flatten_row(row: dict[str, Any]) -> dict[str, Any]:
    """One row without tables inside."""
    plain = {key: value for key, value in row.items() if isinstance(value, int | float) and key != "validation"}
    prices = {f"price:{key}": value for key, value in row["prices"].items()}
    scores = {f"score:{key}": value for key, value in row.get("scores", {}).items()}
    return {**plain, **row["nats"], **prices, **scores, "step": row["step"] + 1}


def read_ledger(path: Path) -> list[dict[str, Any]]:
    """Every row of a `ledger.jsonl`; a last line cut off by a crash is left out, other damage an error."""
    lines = read_bytes(path, "ledger", limit=1 << 32).split(b"\n")
    rows = []
    for number, line in enumerate(lines[:-1], 1):
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise UnbraidError(f"line {number} of {path} is damaged ({error}).") from error
        expect(_is_row(row), f"line {number} of {path} is damaged: it is no ledger line")
        rows.append(row)
    return rows


def is_number_table(table: Any) -> bool:
    """Whether some JSON is a table of finite numbers.

    >>> is_number_table({"kl": 1.5}), is_number_table({"kl": float("nan")}), is_number_table([1.5])
    (True, False, False)
    """
    if not isinstance(table, dict):
        return False
    return all(isinstance(x, int | float) and not isinstance(x, bool) and abs(x) < float("inf") for x in table.values())


def _is_row(row: Any) -> bool:
    """Whether some JSON is a line of a ledger."""
    if not isinstance(row, dict) or not isinstance(row.get("step"), int):
        return False
    return is_number_table(row.get("nats")) and is_number_table(row.get("prices"))
