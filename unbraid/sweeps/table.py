"""The table a sweep ends in: its runs compared by setting, over seeds."""

from __future__ import annotations

from typing import Any

from unbraid.ground.errors import UnbraidError
from unbraid.runs.run import RECIPE
from unbraid.sweeps.plan import Plan
from unbraid.sweeps.status import status


def table(plan: Plan, quiet: bool = True) -> Any:
    """The comparison of a plan's runs, and of no others that may lie beside them."""
    from unbraid.comparing import compare

    runs = [plan.folder / job.name for job in plan.jobs if (plan.folder / job.name / RECIPE).is_file()]
    alone = len(runs) == len(plan.jobs) and not status(plan).other
    return compare(plan.folder, quiet=quiet) if alone else compare(*runs, quiet=quiet)  # a whole folder has an index


def lines(plan: Plan, width: int = 80) -> list[str]:
    """The comparison as text, or one line that says why there is none."""
    from unbraid.comparing.printed import text

    try:
        return text(table(plan), width).splitlines()
    except UnbraidError as error:
        return [f"no table: {error}"]
