"""The importance-weighted bound against the exact log p(x) of a linear-Gaussian model."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn
from torch.distributions import MultivariateNormal

from unbraid.core.errors import UnbraidError
from unbraid.latent import Latent
from unbraid.model import Diagonal, Full, Vae
from unbraid.model.likelihood import Gaussian as GaussianLikelihood
from unbraid.priors import build
from unbraid.runs.evaluation.iwae import iwae

SIGMA = 0.5


class LinearDecoder(nn.Module):
    """x = W z on images of shape (6, 1, 1)."""

    def __init__(self, weights: Tensor):
        super().__init__()
        self.weights = nn.Parameter(weights)
        self.most = 0

    def forward(self, z: Tensor) -> Tensor:
        self.most = max(self.most, len(z))
        return (z @ self.weights.T)[:, :, None, None]


class LinearEncoder(nn.Module):
    """The exact posterior mean, with covariance and mean as given."""

    def __init__(self, recognition: Tensor, rest: Tensor):
        super().__init__()
        self.recognition, self.rest = nn.Parameter(recognition), rest

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([x.flatten(1) @ self.recognition.T, self.rest.expand(len(x), -1)], 1)


def linear_gaussian(exact: bool, blur: float = 0.0) -> tuple[Vae, MultivariateNormal]:
    """p(z) = N(0, I), x = W z + noise; q is the exact posterior, or a diagonal one that is too wide by `blur`."""
    w = torch.randn(6, 3, generator=torch.Generator().manual_seed(1))
    precision = torch.eye(3) + w.T @ w / SIGMA**2
    covariance = torch.linalg.inv(precision)
    recognition = covariance @ w.T / SIGMA**2
    tree = Latent.of(3)
    if exact:
        factor = torch.linalg.cholesky(covariance)
        scale = factor.diagonal()
        unit = factor / scale[:, None]
        rest = torch.cat([2 * scale.log(), unit[tuple(torch.tril_indices(3, 3, -1))]])
    else:
        rest = -precision.diagonal().log() + 2 * blur
    family = Full if exact else Diagonal
    model = Vae(
        tree,
        LinearEncoder(recognition, rest),
        LinearDecoder(w),
        build({"name": "gaussian"}, tree),
        GaussianLikelihood(SIGMA),
        family,
    )
    return model, MultivariateNormal(torch.zeros(6), w @ w.T + SIGMA**2 * torch.eye(6))


def sample_images(p: MultivariateNormal, n: int = 20) -> Tensor:
    return p.sample((n,))[:, :, None, None]


def test_exact_posterior_gives_log_p_with_one_particle() -> None:
    model, p = linear_gaussian(exact=True)
    x = sample_images(p)
    assert torch.allclose(iwae(model, x, particles=1), p.log_prob(x.flatten(1)))


def test_many_particles_reach_log_p() -> None:
    model, p = linear_gaussian(exact=False, blur=0.3)
    x = sample_images(p)
    exact = p.log_prob(x.flatten(1))
    assert (iwae(model, x, particles=5000) - exact).abs().max() < 0.1
    assert (iwae(model, x, particles=1) - exact).abs().max() > 0.3


def test_rises_with_particles_on_average_and_stays_below() -> None:
    model, p = linear_gaussian(exact=False, blur=0.3)
    x = sample_images(p, 400)
    exact = p.log_prob(x.flatten(1)).mean().item()
    bounds = [iwae(model, x, particles=k).mean().item() for k in (1, 4, 16, 64, 256)]
    assert bounds == sorted(bounds)
    assert bounds[-1] < exact + 0.02
    q = model.posterior(x)
    draws = []
    for _ in range(50):
        z = q.rsample()
        joint = model.prior.log_prob(z)[:, 0] + model.likelihood.log_prob(x, model.decoder(z))
        draws.append((joint - q.log_prob(z)[:, 0]).mean().item())
    assert bounds[0] == pytest.approx(sum(draws) / 50, abs=0.15)  # one particle is the ELBO


@pytest.mark.parametrize("chunk_size", [1, 7, 64, 100_000])
def test_memory_is_bounded_whatever_the_batch_and_particles(chunk_size: int) -> None:
    model, p = linear_gaussian(exact=True)
    x = sample_images(p, 5)
    found = iwae(model, x, particles=50, chunk_size=chunk_size)
    assert model.decoder.most <= chunk_size
    assert torch.allclose(found, p.log_prob(x.flatten(1)))


def test_same_seed_same_bound_and_the_callers_chance_is_left_alone() -> None:
    model, p = linear_gaussian(exact=False, blur=0.5)
    x = sample_images(p)
    before = torch.get_rng_state()
    model.train()
    first = iwae(model, x, particles=3)
    assert torch.equal(torch.get_rng_state(), before)
    assert model.training
    assert torch.equal(iwae(model, x, particles=3), first)
    assert not torch.equal(iwae(model, x, particles=3, seed=1), first)
    assert not torch.equal(iwae(model, x, particles=3, seed=None), iwae(model, x, particles=3, seed=None))


def test_mixed_trees_and_mistakes() -> None:
    tree = Latent.of({"k": "onehot(3)", "s": 2})
    encoder = nn.Sequential(nn.Flatten(), nn.Linear(6, Diagonal.param_count(tree)))
    model = Vae(
        tree, encoder, LinearDecoder(torch.randn(6, 5)), build({"name": "student_t"}, tree), GaussianLikelihood()
    )
    model.temperature = 0.5
    x = torch.randn(4, 6, 1, 1)
    few, many = (torch.stack([iwae(model, x, k, seed=s) for s in range(30)]).mean() for k in (1, 50))
    assert many > few
    assert iwae(model, x[:0], 5).shape == (0,)
    for options in ({"particles": 0}, {"chunk_size": 0}):
        with pytest.raises(UnbraidError, match="whole number"):
            iwae(model, x, **options)
