"""The importance-weighted bound on log p(x), for any number of particles in bounded memory."""

from __future__ import annotations

import math
from contextlib import nullcontext

import torch

from unbraid.core.errors import expect
from unbraid.core.shapes import Float, Tensor
from unbraid.model.vae import Vae
from unbraid.terms.log_evidence import importance_weights


@torch.no_grad()
def iwae(
    model: Vae, x: Float[Tensor, "b c h w"], particles: int = 5000, chunk_size: int = 1024, seed: int | None = 0
) -> Float[Tensor, "b"]:
    """log (1/K) Σ_k p(x|z_k) p(z_k)/q(z_k|x), z_k ~ q(z|x): a bound on log p(x) of each image, in nats.

    Burda et al. 2016; Kim & Mnih 2018 use K = 5000. Its expectation rises with K, from the ELBO at K = 1 to log p(x). Batch
    norms use their stored statistics.

    Args:
        model: the model.
        x: images.
        particles: K.
        chunk_size: codes that are decoded at once, which bounds the memory.
        seed: the seed; None draws from the caller's random state, which otherwise does not change.
    """
    for name, count in (("particles", particles), ("chunk_size", chunk_size)):
        whole = isinstance(count, int) and count >= 1
        expect(whole, f"{name} must be a whole number, 1 or more", found=repr(count))
    was_training = model.training
    model.eval()
    try:
        with torch.random.fork_rng(devices=[]) if seed is not None else nullcontext():
            if seed is not None:
                torch.manual_seed(seed)
            return _bound(model, x, particles, chunk_size)
    finally:
        model.train(was_training)


def _bound(model: Vae, x: Tensor, particles: int, chunk_size: int) -> Tensor:
    together = min(particles, chunk_size)
    rows = max(1, chunk_size // together)
    bounds = []
    for start in range(0, len(x), rows):
        part = x[start : start + rows]
        q = model.charged(model.posterior(part))
        total = part.new_full((len(part),), -math.inf)
        for done in range(0, particles, together):
            weights, _, _ = importance_weights(model, part, q, min(together, particles - done))
            total = torch.logaddexp(total, weights.logsumexp(1))
        bounds.append(total - math.log(particles))
    return torch.cat(bounds) if bounds else x.new_zeros(0)
