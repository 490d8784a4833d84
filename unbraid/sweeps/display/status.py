"""Looking after a sweep's directory: where every run is, and removing what came to nothing."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from unbraid.runs.folder.file_names import OUTCOME_FILE, RECIPE_FILE
from unbraid.sweeps.engine import job_results
from unbraid.sweeps.engine.job_claims import is_claimed, try_claim
from unbraid.sweeps.engine.job_results import JobResult
from unbraid.sweeps.planning.plan import Plan


@dataclass(frozen=True)
class SweepStatus:
    """Where the runs of a plan are, by name; `other` are finished runs that the file does not ask for (any more)."""

    done: dict[str, JobResult]
    failed: dict[str, JobResult]
    running: list[str]
    started: list[str]
    waiting: list[str]
    other: list[str]


def sweep_status(plan: Plan) -> SweepStatus:
    """Look at every run: done, failed, being worked on now by anybody, begun and left, not begun, or not of this plan."""
    found = SweepStatus({}, {}, [], [], [], [])
    for job in plan.jobs:
        outcome = job_results.read_result(plan.folder, job)
        if outcome is not None and outcome.done:
            found.done[job.name] = outcome
        elif is_claimed(plan.folder, job.name):
            found.running.append(job.name)
        elif outcome is not None:
            found.failed[job.name] = outcome
        else:
            (found.started if (plan.folder / job.name / RECIPE_FILE).exists() else found.waiting).append(job.name)
    planned = {job.name for job in plan.jobs}
    if plan.folder.is_dir():
        found.other.extend(p.name for p in sorted(plan.folder.iterdir()) if p.name not in planned and _is_run(p))
    return found


def leftovers(plan: Plan) -> dict[Path, int]:
    """What `clean` removes, with its bytes: failed and unfinished runs nobody works on, files that a crash left half written."""
    now = sweep_status(plan)
    found = [plan.folder / name for name in (*now.failed, *now.started)]
    found += [plan.folder / n for n in now.other if not _is_trained(plan.folder / n) and not is_claimed(plan.folder, n)]
    found += [
        p for p in plan.folder.glob("*/.*.part") if p.parent not in found and not is_claimed(plan.folder, p.parent.name)
    ]
    return {path: _size(path) for path in found}


def remove_leftovers(plan: Plan, paths: list[Path]) -> list[Path]:
    """Remove these remains, each under its claim; a run that somebody has taken up meanwhile, or finished, stays."""
    gone = []
    for path in paths:
        name = path.name if path.parent == plan.folder else path.parent.name
        with try_claim(plan.folder, name) as mine:
            if mine and (path.suffix == ".part" or not _is_trained(path)):
                shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
                gone.append(path)
    return gone


def _is_run(path: Path) -> bool:
    return (path / RECIPE_FILE).is_file() or (path / OUTCOME_FILE).is_file()


def _is_trained(path: Path) -> bool:
    """True for a trained run, scored or not: those are never removed."""
    from unbraid.core.errors import UnbraidError
    from unbraid.runs.folder.file_names import MODEL_FILE
    from unbraid.runs.run import Run

    try:
        return (path / MODEL_FILE).is_file() and Run.load(path).state["status"] == "done"
    except UnbraidError:
        return False


def _size(path: Path) -> int:
    files = path.rglob("*") if path.is_dir() else [path]
    return sum(f.stat().st_size for f in files if f.is_file())
