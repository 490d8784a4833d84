"""The driver's side of a Ray cluster, with a stand-in for Ray: what fits which node, and nodes that are gone."""

from __future__ import annotations

import pytest

from unbraid.ground.errors import UnbraidError
from unbraid.runs.recipe import Recipe
from unbraid.sweeps import cluster
from unbraid.sweeps.cluster import Cluster
from unbraid.sweeps.outcomes import DONE, Outcome
from unbraid.sweeps.plan import Plan, jobs
from unbraid.sweeps.walk import walk


class Stub:
    """A cluster of some nodes. A task is its number; those in `stuck` never end."""

    class exceptions:
        RayError = RuntimeError

    def __init__(self, *nodes):
        self.found = [{"Alive": True, "Resources": {"CPU": float(c), "GPU": float(g)}} for c, g in nodes]
        self.given, self.most, self.stuck, self.cancelled = {}, 0, False, []

    def nodes(self):
        return self.found

    def wait(self, tasks, num_returns=1, timeout=None):
        self.most = max(self.most, len(tasks))
        return ([], tasks) if self.stuck else (tasks[:1], tasks[1:])

    def get(self, task):
        return {"outcome": Outcome(DONE, hash=self.given[task]["job"]["hash"]).plain()}

    def cancel(self, task, force=False):
        self.cancelled.append(task)

    def shutdown(self):
        self.found = []


@pytest.fixture
def on(monkeypatch):
    """A cluster of the stub's nodes."""

    def made(plan, *nodes, **options):
        ray = Stub(*nodes)
        monkeypatch.setattr(cluster, "connected", lambda address, workers: ray)
        monkeypatch.setattr(Cluster, "_desk", lambda self, folder: None)

        def start(self, asked, threads):
            ray.given[len(ray.given)] = {**asked, "threads": threads}
            return len(ray.given) - 1

        monkeypatch.setattr(Cluster, "start", start)
        return Cluster(plan, **options), ray

    return made


def asked(folder, *threads):
    base = Recipe.load("decomposition_pinwheel")
    recipes = [base.set(f"seed={seed}", f"budget.threads={n}") for seed, n in enumerate(threads)]
    return Plan(folder, jobs(folder, recipes, [f"s{r.seed}" for r in recipes]))


def test_a_run_that_fits_no_node_is_refused_with_a_reason(on, tmp_path):
    crew, ray = on(asked(tmp_path, 1, 4, 2), (2, 0), (2, 0))
    ended = list(walk(asked(tmp_path, 1, 4, 2), crew).values())
    assert [o.status for o in ended] == ["done", "failed", "done"]
    assert ended[1].kind == "refused"
    assert "it asks for 4 cores (budget.threads), and of 2 nodes the largest has 2 cores and 0 GPUs" in ended[1].reason
    assert sorted(g["threads"] for g in ray.given.values()) == [1, 2]


def test_no_run_that_fits_is_an_error_before_any_work(on, tmp_path):
    with pytest.raises(
        UnbraidError, match="no node of the cluster has room for a run: found s0.*asks for 1 cores.* and 1 GPUs"
    ):
        on(asked(tmp_path, 1), (8, 0), (0, 0.5), gpus=1.0)
    assert not list(tmp_path.glob(".ray-*"))
    with pytest.raises(UnbraidError, match="a share of one GPU, or whole ones: found --gpus 1.5"):
        on(asked(tmp_path, 1), (8, 8), gpus=1.5)


@pytest.mark.parametrize(
    ("nodes", "threads", "gpus", "most"),
    [([(4, 0), (4, 0)], 2, 0.0, 4), ([(3, 0), (3, 0)], 2, 0.0, 2), ([(9, 1), (9, 1)], 1, 0.6, 2), ([(9, 1), (9, 0)], 1, 0.25, 4)],
)  # fmt: skip
def test_as_many_run_at_once_as_the_nodes_have_room_for(on, tmp_path, nodes, threads, gpus, most):
    plan = asked(tmp_path, *[threads] * 6)
    crew, ray = on(plan, *nodes, gpus=gpus)
    assert crew.size() == most
    assert all(o.done for o in walk(plan, crew).values())
    assert ray.most == most


def test_a_run_whose_only_node_is_gone_is_given_up_after_a_while(on, tmp_path, monkeypatch):
    monkeypatch.setattr(cluster, "GROW", 0.0)
    monkeypatch.setattr(cluster, "LOST", 0.05)
    plan = asked(tmp_path, 4)
    crew, ray = on(plan, (4, 0), (1, 0))
    ray.stuck = True
    crew.idle(1)[0].give(plan.jobs[0], plan, 1)
    crew.hear(0)
    assert not ray.cancelled
    ray.found[0]["Alive"] = False
    [outcome] = walk(plan, crew).values()
    assert ray.cancelled
    assert outcome.kind == "killed"
    assert "its node is gone and no other has room for it: it asks for 4 cores" in outcome.reason
