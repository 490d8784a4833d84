"""Divergences between q(z) and the prior that an audit can add to the terms of the decomposition."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from unbraid.core.shapes import Tensor
from unbraid.model.pairwise import log_mixture
from unbraid.model.posterior import Posterior, to_values
from unbraid.model.vae import Vae
from unbraid.terms.divergence import MMD_BLOCK_ROWS, mmd_squared

CHUNK_SIZE = 64  # draws from the prior at a time


@torch.no_grad()
def mmd(model: Vae, aggregate: Posterior, codes: Tensor, seed: int, kernel: str) -> dict[str, Any]:
    """MMD² between codes and as many draws from the prior: the mean over blocks of 256 rows, and its standard error.

    See `unbraid.terms.divergence.mmd`, Mathieu et al. 2019, Sec. 6. The estimate is unbiased, so it may be negative.

    Args:
        model: the model.
        aggregate: the posteriors of q(z).
        codes: samples of q(z).
        seed: the seed of the draws.
        kernel: 'imq' or 'rbf'.
    """
    z = _sample_prior(model, len(codes), aggregate.temperature, seed)
    other = to_values(model.tree, z).to(codes)
    count = max(1, len(codes) // MMD_BLOCK_ROWS)
    pairs = zip(codes.tensor_split(count), other.tensor_split(count), strict=True)
    return _mean_with_error(
        torch.stack([mmd_squared(a, b, kernel, block=len(a)) for a, b in pairs]), f"MMD² ({kernel})"
    )


@torch.no_grad()
def inclusive_kl(model: Vae, aggregate: Posterior, codes: Tensor, seed: int) -> dict[str, Any]:
    """KL(p‖q) = E_p[log p(z) − log q(z)] in nats over draws from the prior. Mathieu et al. 2019, App. B.

    Args:
        model: the model.
        aggregate: the posteriors of q(z).
        codes: samples of q(z), as many as there are draws.
        seed: the seed of the draws.
    """
    z = _sample_prior(model, len(codes), aggregate.temperature, seed)
    uniform = z.new_full((1, 1), -math.log(len(aggregate)))
    log_q = torch.cat([log_mixture(part, aggregate, uniform)[:, 0] for part in z.split(CHUNK_SIZE)])
    return _mean_with_error(model.prior.log_prob(z, aggregate.temperature)[:, 0] - log_q, "nats")


def _sample_prior(model: Vae, count: int, temperature: float, seed: int) -> Tensor:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed + 1)
        return model.prior.sample(count, temperature)


def _mean_with_error(values: Tensor, unit: str) -> dict[str, Any]:
    error = float(values.double().std() / len(values) ** 0.5) if len(values) > 1 else None
    return {"value": float(values.double().mean()), "error": error, "unit": unit}


DIVERGENCES: dict[str, Callable[[Vae, Posterior, Tensor, int], dict[str, Any]]] = {
    "mmd": partial(mmd, kernel="imq"),
    "mmd_rbf": partial(mmd, kernel="rbf"),
    "inclusive_kl": inclusive_kl,
}
