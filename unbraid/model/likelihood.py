"""Likelihoods p(x|z): what the decoder's output means. Summed over pixels, constants kept, in nats."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn.functional import binary_cross_entropy_with_logits

from unbraid.errors import expect
from unbraid.shapes import Float, Tensor


class Likelihood(nn.Module):
    """p(x|out). `maps` is how many numbers the decoder gives per pixel and channel; `low`, `high` bound x."""

    maps: int = 1
    low: float = -math.inf
    high: float = math.inf

    @abstractmethod
    def log_prob(self, x: Float[Tensor, "b c h w"], out: Tensor) -> Float[Tensor, "b"]:
        """log p(x|out), summed over pixels and channels."""

    @abstractmethod
    def mean(self, out: Tensor) -> Tensor:
        """E[x|out], as images."""


class Bernoulli(Likelihood):
    """log p(x|z) = Σ x log s + (1−x) log(1−s), s = sigmoid(out); x in [0, 1] as in all five papers.

    >>> Bernoulli().log_prob(torch.ones(1, 1, 2, 2), torch.zeros(1, 1, 2, 2))    # 4·log ½
    tensor([-2.7726])
    """

    low, high = 0.0, 1.0

    def log_prob(self, x: Float[Tensor, "b c h w"], out: Tensor) -> Float[Tensor, "b"]:
        """See `Likelihood.log_prob`."""
        return -binary_cross_entropy_with_logits(out, x, reduction="none").flatten(1).sum(1)

    def mean(self, out: Tensor) -> Tensor:
        """See `Likelihood.mean`."""
        return out.sigmoid()


class Gaussian(Likelihood):
    """log p(x|z) = Σ log N(x; out, σ²), σ fixed or one learned number."""

    log_sigma: Tensor

    def __init__(self, sigma: float = 1.0, learned: bool = False):
        super().__init__()
        expect(math.isfinite(sigma) and sigma > 0, "sigma of the gaussian likelihood must be positive", found=sigma)
        if learned:
            self.log_sigma = nn.Parameter(torch.tensor(math.log(sigma)))
        else:
            self.register_buffer("log_sigma", torch.tensor(math.log(sigma)))

    def log_prob(self, x: Float[Tensor, "b c h w"], out: Tensor) -> Float[Tensor, "b"]:
        """See `Likelihood.log_prob`."""
        u = ((x - out) * (-self.log_sigma).exp()).flatten(1)
        return -0.5 * u.square().sum(1) - u.shape[1] * (self.log_sigma + 0.5 * math.log(2 * math.pi))

    def mean(self, out: Tensor) -> Tensor:
        """See `Likelihood.mean`."""
        return out


LIKELIHOODS: dict[str, Callable[..., Any]] = {"bernoulli": Bernoulli, "gaussian": Gaussian}
