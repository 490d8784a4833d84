"""log p(x), estimated while training: needed for a weight on HFVAE's third term."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch

from unbraid.core import distributed
from unbraid.core.errors import expect
from unbraid.core.shapes import Float, Tensor
from unbraid.latent import Latent
from unbraid.model import discrete_states
from unbraid.model.draw import Draw
from unbraid.model.posterior import Posterior, to_values
from unbraid.terms.critics import Critic
from unbraid.terms.term import CriticRef, Term, make_spec


@dataclass(frozen=True)
class EvidenceSpec:
    """`particles` draws of q(z|x) for each image: each costs a pass of the decoder."""

    particles: int = 8

    def __post_init__(self) -> None:
        expect(1 <= self.particles <= 10_000, "particles must lie between 1 and 10,000", found=self.particles)

    def build(self, tree: Latent, prior: Any, family: Any = None) -> Evidence:
        """See `RatioSpec.build`: the estimate keeps nothing."""
        return Evidence(self)


class Evidence(Critic):
    """−log p̂(x), p̂ = (1/K) Σ_k p(x|z_k) p(z_k)/q(z_k|x), z_k ~ q(z|x): never below −log p(x) on average.

    KL(q(x) ‖ p(x)) = −log N − E log p(x), term ③ of Esmaeili et al. 2018, Eq. 7, so −log p(x) is ③ but for a constant. The
    bound tightens with K, and pays the encoder for a tighter one: with few particles its gradient is that of an ELBO.
    Burda et al. 2016. Discrete leaves that are charged by mass are drawn hard, with the score-function gradient.
    """

    def __init__(self, spec: EvidenceSpec):
        super().__init__()
        self.spec = spec

    def forward(self, draw: Draw) -> dict[str, Float[Tensor, "b"]]:
        """See `Critic.forward`."""
        k, model = self.spec.particles, draw.model
        log_w, q, z = importance_weights(model, draw.x, model.charged(draw.q), k)
        bound = math.log(k) - log_w.logsumexp(1)
        if model.by_mass:  # hard codes pass no gradient to the probabilities that they are drawn from
            log_mass = discrete_states.log_mass(q, z).unflatten(0, (-1, k)).sum(1)
            bound = discrete_states.score_function(bound.unsqueeze(-1), log_mass).squeeze(-1)
        return {"evidence@iwae": bound}


def importance_weights(
    model: Any, x: Float[Tensor, "r c h w"], q: Posterior, k: int
) -> tuple[Float[Tensor, "b k"], Posterior, Tensor]:
    """log p(x|z) p(z)/q(z|x) of k draws z ~ q(z|x) for each image; and q and z with a row for each draw.

    Args:
        model: a `Vae`.
        x: the images, in a distributed run those of this rank.
        q: their posteriors, of all ranks.
        k: the number of draws.
    """
    q = q.select_rows(torch.arange(len(q), device=q.loc.device).repeat_interleave(k))
    z, images = q.rsample(), x.repeat_interleave(k, 0)
    log_x = distributed.map_rows(
        lambda z: model.likelihood.log_prob(images, model.decoder(to_values(model.tree, z))), z
    )
    log_weights = log_x + model.prior.log_prob(z, q.temperature)[:, 0] - q.log_prob(z)[:, 0]
    return log_weights.unflatten(0, (-1, k)), q, z


TERMS: dict[str, Term] = {
    "evidence@iwae": Term(
        needs=("log p",),
        critic=CriticRef("evidence", make_spec(EvidenceSpec)),
        about="−log p(x) by importance weights: a bound that tightens with the particles. Burda et al. 2016.",
    )
}
