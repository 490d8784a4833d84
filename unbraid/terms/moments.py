"""Moment matching: the covariance of the codes against the prior's. Kumar et al. 2017, Eqs. 5 and 6."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from unbraid.core.errors import expect
from unbraid.core.shapes import Float, Tensor
from unbraid.latent import Latent
from unbraid.model.draw import Draw
from unbraid.model.posterior import Posterior
from unbraid.terms.critics import Critic
from unbraid.terms.term import CriticRef, Term, make_spec

GRADIENTS = ("literal", "full")


@dataclass(frozen=True)
class MomentsSpec:
    """`of` 'mean' (DIP-VAE-I: Cov[μ]) or 'code' (II: E[Σ] + Cov[μ]); `rho` is the weight of the newest batch.

    `gradient` is 'literal' (ρ times that of the batch's own penalty, as the text reads) or 'full' (that of the batch, which
    keeps λ's strength at any ρ: 1/ρ times the literal one). At ρ = 1 they agree.

    >>> MomentsSpec("code", rho=0.1, gradient="literal").rho
    0.1
    """

    of: str = "mean"
    rho: float = 1.0
    gradient: str = "full"

    def __post_init__(self) -> None:
        expect(self.of in ("mean", "code"), "moments are taken of 'mean' or 'code'", found=repr(self.of))
        expect(0 < self.rho <= 1, "rho must lie in (0, 1]", found=self.rho)
        expect(
            self.gradient in GRADIENTS,
            "the gradient of moments has two readings",
            found=repr(self.gradient),
            allowed=GRADIENTS,
        )

    def build(self, tree: Latent, prior: Any, family: Any = None) -> Moments:
        """See `RatioSpec.build`: the running covariance."""
        return Moments(tree, self)


def code_covariance(q: Posterior, source: str = "code") -> Float[Tensor, "r r"]:
    """Cov[μ(x)] over the batch, and for `of='code'` + E[Σ(x)]: the covariance of z ~ q(z). Real columns only.

    Public code adds `diag` of a batch × d matrix, which is one number; right is the mean variance of each column.

    Args:
        q: the posterior of a batch.
        source: 'mean' for Cov[μ(x)] alone, 'code' for the covariance of z.
    """
    real = q.tree.columns_of_kind("real")
    mean = q.loc[:, real]
    centred = mean - mean.mean(0)
    covariance = centred.T @ centred / len(mean)
    if source == "code":
        covariance = covariance + q.mean_covariance()[real][:, real]
    return covariance


class Moments(Critic):
    """Σ_{i≠j} (C − C_p)²_ij and Σ_i (C − C_p)²_ii for a running covariance C = (1−ρ) C_prev + ρ C_batch.

    The previous estimate is a constant for the gradient, so the literal gradient is ρ times that of the batch; `gradient =
    "full"` divides it by ρ. Kumar et al. 2017, Eqs. 5 and 6; Kim & Mnih 2018, Eqs. 10 and 11.

    >>> MomentsSpec("mean", rho=0.1).build(Latent.of(3), None).running.shape
    torch.Size([3, 3])
    """

    running: Tensor
    seen: Tensor

    def __init__(self, tree: Latent, spec: MomentsSpec):
        super().__init__()
        self.spec, self.real = spec, tree.columns_of_kind("real")
        expect(len(self.real) > 0, "moment matching needs real leaves", found=str(tree))
        self.register_buffer("running", torch.zeros(len(self.real), len(self.real)))
        self.register_buffer("seen", torch.zeros(()))

    def forward(self, draw: Draw) -> dict[str, Tensor]:
        """See `Critic.forward`."""
        batch = code_covariance(draw.q, self.spec.of)
        rho = torch.where(self.seen > 0, self.spec.rho, 1.0).to(batch.dtype)
        blended = torch.lerp(self.running.to(batch.dtype), batch.detach(), rho)
        if self.training and torch.is_grad_enabled():
            self.running.copy_(blended)
            self.seen.fill_(1)
        strength = rho if self.spec.gradient == "literal" else 1.0
        covariance = blended + strength * (batch - batch.detach())
        error = (covariance - draw.model.prior.covariance().to(batch)[self.real][:, self.real]).square()
        diagonal = error.diagonal().sum()
        return {f"moments_od@{self.spec.of}": error.sum() - diagonal, f"moments_d@{self.spec.of}": diagonal}


COVARIANCE_FORMULAS = {"mean": "Cov[μ(x)]", "code": "E[Σ(x)] + Cov[μ(x)]"}
DIAGONAL_WORDS = {"od": "off", "d": "on"}
TERMS: dict[str, Term] = {
    f"moments_{part}@{of}": Term(
        critic=CriticRef(f"moments_{of}", make_spec(MomentsSpec, of=of)),
        about=f"Squared distance of {which} from the prior's covariance, {where} the diagonal. Kumar et al. 2017.",
    )
    for of, which in COVARIANCE_FORMULAS.items()
    for part, where in DIAGONAL_WORDS.items()
}
