"""The final table of a sweep: its settings compared over seeds."""

from __future__ import annotations

from typing import Any

from unbraid.core.errors import UnbraidError
from unbraid.runs.folder.file_names import RECIPE_FILE
from unbraid.sweeps.display.status import sweep_status
from unbraid.sweeps.planning.plan import Plan


def compare_plan(plan: Plan, quiet: bool = True) -> Any:
    """Compare the runs of a plan, without other runs in the same directory.

    Args:
        plan: the plan.
        quiet: show no progress bar.
    """
    from unbraid.comparing import compare

    runs = [plan.folder / job.name for job in plan.jobs if (plan.folder / job.name / RECIPE_FILE).is_file()]
    complete = len(runs) == len(plan.jobs) and not sweep_status(plan).other
    return compare(plan.folder, quiet=quiet) if complete else compare(*runs, quiet=quiet)  # a whole folder has an index


def results_table_lines(plan: Plan, width: int = 80) -> list[str]:
    """Render the comparison as text, or the reason why there is none.

    Args:
        plan: the plan.
        width: width of the table in characters.
    """
    from unbraid.comparing.console_table import render_text

    try:
        return render_text(compare_plan(plan), width).splitlines()
    except UnbraidError as error:
        return [f"no table: {error}"]
