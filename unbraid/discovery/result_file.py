"""Read discovery.json of a discovery or of its best/."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from unbraid.core.errors import expect
from unbraid.core.files import is_file, read_json
from unbraid.runs.folder.ledger_file import is_number_table

RESULT_FILE = "discovery.json"


def read_discovery_result(folder: Path) -> dict[str, Any]:
    """Read discovery.json of a discovery or of its best/; damage is an error, and without the file there is nothing.

    Args:
        folder: the folder of the file.
    """
    if not is_file(folder / RESULT_FILE):
        return {}
    found = read_json(folder / RESULT_FILE, "result")
    rows = found.get("factors") if isinstance(found, dict) else None
    fields = {"warnings": list, "runs": list, "lost_names": dict}
    valid = isinstance(rows, list) and all(map(_is_factor, rows))
    valid = valid and all(isinstance(found.get(key, kind()), kind) for key, kind in fields.items())
    expect(valid, f"{folder / RESULT_FILE} is damaged", do="The command that made it writes it again.")
    return found


def _is_factor(row: Any) -> bool:
    """Whether a JSON value has the fields of a factor that are read again."""
    texts, counts = ("leaf", "name", "kind", "status"), ("found", "seeds")
    known = isinstance(row, dict) and all(isinstance(row.get(key), str) for key in texts)
    known = known and all(isinstance(row.get(key), int) for key in counts)
    return known and (row.get("nats") is None or is_number_table({"nats": row["nats"]}))
