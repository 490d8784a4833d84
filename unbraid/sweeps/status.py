"""Looking after a sweep's directory: where every run is, and removing what came to nothing."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from unbraid.runs.run import OUTCOME, RECIPE
from unbraid.sweeps import outcomes
from unbraid.sweeps.claims import claim, is_claimed
from unbraid.sweeps.outcomes import Outcome
from unbraid.sweeps.plan import Plan


@dataclass(frozen=True)
class Status:
    """Where the runs of a plan are, by name; `other` are finished runs that the file does not ask for (any more)."""

    done: dict[str, Outcome]
    failed: dict[str, Outcome]
    running: list[str]
    begun: list[str]
    waiting: list[str]
    other: list[str]


def status(plan: Plan) -> Status:
    """Look at every run: done, failed, being worked on now by anybody, begun and left, not begun, or not of this plan."""
    found = Status({}, {}, [], [], [], [])
    for job in plan.jobs:
        outcome = outcomes.read(plan.folder, job)
        if outcome is not None and outcome.done:
            found.done[job.name] = outcome
        elif is_claimed(plan.folder, job.name):
            found.running.append(job.name)
        elif outcome is not None:
            found.failed[job.name] = outcome
        else:
            (found.begun if (plan.folder / job.name / RECIPE).exists() else found.waiting).append(job.name)
    planned = {job.name for job in plan.jobs}
    if plan.folder.is_dir():
        found.other.extend(p.name for p in sorted(plan.folder.iterdir()) if p.name not in planned and _is_run(p))
    return found


def remains(plan: Plan) -> dict[Path, int]:
    """What `clean` removes, with its bytes: failed and unfinished runs nobody works on, files that a crash left half written."""
    now = status(plan)
    found = [plan.folder / name for name in (*now.failed, *now.begun)]
    found += [plan.folder / n for n in now.other if not _finished(plan.folder / n) and not is_claimed(plan.folder, n)]
    found += [
        p for p in plan.folder.glob("*/.*.part") if p.parent not in found and not is_claimed(plan.folder, p.parent.name)
    ]
    return {path: _size(path) for path in found}


def clean(plan: Plan, paths: list[Path]) -> list[Path]:
    """Remove these remains, each under its claim; a run that somebody has taken up meanwhile, or finished, stays."""
    gone = []
    for path in paths:
        name = path.name if path.parent == plan.folder else path.parent.name
        with claim(plan.folder, name) as mine:
            if mine and (path.suffix == ".part" or not _finished(path)):
                shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
                gone.append(path)
    return gone


def _is_run(path: Path) -> bool:
    return (path / RECIPE).is_file() or (path / OUTCOME).is_file()


def _finished(path: Path) -> bool:
    """True for a trained run, scored or not: those are never removed."""
    from unbraid.ground.errors import UnbraidError
    from unbraid.runs.run import MODEL, Run

    try:
        return (path / MODEL).is_file() and Run.load(path).state["status"] == "done"
    except UnbraidError:
        return False


def _size(path: Path) -> int:
    files = path.rglob("*") if path.is_dir() else [path]
    return sum(f.stat().st_size for f in files if f.is_file())
