"""Validation, early stopping and callbacks: none of them changes a bit of the training."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from tests.toys import toy_data
from unbraid import Recipe, Run, UnbraidError, fit, score
from unbraid.core.errors import TrainingInterrupted
from unbraid.runs.fitting.validation import EarlyStopping
from unbraid.runs.folder.file_names import BEST_FILE, CHECKPOINT_FILE, LEDGER_FILE, MODEL_FILE
from unbraid.runs.folder.snapshots import SNAPSHOT_FOLDER
from unbraid.sweeps.display.live_display import _read_progress

FACTOR_VAE = {"name": "factor_vae", "gamma": 2, "critic": {"width": 8, "depth": 1}}
DIP_VAE = {"name": "dip_vae_ii", "rho": 0.3}
MEMORY_BANK = {"name": "beta_tcvae", "estimator": "memory_bank(32)"}


def recipe(objective: object = "vae", **budget: object) -> Recipe:
    full = {"steps": 6, "batch": 16, "log_every": 3, "threads": 1, **budget}
    return Recipe(data="toy", latent=2, nets="decomposition_table1b", objective=objective, budget=full)


def train(path, objective="vae", callbacks=(), resume=False, **budget):
    held = toy_data(40, seed=1) if budget.get("validate_every") else None
    options = {"quiet": True, "dataset": toy_data(), "validation": held, "callbacks": callbacks, "resume": resume}
    return fit(recipe(objective, **budget), path, **options)


class NoisyCallback:
    """A callback that draws random numbers in every method, and records its events."""

    def __init__(self, stop: int = 0):
        self.stop, self.events = stop, []

    def _record(self, event, step, about):
        torch.rand(7), np.random.rand(3), torch.manual_seed(step)  # noqa: NPY002
        self.events.append((event, step, about))
        return event == "stepped" and step == self.stop

    def started(self, path, recipe, step):
        return self._record("started", step, recipe["name"])

    def stepped(self, step, row):
        return self._record("stepped", step, row and row["step"])

    def validated(self, step, row):
        return self._record("validated", step, row["loss"])

    def saved(self, step, path):
        return self._record("saved", step, path.name)

    def finished(self, step, path):
        return self._record("finished", step, path.name)


@pytest.mark.parametrize("objective", [FACTOR_VAE, DIP_VAE, MEMORY_BANK])
def test_validation_snapshots_and_callbacks_change_no_bit_of_training(objective, tmp_path):
    plain = train(tmp_path / "plain", objective)
    hears = NoisyCallback()
    with_all = train(
        tmp_path / "all", objective, [hears], validate_every=2, snapshots=3, best=True, validate_metrics=["mig"]
    )
    for key, tensor in plain.model.state_dict().items():
        assert (with_all.model.state_dict()[key] == tensor).all(), key
    assert with_all.ledger() == plain.ledger()
    rows = with_all.validations()
    assert [row["step"] for row in rows] == [1, 3, 5]
    assert all({"reconstruction", "kl"} <= set(row["nats"]) and "mig" in row["scores"] for row in rows)
    assert rows[0]["images"] == 32  # whole batches of the 40
    assert [heard[:2] for heard in hears.events if heard[0] != "saved"] == [
        ("started", 0), ("stepped", 1), ("stepped", 2), ("validated", 2), ("stepped", 3), ("stepped", 4), ("validated", 4),
        ("stepped", 5), ("stepped", 6), ("validated", 6), ("finished", 6),
    ]  # fmt: skip
    assert {("saved", 0, "0000000000.safetensors"), ("saved", 2, BEST_FILE)} <= set(hears.events)
    assert recipe(objective, validate_every=2).hash == recipe(objective).hash
    assert _read_progress(with_all.path)[0] == 6
    best = min(rows, key=lambda row: row["loss"])
    assert Run.load(with_all.path, dataset=toy_data()).best().model.temperature
    kept = with_all.best().model.state_dict()
    assert all((kept[k] == t).all() for k, t in with_all.at(6).model.state_dict().items()) == (best["step"] == 5)


def test_validations_resume_to_the_same_ledger_and_best(tmp_path):
    how = {"validate_every": 2, "best": True, "snapshots": [2]}
    whole = train(tmp_path / "whole", **how)
    with pytest.raises(TrainingInterrupted, match="stopped by NoisyCallback after step 3 of 6"):
        train(tmp_path / "parts", callbacks=[NoisyCallback(stop=3)], **how)
    assert Run.load(tmp_path / "parts").state["status"] == "stopped"
    parts = train(tmp_path / "parts", resume=True, **how)
    for name in (MODEL_FILE, CHECKPOINT_FILE, LEDGER_FILE, BEST_FILE, f"{SNAPSHOT_FOLDER}/0000000002.safetensors"):
        assert (parts.path / name).read_bytes() == (whole.path / name).read_bytes(), name


def test_a_run_ends_early_when_validation_no_longer_gets_better(tmp_path, monkeypatch):
    losses = {1: 5.0, 3: 4.0, 5: 4.5, 7: 4.25, 9: 1.0}
    row = {"validation": True, "nats": {}, "prices": {}}
    monkeypatch.setattr("unbraid.runs.fitting.trainer.validate", lambda t, d, n: {"step": n, **row, "loss": losses[n]})
    how = {"steps": 10, "validate_every": 2, "patience": 2, "best": True}
    run = train(tmp_path / "a", **how)
    assert (run.state["status"], run.state["step"]) == ("done", 8)
    assert [r["loss"] for r in run.validations()] == [5.0, 4.0, 4.5, 4.25]
    before = (run.path / CHECKPOINT_FILE).read_bytes()
    assert train(tmp_path / "a", resume=True, **{**how, "steps": 12}).state["step"] == 8  # it would end there too
    assert (run.path / CHECKPOINT_FILE).read_bytes() == before
    with pytest.raises(TrainingInterrupted):
        train(tmp_path / "b", callbacks=[NoisyCallback(stop=7)], **how)
    again = train(tmp_path / "b", resume=True, **how)
    for name in (MODEL_FILE, LEDGER_FILE, BEST_FILE):
        assert (again.path / name).read_bytes() == (run.path / name).read_bytes()
    assert recipe(**how).hash != recipe(**{**how, "validate_every": 1}).hash


def test_the_loss_of_a_validation_is_at_the_final_prices_and_with_the_same_noise(tmp_path):
    rising = {"name": "beta_vae", "beta": {"schedule": "linear", "start": 0, "stop": 4, "steps": 100}}
    run = train(tmp_path / "a", rising, validate_every=1, lr=1e-9, steps=2)
    first, second = run.validations()
    assert first["prices"]["kl"] == 4
    assert abs(first["loss"] - (first["nats"]["reconstruction"] + 4 * first["nats"]["kl"])) < 1e-4
    assert abs(first["loss"] - second["loss"]) < 1e-3  # weights hardly move, noise not at all


def test_what_cannot_be_validated_is_refused_before_work(tmp_path):
    every = {"validate_every": 2}
    with pytest.raises(UnbraidError, match="data in memory have no test split"):
        fit(recipe(**every), tmp_path / "a", quiet=True, dataset=toy_data())
    whole = Recipe(data="sprites32", nets="small32", budget={**every, "steps": 2})
    with pytest.raises(UnbraidError, match="outside of the training data: found data.split = 'all'"):
        fit(whole, tmp_path / "a", quiet=True)
    game = whole.set('data={name="sprites32", split="train"}', "objective.name=info_gan", "nets.name=conv")
    with pytest.raises(UnbraidError, match="trained by Adam at a constant"):
        fit(game, tmp_path / "a", quiet=True)
    with pytest.raises(UnbraidError, match="one of these methods"):
        fit(whole, tmp_path / "a", quiet=True, callbacks=[print])
    with pytest.raises(UnbraidError, match="do not score codes of one run"):
        train(tmp_path / "a", validate_metrics=["mig", "udr"], **every)
    assert not (tmp_path / "a").exists()


def test_all_metrics_of_images_without_labels_are_those_of_codes(tmp_path):
    held = replace(toy_data(40, seed=1), factors=None, table=None)
    chosen = recipe(validate_every=3, validate_metrics=["all"])
    run = fit(chosen, tmp_path / "run", quiet=True, dataset=toy_data(), validation=held)
    scores = run.validations()[-1]["scores"]
    assert "active_units" in scores
    assert "mig" not in scores


def test_the_test_split_of_a_named_set_is_used(tmp_path):
    split = {"name": "sprites32", "split": "train", "test": 0.01}
    tiny = Recipe(
        data=split, latent=2, nets="decomposition_table1b", budget={"steps": 1, "validate_every": 1, "batch": 16}
    )
    run = fit(tiny, tmp_path / "a", quiet=True)
    (row,) = run.validations()
    assert row["images"] == 32  # 46 are held out
    assert json.loads((run.path / LEDGER_FILE).read_text().splitlines()[-1])["validation"] is True


def test_early_stopping_counts_validations_without_improvement():
    early_stopping = EarlyStopping()
    assert [early_stopping.update({"step": s, "loss": x}) for s, x in enumerate((3.0, 2.0, 2.0, 2.5))] == [
        True,
        True,
        False,
        False,
    ]
    assert (early_stopping.best_loss, early_stopping.checks_since_best) == (2.0, 2)
    assert early_stopping.update({"step": 9}) is False  # a loss that was not finite has none


def test_other_weights_state_their_step_and_have_no_scores(tmp_path):
    run = train(tmp_path / "run", validate_every=2, best=True, snapshots=[2])
    step = min(run.validations(), key=lambda row: row["loss"])["step"] + 1
    best = run.best()
    assert (best.state["step"], best.state["weights"]) == (step, "best.safetensors")
    assert f"weights  those of the best validation, after step {step}" in repr(best)
    assert run.at(2).state["step"] == 2
    assert "weights  a snapshot, after step 2" in repr(run.at(2))
    assert "weights" not in run.state
    assert run.scores() is None
    made = score(run, metrics="mig", quiet=True)
    assert run.scores()["mig"].value == made["mig"].value
    assert best.scores() is None
    assert run.at(2).scores() is None


def test_a_metric_that_fails_ends_no_training_and_is_named(tmp_path, monkeypatch):
    from unbraid.metrics import METRICS, Metric

    def failing(codes, factors=None, **inputs):
        return codes.nothing

    monkeypatch.setitem(METRICS, "failing", Metric(failing, "nothing", needs="codes"))
    with pytest.warns(UserWarning, match="validation without failing"):
        run = train(tmp_path / "run", validate_every=3, validate_metrics=["failing", "mig"])
    rows = [json.loads(line) for line in (run.path / LEDGER_FILE).read_text().splitlines()]
    assert all(row["scores"].keys() == {"mig"} for row in rows if row.get("validation"))
