"""The claims of Stühmer et al. 2019, App. B, as they hold in code."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy import integrate, optimize, stats

from unbraid.studies.analytic import isa_vae_figures as figures
from unbraid.studies.analytic.isa_vae_toys import (
    FactorAnalysis,
    angle_of_longest,
    component_norms,
    fit_ica,
    ica_free_energy,
    main,
    overcomplete_model,
    paper_model,
    sample_ica_data,
)

ANGLES = np.linspace(0, np.pi, 37)
BETAS = (1.0, 2.0, 5.0, 20.0)


def with_sampled_data(model: FactorAnalysis, n: int = 30) -> tuple[FactorAnalysis, np.ndarray]:
    """A model with real data in place of ideal moments."""
    x = np.random.default_rng(0).normal(size=(n, len(model.weights))) @ np.linalg.cholesky(model.second_moment).T + 0.1
    return FactorAnalysis(model.weights, model.noise, x.T @ x / n, n), x


def test_free_energy_is_the_likelihood_less_the_distance_to_the_true_posterior() -> None:
    """log p(X) − Σ_n KL(q(z|x_n) ‖ p(z|x_n)), worked out datum by datum."""
    model, x = with_sampled_data(paper_model().rotate(0.4))
    c = model.weights @ model.weights.T + np.diag(model.noise)
    likelihood = stats.multivariate_normal(np.zeros(2), c).logpdf(x).sum()
    assert model.log_likelihood() == pytest.approx(likelihood)
    _, precision, variances = model.posterior()
    log_ratio = np.linalg.slogdet(precision)[1] + np.log(variances).sum()
    gap = 0.5 * (np.trace(precision @ np.diag(variances)) - 2 - log_ratio)
    assert model.free_energy() == pytest.approx(likelihood - len(x) * gap)


@pytest.mark.parametrize("copies", [2, 3])
def test_beta_of_one_over_m_is_m_replicated_observations(copies: int) -> None:
    model, _ = with_sampled_data(paper_model().rotate(0.4))
    replicated = FactorAnalysis(
        np.tile(model.weights, (copies, 1)),
        np.tile(model.noise, copies),
        np.tile(model.second_moment, (copies, copies)),
        model.n,
    )
    assert model.free_energy(1 / copies) == pytest.approx(replicated.free_energy())


def test_likelihood_is_flat_and_the_free_energy_meets_it_only_at_orthogonal_weights() -> None:
    model = paper_model()
    likelihoods = [model.rotate(a).log_likelihood() for a in ANGLES]
    energies = np.array([model.rotate(a).free_energy() for a in ANGLES])
    assert np.allclose(likelihoods, likelihoods[0])
    orthogonal = np.isclose(ANGLES % (np.pi / 2), 0) | np.isclose(ANGLES % (np.pi / 2), np.pi / 2)
    assert np.allclose(energies[orthogonal], likelihoods[0])
    assert (energies[~orthogonal] < likelihoods[0] - 0.1).all()
    assert likelihoods[0] == pytest.approx(-17.82)
    assert model.rotate(np.pi / 4).free_energy() == pytest.approx(-57.16)


def test_equal_norms_would_show_nothing_and_the_printed_rotation_changes_the_likelihood() -> None:
    equal = FactorAnalysis.at_optimum(np.eye(2), np.full(2, 0.1), 100)
    assert equal.rotate(0.7).free_energy() == pytest.approx(equal.free_energy())
    model = paper_model()
    turn = np.array([[np.cos(0.7), -np.sin(0.7)], [np.sin(0.7), np.cos(0.7)]])
    as_printed = FactorAnalysis(turn @ model.weights, model.noise, model.second_moment, model.n)
    assert as_printed.log_likelihood() < model.log_likelihood() - 5


@pytest.mark.parametrize("beta", BETAS)
def test_beta_changes_depth_and_not_direction(beta: float) -> None:
    model = paper_model()
    energies = np.array([model.rotate(a).free_energy(beta) for a in ANGLES])
    best = ANGLES[energies.argmax()] % (np.pi / 2)
    assert np.isclose(best, 0) or np.isclose(best, np.pi / 2)
    assert np.isclose(ANGLES[energies.argmin()] % (np.pi / 2), np.pi / 4)
    depth = np.ptp(energies)
    shallower = np.ptp([model.rotate(a).free_energy(2 * beta) for a in ANGLES])
    assert shallower < depth


@pytest.mark.parametrize("beta", BETAS)
def test_overcomplete_factor_analysis_prunes(beta: float) -> None:
    alphas = np.linspace(0, np.sqrt(0.5), 30)
    assert np.allclose(
        [overcomplete_model(a).log_likelihood() for a in alphas], overcomplete_model(0.0).log_likelihood()
    )
    energies = [overcomplete_model(a).free_energy(beta) for a in alphas]
    assert (np.diff(energies) < 0).all()


def fit_weights(model: FactorAnalysis, latents: int, beta: float, seed: int) -> np.ndarray:
    """Maximise the free energy (Eq. 16 times β, the usual objective) over the weights from a random start."""
    shape = (len(model.weights), latents)
    start = 0.5 * np.random.default_rng(seed).normal(size=shape)

    def loss(flat: np.ndarray) -> float:
        return -replace(model, weights=flat.reshape(shape)).free_energy(beta) / model.n

    return optimize.minimize(loss, start.ravel(), method="BFGS", options={"gtol": 1e-8}).x.reshape(shape)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("beta", [1.0, 2.0])
def test_learning_from_a_random_start_finds_orthogonal_weights_and_drops_the_spare(beta: float, seed: int) -> None:
    found = fit_weights(overcomplete_model(0.5), 3, beta, seed)
    order = np.argsort(component_norms(found))
    assert component_norms(found)[order[0]] < 1e-3
    assert angle_of_longest(found) == pytest.approx(90, abs=0.05)
    longest = found[:, order[-1]] / component_norms(found)[order[-1]]
    assert abs(longest @ np.array([1, 1]) / np.sqrt(2)) == pytest.approx(1, abs=1e-4)  # the first principal direction


def test_quadrature_of_the_cross_entropy() -> None:
    data = sample_ica_data(n=1)
    mean, scale = 1.3, 0.8
    density = stats.norm(mean, scale).pdf
    expected = integrate.quad(lambda z: density(z) * stats.t(3.5).logpdf(z), -20, 20)[0]
    entropy = np.log(scale) + 0.5 * np.log(2 * np.pi * np.e)
    shape = torch.ones(1, 3, dtype=torch.float64)
    parts = [
        ica_free_energy(data, data.weights, mean * shape, np.log(scale) * shape, beta).item() for beta in (0.0, 1.0)
    ]
    assert parts[1] - parts[0] == pytest.approx(3 * (entropy + expected), abs=1e-5)


def test_ica_bends_at_beta_1_and_prunes_at_beta_5() -> None:
    """At the same round: three bent components at β = 1, two nearly orthogonal ones at β = 5."""
    data = sample_ica_data()
    plain, strong = fit_ica(data, 1.0, rounds=90), fit_ica(data, 5.0, rounds=90)
    for fit in (plain, strong):
        assert (np.diff(fit.energies) >= -1e-12).all()
    assert component_norms(plain.weights[-1]).min() > 0.5
    assert angle_of_longest(plain.weights[0]) == pytest.approx(60)
    assert 66 < angle_of_longest(plain.weights[-1]) < 80
    assert component_norms(strong.weights[-1]).min() < 1e-3
    assert np.sort(component_norms(strong.weights[-1]))[1] > 1
    assert angle_of_longest(strong.weights[-1]) > 84


def test_the_study_writes_its_pictures(tmp_path) -> None:
    found = main(tmp_path, rounds=2, shown_round=2)
    names = {path.name for path in tmp_path.iterdir()}
    assert names == set(found.pictures)
    assert names == {f"toys_{name}.png" for name in ("factor_analysis", "rotation", "pruning", "ica", "ica_path")}
    assert found.rows[2][2] == "-57.16"
    assert len(figures.draw_rotation(paper_model()).axes) == 2
