"""DIP-VAE's running covariance against a literal re-derivation of the text."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from unbraid.latent import Latent
from unbraid.model import Diagonal
from unbraid.model.draw import Draw
from unbraid.priors import build
from unbraid.terms.moments import MomentsSpec

TREE = Latent.of(3)


def penalty_gradient(spec: MomentsSpec, batches: list[torch.Tensor]) -> torch.Tensor:
    """The gradient of the off-diagonal and diagonal penalty in the means of the last batch."""
    critic = spec.build(TREE, None).train()
    model = SimpleNamespace(prior=build({"name": "gaussian"}, TREE))
    for means in batches:
        means = means.clone().requires_grad_()
        q = Diagonal(TREE, means, torch.zeros_like(means))
        found = critic(Draw(model, torch.zeros(len(means), 1, 1, 1), q, q.rsample(), len(means)))
        total = found["moments_od@mean"] + 10 * found["moments_d@mean"]
        (gradient,) = torch.autograd.grad(total, means)
    return gradient


def literal_gradient(rho: float, batches: list[torch.Tensor]) -> torch.Tensor:
    """Kumar et al. 2017, Sec. 2: Ĉ = (1 − ρ) Ĉ_prev + ρ C_batch, "treating the previous estimate as constant"."""
    previous = None
    for means in batches:
        means = means.clone().requires_grad_()
        centred = means - means.mean(0)
        batch = centred.T @ centred / len(means)
        running = batch if previous is None else (1 - rho) * previous + rho * batch
        error = (running - torch.eye(3)) ** 2
        total = error.sum() - error.diagonal().sum() + 10 * error.diagonal().sum()
        (gradient,) = torch.autograd.grad(total, means)
        previous = running.detach()
    return gradient


@pytest.mark.parametrize("rho", [1.0, 0.5, 0.1])
def test_the_literal_gradient_is_that_of_the_text(rho):
    torch.manual_seed(0)
    batches = [torch.randn(16, 3) * 2 for _ in range(3)]
    ours = penalty_gradient(MomentsSpec("mean", rho, "literal"), batches)
    torch.testing.assert_close(ours, literal_gradient(rho, batches))
    full = penalty_gradient(MomentsSpec("mean", rho, "full"), batches)
    torch.testing.assert_close(full, ours / rho)  # the older reading is 1/ρ times as strong, the same at ρ = 1
