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

from unbraid.ground.errors import Stopped
from unbraid.ground.files import writable
from unbraid.ground.machine import cards, cores
from unbraid.sweeps import outcomes
from unbraid.sweeps.claims import claim, is_claimed
from unbraid.sweeps.outcomes import FAILED, Outcome
from unbraid.sweeps.plan import Job, Plan
from unbraid.sweeps.workers import Workers

LOOK_AGAIN = 1.0  # seconds between two looks at a run that somebody else has


class Watcher(Protocol):
    """Whoever shows how a walk goes."""

    def update(self, state: Walk) -> None:
        """Called some five times a second."""


class Crew(Protocol):
    """Who does the runs: warm processes on this machine (`workers.Workers`) or a Ray cluster (`cluster.Cluster`)."""

    def idle(self, wanted: int) -> list[Any]:
        """Workers that can take a job, of as many as `wanted` jobs can use."""

    def busy(self) -> list[Any]:
        """Workers with a job."""

    def hear(self, seconds: float) -> tuple[Any, dict[str, Any] | None] | None:
        """The next answer of a worker, or (worker, None) when it ended without one."""

    def stop(self) -> None:
        """Ask all to leave a checkpoint and go; nothing is left running."""


class Walk:
    """The state of one walk: what is waiting, what became of the rest."""

    def __init__(self, plan: Plan, workers: Crew):
        self.plan, self.workers = plan, workers
        self.scored = plan.score.digest if plan.score else ""
        self.before = {job.name: outcomes.read(plan.folder, job) for job in plan.jobs}
        self.most = {name: outcomes.tries(found, plan.retries) for name, found in self.before.items()}
        self.ended: dict[str, Outcome] = {}
        self.tried: Counter[str] = Counter()  # by our own workers
        self.waiting: deque[Job] = deque()
        self.elsewhere: dict[str, tuple[Job, float]] = {}  # claimed by others; when to look again
        for job in plan.jobs:
            self._sort(job, self.before[job.name])

    @property
    def over(self) -> bool:
        """True when every run is settled."""
        return len(self.ended) == len(self.plan.jobs)

    def turn(self) -> None:
        """Give out jobs, hear one answer, look at what others have."""
        self._look()
        free = self.workers.idle(len(self.waiting))
        for worker, job in zip(free, list(self.waiting), strict=False):  # the shorter of the two ends it
            self.waiting.popleft()
            worker.give(job, self.plan, self.most[job.name])
        heard = self.workers.hear(0.2)
        if heard is not None:
            self._heard(*heard)

    def _heard(self, worker: Any, message: dict[str, Any] | None) -> None:
        if message is not None and "outcome" not in message:
            return  # it is ready
        job, worker.job = worker.job, None
        if job is None:
            return  # an idle worker died; another is started when there is work
        found = Outcome.of(message["outcome"]) if message is not None and message["outcome"] is not None else None
        if message is not None and found is None:
            self.elsewhere[job.name] = (job, time.monotonic() + LOOK_AGAIN)
            return
        self.tried[job.name] += 1
        self._sort(job, found or self._died(job, worker))

    def _sort(self, job: Job, outcome: Outcome | None) -> None:
        """Put a job where it belongs now: among the ended ones, or back in the line."""
        if outcome is not None and not outcome.done:  # a full disk keeps no count, so it is kept here too
            outcome = replace(outcome, tries=max(outcome.tries, self.tried[job.name]))
        if outcomes.settled(outcome, self.scored, self.most[job.name]):
            assert outcome is not None
            self.ended[job.name] = outcome
        else:
            self.waiting.append(job)

    def _look(self) -> None:
        """Runs that others had: ended, let go, or still theirs."""
        now = time.monotonic()
        for name, (job, when) in list(self.elsewhere.items()):
            if now >= when:
                if is_claimed(self.plan.folder, name):
                    self.elsewhere[name] = (job, now + LOOK_AGAIN)
                else:
                    del self.elsewhere[name]
                    self._sort(job, outcomes.read(self.plan.folder, job))

    def _died(self, job: Job, worker: Any) -> Outcome | None:
        """Record the death of a worker as its job's outcome, unless somebody else has taken the job up already."""
        kind, reason = worker.end()
        with claim(self.plan.folder, job.name) as mine:
            found = outcomes.read(self.plan.folder, job)
            if not mine or outcomes.settled(found, self.scored, self.most[job.name]):
                return found
            tries = 1 + (found.tries if found is not None and not found.done else 0)
            died = Outcome(FAILED, kind, reason, tries, job.hash)
            return outcomes.record(self.plan.folder, job, died)


def walk(plan: Plan, workers: int | Crew = 0, watch: Watcher | None = None) -> dict[str, Outcome]:
    """Walk a plan to its end and return what became of each run, by name.

    `workers` run at once, one thread each (0: one per core), or whoever else does the runs. Ctrl-C, SIGTERM and a closed
    terminal stop every worker at a checkpoint; the same call goes on from there.
    """
    writable(plan.folder)
    state = Walk(plan, Workers(workers or cores(), spread(plan)) if isinstance(workers, int) else workers)
    try:
        with _interrupting():
            try:
                while not state.over:
                    state.turn()
                    if watch is not None:
                        watch.update(state)
            finally:
                state.workers.stop()
    except KeyboardInterrupt:
        raise Stopped(f"stopped; the same command goes on from the checkpoints in {plan.folder}") from None
    return {job.name: state.ended[job.name] for job in plan.jobs}


def spread(plan: Plan) -> list[str]:
    """The GPUs to spread workers over: none when a run is for the CPU only, or names a device by its number."""
    return cards() if all(job.recipe.budget.device in ("auto", "cuda") for job in plan.jobs) else []


@contextmanager
def _interrupting() -> Iterator[None]:
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
