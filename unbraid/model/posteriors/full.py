"""The full-covariance Gaussian posterior: real columns together, discrete leaves as in the diagonal one."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch

from unbraid.core.shapes import Float, Tensor
from unbraid.latent import Latent
from unbraid.model import relaxed_discrete
from unbraid.model.posterior import Posterior
from unbraid.model.posteriors.diagonal import normal_log_prob
from unbraid.priors.gaussian import LOG_2PI


@dataclass(frozen=True)
class Full(Posterior):
    """q(z|x) = N(μ(x), L(x) L(x)ᵀ) over the real columns; `log_scale` is log σ of the marginals.

    L = diag(s)·(I + T), T strictly lower triangular, so that the T of an encoder says how columns depend on each other
    in units of their own scale; log s ≥ −20. The marginal at a node is its block of L Lᵀ. Mathieu et al. 2019, Theorem 2,
    needs it.

    >>> tree = Latent.of(3)
    >>> q = Full.from_params(tree, torch.randn(4, Full.param_count(tree)))
    >>> q.log_prob(q.rsample().unsqueeze(1)).shape    # all pairs: 4 × 4 × (root, z0, z1, z2)
    torch.Size([4, 4, 4])
    """

    tree: Latent
    loc: Float[Tensor, "*s d"]
    log_scale: Float[Tensor, "*s d"]
    factor: Float[Tensor, "*s r r"]
    temperature: float = 1.0
    independent = False

    @staticmethod
    def param_count(tree: Latent) -> int:
        """See `Posterior.param_count`: and one number below the diagonal for each pair of real columns."""
        r = len(tree.columns_of_kind("real"))
        return tree.width + r + r * (r - 1) // 2

    @classmethod
    def from_params(cls, tree: Latent, params: Float[Tensor, "b p"], temperature: float = 1.0) -> Full:
        """See `Posterior.from_params`: means and logits, log s², and the numbers below the diagonal."""
        d, r = tree.width, len(tree.columns_of_kind("real"))
        loc, log_s, below = params[:, :d], 0.5 * params[:, d : d + r], params[:, d + r :]
        log_s = relaxed_discrete.bound_log_scale(log_s)
        rows, columns = torch.tril_indices(r, r, -1, device=params.device)
        unit = torch.eye(r, dtype=params.dtype, device=params.device).repeat(params.shape[0], 1, 1)
        unit = unit.index_put((torch.arange(params.shape[0], device=params.device)[:, None], rows, columns), below)
        return cls.from_factor(tree, loc, log_s.exp().unsqueeze(-1) * unit, temperature)

    @classmethod
    def from_factor(
        cls, tree: Latent, loc: Float[Tensor, "b d"], factor: Float[Tensor, "b r r"], temperature: float = 1.0
    ) -> Full:
        """From means (and logits) and the Cholesky factor over the real columns.

        Args:
            tree: the latent tree.
            loc: means and logits.
            factor: the Cholesky factor "b r r".
            temperature: the temperature of relaxed discrete leaves.
        """
        marginal = 0.5 * factor.square().sum(-1).log()
        if not tree.all_real:
            marginal = torch.zeros_like(loc).index_copy(1, relaxed_discrete.column_index(tree, "real", loc), marginal)
        return cls(tree, loc, marginal, factor, temperature)

    def rsample(self) -> Float[Tensor, "*s d"]:
        """See `Posterior.rsample`."""
        real = relaxed_discrete.column_index(self.tree, "real", self.loc)
        mean = self.loc.index_select(-1, real)
        drawn = mean + (self.factor @ torch.randn_like(mean).unsqueeze(-1)).squeeze(-1)
        if self.tree.all_real:
            return drawn
        # the noise that the diagonal family would draw is drawn and dropped, so that a seed keeps its meaning
        rest = relaxed_discrete.sample(
            self.tree, self.loc, self.temperature, lambda s: torch.randn_like(self.loc[..., s])
        )
        return rest.index_copy(-1, real, drawn)

    def log_prob(self, z: Float[Tensor, "... d"]) -> Float[Tensor, "... v"]:
        """See `Posterior.log_prob`: every node by its block of the covariance."""
        leaves = self.leaf_log_prob(z)
        names = [leaf.name for leaf in self.tree.leaves]
        nodes = []
        for name in self.tree.names:
            if name in names:
                nodes.append(leaves[..., names.index(name)])
                continue
            below = self.tree.subtree_names(name)
            discrete = [i for i, leaf in enumerate(self.tree.leaves) if leaf.kind != "real" and leaf.name in below]
            nodes.append(self._gaussian(name, z) + leaves[..., discrete].sum(-1))
        return torch.stack(nodes, -1)

    def leaf_log_prob(self, z: Float[Tensor, "*s d"]) -> Tensor:
        """See `Posterior.leaf_log_prob`: a leaf of several columns has a full covariance too."""

        if self.tree.all_real and self.tree.width == len(self.tree.leaves):
            return normal_log_prob(z, self.loc, self.log_scale)

        def real(s: slice) -> Tensor:
            if s.stop - s.start == 1:
                return normal_log_prob(z[..., s], self.loc[..., s], self.log_scale[..., s]).sum(-1)
            return self._gaussian(self.tree.leaves[self.tree.slices.index(s)].name, z)

        return relaxed_discrete.log_prob(self.tree, z, self.loc, self.temperature, real)

    def _positions(self, name: str) -> list[int]:
        """The rows of the factor below a node."""
        real = {column: row for row, column in enumerate(self.tree.columns_of_kind("real"))}
        return [real[c] for c in self.tree.columns(name) if c in real]

    def marginal_factor(self, name: str) -> Float[Tensor, "*s k k"]:
        """The Cholesky factor of the marginal covariance of one node's real columns.

        Args:
            name: the name of the node.
        """
        at = self._positions(name)
        if at == list(range(len(at))):
            return self.factor[..., : len(at), : len(at)]
        rows = self.factor[..., at, :]
        return torch.linalg.cholesky(rows @ rows.mT)

    def _gaussian(self, name: str, z: Tensor) -> Tensor:
        real = self.tree.columns_of_kind("real")
        columns = [real[row] for row in self._positions(name)]
        if not columns:
            return (z[..., 0] + self.loc[..., 0]) * 0
        factor = self.marginal_factor(name)
        identity = torch.eye(len(columns), dtype=z.dtype, device=z.device).expand_as(factor)
        inverse = torch.linalg.solve_triangular(factor, identity, upper=False)
        u = torch.einsum("...ij,...j->...i", inverse, z[..., columns] - self.loc[..., columns])
        return -0.5 * (u.square().sum(-1) + len(columns) * LOG_2PI) - factor.diagonal(dim1=-2, dim2=-1).log().sum(-1)

    def log_det(self) -> Float[Tensor, "*s"]:
        """log |Σ(x)| of the real columns."""
        return 2 * self.factor.diagonal(dim1=-2, dim2=-1).log().sum(-1)

    def mean_covariance(self) -> Float[Tensor, "d d"]:
        """See `Posterior.mean_covariance`."""
        covariance = (self.factor @ self.factor.mT).mean(0)
        real = relaxed_discrete.column_index(self.tree, "real", self.loc)
        whole = self.loc.new_zeros(self.tree.width, self.tree.width)
        return whole.index_put((real[:, None], real[None, :]), covariance)

    def entropy(self) -> Float[Tensor, "*s"]:
        """See `Posterior.entropy`: ½ log |2πe L Lᵀ|."""
        return 0.5 * (self.log_det() + self.factor.shape[-1] * (LOG_2PI + 1))

    def dependence(self, cut: Iterable[str] | None = None) -> Float[Tensor, "*s"]:
        """See `Posterior.dependence`: ½ (Σ_v log |Σ_vv| − log |Σ|)."""
        if cut is None:
            inner = self.within_leaf_dependence()
            bound = inner.sum(-1) if isinstance(inner, Tensor) else inner
            return self.log_scale.sum(-1) - bound - 0.5 * self.log_det()
        blocks = [self.marginal_factor(name) for name in cut if self._positions(name)]
        parts = [block.diagonal(dim1=-2, dim2=-1).log().sum(-1) for block in blocks]
        if not parts:
            return self.loc.new_zeros(self.loc.shape[:-1])
        return torch.stack(parts).sum(0) - 0.5 * self.log_det()

    def within_leaf_dependence(self) -> Float[Tensor, "*s l"] | float:
        """See `Posterior.within_leaf_dependence`: only leaves of several columns bind any."""
        if all(leaf.width == 1 or leaf.kind != "real" for leaf in self.tree.leaves):
            return 0.0
        return torch.stack([self.restrict(leaf.name)._column_dependence() for leaf in self.tree.leaves], -1)

    def _column_dependence(self) -> Tensor:
        return self.log_scale.sum(-1) - 0.5 * self.log_det()

    @property
    def scale(self) -> Float[Tensor, "*s d"]:
        """See `Posterior.scale`: of the marginals."""
        return relaxed_discrete.scale(self.tree, self.log_scale)

    def restrict(self, name: str) -> Full:
        """See `Posterior.restrict`."""
        columns = torch.as_tensor(self.tree.columns(name), device=self.loc.device)
        loc, log_scale = self.loc.index_select(-1, columns), self.log_scale.index_select(-1, columns)
        return self.with_changes(
            tree=self.tree.subtree(name), loc=loc, log_scale=log_scale, factor=self.marginal_factor(name)
        )
