"""Run one job: claim it, train with resume, encode, audit, score and record the result. All engines use this module."""

from __future__ import annotations

import dataclasses
import json
import traceback
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from functools import lru_cache
from pathlib import Path
from typing import Any

from unbraid.core.errors import UnbraidError
from unbraid.runs import Run
from unbraid.runs.folder.file_names import MODEL_FILE, RECIPE_FILE, STATE_FILE
from unbraid.sweeps.engine import job_results
from unbraid.sweeps.engine.job_claims import try_claim
from unbraid.sweeps.engine.job_results import DONE, FAILED, JobResult
from unbraid.sweeps.planning.plan import Job
from unbraid.sweeps.planning.scoring import Scoring, measure_run, record_seconds

LogContext = Callable[[Path], AbstractContextManager[Any]]


def claim_and_run(
    job: Job, folder: Path, score: Scoring | None, max_tries: int = 1, log_context: LogContext = nullcontext
) -> JobResult | None:
    """Claim a job and finish it; None when another process has claimed it.

    A finished run is not trained again, and a started one continues from its checkpoint. An interruption
    (`TrainingInterrupted`, Ctrl-C) is not recorded as a result: the exception propagates.

    Args:
        job: the job.
        folder: directory of the sweep.
        score: what to measure; None to train only.
        max_tries: total number of tries allowed.
        log_context: returns a context for a run directory, in which everything is printed.
    """
    with try_claim(folder, job.name) as claimed:
        return run_job(job, folder, score, max_tries, log_context) if claimed else None


def run_job(
    job: Job,
    folder: Path,
    score: Scoring | None,
    max_tries: int = 1,
    log_context: LogContext = nullcontext,
    callbacks: Iterable[Any] = (),
) -> JobResult:
    """Finish a job that is already claimed; see `claim_and_run`.

    Args:
        job: the job.
        folder: directory of the sweep.
        score: what to measure; None to train only.
        max_tries: total number of tries allowed.
        log_context: returns a context for a run directory, in which everything is printed.
        callbacks: callbacks of training.
    """
    previous = job_results.read_result(folder, job)
    if previous is not None and job_results.is_final(previous, score.digest if score else "", max_tries):
        return previous
    with log_context(folder / job.name):
        return job_results.record_result(folder, job, _attempt(job, folder, score, previous, callbacks))


def _attempt(
    job: Job, folder: Path, score: Scoring | None, previous: JobResult | None, callbacks: Iterable[Any]
) -> JobResult:
    failures = previous.tries if previous is not None and not previous.done else 0
    result = JobResult(DONE, tries=failures + 1, hash=job.hash, scored=score.digest if score else "")
    seconds = dict(previous.seconds) if previous is not None else {}
    try:
        if score is not None:
            score.check_factors(job_dataset(job))
        run = train_or_load(job, folder, seconds, callbacks)
        scores = measure_run(run, score, job_dataset(job), seconds) if score is not None else {}
        return dataclasses.replace(result, scores=scores, seconds=seconds)
    except Exception as error:
        traceback.print_exc()  # into the run's log
        kind, reason = failure_kind(error), _error_message(error)
        return dataclasses.replace(result, status=FAILED, kind=kind, reason=reason, seconds=seconds)


def train_or_load(job: Job, folder: Path, seconds: dict[str, float], callbacks: Iterable[Any] = ()) -> Run:
    """Return the trained run of a job, and train it if necessary.

    Args:
        job: the job.
        folder: directory of the sweep.
        seconds: the seconds of this training are added to its entry 'train'.
        callbacks: callbacks of training.
    """
    from unbraid.runs import fit
    from unbraid.runs.folder.resume_checks import ResumeMismatchError

    path = folder / job.name
    run = trained_run(path)
    if run is not None and run.recipe.hash == job.hash:
        return run
    with record_seconds(seconds, "train", seconds.get("train", 0.0)):
        dataset = job_dataset(job)
        try:
            return fit(job.recipe, path, resume=True, quiet=True, dataset=dataset, callbacks=callbacks)
        except ResumeMismatchError as error:  # started by another version, or with another number of threads
            print(f"{error}\nTraining starts again from step 0.", flush=True)
            return fit(job.recipe, path, force=True, quiet=True, dataset=dataset, callbacks=callbacks)


def trained_run(path: Path) -> Run | None:
    """Load a run directory if its training is complete, else return None.

    Args:
        path: the run directory.
    """
    if not all((path / name).is_file() for name in (MODEL_FILE, STATE_FILE, RECIPE_FILE)):
        return None
    run = Run.load(path)
    return run if run.state["status"] == "done" else None


def job_dataset(job: Job) -> Any:
    """Load the data set of a job. The last one is cached, because the runs of a sweep mostly share it.

    Args:
        job: the job.
    """
    return _load_dataset(json.dumps(job.recipe.data, sort_keys=True))


@lru_cache(maxsize=1)
def _load_dataset(table: str) -> Any:
    from unbraid import data

    options = json.loads(table)
    return data.load(options.pop("name", ""), **options)


def failure_kind(error: Exception) -> str:
    """Classify an error as 'diverged', 'refused' or 'crashed'.

    Args:
        error: the error.
    """
    from unbraid.runs.fitting.trainer import NonFiniteLossError

    if isinstance(error, NonFiniteLossError):
        return "diverged"
    return "refused" if isinstance(error, UnbraidError | OSError) else "crashed"


def _error_message(error: Exception) -> str:
    message = " ".join(str(error).split())
    return message if isinstance(error, UnbraidError) else f"{type(error).__name__}: {message}"
