"""Data files that were moved together with the run directory: beside it, or in `data/` of the folder of a discovery."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from unbraid.core.files import is_file
from unbraid.runs.folder.file_names import LABELS_FILE, ROWS_FILE


def _is_inside(folder: Path, file: Path) -> bool:
    """Whether a file is there and no link leads out of the folder."""
    try:
        return is_file(file) and folder.resolve() in file.resolve().parents
    except (OSError, RuntimeError):
        return False


def relocate_data(run_path: Path, table: dict[str, Any]) -> dict[str, Any]:
    """Return the [data] table of a recipe with the present path of a file that moved with its run.

    Args:
        run_path: the run directory.
        table: the table.
    """
    path = Path(str(table.get("path", "")))
    if path.name == ROWS_FILE and is_file(run_path / ROWS_FILE):
        moved = {"path": str(run_path / ROWS_FILE)}  # the run of an estimator may have been moved or backed up
        if "labels" in table and is_file(run_path / LABELS_FILE):
            moved["labels"] = str(run_path / LABELS_FILE)
        return {**table, **moved}
    above = run_path.absolute().parents[:2]  # of best/ and of runs/NAME/
    found = [folder for folder in above if _is_inside(folder, folder / "data" / path.name)]
    if path.exists():  # perhaps of another discovery, made where this one was before: a discovery reads its own data
        found = [folder for folder in found if path.parent.name == "data" and is_file(folder / "plan.json")]
    return {**table, "path": str(found[0] / "data" / path.name)} if found else table
