"""log q(z) at every node for a mixture of posteriors: the one pairwise computation of the library."""

from __future__ import annotations

import torch

from unbraid.model.posterior import Posterior
from unbraid.shapes import Float, Tensor


def log_mixture(z: Float[Tensor, "b d"], q: Posterior, log_weights: Tensor) -> Float[Tensor, "b v"]:
    """log Σ_m w_bm q(z_b,v | x_m) at every node v, for rows z, components q and log weights "b m" (or a number).

    >>> from unbraid.latent import Latent
    >>> q = Posterior(Latent.of(2), torch.zeros(3, 2), torch.zeros(3, 2))
    >>> log_mixture(torch.zeros(1, 2), q, torch.zeros(1, 3) - 3.0**0.5).shape
    torch.Size([1, 3])
    """
    pairs = q.log_prob(z.unsqueeze(1))
    return (pairs + log_weights.unsqueeze(-1)).logsumexp(1)
