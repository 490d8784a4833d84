"""A Gaussian prior with full covariance, learned through its Cholesky factor."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from unbraid.core.errors import expect
from unbraid.core.shapes import Float, Tensor
from unbraid.latent import Latent
from unbraid.priors.base import Prior, register_values
from unbraid.priors.gaussian import LOG_2PI


class FullGaussian(Prior):
    """p(z) = N(z; 0, L Lᵀ), L lower triangular with positive diagonal; the marginal of any node is its block of L Lᵀ.

    Starts at the identity, or at a given covariance; learned unless `learned=False`.

    >>> prior = FullGaussian(Latent.of(2), covariance=[[1.0, 0.5], [0.5, 1.0]])
    >>> prior.log_prob(torch.zeros(2)).detach()    # at 0 the joint is denser than the product of its marginals
    tensor([-1.6940, -0.9189, -0.9189])
    """

    free: Tensor

    def __init__(self, tree: Latent, covariance: Sequence[Sequence[float]] | None = None, learned: bool = True):
        super().__init__(tree)
        expect(tree.all_real, "prior 'full_gaussian' is for real leaves", found=str(tree))
        d = tree.width
        given = torch.eye(d) if covariance is None else torch.as_tensor(covariance, dtype=torch.get_default_dtype())
        expect(
            given.shape == (d, d),
            "covariance must be a square table over the columns",
            found=tuple(given.shape),
            allowed=(d, d),
        )
        expect(bool(torch.allclose(given, given.T)), "covariance must be symmetric")
        factor, info = torch.linalg.cholesky_ex(given)
        expect(int(info) == 0, "covariance must be positive definite")
        free = factor.tril(-1) + factor.diagonal().log().diag()
        register_values(self, "free", free, learned)

    @property
    def factor(self) -> Float[Tensor, "d d"]:
        """L, its diagonal kept positive as an exponential."""
        return self.free.tril(-1) + self.free.diagonal().exp().diag()

    def covariance(self) -> Float[Tensor, "d d"]:
        """See `Prior.covariance`."""
        return self.factor @ self.factor.T

    def marginal_factor(self, name: str) -> Float[Tensor, "k k"]:
        """The Cholesky factor of one node's marginal covariance.

        Args:
            name: the name of the node.
        """
        columns = self.tree.columns(name)
        rows = self.factor[columns]
        return torch.linalg.cholesky(rows @ rows.T) if len(columns) < self.tree.width else self.factor

    def log_prob(self, z: Float[Tensor, "*s d"], temperature: float = 1.0) -> Float[Tensor, "*s v"]:
        """See `Prior.log_prob`."""
        nodes = []
        for name in self.tree.names:
            factor = self.marginal_factor(name).to(z.dtype)
            y = z[..., self.tree.columns(name)]
            u = torch.linalg.solve_triangular(factor, y.unsqueeze(-1), upper=False).squeeze(-1)
            nodes.append(-0.5 * (u.square().sum(-1) + y.shape[-1] * LOG_2PI) - factor.diagonal().log().sum())
        return torch.stack(nodes, -1)

    def sample(self, n: int, temperature: float = 1.0) -> Float[Tensor, "n d"]:
        """See `Prior.sample`."""
        factor = self.factor.detach()
        return torch.randn(n, self.tree.width, dtype=factor.dtype, device=factor.device) @ factor.T
