"""The driver of a sweep on a Ray cluster: starts each run as a Ray task and collects the results."""

from __future__ import annotations

import math
import time
import uuid
from collections import deque
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from unbraid import __version__
from unbraid.core.errors import UnbraidError, expect
from unbraid.core.files import ensure_writable_folder
from unbraid.runs.building.custom_parts import IMPORTED_MODULES
from unbraid.sweeps.clusters.ray_connection import connect_ray
from unbraid.sweeps.clusters.ray_task import RunStore, run_task
from unbraid.sweeps.engine import job_results
from unbraid.sweeps.engine.job_claims import try_claim
from unbraid.sweeps.planning.plan import Job, Plan, job_request

RETRIES = 3  # of a task whose process or node ends; each continues from the checkpoint
STOP_TIMEOUT = 60.0  # seconds for the checkpoints when the sweep is stopped
NODE_POLL_SECONDS = 5.0  # between two checks of the nodes
LOST_NODE_TIMEOUT = 120.0  # seconds to wait for a node that a task needs


NodeResources = tuple[float, float]  # cores, GPUs


@dataclass(eq=False)
class ClusterSlot:
    """A slot for one run on the cluster.

    Args:
        pool: the pool of the slot.
        job: the job that runs in it; None when it is free.
        task: the Ray task.
        claim_stack: holds the claim on the run.
        failure: kind of failure and reason, when a task ends without a result.
        since: when the job was assigned.
    """

    pool: RayWorkerPool
    job: Job | None = None
    task: Any = None
    claim_stack: ExitStack = field(default_factory=ExitStack)
    failure: tuple[str, str] = ("", "")
    since: float = field(default_factory=time.monotonic)

    def assign(self, job: Job, plan: Plan, max_tries: int) -> None:
        """Claim a run and start its task; a run that is claimed elsewhere or has a final result starts none.

        Args:
            job: the job.
            plan: the plan of the sweep.
            max_tries: how often a failed run is started again.
        """
        self.job, self.since = job, time.monotonic()
        if not self.claim_stack.enter_context(try_claim(plan.folder, job.name)):
            self.pool.release(self, {"outcome": None})
            return
        previous = job_results.read_result(plan.folder, job)
        if previous is not None and job_results.is_final(previous, plan.score_digest, max_tries):
            self.pool.release(self, {"outcome": asdict(previous)})
            return
        if not self.pool.can_place(job):
            self.failure = "refused", f"no node of the cluster is large enough: {self.pool.describe_shortage(job)}"
            self.pool.release(self, None)
            return
        self.task = self.pool.start_task(job_request(job, plan, max_tries), thread_count(job))

    def exit_reason(self) -> tuple[str, str]:
        """See `JobWorker.exit_reason`."""
        return self.failure


class RayWorkerPool:
    """Runs jobs as Ray tasks, as many at once as the nodes can take.

    Args:
        plan: the plan.
        address: address of the cluster; see `connect_ray`.
        gpus: GPUs of each run, a fraction of one or a whole number.
        workers: maximum number of runs at once; 0 for no limit.
    """

    def __init__(self, plan: Plan, address: str = "", gpus: float = 0.0, workers: int = 0):
        whole = gpus <= 1 or gpus == int(gpus)
        expect(whole, "a run takes a fraction of one GPU, or whole ones", found=f"--gpus {gpus:g}")
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
            note = "A sweep is running on a Ray cluster; nodes that see this file work in this directory.\n"
            self.token.write_text(note)
            self.run_store = self._start_run_store(folder)
            if plan.jobs and not any(map(self.can_place, plan.jobs)):
                shortage = f"{plan.jobs[0].name}: {self.describe_shortage(plan.jobs[0])}"
                raise UnbraidError(f"no node of the cluster is large enough for a run: found {shortage}.")
        except BaseException:
            self.stop()
            raise

    def nodes(self) -> list[NodeResources]:
        """Cores and GPUs of every live node."""
        if time.monotonic() - self.nodes_checked_at > NODE_POLL_SECONDS:
            resources = [node["Resources"] for node in self.ray.nodes() if node["Alive"]]
            self.known_nodes = [(r.get("CPU", 0.0), r.get("GPU", 0.0)) for r in resources]
            self.nodes_checked_at = time.monotonic()
        return self.known_nodes

    def capacity(self) -> int:
        """How many runs the nodes can take at once; it changes when nodes join or leave."""
        total = sum(runs_per_node(node, self.min_threads, self.gpus) for node in self.nodes())
        return min(total, self.workers or 10**9)

    def can_place(self, job: Job) -> bool:
        """Whether any node is large enough for a run; Ray itself would wait for one indefinitely.

        Args:
            job: the job.
        """
        return any(runs_per_node(node, thread_count(job), self.gpus) for node in self.nodes())

    def describe_shortage(self, job: Job) -> str:
        """Describe what a run needs and what the largest node has.

        Args:
            job: the job.
        """
        nodes = self.nodes() or [(0.0, 0.0)]
        gpus = f" and {self.gpus:g} GPUs" if self.gpus else ""
        cores, most_gpus = max(nodes, key=lambda node: (min(node[1], self.gpus), node[0]))
        return (
            f"it needs {thread_count(job)} cores (budget.threads){gpus}, and the largest of {len(nodes)} nodes has "
            f"{cores:g} cores and {most_gpus:g} GPUs"
        )

    def start_task(self, request: dict[str, Any], threads: int) -> Any:
        """Start a task. Ray restarts it when its process or node ends, but not when it fails.

        Args:
            request: the job, from `job_request`.
            threads: cores of the task.
        """
        task = self.ray.remote(run_task).options(
            num_cpus=threads, num_gpus=self.gpus, max_retries=RETRIES, name=request["job"]["name"]
        )
        more = {"token": str(self.token), "unbraid": __version__, "imports": list(IMPORTED_MODULES)}
        return task.remote({**request, **more}, self.run_store)

    def release(self, slot: ClusterSlot, message: dict[str, Any] | None) -> None:
        """Release the claim of a slot and queue its message.

        Args:
            slot: the slot.
            message: its result; None when the task ended without one.
        """
        slot.claim_stack.close()
        slot.task = None
        self.messages.append((slot, message))

    def idle_workers(self, wanted: int) -> list[ClusterSlot]:
        """See `WorkerPool.idle_workers`."""
        idle = [slot for slot in self.slots if slot.job is None]
        more = [ClusterSlot(self) for _ in range(min(wanted - len(idle), self.capacity() - len(self.slots)))]
        self.slots += more
        return idle + more

    def busy_workers(self) -> list[ClusterSlot]:
        """See `WorkerPool.busy_workers`."""
        return [slot for slot in self.slots if slot.job is not None]

    def poll(self, timeout: float) -> tuple[ClusterSlot, dict[str, Any] | None] | None:
        """See `WorkerPool.poll`."""
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
        """See `WorkerPool.stop`: cancel the tasks, which write checkpoints, and disconnect (or end a local cluster)."""
        tasks = [slot.task for slot in self.slots if slot.task is not None]
        with suppress(Exception, KeyboardInterrupt):  # the cluster is gone, or Ctrl-C again
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
        """Cancel tasks that no node has been large enough for since `LOST_NODE_TIMEOUT`; their checkpoints stay."""
        lost = [slot for slot in self.slots if slot.task is not None and slot.job and not self.can_place(slot.job)]
        if not lost:
            self.last_fit_at = time.monotonic()
        for slot in lost if time.monotonic() - self.last_fit_at > LOST_NODE_TIMEOUT else ():
            assert slot.job is not None
            self.ray.cancel(slot.task, force=True)
            shortage = self.describe_shortage(slot.job)
            slot.failure = "killed", f"its node is gone and no other is large enough: {shortage}"
            self.release(slot, None)

    def _start_run_store(self, folder: Path) -> Any:
        """Start the actor that stores run directories: on this machine, restarted when it dies."""
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        here = NodeAffinitySchedulingStrategy(self.ray.get_runtime_context().get_node_id(), soft=False)
        options = {"num_cpus": 0, "max_restarts": -1, "max_task_retries": -1, "scheduling_strategy": here}
        return self.ray.remote(RunStore).options(**options).remote(str(folder.resolve()))


def thread_count(job: Job) -> int:
    """Number of cores that a job needs.

    Args:
        job: the job.
    """
    return max(1, job.recipe.budget.threads)


def runs_per_node(node: NodeResources, threads: int, gpus: float) -> int:
    """How many runs a node can take at once.

    Args:
        node: cores and GPUs of the node.
        threads: cores of each run.
        gpus: GPUs of each run.

    >>> runs_per_node((16, 4), 1, 0.25), runs_per_node((16, 4), 8, 1), runs_per_node((1, 0), 2, 0), runs_per_node((64, 0), 1, 0.5)
    (16, 2, 0, 0)
    """
    cores, node_gpus = node
    return int(min(cores / threads, node_gpus / gpus if gpus else math.inf) + 1e-9)
