"""Gaussian priors with independent columns: standard, or anisotropic with fixed or learned variances."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import nn

from unbraid.errors import expect
from unbraid.latent import Latent
from unbraid.priors.base import Prior
from unbraid.shapes import Float, Tensor

LOG_2PI = math.log(2 * math.pi)


class Gaussian(Prior):
    """p(z) = Π_d N(z_d; 0, v_d). Variances are 1, or given; learned ones keep their sum: v = D·softmax(logits).

    Mathieu et al. 2019, Sec. 6: the anisotropic prior and its learned form.

    >>> prior = Gaussian(Latent.of(2))
    >>> prior.log_prob(torch.zeros(1, 2)).shape    # root, z0, z1
    torch.Size([1, 3])
    """

    log_variance_free: Tensor

    def __init__(self, tree: Latent, variances: Sequence[float] | None = None, learned: bool = False):
        super().__init__(tree)
        expect(tree.all_real, "prior 'gaussian' is for real leaves", found=str(tree))
        d = tree.width
        v = torch.ones(d) if variances is None else torch.as_tensor(list(variances), dtype=torch.get_default_dtype())
        expect(v.shape == (d,), "prior 'gaussian' needs one variance per column", found=f"{len(v)} variances, {d} columns")
        expect(bool((v > 0).all() and v.isfinite().all()), "variances must be positive numbers", found=v.tolist())
        self.learned = learned
        self.plain = variances is None and not learned
        if learned:
            self.log_variance_free = nn.Parameter(v.log())
            self.total = float(v.sum())
        else:
            self.register_buffer("log_variance_free", v.log())

    @property
    def log_variance(self) -> Float[Tensor, "d"]:
        """log v_d; a learned prior shares a fixed total variance among its columns."""
        if not self.learned:
            return self.log_variance_free
        return self.log_variance_free.log_softmax(0) + math.log(self.total)

    def log_prob(self, z: Float[Tensor, "*s d"], temperature: float = 1.0) -> Float[Tensor, "*s v"]:
        """See `Prior.log_prob`."""
        log_v = self.log_variance.to(z.dtype)
        columns = -0.5 * (z.square() * (-log_v).exp() + log_v + LOG_2PI)
        return self.spread(sum_leaves(self.tree, columns))

    def sample(self, n: int, temperature: float = 1.0) -> Float[Tensor, "n d"]:
        """See `Prior.sample`."""
        scale = (0.5 * self.log_variance.detach()).exp()
        return torch.randn(n, self.tree.width, dtype=scale.dtype, device=scale.device) * scale

    def covariance(self) -> Float[Tensor, "d d"]:
        """See `Prior.covariance`."""
        return self.log_variance.exp().diag()

    def kl(self, q: object) -> Float[Tensor, "b l"] | None:
        """½ Σ_d (σ²/v + μ²/v − 1 − log σ²/v) per leaf, for a diagonal Gaussian q."""
        mean, log_scale = getattr(q, "loc", None), getattr(q, "log_scale", None)
        if mean is None or log_scale is None:
            return None
        if self.plain:
            columns = 0.5 * ((2 * log_scale).exp() + mean.square() - 1) - log_scale
        else:
            log_v = self.log_variance.to(mean.dtype)
            columns = 0.5 * ((2 * log_scale - log_v).exp() + mean.square() * (-log_v).exp() - 1 + log_v) - log_scale
        return sum_leaves(self.tree, columns)


def sum_leaves(tree: Latent, columns: Float[Tensor, "*s d"]) -> Float[Tensor, "*s l"]:
    """Sum the columns of each leaf; nothing to do when every leaf has one column."""
    if tree.width == len(tree.leaves):
        return columns
    return torch.stack([columns[..., s].sum(-1) for s in tree.slices], -1)
