"""InfoGAN and InfoWGAN-GP: nets as printed, the game's signs, codes as everywhere, resume to the same bits."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import nn

from unbraid.core.errors import UnbraidError
from unbraid.core.tensor_files import read_tensors
from unbraid.data.dataset import Dataset, Pixels
from unbraid.data.factors import Factor, Factors
from unbraid.latent import Latent
from unbraid.model import Diagonal
from unbraid.model.infogan import GAN_NETS
from unbraid.objectives.gans import GAMES, info_gan, info_wgan_gp
from unbraid.priors.hard_codes import HardCodes
from unbraid.runs.building import gan
from unbraid.runs.building.builders import build_parts, build_trainer
from unbraid.runs.evaluation.encoding import encode
from unbraid.runs.fitting.training import fit
from unbraid.runs.recipe import Recipe

CODES = {"kind": "onehot(3)", "bit": "binary(1)", "style": 2}
PAPER = {"kind": "onehot(10)", "style": 2}


def bars(n: int = 64) -> Dataset:
    """8×8 images with one bright row or column."""
    rng = np.random.default_rng(0)
    images, labels = np.zeros((n, 1, 8, 8), np.uint8), rng.integers(0, 2, (n, 1))
    for image, upright, at in zip(images, labels[:, 0], rng.integers(0, 8, n), strict=True):
        image[0, at if upright else slice(None), slice(None) if upright else at] = 255
    return Dataset("bars", Pixels(images), Factors((Factor("upright", 2, "class"),), grid=False), labels)


def recipe(name: str, steps: int = 4, **more) -> Recipe:
    return Recipe(
        data="bars",
        latent=CODES,
        nets="info_gan_small",
        objective={"name": name, "noise": 5, **more},
        budget={"steps": steps, "batch": 16, "log_every": 1, "threads": 1, "device": "cpu"},
    )


@pytest.mark.parametrize(("table", "size", "count"), [("4", 28, 62), ("5", 64, 5), ("6", 64, 128)])
@pytest.mark.parametrize("wasserstein", [False, True])
def test_nets_have_the_printed_sizes_and_norms(table: str, size: int, count: int, wasserstein: bool) -> None:
    tree = Latent.of(PAPER)
    model = GAN_NETS[f"info_gan_table{table}"]((1, size, size), tree, count, wasserstein)
    codes, noise = model.sample_inputs(2)
    assert model.generate(codes, noise).shape == (2, 1, size, size)
    q = model.posterior(torch.rand(2, 1, size, size))
    assert q.loc.shape == (2, 12)
    norms = [type(m) for m in model.trunk if isinstance(m, nn.BatchNorm1d | nn.BatchNorm2d | nn.LayerNorm)]
    convolutions = sum(isinstance(m, nn.Conv2d) for m in model.trunk)
    assert norms == ([nn.LayerNorm] if wasserstein else [nn.BatchNorm2d] * (convolutions - 1) + [nn.BatchNorm1d])
    hidden = {"4": 1024, "5": 128, "6": 1024}[table]
    assert model.critic.in_features == hidden
    assert model.generator[0].in_features == 12 + count
    assert model.encoder[-1].out_features == 2 * 2 + 10  # "FC 2×2 + 1×10"


def test_codes_are_hard_and_uniform() -> None:
    tree = Latent.of(CODES)
    prior = HardCodes(tree)
    torch.manual_seed(0)
    model = gan.build_model(recipe("info_gan"), (1, 8, 8)).double()
    values, _ = model.sample_inputs(6000)
    assert set(values[:, :4].unique().tolist()) == {0.0, 1.0}
    assert torch.equal(values[:, :3].sum(1), torch.ones(6000))
    assert values[:, 4:].abs().max() <= 1
    assert (values[:, :3].mean(0) - 1 / 3).abs().max() < 0.03
    assert float(prior.log_prob(torch.zeros(1, 6))[0, 0]) == pytest.approx(-math.log(3) - 3 * math.log(2))


def test_information_is_zero_for_an_encoder_that_knows_nothing_and_log_k_for_one_that_knows_all() -> None:
    model = gan.build_model(recipe("info_gan"), (1, 8, 8)).double()
    values, _ = model.sample_inputs(5)
    sure = [200 * values[:, :3], 400 * values[:, 3:4] - 200, values[:, 4:], torch.full((5, 2), -20.0)]
    known, blank = (
        Diagonal.from_params(model.tree, torch.cat(sure, 1)),
        Diagonal.from_params(model.tree, torch.zeros(5, 8)),
    )
    columns = 2 * math.log(2)
    spread = (-0.5 * (values[:, 4:].square() + math.log(2 * math.pi))).sum(1)
    torch.testing.assert_close(model.information_bound(blank, values), spread + columns)
    certain = math.log(3) + math.log(2) + columns + 2 * (10 - 0.5 * math.log(2 * math.pi))
    torch.testing.assert_close(model.information_bound(known, values), torch.full((5,), certain))


def test_the_penalty_is_the_distance_of_the_slope_from_one_and_is_added_to_what_the_critic_minimises() -> None:
    model = gan.build_model(recipe("info_wgan_gp"), (1, 8, 8)).double()
    weight = torch.randn(64)
    model.trunk, model.critic = nn.Flatten(), nn.Linear(64, 1)
    model.encoder = nn.Linear(64, 8)
    with torch.no_grad():
        model.critic.weight.copy_(weight[None])
    real, fake = torch.rand(4, 1, 8, 8), torch.rand(4, 1, 8, 8)
    slope = gan.gradient_penalty(model, real, fake)
    assert float(slope.detach()) == pytest.approx((float(weight.norm()) - 1) ** 2)
    codes, _ = model.sample_inputs(4)
    spec = info_wgan_gp(lam=0.0)
    torch.manual_seed(1)
    loss, told = gan.critic_loss(model, spec, real, fake, codes)
    distance = (real - fake).flatten(1).mean(0) @ weight
    assert float(told["distance"].detach()) == pytest.approx(float(distance))
    assert float(loss.detach()) == pytest.approx(10 * float(slope.detach()) - float(distance))
    assert info_gan().penalty == 0


@pytest.mark.parametrize("name", GAMES)
def test_a_step_moves_each_player_by_its_own_loss(name: str) -> None:
    trainer = build_trainer(build_parts(recipe(name, lam=0.5), bars()))
    model = trainer.parts.model
    before = {key: p.clone() for key, p in model.named_parameters()}
    ledger = trainer.step(0)
    still = {key for key, p in model.named_parameters() if torch.equal(before[key], p)}
    assert still == ({"critic.bias"} if name == "info_wgan_gp" else set()), "a constant cancels in E D(x) − E D(G(z))"
    assert ledger.prices == {"information": -0.5}
    assert all(p.requires_grad for p in model.parameters())
    generator = {id(p) for p in model.generator.parameters()}
    assert {id(p) for group in trainer.generator_optimiser.param_groups for p in group["params"]} == generator
    assert not generator & {id(p) for group in trainer.critic_optimiser.param_groups for p in group["params"]}


@pytest.mark.parametrize("name", GAMES)
def test_a_resumed_run_ends_in_the_same_bits_and_gives_codes(name: str, tmp_path) -> None:
    data = bars()
    whole = fit(recipe(name, 5), tmp_path / "whole", dataset=data, quiet=True)
    fit(recipe(name, 3), tmp_path / "parts", dataset=data, quiet=True)
    halves = fit(recipe(name, 5), tmp_path / "parts", dataset=data, quiet=True, resume=True, force=True)
    for file in ("model.safetensors", "checkpoint.safetensors"):
        a, b = read_tensors(whole.path / file)[0], read_tensors(halves.path / file)[0]
        assert a.keys() == b.keys()
        assert all(torch.equal(a[key], b[key]) for key in a)
    assert [r["nats"] for r in whole.ledger()] == [r["nats"] for r in halves.ledger()]
    codes = encode(whole, data, quiet=True, save=False)
    assert codes.mean.shape == (64, 6)
    np.testing.assert_allclose(codes.mean[:, :3].sum(1), 1, atol=1e-5)
    assert np.isfinite(codes.kl).all()
    assert whole.sample(3).shape == (3, 1, 8, 8)
    assert np.array_equal(whole.decode(codes.mean[:2]), whole.decode(codes.mean[:2]))
    assert whole.traverse(codes.mean[0], "kind").shape == (3, 1, 8, 8)


def test_errors_name_the_fix() -> None:
    with pytest.raises(UnbraidError, match="Did you mean 'noise'"):
        build_parts(recipe("info_gan").set("objective.noize=3"), bars())
    with pytest.raises(UnbraidError, match="penalty above 0"):
        build_parts(recipe("info_wgan_gp", penalty=0), bars())
    with pytest.raises(UnbraidError, match="divisible by 16"):
        build_parts(recipe("info_gan").set("nets.name=info_gan_table5"), bars())
    with pytest.raises(UnbraidError, match="no ELBO"):
        gan.build_model(recipe("info_gan"), (1, 8, 8)).draw(torch.zeros(1, 1, 8, 8))
    with pytest.raises(UnbraidError, match="cannot be audited"):
        gan.build_model(recipe("info_gan"), (1, 8, 8)).likelihood  # noqa: B018


@pytest.mark.parametrize("table", ["4", "5", "6"])
def test_the_printed_nets_have_the_norm_after_the_activation(table: str) -> None:
    size = 28 if table == "4" else 64
    tree = Latent.of(PAPER)
    printed, ours = (
        GAN_NETS[f"info_gan_table{table}{end}"]((1, size, size), tree, 5, False) for end in ("_printed", "")
    )
    for net in (printed.trunk, printed.generator, printed.encoder):
        for before, layer in zip(net[:-1], net[1:], strict=True):
            if isinstance(layer, nn.BatchNorm1d | nn.BatchNorm2d):
                assert isinstance(before, nn.ReLU | nn.LeakyReLU)
    norms = [nn.BatchNorm1d, nn.BatchNorm2d]
    assert all(
        type(a) not in norms or isinstance(b, nn.ReLU | nn.LeakyReLU)
        for a, b in zip(ours.trunk[:-1], ours.trunk[1:], strict=True)
    )
    assert sum(p.numel() for p in printed.parameters()) == sum(p.numel() for p in ours.parameters())


def test_a_game_takes_no_other_family_and_no_objects() -> None:
    with pytest.raises(UnbraidError, match="diagonal family: found 'full'"):
        build_parts(recipe("info_gan").set("posterior.family=full"), bars())
    with pytest.raises(UnbraidError, match="Did you mean 'info_gan'"):
        build_parts(recipe("info_gna"), bars())
