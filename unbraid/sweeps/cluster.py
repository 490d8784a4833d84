"""A sweep on a Ray cluster: the driver's side. It gives out runs as tasks and hears their ends, as `Workers` does here."""

from __future__ import annotations

import logging
import os
import socket
import time
import uuid
from collections import deque
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from unbraid import __version__
from unbraid.ground.errors import UnbraidError, expect
from unbraid.ground.files import writable
from unbraid.ground.machine import cores
from unbraid.runs.own import IMPORTED
from unbraid.sweeps import outcomes
from unbraid.sweeps.claims import claim
from unbraid.sweeps.plan import Job, Plan
from unbraid.sweeps.remote import Desk, work

RETRIES = 3  # how often Ray starts a task anew whose process or node died; it goes on from the checkpoint
PATIENCE = 5.0  # seconds for a cluster to answer
GRACE = 60.0  # seconds for checkpoints when the sweep is stopped
GROW = 5.0  # seconds between two looks at how large the cluster is


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
        score = plan.score.model_dump() if plan.score is not None else None
        asked = {"job": job.message(), "folder": str(plan.folder.resolve()), "score": score, "most": most}
        self.task = self.cluster.start(asked, max(1, job.recipe.budget.threads))

    def end(self) -> tuple[str, str]:
        """How a task without an outcome ended: kind and reason."""
        return self.ended


class Cluster:
    """Runs as Ray tasks: as many at once as the cluster has room for, or `workers`; `gpus` for each, a share of one or more."""

    def __init__(self, folder: Path, address: str = "", gpus: float = 0.0, workers: int = 0):
        writable(folder)
        self.ray = connected(address, workers)
        self.gpus, self.workers = gpus, workers
        self.slots: list[Slot] = []
        self.news: deque[tuple[Slot, dict[str, Any] | None]] = deque()
        self.looked, self.room = -GROW, 0
        self.token = folder.resolve() / f".ray-{uuid.uuid4().hex[:12]}"
        try:
            self.token.write_text("A sweep on a Ray cluster is at work; nodes that see this file work in place.\n")
            self.desk = self._desk(folder)
            expect(self.size() > 0, "no node of the cluster has room for a run", found=self._resources(),
                   do=f"It needs a core{f' and {gpus:g} GPUs' if gpus else ''} for each.")  # fmt: skip
        except BaseException:
            self.stop()
            raise

    def size(self) -> int:
        """How many runs the cluster has room for; it may grow."""
        if time.monotonic() - self.looked > GROW:
            self.looked, found = time.monotonic(), self.ray.cluster_resources()
            rooms = [found.get("CPU", 0.0), *([found.get("GPU", 0.0) / self.gpus] if self.gpus else [])]
            self.room = min(int(min(rooms)), self.workers or 10**9)
        return self.room

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

    def _desk(self, folder: Path) -> Any:
        """The one that keeps what tasks bring: on this machine, started again when it dies."""
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        here = NodeAffinitySchedulingStrategy(self.ray.get_runtime_context().get_node_id(), soft=False)
        kept = {"num_cpus": 0, "max_restarts": -1, "max_task_retries": -1, "scheduling_strategy": here}
        return self.ray.remote(Desk).options(**kept).remote(str(folder.resolve()))

    def _resources(self) -> str:
        found = self.ray.cluster_resources()
        return f"{found.get('CPU', 0):g} cores, {found.get('GPU', 0):g} GPUs"


def connected(address: str = "", workers: int = 0) -> Any:
    """Ray, connected to the cluster at an address, or to one of this machine's own that is started for the sweep."""
    try:
        import ray
    except ImportError:
        raise UnbraidError("--engine ray needs Ray. Install it: pip install 'unbraid[cluster]'.") from None
    where = address or os.environ.get("RAY_ADDRESS", "") or "local"
    expect(
        not where.startswith("ray://"),
        "a sweep is driven from a node of the cluster, whose disk keeps the runs",
        found=where,
        do="Call it on the head node with --address auto, or as a Ray job.",
    )
    if where not in ("local", "auto"):
        _reach(where)
    os.environ.setdefault("RAY_worker_niceness", "0")  # as warm workers are; Ray's own 15 starves on a busy machine
    local: dict[str, Any] = {
        "num_cpus": workers or cores(),
        "include_dashboard": False,
        "_node_ip_address": "127.0.0.1",
    }
    try:
        ray.init(where, log_to_driver=False, logging_level=logging.ERROR, **(local if where == "local" else {}))
    except (ConnectionError, RuntimeError, ValueError, ray.exceptions.RayError) as error:
        said = " ".join(str(error).split())[:400]
        token = "If it is up, this may not be its token: RAY_AUTH_TOKEN or ~/.ray/auth_token must be the same on all machines."
        raise UnbraidError(f"no Ray cluster could be joined at {where!r}: {said}. {token}") from error
    return ray


def _reach(address: str) -> None:
    """Whether anybody listens there: Ray itself would try for minutes."""
    host, _, port = address.rpartition(":")
    expect(host and port.isdecimal(), "the address of a Ray cluster reads HOST:PORT", found=repr(address),
           do="For example --address 10.0.0.7:6379, or --address auto on one of its nodes.")  # fmt: skip
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=PATIENCE).close()
    except OSError as error:
        raise UnbraidError(
            f"no Ray cluster answers at {address}: {error.strerror or error}. Is it up ('ray status' on its head), and is this "
            "the port that 'ray start --head' printed?"
        ) from error
