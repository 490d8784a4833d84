"""One run, whole: claim it, train it with resume, encode, audit, score, and record the outcome. What every engine does."""

from __future__ import annotations

import dataclasses
import json
import time
import traceback
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from functools import lru_cache
from pathlib import Path
from typing import Any

from unbraid.ground.errors import UnbraidError
from unbraid.runs.run import MODEL, RECIPE, STATE, Run
from unbraid.sweeps import outcomes
from unbraid.sweeps.claims import claim
from unbraid.sweeps.outcomes import DONE, FAILED, Outcome
from unbraid.sweeps.plan import Job
from unbraid.sweeps.scoring import Scoring, measure

Logged = Callable[[Path], AbstractContextManager[Any]]


def execute(
    job: Job, folder: Path, score: Scoring | None, most: int = 1, logged: Logged = nullcontext
) -> Outcome | None:
    """Do what is left to do of a job, at most `most` tries in all; None when somebody else is at it.

    A finished run is only looked at; one that was begun goes on from its checkpoint, to the same bits. Being stopped
    (`Stopped`, Ctrl-C) is no outcome and passes through. What is printed meanwhile is for `logged(directory)` to catch.
    """
    with claim(folder, job.name) as mine:
        return settle(job, folder, score, most, logged) if mine else None


def settle(
    job: Job,
    folder: Path,
    score: Scoring | None,
    most: int = 1,
    logged: Logged = nullcontext,
    callbacks: Iterable[Any] = (),
) -> Outcome:
    """See `execute`, for a job that is claimed already; `callbacks` are told how it is trained."""
    before = outcomes.read(folder, job)
    if before is not None and outcomes.settled(before, score.digest if score else "", most):
        return before
    with logged(folder / job.name):
        return outcomes.record(folder, job, _tried(job, folder, score, before, callbacks))


def _tried(job: Job, folder: Path, score: Scoring | None, before: Outcome | None, callbacks: Iterable[Any]) -> Outcome:
    failed_before = before.tries if before is not None and not before.done else 0
    base = Outcome(DONE, tries=failed_before + 1, hash=job.hash, scored=score.digest if score else "")
    seconds = dict(before.seconds) if before is not None else {}
    try:
        if score is not None:
            score.fits(dataset_of(job))
        run = trained(job, folder, seconds, callbacks)
        scores = measure(run, score, dataset_of(job), seconds) if score is not None else {}
        return dataclasses.replace(base, scores=scores, seconds=seconds)
    except Exception as error:
        traceback.print_exc()  # into the run's log
        return dataclasses.replace(base, status=FAILED, kind=kind_of(error), reason=_said(error), seconds=seconds)


def trained(job: Job, folder: Path, seconds: dict[str, float], callbacks: Iterable[Any] = ()) -> Run:
    """The trained run: as it lies there, or trained now; the seconds this took are added to those before."""
    from unbraid.runs.directory import Differs
    from unbraid.runs.training import fit

    path = folder / job.name
    if _is_trained(path, job):
        return Run.load(path)
    began = time.perf_counter()
    try:
        dataset = dataset_of(job)
        try:
            return fit(job.recipe, path, resume=True, quiet=True, dataset=dataset, callbacks=callbacks)
        except Differs as error:  # another version or number of threads began it: from the start, then
            print(f"{error}\nIt is trained from its start.", flush=True)
            return fit(job.recipe, path, force=True, quiet=True, dataset=dataset, callbacks=callbacks)
    finally:
        seconds["train"] = round(seconds.get("train", 0.0) + time.perf_counter() - began, 3)


def _is_trained(path: Path, job: Job) -> bool:
    if not ((path / MODEL).is_file() and (path / STATE).is_file() and (path / RECIPE).is_file()):
        return False
    run = Run.load(path)
    return run.state["status"] == "done" and run.recipe.hash == job.hash


def dataset_of(job: Job) -> Any:
    """The job's data set; the last one is kept, since the runs of a sweep mostly share it."""
    return _dataset(json.dumps(job.recipe.data, sort_keys=True))


@lru_cache(maxsize=1)
def _dataset(table: str) -> Any:
    from unbraid import data

    options = json.loads(table)
    return data.load(options.pop("name", ""), **options)


def kind_of(error: Exception) -> str:
    """Which of the kinds of failure an error is."""
    from unbraid.runs.trainer import Broken

    if isinstance(error, Broken):
        return "diverged"
    return "refused" if isinstance(error, UnbraidError | OSError) else "crashed"


def _said(error: Exception) -> str:
    said = " ".join(str(error).split())
    return said if isinstance(error, UnbraidError) else f"{type(error).__name__}: {said}"
