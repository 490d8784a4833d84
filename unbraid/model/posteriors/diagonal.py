"""The diagonal Gaussian posterior."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from unbraid.core.shapes import Float, Tensor
from unbraid.latent import Latent
from unbraid.model import relaxed_discrete
from unbraid.model.posterior import Posterior
from unbraid.priors.gaussian import LOG_2PI, sum_columns_by_leaf


@dataclass(frozen=True)
class Diagonal(Posterior):
    """q(z|x) = Π_d N(μ_d(x), σ_d(x)²) on real columns; `log_scale` is log σ, zero in discrete ones.

    log σ ≥ −20 (σ ≥ 2e-9), so that pairwise densities stay finite in float32.

    Kingma & Welling 2014; discrete leaves Maddison et al. 2017.

    >>> tree = Latent.of({"digit": "onehot(3)", "style": 2})
    >>> q = Diagonal.from_params(tree, torch.zeros(4, Diagonal.param_count(tree)), temperature=0.5)
    >>> q.log_prob(q.rsample()).shape    # 4 × (root, digit, style, style.0, style.1)
    torch.Size([4, 5])
    """

    tree: Latent
    loc: Float[Tensor, "*s d"]
    log_scale: Float[Tensor, "*s d"]
    temperature: float = 1.0

    @staticmethod
    def param_count(tree: Latent) -> int:
        """See `Posterior.param_count`: one per column and a log-variance per real column."""
        return tree.width + len(tree.columns_of_kind("real"))

    @classmethod
    def from_params(cls, tree: Latent, params: Float[Tensor, "b p"], temperature: float = 1.0) -> Diagonal:
        """See `Posterior.from_params`: the rest are log-variances."""
        return cls(tree, *relaxed_discrete.split_params(tree, params), temperature)

    def rsample(self) -> Float[Tensor, "*s d"]:
        """See `Posterior.rsample`."""
        if self.tree.all_real:
            return torch.addcmul(self.loc, self.log_scale.exp(), torch.randn_like(self.loc))

        def real(s: slice) -> Tensor:
            loc = self.loc[..., s]
            return loc + self.log_scale[..., s].exp() * torch.randn_like(loc)

        return relaxed_discrete.sample(self.tree, self.loc, self.temperature, real)

    def leaf_log_prob(self, z: Float[Tensor, "*s d"]) -> Tensor:
        """See `Posterior.leaf_log_prob`."""
        if self.tree.all_real:
            return sum_columns_by_leaf(self.tree, normal_log_prob(z, self.loc, self.log_scale))

        def real(s: slice) -> Tensor:
            return normal_log_prob(z[..., s], self.loc[..., s], self.log_scale[..., s]).sum(-1)

        return relaxed_discrete.log_prob(self.tree, z, self.loc, self.temperature, real)

    @property
    def scale(self) -> Float[Tensor, "*s d"]:
        """See `Posterior.scale`."""
        return relaxed_discrete.scale(self.tree, self.log_scale)

    def entropy(self) -> Float[Tensor, "*s"]:
        """See `Posterior.entropy`: Σ_d log σ_d + ½ log 2πe."""
        real = relaxed_discrete.column_index(self.tree, "real", self.loc)
        return (self.log_scale.index_select(-1, real) + 0.5 * (LOG_2PI + 1)).sum(-1)


def normal_log_prob(z: Tensor, loc: Tensor, log_scale: Tensor) -> Tensor:
    """log N(z; μ, σ²) of each column.

    Args:
        z: the values.
        loc: the means μ.
        log_scale: log σ.
    """
    return -0.5 * (((z - loc) * (-log_scale).exp()).square() + LOG_2PI) - log_scale
