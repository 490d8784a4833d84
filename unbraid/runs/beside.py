"""Divergences between q(z) and the prior that the audit gives on demand, beside the terms of the decomposition."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from unbraid.ground.shapes import Tensor
from unbraid.model.pairwise import log_mixture
from unbraid.model.posterior import Posterior, emit
from unbraid.terms.divergence import BLOCK, mmd_squared

PIECE = 64  # draws from the prior at once


@torch.no_grad()
def mmd(model: Any, everything: Posterior, codes: Tensor, seed: int, kernel: str) -> dict[str, Any]:
    """MMD² of codes and as many draws from the prior: the mean over blocks of 256 rows, and its standard error.

    See `unbraid.terms.divergence.mmd`, Mathieu et al. 2019, Sec. 6; as unbiased, and so it may be negative.
    """
    z = _prior(model, len(codes), everything.temperature, seed)
    other = emit(model.tree, z).to(codes)
    count = max(1, len(codes) // BLOCK)
    pairs = zip(codes.tensor_split(count), other.tensor_split(count), strict=True)
    return _said(torch.stack([mmd_squared(a, b, kernel, block=len(a)) for a, b in pairs]), f"MMD² ({kernel})")


@torch.no_grad()
def inclusive_kl(model: Any, everything: Posterior, codes: Tensor, seed: int) -> dict[str, Any]:
    """KL(p‖q) = E_p[log p(z) − log q(z)] in nats over draws from the prior, q(z) over all posteriors encoded.

    Mathieu et al. 2019, App. B.
    """
    z = _prior(model, len(codes), everything.temperature, seed)
    uniform = z.new_full((1, 1), -math.log(len(everything)))
    log_q = torch.cat([log_mixture(part, everything, uniform)[:, 0] for part in z.split(PIECE)])
    return _said(model.prior.log_prob(z, everything.temperature)[:, 0] - log_q, "nats")


def _prior(model: Any, count: int, temperature: float, seed: int) -> Tensor:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed + 1)
        return model.prior.sample(count, temperature)


def _said(values: Tensor, unit: str) -> dict[str, Any]:
    error = float(values.double().std() / len(values) ** 0.5) if len(values) > 1 else None
    return {"value": float(values.double().mean()), "error": error, "unit": unit}


DIVERGENCES: dict[str, Callable[[Any, Posterior, Tensor, int], dict[str, Any]]] = {
    "mmd": partial(mmd, kernel="imq"),
    "mmd_rbf": partial(mmd, kernel="rbf"),
    "inclusive_kl": inclusive_kl,
}
