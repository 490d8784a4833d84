"""Every objective of the table: it improves, moves what it should, resumes to the same bits, and ignores row order."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

import unbraid.runs.building.supervision as supervision_module
import unbraid.runs.fitting.trainer as trainer_module
from unbraid.core.errors import UnbraidError
from unbraid.core.tensor_files import read_tensors
from unbraid.data.batches import fetch_batch
from unbraid.data.dataset import Dataset, Pixels
from unbraid.data.factors import Factors
from unbraid.model.draw import Draw
from unbraid.objectives import OBJECTIVES, ROWS, build
from unbraid.runs.building.builders import build_parts
from unbraid.runs.building.builders import build_trainer as prepare_any
from unbraid.runs.fitting.seeding import default_float32
from unbraid.runs.fitting.trainer import build_trainer, draw_batch, step
from unbraid.runs.fitting.training import fit
from unbraid.runs.recipe import Recipe

SMALL_CRITIC = {"width": 32, "depth": 2, "lr": 1e-3}
LEARNED_MIXTURE = {"name": "mixture", "means": 2, "variance": 1.0, "learned": True}
TABLES = ("latent", "prior", "supervision")
TWO_BRANCHES = {"a": 2, "b": {"x": 1, "y": 1}}
CASES = {
    "beta_svae": {"latent": {"kind": "onehot(3)", "style": 3}},
    "beta_svae masses": {"latent": {"kind": "onehot(3)", "bit": "binary(2)", "style": 2}, "masses": True},
    "free_bits_vae": {"floor": 0.2},
    "annealed_vae": {"gamma": 10.0, "capacity": 5.0, "steps": 20},
    "factor_vae": {"critic": SMALL_CRITIC, "gamma": 4.0},
    "factor_vae_prior": {"critic": SMALL_CRITIC, "gamma": 4.0},
    "aae": {"critic": SMALL_CRITIC},
    "aae adversary": {"critic": SMALL_CRITIC, "by": "adversary"},
    "hfvae": {"latent": TWO_BRANCHES},
    "hfvae bank": {"latent": TWO_BRANCHES, "estimator": "memory_bank(100)"},
    "beta_tcvae": {"latent": TWO_BRANCHES},
    "dip_vae_i": {"rho": 0.5},
    "isa_vae": {"latent": TWO_BRANCHES, "prior": "isa"},
    "isa_tcvae": {"latent": TWO_BRANCHES, "prior": "isa"},
    "anchor_vae": {"latent": TWO_BRANCHES, "anchors": "a", "lambda": 0.5},
    "decomposition": {"alpha": 2.0},
    "decomposition rbf": {"divergence": "mmd_rbf"},
    "decomposition inclusive": {"divergence": "inclusive_kl"},
    "decomposition exclusive": {"divergence": "exclusive_kl"},
    "decomposition ratio": {"divergence": "ratio", "critic": SMALL_CRITIC},
    "decomposition adversary": {"divergence": "adversary", "critic": SMALL_CRITIC},
    "gvae": {"supervision": {"pairs": {"k": 1}}},
    "ml_vae": {"supervision": {"pairs": {"k": 1, "group": 3, "n": 64}}, "shared": ["z0", "z1"]},
    "ml_vae product": {"supervision": {"pairs": {"k": 2}}, "tie": "product"},
    "ada_gvae": {"supervision": {"pairs": {"k": 0}}},
    "ada_gvae mixed": {"latent": {"kind": "onehot(3)", "style": 3}, "supervision": {"pairs": {"k": 1}}},
    "ada_ml_vae": {"supervision": {"pairs": {"source": "frames"}}},
    "slow_vae": {"supervision": {"pairs": {"source": "frames", "gap": 2}}},
    "s2_beta_vae": {"supervision": {"labels": {"n": 40}}},
    "s2_beta_vae embed": {"supervision": {"labels": {"n": 40, "batch": 8}}, "loss": "embed"},
    "s2_beta_vae cov": {"supervision": {"labels": {"missing": 0.5}}, "loss": "cov"},
    "s2_beta_vae match": {"supervision": {"labels": {"leaves": "match"}}, "loss": "l2"},
    "s2_factor_vae": {"supervision": {"labels": {"n": 40}}, "critic": SMALL_CRITIC, "gamma": 4.0},
    "s2_beta_tcvae": {"supervision": {"labels": {"n": 40}}},
    "s2_dip_vae": {"supervision": {"labels": {"n": 40}}},
    "i_vae": {"supervision": {"given": {"factors": ["size"]}}, "prior": LEARNED_MIXTURE},
    "i_vae encoder": {"supervision": {"given": {"time": 2, "encoder": True}}, "prior": LEARNED_MIXTURE},
    "i_vae real": {"supervision": {"given": {"factors": ["x"]}}, "prior": {"name": "given_gaussian", "anchors": 8}},
    "i_vae real encoder": {
        "supervision": {"given": {"time": 96, "encoder": True}},
        "prior": {"name": "given_gaussian", "anchors": 8},
    },
    "beta_tcvae tied": {"supervision": {"pairs": {"k": 1}, "tie": "group", "labels": {"n": 40}}},
    "row": {"prices": {"mi": 1.0, "tc:root": 3.0, "tc": 2.0, "dw": 1.0}, "latent": TWO_BRANCHES},
}
for _name in ROWS:
    CASES.setdefault(_name, {})
ORDER_DEPENDENT = {"mss"}  # its weights depend on who stands next to whom in the batch


@pytest.fixture(autouse=True)
def _one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def blob_images(n: int = 96) -> Dataset:
    """8×8 images of a bright square that moves and grows."""
    generator = np.random.default_rng(0)
    images = np.zeros((n, 1, 8, 8), np.uint8)
    labels = generator.integers([0, 0, 2], [5, 5, 4], (n, 3))
    for image, (x, y, s) in zip(images, labels, strict=True):
        image[0, y : y + s, x : x + s] = 255
    return Dataset("blobs", Pixels(images), Factors.of({"x": 5, "y": 5, "size": 2}, grid=False), labels - [0, 0, 2])


def recipe(case: str, steps: int = 12) -> Recipe:
    options = dict(CASES[case])
    tables = {key: options.pop(key) for key in TABLES if key in options}
    return Recipe(
        data="blobs",
        **({"latent": 4} | tables),
        nets="mlp",
        objective={"name": case.split()[0], **options},
        budget={"steps": steps, "batch": 32, "log_every": 1, "lr": 2e-3, "threads": 1, "device": "cpu"},
    )


def train_steps(case: str, steps: int) -> tuple[list[float], object]:
    trainer = build_trainer(build_parts(recipe(case), blob_images()))
    return [float(step(trainer, i).loss.detach()) for i in range(steps)], trainer


@pytest.mark.parametrize("case", CASES)
def test_a_few_steps_improve_its_own_loss(case: str) -> None:
    losses, _ = train_steps(case, 30)
    assert np.isfinite(losses).all()
    assert np.mean(losses[-5:]) < np.mean(losses[:5])


@pytest.mark.parametrize("case", CASES)
def test_gradient_reaches_the_whole_model_and_no_critic(case: str) -> None:
    parts = build_parts(recipe(case), blob_images())
    trainer = build_trainer(parts)
    step(trainer, 0)
    for name, parameter in parts.model.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.isfinite().all(), name
        assert (parameter.grad != 0).any(), name
    torch.manual_seed(0)
    for critic in parts.critics.values():
        critic.requires_grad_(False).zero_grad(set_to_none=True)  # as in `step`
    draw = draw_batch(trainer, 1)
    parts.objective(draw, 1, parts.critics).loss.backward()
    for name in trainer.critic_optimisers:
        assert all(p.grad is None for p in parts.critics[name].parameters()), "the model's loss moves the critic"
        parts.model.zero_grad(set_to_none=True)
        critic = parts.critics[name].requires_grad_(True)
        loss = critic.loss(draw.values, draw.values.flip(0))
        assert loss is not None
        loss.backward()
        assert all(p.grad is None for p in parts.model.parameters()), "the critic's own loss leaks into the model"
        assert all((p.grad != 0).any() for p in critic.parameters())


@pytest.mark.parametrize("case", CASES)
def test_a_resumed_run_ends_in_the_same_bits(case: str, tmp_path) -> None:
    data = blob_images()
    whole = fit(recipe(case, 8), tmp_path / "whole", dataset=data, quiet=True)
    fit(recipe(case, 5), tmp_path / "parts", dataset=data, quiet=True)
    halves = fit(recipe(case, 8), tmp_path / "parts", dataset=data, quiet=True, resume=True, force=True)
    assert [r["nats"] for r in whole.ledger()] == [r["nats"] for r in halves.ledger()]
    for name in ("model.safetensors", "checkpoint.safetensors"):
        a, b = read_tensors(whole.path / name)[0], read_tensors(halves.path / name)[0]
        assert a.keys() == b.keys()
        assert all(torch.equal(a[key], b[key]) for key in a), name


@pytest.mark.parametrize("case", CASES)
def test_the_order_of_rows_changes_nothing_where_it_should_not(case: str) -> None:
    parts = build_parts(recipe(case), blob_images())
    for module in parts.modules.values():
        module.double().eval()
    torch.manual_seed(1)
    with pytest.MonkeyPatch.context() as patch:
        for module in (trainer_module, supervision_module):
            patch.setattr(module, "fetch_batch", lambda *which: fetch_batch(*which).double())
        draw = draw_batch(build_trainer(parts), 0)
    order = torch.randperm(32)
    mixed = reorder(draw, order)
    losses = []
    for each in (draw, mixed):
        torch.manual_seed(2)  # the draws from the prior
        losses.append(float(parts.objective(each, 3, parts.critics).loss.detach()))
    if parts.objective.estimator in ORDER_DEPENDENT:
        assert losses[0] != pytest.approx(losses[1], rel=1e-9)
    else:
        assert losses[0] == pytest.approx(losses[1], rel=1e-9)


def reorder(draw: Draw, order: torch.Tensor) -> Draw:
    """The draw with its rows, and those of its partners, in another order."""
    partners = tuple(reorder(partner, order) for partner in draw.partners)
    states = None if draw.states is None else draw.states[order]
    rows = {"x": draw.x[order], "q": draw.q.select_rows(order), "z": draw.z[order], "states": states}
    return replace(draw, **rows, partners=partners)


def test_terms_without_a_price_are_not_worked_out() -> None:
    """q(z), p(z) at the sample and q(z|x) at the sample are computed only for rows that price something made of them."""
    needs = {
        "vae": set(),
        "beta_vae": set(),
        "dip_vae_ii": set(),
        "factor_vae": set(),
        "hfvae": {"log_q", "log_qx", "log_p"},
        "isa_vae": {"log_qx", "log_p"},
    }
    for name, expected in needs.items():
        parts = build_parts(recipe(name), blob_images())
        x = torch.from_numpy(parts.dataset.pixels(np.arange(8))).to(next(parts.model.parameters()).dtype)
        draw = parts.model.draw(x, len(parts.dataset), parts.objective.select_estimator(parts.critics))
        parts.objective(draw, 0, parts.critics)
        assert {key for key in ("log_q", "log_qx", "log_p") if key in vars(draw)} == expected, name


def test_errors_name_the_fix() -> None:
    for change, words in (
        ({"objective": {"name": "isa_vae"}}, "prior.name to 'isa'"),
        ({"objective": {"name": "beta_svae"}}, "discrete leaves"),
        ({"objective": {"name": "wae"}, "prior": {"name": "gaussian", "learned": True}}, "cannot train a learned"),
        ({"objective": {"name": "anchor_vae"}}, "no node 'anchors'"),
        ({"objective": {"name": "decomposition", "divergence": "mdm"}}, "Did you mean 'mmd'"),
        ({"objective": {"name": "hfvae", "estimator": "memory_bank(x)"}}, "cannot read 'memory_bank"),
        ({"objective": {"name": "hfvae", "estimator": "memorybank"}}, "Did you mean 'memory_bank'"),
        ({"objective": {"name": "aae", "by": "ration"}}, "Did you mean 'ratio'"),
    ):
        with pytest.raises(UnbraidError) as error:
            build_parts(Recipe(data="blobs", latent=4, nets="mlp", budget={"batch": 8}, **change), blob_images())
        assert words in str(error.value)


@pytest.mark.parametrize("name", OBJECTIVES)
def test_rows_and_games_share_one_protocol(name: str) -> None:
    """recipe → parts → trainer: modules and optimisers to save, terms to log, a step that gives a ledger."""
    case = dict(CASES.get(name, {"noise": 3}))
    tables = {key: case.pop(key) for key in TABLES if key in case}
    plan = Recipe(
        data="blobs",
        **({"latent": {"k": "onehot(3)", "s": 2} if name not in ROWS else 4} | tables),
        nets="mlp" if name in ROWS else "info_gan_small",
        objective={"name": name, **case},
        budget={"steps": 2, "batch": 16, "threads": 1, "device": "cpu"},
    )
    with default_float32():
        trainer = prepare_any(build_parts(plan, blob_images()))
        ledger = trainer.step(0, trainer.logged_terms)
    parts = trainer.parts
    assert parts.objective.name == name
    assert parts.objective.papers
    assert parts.objective.describe_prices()
    assert set(parts.modules) >= {"model"}
    assert "model" in trainer.optimisers
    moved = {id(p) for o in trainer.optimisers.values() for g in o.param_groups for p in g["params"]}
    assert {id(p) for p in parts.modules.parameters() if p.requires_grad} <= moved
    assert set(trainer.logged_terms) <= set(ledger.nats)
    assert set(ledger.prices) <= set(ledger.nats)
    assert torch.isfinite(ledger.loss)


def test_schedules_move_derived_prices() -> None:
    rising = {"schedule": "linear", "start": 1.0, "stop": 5.0, "steps": 10}
    prices = build({"name": "entropy_vae", "beta": rising}).prices
    assert prices["entropy"].value_at(5) == -2.0  # type: ignore[union-attr]
    assert build({"name": "dip_vae_i", "lambda_od": rising}).prices["moments_d@mean"].value_at(10) == 50.0  # type: ignore[union-attr]
