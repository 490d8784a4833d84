"""Run directories of version 0.1.0 still open, encode, decode, are audited and resume as before."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

import unbraid
from unbraid import Run

OLD_RUNS = Path(__file__).parents[1] / "data" / "runs_of_0_1"
RUNS = sorted(p.name for p in OLD_RUNS.iterdir())
FINISHED = [name for name in RUNS if (OLD_RUNS / name / "model.safetensors").is_file()]


@pytest.fixture
def old(request, tmp_path):
    """A copy of one old run."""
    return Path(shutil.copytree(OLD_RUNS / request.param, tmp_path / request.param))


def test_every_kind_is_kept():
    assert len(RUNS) >= 16
    assert len(FINISHED) == len(RUNS) - 1


@pytest.mark.parametrize("old", FINISHED, indirect=True)
def test_old_runs_encode_decode_and_sample_as_before(old):
    run = Run.load(old)
    assert run.state["status"] == "done"
    assert run.ledger()[-1]["nats"]
    if (old / "codes.npz").is_file():
        stored = run.codes()
        again = unbraid.encode(run, quiet=True)
        np.testing.assert_allclose(again.mean, stored.mean, atol=1e-5)
        np.testing.assert_allclose(again.kl, stored.kl, atol=1e-4)
        assert run.decode(stored.mean[:2]).shape == (2, *run.state["shape"])
    assert np.isfinite(run.sample(2)).all()


@pytest.mark.parametrize("old", FINISHED, indirect=True)
def test_old_recipes_train_to_the_old_weights(old, tmp_path):
    """The seed still means the same network: weights agree to rounding (to the bit on the machine that wrote them)."""
    run = Run.load(old)
    again = unbraid.fit(run.recipe, tmp_path / "again", quiet=True)
    weights, budget = run.model.state_dict(), run.recipe.budget
    for name, tensor in weights.items():
        # what a batch norm takes away has a gradient of rounding alone, of which Adam makes whole steps, others on each processor
        most = 2 * budget.steps * float(budget.lr) if _depends_on_removed_bias(name, weights) else 2e-4
        np.testing.assert_allclose(again.model.state_dict()[name].numpy(), tensor.numpy(), atol=most, err_msg=name)


def _depends_on_removed_bias(name: str, weights: dict) -> bool:
    """Whether a weight is a bias before a batch norm, or the mean of one, which follows that bias."""
    layer, _, kind = name.rpartition(".")
    head, _, number = layer.rpartition(".")
    after = f"{head}.{int(number) + 1}.running_mean" if number.isdigit() else ""
    return kind == "running_mean" or (kind == "bias" and after in weights)


@pytest.mark.parametrize("old", ["stopped", "factor_vae", "tcvae_bank", "dip_vae_ii", "hfvae_discrete"], indirect=True)
def test_old_checkpoints_resume(old):
    finished = unbraid.fit(Run.load(old).recipe, old, resume=True, force=True, quiet=True)
    assert finished.state["status"] == "done"
    assert [row["step"] for row in finished.ledger()] == [0, 2, 4, 5]


@pytest.mark.parametrize("old", ["vae", "hfvae_discrete", "full_posterior"], indirect=True)
def test_old_runs_are_audited_and_reported(old):
    run = Run.load(old)
    ledger = unbraid.audit(run, quiet=True)
    assert abs(ledger["balance"]) < 1e-5
    unbraid.report(run)
    assert "mig" in (old / "report.html").read_text()
