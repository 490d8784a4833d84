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

from unbraid.core.errors import UnbraidError
from unbraid.runs.folder.file_names import MODEL_FILE, RECIPE_FILE, STATE_FILE
from unbraid.runs.run import Run
from unbraid.sweeps.engine import job_results
from unbraid.sweeps.engine.job_claims import try_claim
from unbraid.sweeps.engine.job_results import DONE, FAILED, JobResult
from unbraid.sweeps.planning.plan import Job
from unbraid.sweeps.planning.scoring import Scoring, measure_run

LogContext = Callable[[Path], AbstractContextManager[Any]]


def claim_and_run(
    job: Job, folder: Path, score: Scoring | None, max_tries: int = 1, log_context: LogContext = nullcontext
) -> JobResult | None:
    """Do what is left to do of a job, at most `most` tries in all; None when somebody else is at it.

    A finished run is only looked at; one that was begun goes on from its checkpoint, to the same bits. Being stopped
    (`Stopped`, Ctrl-C) is no outcome and passes through. What is printed meanwhile is for `logged(directory)` to catch.
    """
    with try_claim(folder, job.name) as mine:
        return run_job(job, folder, score, max_tries, log_context) if mine else None


def run_job(
    job: Job,
    folder: Path,
    score: Scoring | None,
    max_tries: int = 1,
    log_context: LogContext = nullcontext,
    callbacks: Iterable[Any] = (),
) -> JobResult:
    """See `execute`, for a job that is claimed already; `callbacks` are told how it is trained."""
    before = job_results.read_result(folder, job)
    if before is not None and job_results.is_final(before, score.digest if score else "", max_tries):
        return before
    with log_context(folder / job.name):
        return job_results.record_result(folder, job, _attempt(job, folder, score, before, callbacks))


def _attempt(
    job: Job, folder: Path, score: Scoring | None, previous: JobResult | None, callbacks: Iterable[Any]
) -> JobResult:
    failed_before = previous.tries if previous is not None and not previous.done else 0
    base = JobResult(DONE, tries=failed_before + 1, hash=job.hash, scored=score.digest if score else "")
    seconds = dict(previous.seconds) if previous is not None else {}
    try:
        if score is not None:
            score.check_factors(job_dataset(job))
        run = train_or_load(job, folder, seconds, callbacks)
        scores = measure_run(run, score, job_dataset(job), seconds) if score is not None else {}
        return dataclasses.replace(base, scores=scores, seconds=seconds)
    except Exception as error:
        traceback.print_exc()  # into the run's log
        return dataclasses.replace(
            base, status=FAILED, kind=failure_kind(error), reason=_error_message(error), seconds=seconds
        )


def train_or_load(job: Job, folder: Path, seconds: dict[str, float], callbacks: Iterable[Any] = ()) -> Run:
    """The trained run: as it lies there, or trained now; the seconds this took are added to those before."""
    from unbraid.runs.fitting.training import fit
    from unbraid.runs.folder.run_writer import ResumeMismatchError

    path = folder / job.name
    if _is_trained(path, job):
        return Run.load(path)
    began = time.perf_counter()
    try:
        dataset = job_dataset(job)
        try:
            return fit(job.recipe, path, resume=True, quiet=True, dataset=dataset, callbacks=callbacks)
        except ResumeMismatchError as error:  # another version or number of threads began it: from the start, then
            print(f"{error}\nIt is trained from its start.", flush=True)
            return fit(job.recipe, path, force=True, quiet=True, dataset=dataset, callbacks=callbacks)
    finally:
        seconds["train"] = round(seconds.get("train", 0.0) + time.perf_counter() - began, 3)


def _is_trained(path: Path, job: Job) -> bool:
    if not ((path / MODEL_FILE).is_file() and (path / STATE_FILE).is_file() and (path / RECIPE_FILE).is_file()):
        return False
    run = Run.load(path)
    return run.state["status"] == "done" and run.recipe.hash == job.hash


def job_dataset(job: Job) -> Any:
    """The job's data set; the last one is kept, since the runs of a sweep mostly share it."""
    return _load_dataset(json.dumps(job.recipe.data, sort_keys=True))


@lru_cache(maxsize=1)
def _load_dataset(table: str) -> Any:
    from unbraid import data

    options = json.loads(table)
    return data.load(options.pop("name", ""), **options)


def failure_kind(error: Exception) -> str:
    """Which of the kinds of failure an error is."""
    from unbraid.runs.fitting.trainer import NonFiniteLossError

    if isinstance(error, NonFiniteLossError):
        return "diverged"
    return "refused" if isinstance(error, UnbraidError | OSError) else "crashed"


def _error_message(error: Exception) -> str:
    said = " ".join(str(error).split())
    return said if isinstance(error, UnbraidError) else f"{type(error).__name__}: {said}"
