"""The driver of a Ray cluster, with a fake Ray: which runs fit which node, and nodes that are lost."""

from __future__ import annotations

from dataclasses import asdict

import pytest

from unbraid.core.errors import UnbraidError
from unbraid.runs.recipe import Recipe
from unbraid.sweeps.clusters import ray_driver
from unbraid.sweeps.clusters.ray_driver import RayWorkerPool
from unbraid.sweeps.engine.job_results import DONE, JobResult
from unbraid.sweeps.engine.scheduler import run_plan
from unbraid.sweeps.planning.plan import Plan, build_jobs


class FakeRay:
    """A cluster of some nodes. A task is a number; while `stuck`, none ends."""

    class exceptions:
        RayError = RuntimeError

    def __init__(self, *nodes):
        self.found = [{"Alive": True, "Resources": {"CPU": float(c), "GPU": float(g)}} for c, g in nodes]
        self.requests, self.max_tasks, self.stuck, self.cancelled = {}, 0, False, []

    def nodes(self):
        return self.found

    def wait(self, tasks, num_returns=1, timeout=None):
        self.max_tasks = max(self.max_tasks, len(tasks))
        return ([], tasks) if self.stuck else (tasks[:1], tasks[1:])

    def get(self, task):
        return {"outcome": asdict(JobResult(DONE, hash=self.requests[task]["job"]["hash"]))}

    def cancel(self, task, force=False):
        self.cancelled.append(task)

    def shutdown(self):
        self.found = []


@pytest.fixture
def make_cluster(monkeypatch):
    """Make a pool on a fake cluster."""

    def make(plan, *nodes, **options):
        ray = FakeRay(*nodes)
        monkeypatch.setattr(ray_driver, "connect_ray", lambda address, workers: ray)
        monkeypatch.setattr(RayWorkerPool, "_start_run_store", lambda self, folder: None)

        def start(self, request, threads):
            ray.requests[len(ray.requests)] = {**request, "threads": threads}
            return len(ray.requests) - 1

        monkeypatch.setattr(RayWorkerPool, "start_task", start)
        return RayWorkerPool(plan, **options), ray

    return make


def make_plan(folder, *threads):
    base = Recipe.load("decomposition_pinwheel")
    recipes = [base.set(f"seed={seed}", f"budget.threads={n}") for seed, n in enumerate(threads)]
    return Plan(folder, build_jobs(folder, recipes, [f"s{r.seed}" for r in recipes]))


def test_a_run_that_fits_no_node_is_refused_with_a_reason(make_cluster, tmp_path):
    pool, ray = make_cluster(make_plan(tmp_path, 1, 4, 2), (2, 0), (2, 0))
    ended = list(run_plan(make_plan(tmp_path, 1, 4, 2), pool).values())
    assert [o.status for o in ended] == ["done", "failed", "done"]
    assert ended[1].kind == "refused"
    assert "it needs 4 cores (budget.threads), and the largest of 2 nodes has 2 cores and 0 GPUs" in ended[1].reason
    assert sorted(g["threads"] for g in ray.requests.values()) == [1, 2]


def test_no_run_that_fits_is_an_error_before_any_work(make_cluster, tmp_path):
    with pytest.raises(
        UnbraidError, match="no node of the cluster is large enough for a run: found s0.*needs 1 cores.* and 1 GPUs"
    ):
        make_cluster(make_plan(tmp_path, 1), (8, 0), (0, 0.5), gpus=1.0)
    assert not list(tmp_path.glob(".ray-*"))
    with pytest.raises(UnbraidError, match="a fraction of one GPU, or whole ones: found --gpus 1.5"):
        make_cluster(make_plan(tmp_path, 1), (8, 8), gpus=1.5)


@pytest.mark.parametrize(
    ("nodes", "threads", "gpus", "capacity"),
    [([(4, 0), (4, 0)], 2, 0.0, 4), ([(3, 0), (3, 0)], 2, 0.0, 2), ([(9, 1), (9, 1)], 1, 0.6, 2), ([(9, 1), (9, 0)], 1, 0.25, 4)],
)  # fmt: skip
def test_as_many_runs_at_once_as_the_nodes_can_take(make_cluster, tmp_path, nodes, threads, gpus, capacity):
    plan = make_plan(tmp_path, *[threads] * 6)
    pool, ray = make_cluster(plan, *nodes, gpus=gpus)
    assert pool.capacity() == capacity
    assert all(o.done for o in run_plan(plan, pool).values())
    assert ray.max_tasks == capacity


def test_a_run_whose_only_node_is_lost_fails_after_a_timeout(make_cluster, tmp_path, monkeypatch):
    monkeypatch.setattr(ray_driver, "NODE_POLL_SECONDS", 0.0)
    monkeypatch.setattr(ray_driver, "LOST_NODE_TIMEOUT", 0.05)
    plan = make_plan(tmp_path, 4)
    pool, ray = make_cluster(plan, (4, 0), (1, 0))
    ray.stuck = True
    pool.idle_workers(1)[0].assign(plan.jobs[0], plan, 1)
    pool.poll(0)
    assert not ray.cancelled
    ray.found[0]["Alive"] = False
    [outcome] = run_plan(plan, pool).values()
    assert ray.cancelled
    assert outcome.kind == "killed"
    assert "its node is gone and no other is large enough: it needs 4 cores" in outcome.reason
