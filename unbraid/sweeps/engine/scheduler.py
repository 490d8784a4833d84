"""The scheduler: assigns the runs of a plan to workers until every run is done or has finally failed.

Other processes may work on the same directory at the same time (the same command started twice, shards of a job array,
workers of a parent that was killed). The scheduler waits for a run that another process has claimed, and takes it over
when the claim is released.
"""

from __future__ import annotations

import signal
import time
from collections import Counter, deque
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any, Protocol

from unbraid.core.errors import TrainingInterrupted
from unbraid.core.files import ensure_writable_folder
from unbraid.core.hardware import cpu_count, visible_gpus
from unbraid.core.signals import TERMINATION_SIGNALS, handle_signals
from unbraid.sweeps.engine import job_results
from unbraid.sweeps.engine.job_claims import is_claimed, try_claim
from unbraid.sweeps.engine.job_results import FAILED, JobResult
from unbraid.sweeps.engine.worker_pool import LocalWorkerPool
from unbraid.sweeps.planning.plan import Job, Plan

CLAIM_POLL_SECONDS = 1.0  # between two checks of a run that another process has claimed


class ProgressListener(Protocol):
    """Receives the progress of a sweep."""

    def update(self, state: Scheduler) -> None:
        """Called about five times a second.

        Args:
            state: the scheduler.
        """


class JobWorker(Protocol):
    """A worker of a pool, and the job it is running (None: idle)."""

    job: Job | None
    since: float

    def assign(self, job: Job, plan: Plan, max_tries: int) -> None:
        """Start a job.

        Args:
            job: the job.
            plan: the plan of the job.
            max_tries: total number of tries allowed.
        """

    def exit_reason(self) -> tuple[str, str]:
        """The kind of failure and the reason, for a worker that ended without a result."""


class WorkerPool(Protocol):
    """Runs the jobs: `LocalWorkerPool`, processes on this machine, or `RayWorkerPool`, a Ray cluster."""

    def idle_workers(self, wanted: int) -> Sequence[JobWorker]:
        """Workers that can take a job.

        Args:
            wanted: number of waiting jobs; more workers than that are not started.
        """

    def busy_workers(self) -> Sequence[JobWorker]:
        """Workers with a job."""

    def poll(self, timeout: float) -> tuple[JobWorker, dict[str, Any] | None] | None:
        """The next message of a worker, or (worker, None) when it ended without one; None when there is none.

        Args:
            timeout: seconds to wait.
        """

    def stop(self) -> None:
        """Have all workers write a checkpoint and end; none is left running."""


class Scheduler:
    """The state of one sweep: which runs wait, and the results so far.

    Args:
        plan: the plan.
        workers: the workers.
    """

    def __init__(self, plan: Plan, workers: WorkerPool):
        self.plan, self.workers = plan, workers
        self.previous = {job.name: job_results.read_result(plan.folder, job) for job in plan.jobs}
        self.max_tries = {
            name: job_results.allowed_tries(result, plan.retries) for name, result in self.previous.items()
        }
        self.results: dict[str, JobResult] = {}
        self.attempts: Counter[str] = Counter()  # by our own workers
        self.waiting: deque[Job] = deque()
        self.claimed_elsewhere: dict[str, tuple[Job, float]] = {}  # by other processes; when to check again
        for job in plan.jobs:
            self._finish_or_requeue(job, self.previous[job.name])

    @property
    def is_done(self) -> bool:
        """Whether every run has a final result."""
        return len(self.results) == len(self.plan.jobs)

    def run_once(self) -> None:
        """Assign waiting jobs, handle one message, and check the runs that other processes have claimed."""
        self._check_claimed_elsewhere()
        idle = self.workers.idle_workers(len(self.waiting))
        for worker, job in zip(idle, list(self.waiting), strict=False):  # the shorter of the two ends it
            self.waiting.popleft()
            worker.assign(job, self.plan, self.max_tries[job.name])
        message = self.workers.poll(0.2)
        if message is not None:
            self._handle_message(*message)

    def _handle_message(self, worker: JobWorker, message: dict[str, Any] | None) -> None:
        if message is not None and "outcome" not in message:
            return  # the worker is ready
        job, worker.job = worker.job, None
        if job is None:
            return  # an idle worker ended; the pool starts another when there is work
        table = message["outcome"] if message is not None else None
        if message is not None and table is None:
            self.claimed_elsewhere[job.name] = (job, time.monotonic() + CLAIM_POLL_SECONDS)
            return
        self.attempts[job.name] += 1
        self._finish_or_requeue(job, JobResult.from_dict(table) if table else self._record_death(job, worker))

    def _finish_or_requeue(self, job: Job, result: JobResult | None) -> None:
        """Keep a final result, or put the job back into the queue."""
        if result is not None and not result.done:  # a full disk records no tries, so they are counted here too
            result = replace(result, tries=max(result.tries, self.attempts[job.name]))
        if job_results.is_final(result, self.plan.score_digest, self.max_tries[job.name]):
            assert result is not None
            self.results[job.name] = result
        else:
            self.waiting.append(job)

    def _check_claimed_elsewhere(self) -> None:
        """Finish or requeue the runs whose claim was released."""
        now = time.monotonic()
        for name, (job, when) in list(self.claimed_elsewhere.items()):
            if now >= when:
                if is_claimed(self.plan.folder, name):
                    self.claimed_elsewhere[name] = (job, now + CLAIM_POLL_SECONDS)
                else:
                    del self.claimed_elsewhere[name]
                    self._finish_or_requeue(job, job_results.read_result(self.plan.folder, job))

    def _record_death(self, job: Job, worker: JobWorker) -> JobResult | None:
        """Record the end of a worker as the result of its job, unless another process has claimed the job already."""
        kind, reason = worker.exit_reason()
        with try_claim(self.plan.folder, job.name) as claimed:
            previous = job_results.read_result(self.plan.folder, job)
            if not claimed or job_results.is_final(previous, self.plan.score_digest, self.max_tries[job.name]):
                return previous
            tries = 1 + (previous.tries if previous is not None and not previous.done else 0)
            return job_results.record_result(self.plan.folder, job, JobResult(FAILED, kind, reason, tries, job.hash))


def run_plan(
    plan: Plan, workers: int | WorkerPool = 0, listener: ProgressListener | None = None
) -> dict[str, JobResult]:
    """Run a plan to its end and return the result of each run, by name.

    Ctrl-C, SIGTERM and a closed terminal stop every worker at a checkpoint; the same call continues from there.

    Args:
        plan: the plan.
        workers: number of local workers, one thread each (0: one per core), or a worker pool.
        listener: receives the progress.
    """
    ensure_writable_folder(plan.folder)
    if isinstance(workers, int):
        workers = LocalWorkerPool(workers or cpu_count(), gpus_for_workers(plan))
    scheduler = Scheduler(plan, workers)
    try:
        with _signals_as_interrupt():
            try:
                while not scheduler.is_done:
                    scheduler.run_once()
                    if listener is not None:
                        listener.update(scheduler)
            finally:
                workers.stop()
    except KeyboardInterrupt:
        raise TrainingInterrupted(
            f"stopped; the same command continues from the checkpoints in {plan.folder}"
        ) from None
    return {job.name: scheduler.results[job.name] for job in plan.jobs}


def gpus_for_workers(plan: Plan) -> list[str]:
    """The GPUs to distribute workers over; none when a recipe asks for the CPU or for a numbered device.

    Args:
        plan: the plan.
    """
    return visible_gpus() if all(job.recipe.budget.device in ("auto", "cuda") for job in plan.jobs) else []


def _signals_as_interrupt() -> AbstractContextManager[None]:
    """Treat SIGTERM and SIGHUP like Ctrl-C, once: a batch system and its script may both send them."""

    def interrupt(number: int, frame: Any) -> None:
        signal.signal(number, signal.SIG_IGN)
        raise KeyboardInterrupt

    return handle_signals(TERMINATION_SIGNALS, interrupt)
