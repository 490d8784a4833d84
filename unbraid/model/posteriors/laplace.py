"""The Laplace posterior: heavier tails than the Gaussian, and a sharper peak."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from unbraid.core.shapes import Float, Tensor
from unbraid.latent import Latent
from unbraid.model import relaxed_discrete
from unbraid.model.posterior import Posterior
from unbraid.priors.gaussian import sum_columns_by_leaf

LOG_2 = math.log(2)


@dataclass(frozen=True)
class Laplace(Posterior):
    """q(z|x) = Π_d exp(−|z_d − μ_d(x)|/b_d(x)) / 2b_d(x) on real columns; `log_width` is log b ≥ −20. This library.

    >>> q = Laplace.from_params(Latent.of(1), torch.zeros(1, 2))
    >>> q.log_prob(torch.zeros(1, 1))[0, 0].exp(), q.scale    # ½ at the peak; standard deviation √2·b
    (tensor(0.5000), tensor([[1.4142]]))
    """

    tree: Latent
    loc: Float[Tensor, "*s d"]
    log_width: Float[Tensor, "*s d"]
    temperature: float = 1.0

    @staticmethod
    def param_count(tree: Latent) -> int:
        """See `Posterior.param_count`: one per column and a log b² per real column."""
        return tree.width + len(tree.columns_of_kind("real"))

    @classmethod
    def from_params(cls, tree: Latent, params: Float[Tensor, "b p"], temperature: float = 1.0) -> Laplace:
        """See `Posterior.from_params`: the rest are log b²."""
        return cls(tree, *relaxed_discrete.split_params(tree, params), temperature)

    def rsample(self) -> Float[Tensor, "*s d"]:
        """See `Posterior.rsample`: μ + b·(E₁ − E₂), E exponential."""

        def real(s: slice) -> Tensor:
            loc = self.loc[..., s]
            noise = torch.empty_like(loc).exponential_() - torch.empty_like(loc).exponential_()
            return loc + self.log_width[..., s].exp() * noise

        if self.tree.all_real:
            return real(slice(None))
        return relaxed_discrete.sample(self.tree, self.loc, self.temperature, real)

    def leaf_log_prob(self, z: Float[Tensor, "*s d"]) -> Tensor:
        """See `Posterior.leaf_log_prob`."""

        def columns(s: slice) -> Tensor:
            log_b = self.log_width[..., s]
            return -(z[..., s] - self.loc[..., s]).abs() * (-log_b).exp() - log_b - LOG_2

        if self.tree.all_real:
            return sum_columns_by_leaf(self.tree, columns(slice(None)))
        return relaxed_discrete.log_prob(self.tree, z, self.loc, self.temperature, lambda s: columns(s).sum(-1))

    @property
    def scale(self) -> Float[Tensor, "*s d"]:
        """See `Posterior.scale`: √2·b."""
        return math.sqrt(2) * relaxed_discrete.scale(self.tree, self.log_width)

    def entropy(self) -> Float[Tensor, "*s"]:
        """See `Posterior.entropy`: Σ_d 1 + log 2b_d."""
        real = relaxed_discrete.column_index(self.tree, "real", self.loc)
        return (self.log_width.index_select(-1, real) + (1 + LOG_2)).sum(-1)
