"""The maximum number of runs of a sweep."""

from __future__ import annotations

import pytest

from unbraid.core.errors import UnbraidError
from unbraid.sweeps.planning import cost_estimate
from unbraid.sweeps.planning.plan import build_plan
from unbraid.sweeps.planning.sweep_file import Sweep


@pytest.mark.parametrize(
    "sections",
    [
        {"seeds": 10**30},
        {"seeds": 400, "grid": {"objective.beta": list(range(400))}},
        {"random": {"count": 10**12, "objective.beta": [1, 2]}},
        {"grid": {f"objective.x{i}": [1, 2, 3] * 20 for i in range(12)}},
    ],
    ids=["seeds", "seeds and grid", "random", "grid"],
)
def test_too_many_runs_are_an_error_before_any_is_made(sections):
    with pytest.raises(UnbraidError, match="a sweep has too many runs: found .*at most 100,000"):
        Sweep.of({"recipe": "beta_vae_2dshapes", **sections}).runs()


def test_points_with_the_same_parts_are_built_once_and_each_is_checked(tmp_path, monkeypatch):
    from unbraid.runs.building import builders

    built = []
    monkeypatch.setattr(cost_estimate, "measure_step_seconds", lambda parts: 0.5)
    build = builders.build_parts
    monkeypatch.setattr(builders, "build_parts", lambda recipe, data: built.append(recipe) or build(recipe, data))
    grid = {"objective.beta": list(range(1, 51)), "latent": [4, 5]}
    base = {"recipe": "beta_tcvae_sprites32", "seeds": 3}
    plan = build_plan(Sweep.of({**base, "grid": grid}), tmp_path)
    cost = cost_estimate.estimate_cost(plan, {}, lambda note: None)
    assert len(plan.jobs) == 300
    assert len(built) == 2
    assert cost.unbuildable == {}
    each = [
        cost_estimate._disk_bytes(build(job.recipe, None), job)
        for job in plan.jobs
        if job.recipe.objective["beta"] == 1
    ]
    assert cost.disk_bytes == 50 * sum(each)
    assert cost.seconds == sum(0.5 * job.recipe.budget.steps for job in plan.jobs)
    wrong = build_plan(Sweep.of({**base, "grid": {"objective.beta": [1, "x", 3]}}), tmp_path)
    assert len(cost_estimate.estimate_cost(wrong, {}, lambda note: None).unbuildable) == 3
