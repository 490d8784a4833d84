"""What docs/make/planning.py reckons: a step is a median, equal work is checked to cost alike, and what a disk must carry."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from unbraid.runs.recipe import Recipe

sys.path.insert(0, str(Path(__file__).parents[2] / "docs" / "make"))
import planning

SAME_SETTINGS = ["sprites32", "mlp", "gaussian", 64]


def kind_times(vae: float, beta_vae: float) -> dict:
    return {json.dumps([name, *SAME_SETTINGS]): {"seconds": s} for name, s in (("vae", vae), ("beta_vae", beta_vae))}


def test_a_step_is_the_median_of_five_after_those_that_warm_up(monkeypatch):
    now, spent, done = [0.0], [90, 90, 2, 1, 50, 3, 4], []
    monkeypatch.setattr(planning.time, "process_time", lambda: now[0])

    def step(number: int) -> None:
        done.append(number)
        now[0] += spent[number]

    assert planning.time_step(step) == 3
    assert done == list(range(7))


def test_short_steps_are_timed_for_a_second(monkeypatch):
    now, done = [0.0], []
    monkeypatch.setattr(planning.time, "process_time", lambda: now[0])

    def step(number: int) -> None:
        done.append(number)
        now[0] += 0.125

    assert planning.time_step(step) == 0.125
    assert len(done) == 2 + 8


def test_vae_and_beta_vae_of_one_net_must_agree_or_are_measured_again(monkeypatch):
    assert planning.inconsistent_pairs(kind_times(1.0, 1.1)) == []
    [(vae, beta_vae, ratio)] = planning.inconsistent_pairs(kind_times(1.0, 2.2))
    assert (json.loads(vae)[0], json.loads(beta_vae)[0]) == ("vae", "beta_vae")
    assert ratio == pytest.approx(2.2)
    runs = [Recipe(data="sprites32", latent=2, nets="mlp", objective=name) for name in ("vae", "beta_vae")]
    monkeypatch.setattr(planning, "paper_runs", lambda: [("study", run) for run in runs])
    monkeypatch.setattr(planning, "measure_kind", lambda recipe: {"seconds": 1.0})
    found = {planning.recipe_kind(run): {"seconds": s} for run, s in zip(runs, (1.0, 2.2), strict=True)}
    assert planning.inconsistent_pairs(found)
    planning.remeasure_inconsistent(found)
    assert not planning.inconsistent_pairs(found)


def test_what_a_run_writes():
    budget = {"steps": 10_000, "checkpoint_every": 1000, "log_every": 100}
    run = Recipe(data="sprites32", latent=2, nets="mlp", budget=budget)
    found = {"checkpoint": 6e6, "bytes": 70e6}
    fast = planning.disk_writes(run, found, 0.01, 10)
    assert fast == {"seconds": 100.0, "bytes": 10 * 6e6 + 70e6, "files": 30, "rows": 100}
    clock = planning.disk_writes(run, found, 0.01, 10, by_clock=True)
    assert clock["bytes"] == pytest.approx(6e6 / 3 + 70e6)  # 100 seconds of 5 minutes
    slow = planning.disk_writes(run, found, 3.0, 10)
    assert slow["files"] == pytest.approx(2 * 100 + 10)  # every 5 minutes of 30,000 s
