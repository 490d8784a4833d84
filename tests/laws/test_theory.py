"""Theorems and corollaries of Mathieu et al. 2019 and its App. C; App. D of Kim & Mnih; the four terms of HFVAE."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from unbraid.latent import Latent
from unbraid.model import Diagonal, Vae
from unbraid.model.likelihood import Bernoulli
from unbraid.model.nets.mlp import Mlp
from unbraid.objectives.rows import beta_vae, entropy_vae
from unbraid.priors import Gaussian
from unbraid.studies.analytic import hfvae_toy, theory

ROUNDING = {"rtol": 0, "atol": 1e-10}


@pytest.mark.parametrize("prior", ["gaussian", "student_t"])
@pytest.mark.parametrize("beta", [0.5, 1.0, 4.0])
def test_theorem_1_beta_vae_is_an_elbo_with_annealed_prior_and_more_entropy(prior: str, beta: float) -> None:
    left, right = theory.theorem1(theory.ToyVAE.make(), beta, prior)
    np.testing.assert_allclose(left, right, **ROUNDING)


@pytest.mark.parametrize("variances", [(1.0, 1.0), (1.6, 0.4)])
def test_corollary_1_rescaled_networks_turn_beta_into_entropy(variances: tuple[float, float]) -> None:
    """L_β equals L_{H,β} of the rescaled networks + c, for Gaussian priors. Mathieu et al. 2019, Eq. 4."""
    toy, prior = theory.ToyVAE.make(), theory.gaussian_log_prior(variances)
    d, log_v = 2, float(np.log(variances).sum())
    for beta in (0.5, 4.0):
        log_f = 0.5 * (1 - beta) * (d * math.log(2 * math.pi) + log_v) - 0.5 * d * math.log(beta)
        c = 0.5 * d * (beta - 1) * (1 + math.log(2 * math.pi / beta)) + log_f
        right = toy.rescale(math.sqrt(beta)).entropy_objective(beta, prior) + c
        np.testing.assert_allclose(toy.beta_objective(beta, prior), right, **ROUNDING)


def test_quadrature_agrees_with_the_closed_form_kl() -> None:
    """The toy's own check: E_q log p against the Gaussian formula, so that the theorems are not tested on noise."""
    toy = theory.ToyVAE.make()
    covariance = toy.factor @ toy.factor.transpose(0, 2, 1)
    closed = -0.5 * (np.trace(covariance, axis1=1, axis2=2) + (toy.mean**2).sum(1)) - math.log(2 * math.pi)
    np.testing.assert_allclose(toy.expectation(theory.gaussian_log_prior()), closed, **ROUNDING)
    noise = np.random.default_rng(0).normal(size=(5, 20000, 2))
    samples = toy.mean[:, None] + np.einsum("nij,nmj->nmi", toy.factor, noise)
    log_p = (-0.5 * (toy.x[:, None] - toy.decode(samples)) ** 2 - 0.5 * math.log(2 * math.pi)).sum(-1)
    assert (np.abs(toy.expected_log_likelihood() - log_p.mean(1)) < 4 * log_p.std(1) / 20000**0.5).all()


def make_model(seed: int) -> Vae:
    torch.manual_seed(seed)
    tree = Latent.of(3)
    encoder, decoder = Mlp((8,), (8,), torch.nn.Tanh, torch.nn.Tanh)((1, 4, 4), tree, Diagonal.param_count(tree), 1)
    return Vae(tree, encoder, decoder, Gaussian(tree), Bernoulli()).double()


def rescaled_model(model: Vae, beta: float) -> Vae:
    """The rescaled networks of Corollary 1, by their weights: means and scales × √β, the decoder's input ÷ √β."""
    twin = make_model(0)
    twin.load_state_dict(model.state_dict())
    d, root = model.tree.width, math.sqrt(beta)
    with torch.no_grad():
        last, first = twin.encoder[-1], twin.decoder[0]
        last.weight[:d] *= root
        last.bias[:d] *= root
        last.bias[d:] += math.log(beta)  # log-variances
        first.weight /= root
    return twin


def test_corollary_2_the_rows_beta_vae_and_entropy_vae_share_their_stationary_points() -> None:
    """On real networks, along a path: losses equal up to a constant, and gradients equal up to g_β's own factors.

    g_β multiplies some weights by √β, divides others by it and shifts the rest, so ∇L_β = J ∇L_{H,β} with J diagonal
    and without a zero: one vanishes where the other does.
    """
    beta, root = 4.0, 2.0
    x = torch.rand(16, 1, 4, 4, generator=torch.Generator().manual_seed(0))
    model, gaps = make_model(1), []
    optimiser = torch.optim.Adam(model.parameters(), lr=0.02)

    def gradients(net: Vae, objective) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        torch.manual_seed(7)  # the same noise ε, so z' = √β z exactly
        loss = objective(net.draw(x)).loss
        names = [name for name, _ in net.named_parameters()]
        return loss.detach(), dict(zip(names, torch.autograd.grad(loss, list(net.parameters())), strict=True))

    for _ in range(8):
        loss, slope = gradients(model, beta_vae(beta))
        other, twin = gradients(rescaled_model(model, beta), entropy_vae(beta))
        gaps.append(float(loss - other))
        d = model.tree.width
        twin["decoder.0.weight"] = twin["decoder.0.weight"] / root
        for name in ("encoder.3.weight", "encoder.3.bias"):
            twin[name] = torch.cat([root * twin[name][:d], twin[name][d:]])
        for name, parameter in model.named_parameters():
            torch.testing.assert_close(slope[name], twin[name], rtol=1e-9, atol=1e-9)
            parameter.grad = slope[name]
        optimiser.step()
    assert np.ptp(gaps) < 1e-9, "the two losses differ by a constant"


def test_theorem_2_rotations_change_nothing_for_an_isotropic_prior_and_full_covariance_only() -> None:
    angles = np.linspace(0, math.pi, 13)
    curves = theory.theorem2(theory.ToyVAE.make(), 4.0, angles)
    assert np.ptp(curves["isotropic"]) < 1e-10
    for name in ("isotropic, diagonal q", "anisotropic", "Student-t"):
        assert np.ptp(curves[name]) > 0.1, name
    quarter = int(np.argmin(np.abs(angles - math.pi / 2)))
    assert abs(curves["Student-t"][quarter]) < 1e-10, "a product of equal columns still has the symmetry of the square"


def test_appendix_c_small_batches_estimate_the_entropy_of_one_posterior_plus_log_n() -> None:
    everything = theory.gaussian_posteriors(2048, 4, 0.2)
    found = theory.entropy_bias(everything, (4, 32, 2048), draws=512)
    small, middle, whole = found["estimate"]  # type: ignore[misc]
    exact, beta = found["exact"], found["beta"]
    assert beta - exact > 1.0  # type: ignore[operator]
    assert abs(small - beta) < 0.25 * (beta - exact)  # type: ignore[operator]
    assert exact < middle < small  # type: ignore[operator]
    assert whole == pytest.approx(exact, abs=0.2)


def test_appendix_d_naive_tc_is_negative_outside_the_batch_and_positive_inside() -> None:
    everything = theory.gaussian_posteriors(3000, 10, 0.1)
    for b in (256, 2000):
        found = theory.naive_tc(everything, b, draws=200)
        tc = {name: float((found[name] - found[f"{name}, product"]).mean()) for name in ("outside", "inside")}
        assert tc["outside"] < -10
        assert tc["inside"] > 0


def test_the_four_terms_add_up_to_the_elbo() -> None:
    toy = hfvae_toy.FourTermsToy()
    total = sum(toy.term_values().values())
    assert total == pytest.approx(float(toy.elbo().detach()) + math.log(6), abs=1e-9)
    assert toy.term_values()["②"] <= 0
    assert toy.term_values()["④"] <= 0


def test_each_of_the_four_terms_does_what_fig_3_says() -> None:
    toys = {name: toy.term_values() for name, toy in hfvae_toy.train_ablations(steps=300).items()}
    full = toys["all four"]
    assert -toys["without ①"]["②"] < 0.05 < -full["②"], "every x is mapped to the prior"
    assert -toys["without ②"]["②"] > -full["②"], "regions in z space shrink"
    assert toys["without ③"]["③"] < full["③"] - 1, "p(x) no longer matches q(x)"
    assert -toys["without ④"]["④"] > -full["④"] + 0.5, "q(z) no longer matches p(z)"
