"""Posteriors q(z|x): a diagonal Gaussian on real leaves, Concrete on one-hot leaves, relaxed bits on binary ones."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch

from unbraid.ground.shapes import Float, Tensor, matrix
from unbraid.latent import Latent
from unbraid.priors.discrete import binary_log_prob, binary_sample, concrete_log_prob, concrete_sample
from unbraid.priors.gaussian import LOG_2PI, sum_leaves


@dataclass(frozen=True)
class Posterior:
    """A batch of posteriors that factorise over leaves.

    `loc` holds means (real columns) and logits (discrete ones); `log_scale` is log σ, zero in discrete columns.
    z is in the coordinates of `priors.base`: itself, log z on the simplex, or logit z; `emit` makes the values
    that decoders and codes see. Kingma & Welling 2014; Maddison et al. 2017.

    >>> tree = Latent.of({"digit": "onehot(3)", "style": 2})
    >>> q = Posterior.of(tree, torch.zeros(4, Posterior.count(tree)), temperature=0.5)
    >>> q.log_prob(q.rsample()).shape    # 4 × (root, digit, style, style.0, style.1)
    torch.Size([4, 5])
    """

    tree: Latent
    loc: Float[Tensor, "*s d"]
    log_scale: Float[Tensor, "*s d"]
    temperature: float = 1.0

    @staticmethod
    def count(tree: Latent) -> int:
        """How many numbers an encoder must give: one per column and a log-variance per real column."""
        return tree.width + len(tree.columns_of("real"))

    @classmethod
    def of(cls, tree: Latent, params: Float[Tensor, "b p"], temperature: float = 1.0) -> Posterior:
        """Split an encoder's output into means and logits (first d numbers) and log-variances (the rest)."""
        loc, log_variance = params.split((tree.width, params.shape[1] - tree.width), 1)  # one op on the way back
        if tree.all_real:
            return cls(tree, loc, 0.5 * log_variance, temperature)
        log_scale = torch.zeros_like(loc).index_copy(1, _index(tree, "real", loc), 0.5 * log_variance)
        return cls(tree, loc, log_scale, temperature)

    def __len__(self) -> int:
        return self.loc.shape[0]

    def rsample(self) -> Float[Tensor, "*s d"]:
        """One reparametrised draw per example."""
        if self.tree.all_real:
            return torch.addcmul(self.loc, self.log_scale.exp(), torch.randn_like(self.loc))
        pieces = []
        for leaf, s in zip(self.tree.leaves, self.tree.slices):
            loc = self.loc[..., s]
            if leaf.kind == "real":
                pieces.append(loc + self.log_scale[..., s].exp() * torch.randn_like(loc))
            elif leaf.kind == "onehot":
                pieces.append(concrete_sample(loc.log_softmax(-1), self.temperature))
            else:
                pieces.append(binary_sample(loc, self.temperature))
        return torch.cat(pieces, -1)

    def log_prob(self, z: Float[Tensor, "... d"]) -> Float[Tensor, "... v"]:
        """log q(z_v|x) at every node v."""
        leaves = self.leaf_log_prob(z)
        return leaves @ matrix(self.tree, "membership", leaves).T

    def leaf_log_prob(self, z: Float[Tensor, "*s d"]) -> Tensor:
        """log q(z_l|x) of every leaf; broadcasts, so z "b 1 d" gives all pairs "b m l"."""
        if self.tree.all_real:
            u = (z - self.loc) * (-self.log_scale).exp()
            return sum_leaves(self.tree, -0.5 * (u.square() + LOG_2PI) - self.log_scale)
        pieces = []
        for leaf, s in zip(self.tree.leaves, self.tree.slices):
            y, loc = z[..., s], self.loc[..., s]
            if leaf.kind == "real":
                log_scale = self.log_scale[..., s]
                pieces.append((-0.5 * (((y - loc) * (-log_scale).exp()).square() + LOG_2PI) - log_scale).sum(-1))
            elif leaf.kind == "onehot":
                pieces.append(concrete_log_prob(y, loc.log_softmax(-1), self.temperature))
            else:
                pieces.append(binary_log_prob(y, loc, self.temperature).sum(-1))
        return torch.stack(torch.broadcast_tensors(*pieces), -1)

    @property
    def mean(self) -> Float[Tensor, "*s d"]:
        """What codes hold: means of real columns, probabilities of discrete ones."""
        if self.tree.all_real:
            return self.loc
        pieces = []
        for leaf, s in zip(self.tree.leaves, self.tree.slices):
            loc = self.loc[..., s]
            pieces.append(loc if leaf.kind == "real" else loc.softmax(-1) if leaf.kind == "onehot" else loc.sigmoid())
        return torch.cat(pieces, -1)

    @property
    def scale(self) -> Float[Tensor, "*s d"]:
        """Standard deviations of real columns, 0 in discrete ones."""
        if self.tree.all_real:
            return self.log_scale.exp()
        scale = torch.zeros_like(self.log_scale)
        real = _index(self.tree, "real", scale)
        return scale.index_copy(-1, real, self.log_scale.index_select(-1, real).exp())

    def entropy(self) -> Float[Tensor, "*s"]:
        """H[q(z|x)] of the real columns: Σ_d log σ_d + ½ log 2πe."""
        real = _index(self.tree, "real", self.loc)
        return (self.log_scale.index_select(-1, real) + 0.5 * (LOG_2PI + 1)).sum(-1)

    def log_det(self) -> Float[Tensor, "*s"]:
        """log |Σ(x)| of the real columns."""
        return 2 * self.log_scale.sum(-1)

    def real_factor(self) -> Float[Tensor, "*s r r"]:
        """L with L Lᵀ = Σ(x) over the real columns."""
        return self.log_scale.index_select(-1, _index(self.tree, "real", self.loc)).exp().diag_embed()

    def mean_covariance(self) -> Float[Tensor, "d d"]:
        """E[Σ(x)] over the batch, 0 in discrete columns: what the codes' own noise adds to the covariance of z."""
        return self.scale.square().mean(0).diag()

    def dependence(self, cut: Iterable[str] | None = None) -> Float[Tensor, "*s"] | float:
        """KL(q(z|x) ‖ Π_v q(z_v|x)) over a cut of the tree (the leaves): 0, as this q factorises."""
        return 0.0

    def inner(self) -> Float[Tensor, "*s l"] | float:
        """KL(q(z_l|x) ‖ Π_columns) inside each leaf: 0, as this q factorises over columns."""
        return 0.0

    def restrict(self, name: str) -> Posterior:
        """The posterior of the columns below one node."""
        columns = torch.as_tensor(self.tree.columns(name), device=self.loc.device)
        return Posterior(
            self.tree.subtree(name),
            self.loc.index_select(-1, columns),
            self.log_scale.index_select(-1, columns),
            self.temperature,
        )

    def rows(self, index: slice | Tensor) -> Posterior:
        """Some examples of the batch."""
        return Posterior(self.tree, self.loc[index], self.log_scale[index], self.temperature)

    def detach(self) -> Posterior:
        """The same posterior, constant for the gradient."""
        return Posterior(self.tree, self.loc.detach(), self.log_scale.detach(), self.temperature)


def emit(tree: Latent, z: Float[Tensor, "*s d"]) -> Float[Tensor, "*s d"]:
    """Coordinates to values: exp for one-hot leaves, sigmoid for binary ones, nothing for real ones."""
    if tree.all_real:
        return z
    pieces = []
    for leaf, s in zip(tree.leaves, tree.slices):
        y = z[..., s]
        pieces.append(y if leaf.kind == "real" else y.exp() if leaf.kind == "onehot" else y.sigmoid())
    return torch.cat(pieces, -1)


def _index(tree: Latent, kind: str, like: Tensor) -> Tensor:
    cache = tree.__dict__.setdefault("_columns", {})
    key = (kind, like.device)
    if key not in cache:
        cache[key] = torch.as_tensor(tree.columns_of(kind), dtype=torch.long, device=like.device)
    return cache[key]
