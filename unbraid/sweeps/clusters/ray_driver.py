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
from unbraid.core.errors import expect
from unbraid.core.files import ensure_writable_folder
from unbraid.runs.building.custom_parts import IMPORTED_MODULES
from unbraid.sweeps.clusters.ray_connection import connect_ray
from unbraid.sweeps.clusters.ray_task import RunStore, run_task
from unbraid.sweeps.engine import job_results
from unbraid.sweeps.engine.job_claims import try_claim
from unbraid.sweeps.planning.plan import Job, Plan

RETRIES = 3  # how often Ray starts a task anew whose process or node died; it goes on from the checkpoint
STOP_TIMEOUT = 60.0  # seconds for checkpoints when the sweep is stopped
NODE_POLL_SECONDS = 5.0  # seconds between two looks at the nodes of the cluster
LOST_NODE_TIMEOUT = 120.0  # seconds in which a node may come back that a task needs


NodeResources = tuple[float, float]  # cores, GPUs


@dataclass(eq=False)
class ClusterSlot:
    """A run on the cluster, or room for one."""

    pool: RayWorkerPool
    job: Job | None = None
    task: Any = None
    claim_stack: ExitStack = field(default_factory=ExitStack)
    failure: tuple[str, str] = ("", "")
    since: float = field(default_factory=time.monotonic)

    def assign(self, job: Job, plan: Plan, max_tries: int) -> None:
        """Claim a run and start its task; one that others have, or that is settled, is answered at once."""
        self.job, self.since = job, time.monotonic()
        if not self.claim_stack.enter_context(try_claim(plan.folder, job.name)):
            self.pool.release(self, {"outcome": None})
            return
        before = job_results.read_result(plan.folder, job)
        if before is not None and job_results.is_final(before, plan.score.digest if plan.score else "", max_tries):
            self.pool.release(self, {"outcome": before.as_dict()})
            return
        if not self.pool.has_room_for(job):
            self.failure = "refused", f"no node of the cluster has room for it: {self.pool.describe_shortage(job)}"
            self.pool.release(self, None)
            return
        score = plan.score.model_dump() if plan.score is not None else None
        asked = {"job": job.as_dict(), "folder": str(plan.folder.resolve()), "score": score, "most": max_tries}
        self.task = self.pool.start_task(asked, thread_count(job))

    def exit_reason(self) -> tuple[str, str]:
        """How a task without an outcome ended: kind and reason."""
        return self.failure


class RayWorkerPool:
    """Runs as Ray tasks: as many at once as the cluster has room for, or `workers`; `gpus` for each, a share of one or more."""

    def __init__(self, plan: Plan, address: str = "", gpus: float = 0.0, workers: int = 0):
        expect(
            gpus <= 1 or gpus == int(gpus), "a run takes a share of one GPU, or whole ones", found=f"--gpus {gpus:g}"
        )
        folder = plan.folder
        ensure_writable_folder(folder)
        self.ray = connect_ray(address, workers)
        self.gpus, self.workers = gpus, workers
        self.min_threads = min(map(thread_count, plan.jobs), default=1)
        self.slots: list[ClusterSlot] = []
        self.messages: deque[tuple[ClusterSlot, dict[str, Any] | None]] = deque()
        self.nodes_checked_at, self.last_fit_at = -math.inf, time.monotonic()
        self.known_nodes: list[NodeResources] = []
        self.token = folder.resolve() / f".ray-{uuid.uuid4().hex[:12]}"
        try:
            self.token.write_text("A sweep on a Ray cluster is at work; nodes that see this file work in place.\n")
            self.run_store = self._start_run_store(folder)
            if plan.jobs and not any(map(self.has_room_for, plan.jobs)):
                job = plan.jobs[0]
                expect(
                    False,
                    "no node of the cluster has room for a run",
                    found=f"{job.name}: {self.describe_shortage(job)}",
                )
        except BaseException:
            self.stop()
            raise

    def nodes(self) -> list[NodeResources]:
        """Cores and GPUs of every node that is alive."""
        if time.monotonic() - self.nodes_checked_at > NODE_POLL_SECONDS:
            found = [node["Resources"] for node in self.ray.nodes() if node["Alive"]]
            self.nodes_checked_at, self.known_nodes = (
                time.monotonic(),
                [(r.get("CPU", 0.0), r.get("GPU", 0.0)) for r in found],
            )
        return self.known_nodes

    def capacity(self) -> int:
        """How many runs the nodes have room for; it changes when nodes join or die."""
        return min(
            sum(runs_per_node(node, self.min_threads, self.gpus) for node in self.nodes()), self.workers or 10**9
        )

    def has_room_for(self, job: Job) -> bool:
        """Whether there is a node that a run can be on; Ray would wait for one without a word."""
        return any(runs_per_node(node, thread_count(job), self.gpus) for node in self.nodes())

    def describe_shortage(self, job: Job) -> str:
        """What a run asks for, and what the largest nodes have."""
        nodes = self.nodes() or [(0.0, 0.0)]
        asks = f"it asks for {thread_count(job)} cores (budget.threads)" + (
            f" and {self.gpus:g} GPUs" if self.gpus else ""
        )
        most = max(nodes, key=lambda node: (min(node[1], self.gpus), node[0]))
        return f"{asks}, and of {len(nodes)} nodes the largest has {most[0]:g} cores and {most[1]:g} GPUs"

    def start_task(self, request: dict[str, Any], threads: int) -> Any:
        """One task. Ray starts it anew when its process or node dies, not when it fails."""
        task = self.ray.remote(run_task).options(
            num_cpus=threads, num_gpus=self.gpus, max_retries=RETRIES, name=request["job"]["name"]
        )
        more = {"token": str(self.token), "unbraid": __version__, "imports": list(IMPORTED_MODULES)}
        return task.remote({**request, **more}, self.run_store)

    def release(self, slot: ClusterSlot, message: dict[str, Any] | None) -> None:
        """A run ended: it is no longer claimed, and its slot is free when this is heard."""
        slot.claim_stack.close()
        slot.task = None
        self.messages.append((slot, message))

    def idle_workers(self, wanted: int) -> list[ClusterSlot]:
        """See `Crew.idle`."""
        free = [slot for slot in self.slots if slot.job is None]
        more = [ClusterSlot(self) for _ in range(min(wanted - len(free), self.capacity() - len(self.slots)))]
        self.slots += more
        return free + more

    def busy_workers(self) -> list[ClusterSlot]:
        """See `Crew.busy`."""
        return [slot for slot in self.slots if slot.job is not None]

    def poll(self, timeout: float) -> tuple[ClusterSlot, dict[str, Any] | None] | None:
        """See `Crew.hear`."""
        tasks = {slot.task: slot for slot in self.slots if slot.task is not None}
        if not self.messages and tasks:
            ended, _ = self.ray.wait(list(tasks), timeout=timeout)
            for task in ended:
                self._collect_result(tasks[task], task)
            self._give_up_lost_tasks()
        elif not self.messages:
            time.sleep(timeout)
        return self.messages.popleft() if self.messages else None

    def stop(self) -> None:
        """See `Crew.stop`: cancelled tasks leave a checkpoint, and the connection or the local cluster is closed."""
        tasks = [slot.task for slot in self.slots if slot.task is not None]
        with suppress(Exception, KeyboardInterrupt):  # a cluster that is gone; Ctrl-C again
            for task in tasks:
                self.ray.cancel(task)
            _, late = self.ray.wait(tasks, num_returns=len(tasks), timeout=STOP_TIMEOUT) if tasks else ([], [])
            for task in late:
                self.ray.cancel(task, force=True)
        for slot in self.slots:
            slot.claim_stack.close()
        self.slots = []
        self.token.unlink(missing_ok=True)
        self.ray.shutdown()

    def _collect_result(self, slot: ClusterSlot, task: Any) -> None:
        try:
            self.release(slot, self.ray.get(task))
        except self.ray.exceptions.RayError as error:
            lines = [line.strip() for line in str(error).splitlines() if line.strip()]
            kind = "crashed" if isinstance(error, self.ray.exceptions.RayTaskError) else "killed"
            slot.failure = kind, f"{type(error).__name__} of Ray: {(lines or ['no reason given'])[-1][:300]}"
            self.release(slot, None)

    def _give_up_lost_tasks(self) -> None:
        """Give up tasks that no node can take any more, once none has come for some time; their checkpoints stay."""
        lost = [slot for slot in self.slots if slot.task is not None and slot.job and not self.has_room_for(slot.job)]
        if not lost:
            self.last_fit_at = time.monotonic()
        for slot in lost if time.monotonic() - self.last_fit_at > LOST_NODE_TIMEOUT else ():
            assert slot.job is not None
            self.ray.cancel(slot.task, force=True)
            slot.failure = (
                "killed",
                f"its node is gone and no other has room for it: {self.describe_shortage(slot.job)}",
            )
            self.release(slot, None)

    def _start_run_store(self, folder: Path) -> Any:
        """The one that keeps what tasks bring: on this machine, started again when it dies."""
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        here = NodeAffinitySchedulingStrategy(self.ray.get_runtime_context().get_node_id(), soft=False)
        kept = {"num_cpus": 0, "max_restarts": -1, "max_task_retries": -1, "scheduling_strategy": here}
        return self.ray.remote(RunStore).options(**kept).remote(str(folder.resolve()))


def thread_count(job: Job) -> int:
    """The cores that a run takes."""
    return max(1, job.recipe.budget.threads)


def runs_per_node(node: NodeResources, threads: int, gpus: float) -> int:
    """How many runs of so many threads and GPUs a node has room for.

    >>> runs_per_node((16, 4), 1, 0.25), runs_per_node((16, 4), 8, 1), runs_per_node((1, 0), 2, 0), runs_per_node((64, 0), 1, 0.5)
    (16, 2, 0, 0)
    """
    cores, cards = node
    return int(min(cores / threads, cards / gpus if gpus else math.inf) + 1e-9)
