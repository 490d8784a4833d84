"""Every likelihood: normalised, its mean is its mean, finite at extremes, gradients right, bounds named."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import Tensor

from unbraid.core.errors import UnbraidError
from unbraid.data.dataset import Dataset, Pixels
from unbraid.model import LIKELIHOODS, Likelihood
from unbraid.runs.building.builders import build_parts
from unbraid.runs.recipe import Recipe

CASES = {
    "bernoulli": {},
    "gaussian": {"sigma": 0.3},
    "gaussian learned": {"sigma": 0.3, "learned": True},
    "gaussian pixel": {"learned": "pixel"},
    "laplace": {"width": 0.4},
    "laplace learned": {"learned": True},
    "continuous_bernoulli": {},
    "categorical": {"levels": 5},
}
each_case = pytest.mark.parametrize("case", CASES)


def make_likelihood(case: str) -> Likelihood:
    return LIKELIHOODS[case.split()[0]](**CASES[case])


def quadrature(case: str) -> tuple[Tensor, Tensor]:
    """Values a pixel can take, and their weights: sums for masses, quadrature for densities."""
    if case == "bernoulli":
        return torch.tensor([0.0, 1.0]), torch.ones(2)
    if case == "categorical":
        return torch.linspace(0, 1, 5), torch.ones(5)
    nodes, weights = (torch.from_numpy(a) for a in np.polynomial.legendre.leggauss(200))
    if case == "continuous_bernoulli":
        return (nodes + 1) / 2, weights / 2
    pieces = [(nodes + 1) / 2 * 40 * side for side in (1, -1)]  # split at the kink of the Laplace density
    return torch.cat(pieces), torch.cat([weights * 20] * 2)


def random_outputs(case: str) -> Tensor:
    return torch.randn(12, make_likelihood(case).maps, 1, 1) * (0.7 if case == "gaussian pixel" else 2)


def test_every_likelihood_has_a_case() -> None:
    assert {case.split()[0] for case in CASES} == set(LIKELIHOODS)


@each_case
def test_normalised_and_mean(case: str) -> None:
    likelihood = make_likelihood(case)
    x, weights = quadrature(case)
    for out in random_outputs(case):
        centre = likelihood.mean(out[None]).item() if math.isinf(likelihood.low) else 0.0
        points = x + centre
        density = likelihood.log_prob(points.reshape(-1, 1, 1, 1), out.expand(len(x), -1, -1, -1)).exp()
        assert (weights * density).sum().item() == pytest.approx(1, abs=1e-6)
        assert (weights * density * points).sum().item() == pytest.approx(likelihood.mean(out[None]).item(), abs=1e-6)


@each_case
def test_pixels_and_channels_are_summed(case: str) -> None:
    """Sums, never means: a paper's β is our β. Channels must not be mixed up with the decoder's maps."""
    likelihood = make_likelihood(case)
    x = torch.rand(3, 2, 2, 2).round() if case == "bernoulli" else torch.randint(0, 5, (3, 2, 2, 2)) / 4
    out = torch.randn(3, 2 * likelihood.maps, 2, 2)
    apart = 0
    by_channel = out.unflatten(1, (likelihood.maps, 2))
    for c in range(2):
        for i in range(2):
            for j in range(2):
                apart = apart + likelihood.log_prob(
                    x[:, c : c + 1, i : i + 1, j : j + 1], by_channel[:, :, c, i : i + 1, j : j + 1]
                )
    assert torch.allclose(likelihood.log_prob(x, out), apart)
    assert likelihood.mean(out).shape == x.shape


@each_case
def test_gradients_and_extremes(case: str) -> None:
    likelihood = make_likelihood(case)
    x = torch.rand(2, 1, 1, 1)
    x = x.round() if case == "bernoulli" else x
    for scale in (1e-9, 1e-3, 1.0, 5.0):
        out = (scale * (torch.rand(2, likelihood.maps, 1, 1) + 0.1)).requires_grad_()
        assert torch.autograd.gradcheck(lambda out: likelihood.log_prob(x, out), (out,), atol=1e-5)
    far = (torch.randn(2, likelihood.maps, 1, 1) * 50).float().requires_grad_()
    found = likelihood.float().log_prob(x.float(), far).sum()
    assert found.isfinite()
    assert torch.autograd.grad(found, far)[0].isfinite().all()


def test_scales_are_learned() -> None:
    for name, width, expected in (("gaussian", "log_sigma", 0.3), ("laplace", "log_width", 0.3)):
        likelihood = LIKELIHOODS[name](learned=True)
        noise = torch.randn(20_000) if name == "gaussian" else torch.empty(20_000).exponential_()
        x = (0.3 * noise).reshape(-1, 1, 1, 1)
        optimiser = torch.optim.LBFGS(likelihood.parameters(), max_iter=50)

        def closure(likelihood=likelihood, x=x, optimiser=optimiser) -> Tensor:
            optimiser.zero_grad()
            loss = -likelihood.log_prob(x, torch.zeros_like(x)).mean()
            loss.backward()
            return loss

        optimiser.step(closure)
        assert getattr(likelihood, width).exp().item() == pytest.approx(expected, rel=0.03)


@each_case
def test_a_recipe_can_name_it(case: str) -> None:
    torch.set_default_dtype(torch.float32)
    images = np.random.default_rng(0).integers(0, 256, (64, 1, 8, 8), dtype=np.uint8)
    dataset = Dataset("toy", Pixels(images))
    recipe = Recipe(
        data={"name": "toy"},
        latent=2,
        likelihood={"name": case.split()[0], **CASES[case]},
        nets={"name": "mlp"},
        budget={"steps": 1, "batch": 8},
    )
    model = build_parts(recipe, dataset).model
    draw = model.draw(torch.rand(8, 1, 8, 8))
    assert model.likelihood.log_prob(draw.x, draw.out).shape == (8,)
    assert model.sample(3).shape == (3, 1, 8, 8)


def test_images_outside_its_range_are_named() -> None:
    torch.set_default_dtype(torch.float32)
    dataset = Dataset("toy", Pixels(np.full((64, 1, 8, 8), 2.0, np.float32)))
    recipe = Recipe(
        data={"name": "toy"},
        latent=2,
        likelihood="continuous_bernoulli",
        nets={"name": "mlp"},
        budget={"steps": 1, "batch": 8},
    )
    with pytest.raises(UnbraidError, match=r"\[0, 1\]"):
        build_parts(recipe, dataset)


@pytest.mark.parametrize(
    ("name", "options", "words"),
    [
        ("gaussian", {"sigma": 0.0}, "positive"),
        ("gaussian", {"learned": "pixels"}, "'pixel'"),
        ("laplace", {"width": -1.0}, "positive"),
        ("categorical", {"levels": 1}, "levels"),
    ],
)
def test_mistakes_are_named(name: str, options: dict, words: str) -> None:
    with pytest.raises(UnbraidError, match=words):
        LIKELIHOODS[name](**options)
