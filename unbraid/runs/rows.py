"""The rows of a ledger: a list of them, and one table of their numbers."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

from unbraid.ground.files import write_text
from unbraid.ground.frames import frame


class Rows(list[dict[str, Any]]):
    """Rows of `ledger.jsonl` as they are; as a table they have a column for each term, `price:` and `score:` before the others'.

    >>> rows = Rows([{"step": 0, "loss": 3.0, "nats": {"kl": 1.0}, "prices": {"kl": 2.0}}])
    >>> rows.columns()
    {'step': [1], 'loss': [3.0], 'kl': [1.0], 'price:kl': [2.0]}
    >>> print(rows.csv())
    step,loss,kl,price:kl
    1,3.0,1.0,2.0
    <BLANKLINE>
    """

    def columns(self) -> dict[str, list[Any]]:
        """Numbers by column, None where a row has none; `step` is how many steps were done, as snapshots count them."""
        flat = [_flat(row) for row in self]
        first = ["step", "loss", "lr", "gradient"]
        names = dict.fromkeys(name for row in flat for name in row)
        order = [name for name in first if name in names] + [name for name in names if name not in first]
        return {name: [row.get(name) for row in flat] for name in order}

    def to_frame(self) -> Any:
        """A pandas DataFrame, a row for each logged step."""
        return frame(self.columns())

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


def _flat(row: dict[str, Any]) -> dict[str, Any]:
    """One row without tables inside."""
    plain = {key: value for key, value in row.items() if isinstance(value, int | float) and key != "validation"}
    prices = {f"price:{key}": value for key, value in row["prices"].items()}
    scores = {f"score:{key}": value for key, value in row.get("scores", {}).items()}
    return {**plain, **row["nats"], **prices, **scores, "step": row["step"] + 1}
