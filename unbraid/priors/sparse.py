"""The sparse prior: each column is on (standard normal) or off (a narrow normal)."""

from __future__ import annotations

import math

import torch
from torch import nn

from unbraid.core.errors import expect
from unbraid.core.shapes import Float, Tensor
from unbraid.latent import Latent
from unbraid.priors.base import Prior, register_values
from unbraid.priors.gaussian import LOG_2PI, sum_columns_by_leaf

NAMED_SIGMAS = {"appendix": 0.05, "text": math.sqrt(0.05)}
MIN_LOGIT = -1e4  # the logit of γ = 0, the Gaussian prior: finite, as all that is stored must be, and sigmoid gives 0


class Sparse(Prior):
    """p(z) = Π_d (1−γ) N(z_d; 0, 1) + γ N(z_d; 0, σ0²); γ is how likely a column is off.

    `sigma0` is a number or one of two readings: `"appendix"` prints σ0 = 0.05, `"text"` σ0² = 0.05. `learned` frees
    both γ and σ0. Mathieu et al. 2019, Sec. 6 and App. B.

    gamma: γ, the share of columns that are off.

    >>> round(float(Sparse(Latent.of(1), gamma=0.8, sigma0="text").covariance()), 4)    # 0.2 + 0.8·0.05
    0.24
    """

    logit: Tensor
    log_sigma: Tensor

    def __init__(self, tree: Latent, gamma: float = 0.9, sigma0: float | str = "appendix", learned: bool = False):
        super().__init__(tree)
        expect(tree.all_real, "prior 'sparse' is for real leaves", found=str(tree))
        expect(
            isinstance(gamma, int | float) and 0 <= gamma < 1, "gamma of prior 'sparse' must lie in [0, 1)", found=gamma
        )
        expect(gamma > 0 or not learned, "a learned sparse prior must start with gamma above 0", found=gamma)
        number = NAMED_SIGMAS.get(sigma0, sigma0) if isinstance(sigma0, str) else sigma0
        expect(
            isinstance(number, int | float) and 0 < number < math.inf,
            "sigma0 of prior 'sparse' is a positive number or a name",
            found=repr(sigma0),
            allowed=NAMED_SIGMAS,
        )
        register_values(self, "logit", torch.tensor(float(gamma)).logit().clamp(min=MIN_LOGIT), learned)
        register_values(self, "log_sigma", torch.tensor(float(number)).log(), learned)

    def log_prob(self, z: Float[Tensor, "*s d"], temperature: float = 1.0) -> Float[Tensor, "*s v"]:
        """See `Prior.log_prob`."""
        logit, log_sigma = self.logit.to(z.dtype), self.log_sigma.to(z.dtype)
        on = nn.functional.logsigmoid(-logit) - 0.5 * (z.square() + LOG_2PI)
        off = nn.functional.logsigmoid(logit) - 0.5 * ((z * (-log_sigma).exp()).square() + LOG_2PI) - log_sigma
        return self.sum_to_nodes(sum_columns_by_leaf(self.tree, torch.logaddexp(on, off)))

    def sample(self, n: int, temperature: float = 1.0) -> Float[Tensor, "n d"]:
        """See `Prior.sample`."""
        normal = torch.randn(n, self.tree.width, dtype=self.logit.dtype, device=self.logit.device)
        off = torch.rand_like(normal) < self.logit.detach().sigmoid()
        return torch.where(off, normal * self.log_sigma.detach().exp(), normal)

    def covariance(self) -> Float[Tensor, "d d"]:
        """See `Prior.covariance`: 1 − γ + γ σ0²."""
        gamma = self.logit.sigmoid()
        return (1 - gamma + gamma * (2 * self.log_sigma).exp()).expand(self.tree.width).diag()
