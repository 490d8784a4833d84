"""The table a sweep ends in: its runs compared by setting, over seeds."""

from __future__ import annotations

from typing import Any

from unbraid.core.errors import UnbraidError
from unbraid.runs.folder.file_names import RECIPE_FILE
from unbraid.sweeps.display.status import sweep_status
from unbraid.sweeps.planning.plan import Plan


def compare_plan(plan: Plan, quiet: bool = True) -> Any:
    """The comparison of a plan's runs, and of no others that may lie beside them."""
    from unbraid.comparing import compare

    runs = [plan.folder / job.name for job in plan.jobs if (plan.folder / job.name / RECIPE_FILE).is_file()]
    alone = len(runs) == len(plan.jobs) and not sweep_status(plan).other
    return compare(plan.folder, quiet=quiet) if alone else compare(*runs, quiet=quiet)  # a whole folder has an index


def results_table_lines(plan: Plan, width: int = 80) -> list[str]:
    """The comparison as text, or one line that says why there is none."""
    from unbraid.comparing.console_table import render_text

    try:
        return render_text(compare_plan(plan), width).splitlines()
    except UnbraidError as error:
        return [f"no table: {error}"]
