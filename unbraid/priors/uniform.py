"""Uniform columns, as the continuous codes of InfoGAN."""

from __future__ import annotations

import math

import torch

from unbraid.core.errors import expect
from unbraid.core.shapes import Float, Tensor
from unbraid.latent import Latent
from unbraid.priors.base import Prior
from unbraid.priors.gaussian import sum_columns_by_leaf


class Uniform(Prior):
    """p(z) = Π_d 1[low ≤ z_d ≤ high]/(high − low). Kim & Mnih 2018, App. G: codes U[−1, 1].

    Its density is 0 outside the box, so the KL from any Gaussian posterior is infinite: it serves InfoGAN and
    objectives whose divergence needs samples only (`wae`, `agg@mmd`).

    >>> Uniform(Latent.of(2)).covariance()[0, 0]    # (high − low)²/12
    tensor(0.3333)
    """

    bounded = True
    edges: Tensor

    def __init__(self, tree: Latent, low: float = -1.0, high: float = 1.0):
        super().__init__(tree)
        expect(tree.all_real, "prior 'uniform' is for real leaves", found=str(tree))
        ok = all(isinstance(end, int | float) and math.isfinite(end) for end in (low, high)) and low < high
        expect(ok, "prior 'uniform' needs low below high", found=f"low {low}, high {high}")
        self.register_buffer("edges", torch.tensor([float(low), float(high)]))

    def log_prob(self, z: Float[Tensor, "*s d"], temperature: float = 1.0) -> Float[Tensor, "*s v"]:
        """See `Prior.log_prob`."""
        low, high = self.edges.to(z.dtype)
        inside = (z >= low) & (z <= high)
        columns = torch.where(inside, -(high - low).log(), -math.inf)
        leaves = sum_columns_by_leaf(self.tree, columns)
        return torch.stack([leaves[..., self._leaves_below(name)].sum(-1) for name in self.tree.names], -1)

    def _leaves_below(self, name: str) -> list[int]:
        """Leaves below a node; `Prior.sum_to_nodes` would multiply −inf by 0."""
        return [int(i) for i in self.tree.membership[self.tree.index(name)].nonzero()[0]]

    def sample(self, n: int, temperature: float = 1.0) -> Float[Tensor, "n d"]:
        """See `Prior.sample`."""
        low, high = self.edges
        return low + (high - low) * torch.rand(n, self.tree.width, dtype=self.edges.dtype, device=self.edges.device)

    def covariance(self) -> Float[Tensor, "d d"]:
        """See `Prior.covariance`."""
        low, high = self.edges
        return ((high - low).square() / 12).expand(self.tree.width).diag()
