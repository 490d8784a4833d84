"""Walking a plan: workers take the runs one by one until every one is done or has failed for good.

Other processes may walk the same directory at the same time (a second start of the same command, shards of a job array,
orphans of a parent that was killed). A run that one of them has claimed is waited for, and taken over when it is let go.
"""

from __future__ import annotations

import signal
import time
from collections import Counter, deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Protocol

from unbraid.core.errors import TrainingInterrupted
from unbraid.core.files import ensure_writable_folder
from unbraid.core.hardware import cpu_count, visible_gpus
from unbraid.sweeps.engine import job_results
from unbraid.sweeps.engine.job_claims import is_claimed, try_claim
from unbraid.sweeps.engine.job_results import FAILED, JobResult
from unbraid.sweeps.engine.worker_pool import LocalWorkerPool
from unbraid.sweeps.planning.plan import Job, Plan

CLAIM_POLL_SECONDS = 1.0  # seconds between two looks at a run that somebody else has


class ProgressListener(Protocol):
    """Whoever shows how a walk goes."""

    def update(self, state: Scheduler) -> None:
        """Called some five times a second."""


class WorkerPool(Protocol):
    """Who does the runs: warm processes on this machine (`workers.Workers`) or a Ray cluster (`cluster.Cluster`)."""

    def idle_workers(self, wanted: int) -> list[Any]:
        """Workers that can take a job, of as many as `wanted` jobs can use."""

    def busy_workers(self) -> list[Any]:
        """Workers with a job."""

    def poll(self, timeout: float) -> tuple[Any, dict[str, Any] | None] | None:
        """The next answer of a worker, or (worker, None) when it ended without one."""

    def stop(self) -> None:
        """Ask all to leave a checkpoint and go; nothing is left running."""


class Scheduler:
    """The state of one walk: what is waiting, what became of the rest."""

    def __init__(self, plan: Plan, workers: WorkerPool):
        self.plan, self.workers = plan, workers
        self.score_digest = plan.score.digest if plan.score else ""
        self.previous = {job.name: job_results.read_result(plan.folder, job) for job in plan.jobs}
        self.max_tries = {name: job_results.allowed_tries(found, plan.retries) for name, found in self.previous.items()}
        self.results: dict[str, JobResult] = {}
        self.attempts: Counter[str] = Counter()  # by our own workers
        self.waiting: deque[Job] = deque()
        self.claimed_elsewhere: dict[str, tuple[Job, float]] = {}  # claimed by others; when to look again
        for job in plan.jobs:
            self._finish_or_requeue(job, self.previous[job.name])

    @property
    def is_done(self) -> bool:
        """True when every run is settled."""
        return len(self.results) == len(self.plan.jobs)

    def run_once(self) -> None:
        """Give out jobs, hear one answer, look at what others have."""
        self._check_claimed_elsewhere()
        free = self.workers.idle_workers(len(self.waiting))
        for worker, job in zip(free, list(self.waiting), strict=False):  # the shorter of the two ends it
            self.waiting.popleft()
            worker.assign(job, self.plan, self.max_tries[job.name])
        heard = self.workers.poll(0.2)
        if heard is not None:
            self._handle_message(*heard)

    def _handle_message(self, worker: Any, message: dict[str, Any] | None) -> None:
        if message is not None and "outcome" not in message:
            return  # it is ready
        job, worker.job = worker.job, None
        if job is None:
            return  # an idle worker died; another is started when there is work
        found = (
            JobResult.from_dict(message["outcome"]) if message is not None and message["outcome"] is not None else None
        )
        if message is not None and found is None:
            self.claimed_elsewhere[job.name] = (job, time.monotonic() + CLAIM_POLL_SECONDS)
            return
        self.attempts[job.name] += 1
        self._finish_or_requeue(job, found or self._record_death(job, worker))

    def _finish_or_requeue(self, job: Job, outcome: JobResult | None) -> None:
        """Put a job where it belongs now: among the ended ones, or back in the line."""
        if outcome is not None and not outcome.done:  # a full disk keeps no count, so it is kept here too
            outcome = replace(outcome, tries=max(outcome.tries, self.attempts[job.name]))
        if job_results.is_final(outcome, self.score_digest, self.max_tries[job.name]):
            assert outcome is not None
            self.results[job.name] = outcome
        else:
            self.waiting.append(job)

    def _check_claimed_elsewhere(self) -> None:
        """Runs that others had: ended, let go, or still theirs."""
        now = time.monotonic()
        for name, (job, when) in list(self.claimed_elsewhere.items()):
            if now >= when:
                if is_claimed(self.plan.folder, name):
                    self.claimed_elsewhere[name] = (job, now + CLAIM_POLL_SECONDS)
                else:
                    del self.claimed_elsewhere[name]
                    self._finish_or_requeue(job, job_results.read_result(self.plan.folder, job))

    def _record_death(self, job: Job, worker: Any) -> JobResult | None:
        """Record the death of a worker as its job's outcome, unless somebody else has taken the job up already."""
        kind, reason = worker.exit_reason()
        with try_claim(self.plan.folder, job.name) as mine:
            found = job_results.read_result(self.plan.folder, job)
            if not mine or job_results.is_final(found, self.score_digest, self.max_tries[job.name]):
                return found
            tries = 1 + (found.tries if found is not None and not found.done else 0)
            died = JobResult(FAILED, kind, reason, tries, job.hash)
            return job_results.record_result(self.plan.folder, job, died)


def run_plan(
    plan: Plan, workers: int | WorkerPool = 0, listener: ProgressListener | None = None
) -> dict[str, JobResult]:
    """Walk a plan to its end and return what became of each run, by name.

    `workers` run at once, one thread each (0: one per core), or whoever else does the runs. Ctrl-C, SIGTERM and a closed
    terminal stop every worker at a checkpoint; the same call goes on from there.
    """
    ensure_writable_folder(plan.folder)
    state = Scheduler(
        plan, LocalWorkerPool(workers or cpu_count(), gpus_for_workers(plan)) if isinstance(workers, int) else workers
    )
    try:
        with _signals_as_interrupt():
            try:
                while not state.is_done:
                    state.run_once()
                    if listener is not None:
                        listener.update(state)
            finally:
                state.workers.stop()
    except KeyboardInterrupt:
        raise TrainingInterrupted(f"stopped; the same command goes on from the checkpoints in {plan.folder}") from None
    return {job.name: state.results[job.name] for job in plan.jobs}


def gpus_for_workers(plan: Plan) -> list[str]:
    """The GPUs to spread workers over: none when a run is for the CPU only, or names a device by its number."""
    return visible_gpus() if all(job.recipe.budget.device in ("auto", "cuda") for job in plan.jobs) else []


@contextmanager
def _signals_as_interrupt() -> Iterator[None]:
    """SIGTERM and a closed terminal are taken like Ctrl-C, once: batch systems and their scripts may both send them."""

    def interrupt(number: int, frame: Any) -> None:
        signal.signal(number, signal.SIG_IGN)
        raise KeyboardInterrupt

    before = {}
    try:
        for number in (signal.SIGTERM, *([signal.SIGHUP] if hasattr(signal, "SIGHUP") else [])):
            if signal.getsignal(number) is not signal.SIG_IGN:  # nohup means what it says
                before[number] = signal.signal(number, interrupt)
    except ValueError:
        pass  # not in the main thread: whoever started us handles signals
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
