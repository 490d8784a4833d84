"""Snapshots: their steps, the same bits after a resume, and their scores."""

from __future__ import annotations

import numpy as np
import pytest
from typer.testing import CliRunner

from tests.toys import toy_data
from unbraid import Recipe, Run, UnbraidError, encode, fit, score
from unbraid.cli import app
from unbraid.runs.evaluation.snapshot_scores import score_series, score_snapshots
from unbraid.runs.folder.file_names import BACKUP_FOLDER, CODES_FILE
from unbraid.runs.folder.snapshots import snapshot_path

BUDGET = {"steps": 6, "batch": 16, "log_every": 2, "threads": 1}


def tiny_recipe(objective: object = "vae", **budget: object) -> Recipe:
    return Recipe(data="toy", latent=2, nets="decomposition_table1b", objective=objective, budget={**BUDGET, **budget})


def test_snapshots_are_the_weights_of_a_run_that_ended_there(tmp_path):
    run = fit(tiny_recipe(snapshots=[0, 2, 6]), tmp_path / "a", quiet=True, dataset=toy_data())
    short = fit(tiny_recipe(steps=2), tmp_path / "b", quiet=True, dataset=toy_data())
    assert run.snapshots == (0, 2, 6)
    for key, tensor in short.model.state_dict().items():
        assert (run.at(2).model.state_dict()[key] == tensor).all(), key
        assert (run.at(6).model.state_dict()[key] == run.model.state_dict()[key]).all(), key
    assert [row["step"] for row in run.at(2).ledger()] == [0]
    with pytest.raises(UnbraidError, match="has no snapshot of step 3"):
        run.at(3)
    codes = run.at(0).codes()
    assert not np.array_equal(codes.mean, encode(run, quiet=True).mean)  # and codes.npz holds those of the end
    assert np.array_equal(run.at(0).codes().mean, codes.mean)
    assert np.array_equal(Run.load(run.path).codes().mean, encode(run, save=False, quiet=True).mean)
    early = score(run.at(0), metrics="mig", quiet=True)
    assert early["mig"].value != score(run, metrics="mig", quiet=True)["mig"].value


def test_a_resumed_run_has_the_same_snapshots_and_stale_ones_go(tmp_path):
    whole = fit(tiny_recipe(snapshots=4), tmp_path / "whole", quiet=True, dataset=toy_data())
    path = tmp_path / "parts"
    fit(tiny_recipe(steps=3, snapshots=[0, 2, 3]), path, quiet=True, dataset=toy_data())
    snapshot_path(path, 5).write_bytes(b"of a later step that a crash took back")
    run = fit(tiny_recipe(snapshots=4), path, resume=True, quiet=True, dataset=toy_data())
    assert whole.snapshots == (0, 2, 4, 6)
    assert run.snapshots == (0, 2, 3, 4, 6)
    for step in whole.snapshots:
        assert snapshot_path(path, step).read_bytes() == snapshot_path(whole.path, step).read_bytes()


def test_an_overwritten_run_keeps_its_snapshots_until_the_new_one_is_done(tmp_path, monkeypatch):
    run = fit(tiny_recipe(snapshots=2), tmp_path / "a", quiet=True, dataset=toy_data())
    kept = snapshot_path(run.path, 6).read_bytes()

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("unbraid.runs.fitting.training.run_training_loop", stop)
    with pytest.raises(KeyboardInterrupt):
        fit(tiny_recipe(snapshots=0), run.path, force=True, quiet=True, dataset=toy_data())
    assert run.snapshots == ()
    assert snapshot_path(run.path / BACKUP_FOLDER, 6).read_bytes() == kept


def test_recipes_refuse_snapshots_that_are_never_taken():
    assert tiny_recipe(snapshots=4).hash == tiny_recipe().hash
    for wrong, why in ((-1, "number of snapshots"), ([7], "after the last of 6 steps"), (True, "not true or false")):
        with pytest.raises(UnbraidError, match=why):
            tiny_recipe(snapshots=wrong)


def test_over_training_gives_one_row_per_snapshot(tmp_path):
    recipe = Recipe(data={"name": "sprites32", "subsample": 200}, latent=2, nets="decomposition_table1b", budget=BUDGET)
    run = fit(recipe.set("budget.snapshots=[0, 6]"), tmp_path / "a", quiet=True)
    found = score_snapshots(run, metrics="mig,dci", rows=64, quiet=True)
    points = score_series(found)
    assert {"mig", "dci", "elbo", "kl", "mi", "tc_q:root"} <= set(points)
    assert [step for step, _ in points["kl"]] == [0, 6]
    at_the_end = encode(run, save=False, quiet=True)
    assert points["mig"][1][1] == score(at_the_end, metrics="mig", quiet=True)["mig"].value
    assert points["reconstruction"][1][1] < points["reconstruction"][0][1]
    assert not (run.path / CODES_FILE).exists()
    shown = CliRunner().invoke(app, ["score", str(run.path), "--over-training", "--metrics", "mig"])
    assert shown.exit_code == 0, shown.output
    assert max(map(len, shown.output.split("written")[0].splitlines())) <= 80
    assert (run.path / "over_training.png").stat().st_size > 5000
    drawn = CliRunner().invoke(app, ["figure", "samples", str(run.path), "--at", "0", "--out", str(tmp_path / "a.png")])
    assert drawn.exit_code == 0, drawn.output
    none = fit(recipe, tmp_path / "b", quiet=True)
    with pytest.raises(UnbraidError, match="no snapshots"):
        score_snapshots(none, quiet=True)
