"""A sweep on a Ray cluster: the driver's side. It gives out runs as tasks and hears their ends, as `Workers` does here."""

from __future__ import annotations

import math
import time
import uuid
from collections import deque
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from unbraid import __version__
from unbraid.ground.errors import expect
from unbraid.ground.files import writable
from unbraid.runs.own import IMPORTED
from unbraid.sweeps import outcomes
from unbraid.sweeps.claims import claim
from unbraid.sweeps.connection import connected
from unbraid.sweeps.plan import Job, Plan
from unbraid.sweeps.remote import Desk, work

RETRIES = 3  # how often Ray starts a task anew whose process or node died; it goes on from the checkpoint
GRACE = 60.0  # seconds for checkpoints when the sweep is stopped
GROW = 5.0  # seconds between two looks at the nodes of the cluster
LOST = 120.0  # seconds in which a node may come back that a task needs


Node = tuple[float, float]  # cores, GPUs


@dataclass(eq=False)
class Slot:
    """A run on the cluster, or room for one."""

    cluster: Cluster
    job: Job | None = None
    task: Any = None
    held: ExitStack = field(default_factory=ExitStack)
    ended: tuple[str, str] = ("", "")
    since: float = field(default_factory=time.monotonic)

    def give(self, job: Job, plan: Plan, most: int) -> None:
        """Claim a run and start its task; one that others have, or that is settled, is answered at once."""
        self.job, self.since = job, time.monotonic()
        if not self.held.enter_context(claim(plan.folder, job.name)):
            self.cluster.answer(self, {"outcome": None})
            return
        before = outcomes.read(plan.folder, job)
        if before is not None and outcomes.settled(before, plan.score.digest if plan.score else "", most):
            self.cluster.answer(self, {"outcome": before.plain()})
            return
        if not self.cluster.fits(job):
            self.ended = "refused", f"no node of the cluster has room for it: {self.cluster.short_of(job)}"
            self.cluster.answer(self, None)
            return
        score = plan.score.model_dump() if plan.score is not None else None
        asked = {"job": job.message(), "folder": str(plan.folder.resolve()), "score": score, "most": most}
        self.task = self.cluster.start(asked, threads_of(job))

    def end(self) -> tuple[str, str]:
        """How a task without an outcome ended: kind and reason."""
        return self.ended


class Cluster:
    """Runs as Ray tasks: as many at once as the cluster has room for, or `workers`; `gpus` for each, a share of one or more."""

    def __init__(self, plan: Plan, address: str = "", gpus: float = 0.0, workers: int = 0):
        expect(
            gpus <= 1 or gpus == int(gpus), "a run takes a share of one GPU, or whole ones", found=f"--gpus {gpus:g}"
        )
        folder = plan.folder
        writable(folder)
        self.ray = connected(address, workers)
        self.gpus, self.workers = gpus, workers
        self.least = min(map(threads_of, plan.jobs), default=1)
        self.slots: list[Slot] = []
        self.news: deque[tuple[Slot, dict[str, Any] | None]] = deque()
        self.looked, self.fitted = -math.inf, time.monotonic()
        self.seen: list[Node] = []
        self.token = folder.resolve() / f".ray-{uuid.uuid4().hex[:12]}"
        try:
            self.token.write_text("A sweep on a Ray cluster is at work; nodes that see this file work in place.\n")
            self.desk = self._desk(folder)
            if plan.jobs and not any(map(self.fits, plan.jobs)):
                job = plan.jobs[0]
                expect(False, "no node of the cluster has room for a run", found=f"{job.name}: {self.short_of(job)}")
        except BaseException:
            self.stop()
            raise

    def nodes(self) -> list[Node]:
        """Cores and GPUs of every node that is alive."""
        if time.monotonic() - self.looked > GROW:
            found = [node["Resources"] for node in self.ray.nodes() if node["Alive"]]
            self.looked, self.seen = time.monotonic(), [(r.get("CPU", 0.0), r.get("GPU", 0.0)) for r in found]
        return self.seen

    def size(self) -> int:
        """How many runs the nodes have room for; it changes when nodes join or die."""
        return min(sum(room(node, self.least, self.gpus) for node in self.nodes()), self.workers or 10**9)

    def fits(self, job: Job) -> bool:
        """Whether there is a node that a run can be on; Ray would wait for one without a word."""
        return any(room(node, threads_of(job), self.gpus) for node in self.nodes())

    def short_of(self, job: Job) -> str:
        """What a run asks for, and what the largest nodes have."""
        nodes = self.nodes() or [(0.0, 0.0)]
        asks = f"it asks for {threads_of(job)} cores (budget.threads)" + (
            f" and {self.gpus:g} GPUs" if self.gpus else ""
        )
        most = max(nodes, key=lambda node: (min(node[1], self.gpus), node[0]))
        return f"{asks}, and of {len(nodes)} nodes the largest has {most[0]:g} cores and {most[1]:g} GPUs"

    def start(self, asked: dict[str, Any], threads: int) -> Any:
        """One task. Ray starts it anew when its process or node dies, not when it fails."""
        task = self.ray.remote(work).options(
            num_cpus=threads, num_gpus=self.gpus, max_retries=RETRIES, name=asked["job"]["name"]
        )
        more = {"token": str(self.token), "unbraid": __version__, "imports": list(IMPORTED)}
        return task.remote({**asked, **more}, self.desk)

    def answer(self, slot: Slot, message: dict[str, Any] | None) -> None:
        """A run ended: it is no longer claimed, and its slot is free when this is heard."""
        slot.held.close()
        slot.task = None
        self.news.append((slot, message))

    def idle(self, wanted: int) -> list[Slot]:
        """See `Crew.idle`."""
        free = [slot for slot in self.slots if slot.job is None]
        more = [Slot(self) for _ in range(min(wanted - len(free), self.size() - len(self.slots)))]
        self.slots += more
        return free + more

    def busy(self) -> list[Slot]:
        """See `Crew.busy`."""
        return [slot for slot in self.slots if slot.job is not None]

    def hear(self, seconds: float) -> tuple[Slot, dict[str, Any] | None] | None:
        """See `Crew.hear`."""
        tasks = {slot.task: slot for slot in self.slots if slot.task is not None}
        if not self.news and tasks:
            ended, _ = self.ray.wait(list(tasks), timeout=seconds)
            for task in ended:
                self._ended(tasks[task], task)
            self._lost()
        elif not self.news:
            time.sleep(seconds)
        return self.news.popleft() if self.news else None

    def stop(self) -> None:
        """See `Crew.stop`: cancelled tasks leave a checkpoint, and the connection or the local cluster is closed."""
        tasks = [slot.task for slot in self.slots if slot.task is not None]
        with suppress(Exception, KeyboardInterrupt):  # a cluster that is gone; Ctrl-C again
            for task in tasks:
                self.ray.cancel(task)
            _, late = self.ray.wait(tasks, num_returns=len(tasks), timeout=GRACE) if tasks else ([], [])
            for task in late:
                self.ray.cancel(task, force=True)
        for slot in self.slots:
            slot.held.close()
        self.slots = []
        self.token.unlink(missing_ok=True)
        self.ray.shutdown()

    def _ended(self, slot: Slot, task: Any) -> None:
        try:
            self.answer(slot, self.ray.get(task))
        except self.ray.exceptions.RayError as error:
            lines = [line.strip() for line in str(error).splitlines() if line.strip()]
            kind = "crashed" if isinstance(error, self.ray.exceptions.RayTaskError) else "killed"
            slot.ended = kind, f"{type(error).__name__} of Ray: {(lines or ['no reason given'])[-1][:300]}"
            self.answer(slot, None)

    def _lost(self) -> None:
        """Give up tasks that no node can take any more, once none has come for some time; their checkpoints stay."""
        lost = [slot for slot in self.slots if slot.task is not None and slot.job and not self.fits(slot.job)]
        if not lost:
            self.fitted = time.monotonic()
        for slot in lost if time.monotonic() - self.fitted > LOST else ():
            assert slot.job is not None
            self.ray.cancel(slot.task, force=True)
            slot.ended = "killed", f"its node is gone and no other has room for it: {self.short_of(slot.job)}"
            self.answer(slot, None)

    def _desk(self, folder: Path) -> Any:
        """The one that keeps what tasks bring: on this machine, started again when it dies."""
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        here = NodeAffinitySchedulingStrategy(self.ray.get_runtime_context().get_node_id(), soft=False)
        kept = {"num_cpus": 0, "max_restarts": -1, "max_task_retries": -1, "scheduling_strategy": here}
        return self.ray.remote(Desk).options(**kept).remote(str(folder.resolve()))


def threads_of(job: Job) -> int:
    """The cores that a run takes."""
    return max(1, job.recipe.budget.threads)


def room(node: Node, threads: int, gpus: float) -> int:
    """How many runs of so many threads and GPUs a node has room for.

    >>> room((16, 4), 1, 0.25), room((16, 4), 8, 1), room((1, 0), 2, 0), room((64, 0), 1, 0.5)
    (16, 2, 0, 0)
    """
    cores, cards = node
    return int(min(cores / threads, cards / gpus if gpus else math.inf) + 1e-9)
