"""Divergences between q(z) and the prior that the audit gives on demand, beside the terms of the decomposition."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from unbraid.core.shapes import Tensor
from unbraid.model.pairwise import log_mixture
from unbraid.model.posterior import Posterior, to_values
from unbraid.terms.divergence import MMD_BLOCK_ROWS, mmd_squared

CHUNK_SIZE = 64  # draws from the prior at once


@torch.no_grad()
def mmd(model: Any, aggregate: Posterior, codes: Tensor, seed: int, kernel: str) -> dict[str, Any]:
    """MMD² of codes and as many draws from the prior: the mean over blocks of 256 rows, and its standard error.

    See `unbraid.terms.divergence.mmd`, Mathieu et al. 2019, Sec. 6; as unbiased, and so it may be negative.
    """
    z = _sample_prior(model, len(codes), aggregate.temperature, seed)
    other = to_values(model.tree, z).to(codes)
    count = max(1, len(codes) // MMD_BLOCK_ROWS)
    pairs = zip(codes.tensor_split(count), other.tensor_split(count), strict=True)
    return _mean_with_error(
        torch.stack([mmd_squared(a, b, kernel, block=len(a)) for a, b in pairs]), f"MMD² ({kernel})"
    )


@torch.no_grad()
def inclusive_kl(model: Any, aggregate: Posterior, codes: Tensor, seed: int) -> dict[str, Any]:
    """KL(p‖q) = E_p[log p(z) − log q(z)] in nats over draws from the prior, q(z) over all posteriors encoded.

    Mathieu et al. 2019, App. B.
    """
    z = _sample_prior(model, len(codes), aggregate.temperature, seed)
    uniform = z.new_full((1, 1), -math.log(len(aggregate)))
    log_q = torch.cat([log_mixture(part, aggregate, uniform)[:, 0] for part in z.split(CHUNK_SIZE)])
    return _mean_with_error(model.prior.log_prob(z, aggregate.temperature)[:, 0] - log_q, "nats")


def _sample_prior(model: Any, count: int, temperature: float, seed: int) -> Tensor:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed + 1)
        return model.prior.sample(count, temperature)


def _mean_with_error(values: Tensor, unit: str) -> dict[str, Any]:
    error = float(values.double().std() / len(values) ** 0.5) if len(values) > 1 else None
    return {"value": float(values.double().mean()), "error": error, "unit": unit}


DIVERGENCES: dict[str, Callable[[Any, Posterior, Tensor, int], dict[str, Any]]] = {
    "mmd": partial(mmd, kernel="imq"),
    "mmd_rbf": partial(mmd, kernel="rbf"),
    "inclusive_kl": inclusive_kl,
}
