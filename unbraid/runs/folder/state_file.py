"""Read and check run.json, the state of a run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from unbraid.core.errors import expect
from unbraid.core.files import is_file, read_json
from unbraid.runs.folder.file_names import STATE_FILE

STATE_SCHEMA = 2  # schema 2 added this number and the recipe's hash; files without a number are schema 1


def read_state(path: Path) -> dict[str, Any]:
    """Read run.json; damage and a newer schema are errors.

    Args:
        path: the run directory.
    """
    state = read_json(path / STATE_FILE, "run state")
    expect(
        _is_state(state),
        f"{path / STATE_FILE} is damaged",
        do="The recipe, the ledger and the weights may still be intact.",
    )
    schema = state.get("schema", 1)
    expect(
        isinstance(schema, int) and 1 <= schema <= STATE_SCHEMA,
        f"{path} was written by a later version of unbraid",
        found=f"schema {schema!r} in {STATE_FILE}",
        allowed=f"at most {STATE_SCHEMA}",
        do="Update unbraid.",
    )
    return state


def stored_precision(path: Path) -> str:
    """Return what budget.precision = "auto" chose when a run began, or "" if run.json holds no choice.

    Args:
        path: the run directory.
    """
    state = read_json(path / STATE_FILE, "run state") if is_file(path / STATE_FILE) else None
    found = state.get("precision") if isinstance(state, dict) else None
    return found if found in ("float32", "bf16") else ""


def _is_state(state: Any) -> bool:
    """Whether a JSON value has the fields that every run.json has."""
    if not isinstance(state, dict) or not isinstance(state.get("status"), str):
        return False
    sizes = [state.get("step"), *(state["shape"] if isinstance(state.get("shape"), list) else [None])]
    return len(sizes) == 4 and all(isinstance(n, int) and not isinstance(n, bool) and 0 <= n < 1 << 40 for n in sizes)
