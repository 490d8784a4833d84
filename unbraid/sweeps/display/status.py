"""The state of the directory of a sweep: the status of every run, and the removal of unfinished ones."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from unbraid.core.errors import UnbraidError
from unbraid.runs.folder.file_names import OUTCOME_FILE, RECIPE_FILE
from unbraid.sweeps.engine import job_results
from unbraid.sweeps.engine.job_claims import is_claimed, try_claim
from unbraid.sweeps.engine.job_results import JobResult
from unbraid.sweeps.engine.job_runner import trained_run
from unbraid.sweeps.planning.plan import Plan


@dataclass(frozen=True)
class SweepStatus:
    """The runs of a plan by status.

    Args:
        done: finished runs.
        failed: failed runs.
        running: runs that some process works on.
        started: runs that were started and stopped.
        waiting: runs that were not started.
        other: runs in the directory that the plan does not contain.
    """

    done: dict[str, JobResult]
    failed: dict[str, JobResult]
    running: list[str]
    started: list[str]
    waiting: list[str]
    other: list[str]


def sweep_status(plan: Plan) -> SweepStatus:
    """Determine the status of every run.

    Args:
        plan: the plan.
    """
    status = SweepStatus({}, {}, [], [], [], [])
    for job in plan.jobs:
        result = job_results.read_result(plan.folder, job)
        if result is not None and result.done:
            status.done[job.name] = result
        elif is_claimed(plan.folder, job.name):
            status.running.append(job.name)
        elif result is not None:
            status.failed[job.name] = result
        else:
            (status.started if (plan.folder / job.name / RECIPE_FILE).exists() else status.waiting).append(job.name)
    planned = {job.name for job in plan.jobs}
    if plan.folder.is_dir():
        status.other.extend(p.name for p in sorted(plan.folder.iterdir()) if p.name not in planned and _is_run(p))
    return status


def leftovers(plan: Plan) -> dict[Path, int]:
    """List what `remove_leftovers` may remove, with sizes: failed or unfinished unclaimed runs, and partial files.

    Args:
        plan: the plan.
    """
    status, folder = sweep_status(plan), plan.folder
    paths = [folder / name for name in (*status.failed, *status.started)]
    paths += [folder / n for n in status.other if not _is_trained(folder / n) and not is_claimed(folder, n)]
    partial = [p for p in folder.glob("*/.*.part") if p.parent not in paths and not is_claimed(folder, p.parent.name)]
    return {path: _size(path) for path in (*paths, *partial)}


def remove_leftovers(plan: Plan, paths: list[Path]) -> list[Path]:
    """Remove leftovers and return those removed; a run that was claimed or finished meanwhile stays.

    Args:
        plan: the plan.
        paths: paths from `leftovers`.
    """
    removed = []
    for path in paths:
        name = path.name if path.parent == plan.folder else path.parent.name
        with try_claim(plan.folder, name) as claimed:
            if claimed and (path.suffix == ".part" or not _is_trained(path)):
                shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
                removed.append(path)
    return removed


def _is_run(path: Path) -> bool:
    return (path / RECIPE_FILE).is_file() or (path / OUTCOME_FILE).is_file()


def _is_trained(path: Path) -> bool:
    """Whether a run is trained, scored or not: such a run is never removed."""
    try:
        return trained_run(path) is not None
    except UnbraidError:
        return False


def _size(path: Path) -> int:
    files = path.rglob("*") if path.is_dir() else [path]
    return sum(f.stat().st_size for f in files if f.is_file())
