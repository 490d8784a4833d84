"""Every optimiser, with a moving rate, decay, clipping and accumulation: resumed it ends in the same bits."""

from __future__ import annotations

import pytest
import torch

from tests.toys import toy_data
from unbraid import Recipe, UnbraidError, fit
from unbraid.runs.building.builders import build_parts, build_trainer
from unbraid.runs.fitting.optimisers import OPTIMISERS
from unbraid.runs.fitting.trainer import seed_step
from unbraid.runs.folder.file_names import CHECKPOINT_FILE, LEDGER_FILE, MODEL_FILE
from unbraid.runs.recipe import Budget

WARM_UP = {"schedule": "warm_up", "steps": 3, "then": {"schedule": "cosine", "start": 1e-2, "stop": 1e-3, "steps": 5}}
BUDGET = {"steps": 6, "batch": 16, "log_every": 1, "threads": 1}
FACTOR_VAE = {"name": "factor_vae", "gamma": 2, "critic": {"width": 8, "depth": 1}}


def recipe(objective: object = "vae", **budget: object) -> Recipe:
    return Recipe(data="toy", latent=2, nets="decomposition_table1b", objective=objective, budget={**BUDGET, **budget})


def result_bytes(run: object) -> list[bytes]:
    return [(run.path / name).read_bytes() for name in (MODEL_FILE, CHECKPOINT_FILE, LEDGER_FILE)]


def test_recipes_name_every_optimiser():
    assert set(Budget.model_fields["optimiser"].annotation.__args__) == set(OPTIMISERS)


@pytest.mark.parametrize("name", OPTIMISERS)
def test_every_optimiser_resumes_to_the_same_bits(name, tmp_path):
    how = {"optimiser": name, "lr": WARM_UP, "weight_decay": 0.01, "clip": 1.0, "accumulate": 2}
    whole = fit(recipe(FACTOR_VAE, **how), tmp_path / "whole", quiet=True, dataset=toy_data())
    fit(recipe(FACTOR_VAE, **how, steps=3), tmp_path / "parts", quiet=True, dataset=toy_data())
    parts = fit(recipe(FACTOR_VAE, **how), tmp_path / "parts", resume=True, quiet=True, dataset=toy_data())
    assert result_bytes(parts) == result_bytes(whole)
    rows = whole.ledger()
    assert [round(row["lr"], 6) for row in rows[:4]] == [0.003333, 0.006667, 0.01, 0.01]
    assert all(row["gradient"] > 0 for row in rows)
    assert all(0 <= row["nats"]["accuracy:ratio"] <= 1 for row in rows)


def test_each_option_changes_the_weights_and_the_hash(tmp_path):
    plain = fit(recipe(), tmp_path / "plain", quiet=True, dataset=toy_data())
    seen = [plain.model.decoder.state_dict()]
    options = [{"optimiser": name} for name in list(OPTIMISERS)[1:]]
    options[0] |= {"weight_decay": 0.1}  # without it AdamW is Adam
    options += [{"weight_decay": 0.1}, {"clip": 1e-2}, {"accumulate": 2}, {"lr": WARM_UP}]
    for k, option in enumerate(options):
        other = recipe(**option)
        assert other.hash != recipe().hash
        weights = fit(other, tmp_path / str(k), quiet=True, dataset=toy_data()).model.decoder.state_dict()
        assert not any(all(bool((old[key] == weights[key]).all()) for key in old) for old in seen), option
        seen.append(weights)


def test_the_gradient_of_a_step_is_the_mean_over_its_batches():
    """Plain gradient descent: the step over two batches goes the mean of the ways of the two, under the same noise."""
    how = {"optimiser": "sgd", "lr": 1e-2, "betas": (0.0, 0.9), "batch": 48}
    trainer = build_trainer(build_parts(recipe(accumulate=2, **how), toy_data()))
    before = [p.detach().clone() for p in trainer.parts.model.parameters()]
    ledger = trainer.step(0)
    moved = [(p.detach() - old) for p, old in zip(trainer.parts.model.parameters(), before, strict=True)]
    again = build_trainer(build_parts(recipe(accumulate=1, **how), toy_data()))
    seed_step(again.device, 0, 0)
    draws = [again.parts.model.draw(again.batches(turn), 96) for turn in range(2)]
    losses = [again.parts.objective(draw, 0, {}, again.prices).loss for draw in draws]
    torch.stack(losses).mean().backward()
    assert torch.isclose(ledger.loss, torch.stack(losses).mean())
    for way, p in zip(moved, again.parts.model.parameters(), strict=True):
        torch.testing.assert_close(way, -1e-2 * p.grad, atol=1e-6, rtol=1e-4)


@pytest.mark.parametrize(
    ("budget", "why"),
    [
        ({"lr": {"schedule": "cosine", "start": 20, "stop": 0, "steps": 5}}, "rate greater than 0"),
        ({"lr": 0}, "rate greater than 0"),
        ({"lr": {"schedule": "free_bits", "floor": 1}}, "rate greater than 0"),
        ({"optimiser": "adamm"}, "budget.optimiser"),
        ({"optimiser": "sgd", "amsgrad": True}, "amsgrad is a variant of adam"),
        ({"patience": 2}, "need validate_every"),
        ({"clip": -1}, "budget.clip"),
    ],
)
def test_budgets_that_mean_nothing_are_refused(budget, why):
    with pytest.raises(UnbraidError, match=why):
        recipe(**budget)
