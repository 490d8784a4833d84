"""Likelihoods p(x|z): what the decoder's output means. Summed over pixels, constants kept, in nats."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn.functional import binary_cross_entropy_with_logits

from unbraid.core.errors import expect
from unbraid.core.shapes import Float, Tensor
from unbraid.priors.base import register_values

LOG_2PI = math.log(2 * math.pi)


class Likelihood(nn.Module):
    """p(x|out). `maps` is how many numbers the decoder gives per pixel and channel; `low`, `high` bound x.

    >>> LIKELIHOODS["bernoulli"]().mean(torch.zeros(1, 1, 2, 2)).max()    # sigmoid(0)
    tensor(0.5000)
    """

    maps: int = 1
    low: float = -math.inf
    high: float = math.inf

    @abstractmethod
    def log_prob(self, x: Float[Tensor, "b c h w"], out: Tensor) -> Float[Tensor, "b"]:
        """log p(x|out), summed over pixels and channels.

        Args:
            x: images "b c h w".
            out: the output of the decoder.
        """

    @abstractmethod
    def mean(self, out: Tensor) -> Tensor:
        """E[x|out], as images.

        Args:
            out: the output of the decoder.
        """


class Bernoulli(Likelihood):
    """log p(x|z) = Σ x log s + (1−x) log(1−s), s = sigmoid(out); x in [0, 1] as in all five papers.

    A distribution over x in {0, 1}; on grey pixels it is the papers' cross-entropy and no density.

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
    """log p(x|z) = Σ log N(x; out, σ²); σ fixed, one learned number, or the decoder's per pixel (`learned="pixel"`).

    With `"pixel"` the decoder gives two maps per channel, means then log σ, and `sigma` is the least σ allowed.

    >>> Gaussian(learned="pixel").log_prob(torch.zeros(1, 1, 1, 1), torch.zeros(1, 2, 1, 1)).item()    # −½ log 2π
    -0.9189385175704956
    """

    log_sigma: Tensor

    def __init__(self, sigma: float | None = None, learned: bool | str = False):
        super().__init__()
        expect(learned in (True, False, "pixel"), "learned is true, false or 'pixel'", found=repr(learned))
        self.pixel = learned == "pixel"
        sigma = (1e-3 if self.pixel else 1.0) if sigma is None else sigma
        expect(
            isinstance(sigma, int | float) and 0 < sigma < math.inf,
            "sigma of the gaussian likelihood must be positive",
            found=sigma,
        )
        self.maps = 2 if self.pixel else 1
        register_values(self, "log_sigma", torch.tensor(math.log(sigma)), learned is True)

    def log_prob(self, x: Float[Tensor, "b c h w"], out: Tensor) -> Float[Tensor, "b"]:
        """See `Likelihood.log_prob`."""
        if self.pixel:
            mean, log_sigma = out.chunk(2, 1)
            log_sigma = torch.maximum(log_sigma, self.log_sigma)
            return (-0.5 * (((x - mean) * (-log_sigma).exp()).square() + LOG_2PI) - log_sigma).flatten(1).sum(1)
        u = ((x - out) * (-self.log_sigma).exp()).flatten(1)
        return -0.5 * u.square().sum(1) - u.shape[1] * (self.log_sigma + 0.5 * LOG_2PI)

    def mean(self, out: Tensor) -> Tensor:
        """See `Likelihood.mean`."""
        return out.chunk(2, 1)[0] if self.pixel else out


class Laplace(Likelihood):
    """log p(x|z) = Σ −|x − out|/b − log 2b, b fixed or one learned number.

    >>> round(float(Laplace().log_prob(torch.zeros(1, 1, 1, 1), torch.zeros(1, 1, 1, 1))), 4)    # −log 2
    -0.6931
    """

    log_width: Tensor

    def __init__(self, width: float = 1.0, learned: bool = False):
        super().__init__()
        expect(
            isinstance(width, int | float) and 0 < width < math.inf,
            "width of the laplace likelihood must be positive",
            found=width,
        )
        register_values(self, "log_width", torch.tensor(math.log(width)), learned)

    def log_prob(self, x: Float[Tensor, "b c h w"], out: Tensor) -> Float[Tensor, "b"]:
        """See `Likelihood.log_prob`."""
        u = (x - out).abs().flatten(1)
        return -u.sum(1) * (-self.log_width).exp() - u.shape[1] * (self.log_width + math.log(2))

    def mean(self, out: Tensor) -> Tensor:
        """See `Likelihood.mean`."""
        return out


class ContinuousBernoulli(Likelihood):
    """log p(x|z) = Σ x·a − log((eᵃ − 1)/a), a = out: the Bernoulli form made a density on [0, 1].

    Loaiza-Ganem & Cunningham 2019. Its mean is 1/(1 − e⁻ᵃ) − 1/a, not sigmoid(a).

    >>> ContinuousBernoulli().log_prob(torch.rand(1, 1, 2, 2), torch.zeros(1, 1, 2, 2))    # uniform at a = 0
    tensor([0.])
    """

    low, high = 0.0, 1.0

    def log_prob(self, x: Float[Tensor, "b c h w"], out: Tensor) -> Float[Tensor, "b"]:
        """See `Likelihood.log_prob`."""
        half = 0.5 * out.abs()
        near = half < 0.05
        safe = torch.where(near, 1.0, half)
        far_form = safe + (-(-2 * safe).exp()).log1p() - (2 * safe).log()
        near_form = half.square() / 6 - half.pow(4) / 180  # log (sinh h)/h, whose exact form loses its digits near 0
        return ((x - 0.5) * out - torch.where(near, near_form, far_form)).flatten(1).sum(1)

    def mean(self, out: Tensor) -> Tensor:
        """See `Likelihood.mean`."""
        near = out.abs() < 0.1
        safe = torch.where(near, 1.0, out)
        return torch.where(near, 0.5 + out / 12 - out.pow(3) / 720, -1 / torch.expm1(-safe) - 1 / safe)


class Categorical(Likelihood):
    """p(x|z) over `levels` equally spaced values in [0, 1] per pixel and channel: a softmax of `levels` maps.

    log p(x|z) = Σ log softmax(out)[level of x]; with 256 levels, bytes as they are stored. x is rounded to its level.

    >>> Categorical(levels=4).log_prob(torch.zeros(1, 1, 1, 1), torch.zeros(1, 4, 1, 1))    # log ¼
    tensor([-1.3863])
    """

    low, high = 0.0, 1.0

    def __init__(self, levels: int = 256):
        super().__init__()
        expect(
            isinstance(levels, int) and 2 <= levels <= 65536,
            "levels of the categorical likelihood must lie between 2 and 65,536",
            found=repr(levels),
        )
        self.maps = levels

    def log_prob(self, x: Float[Tensor, "b c h w"], out: Tensor) -> Float[Tensor, "b"]:
        """See `Likelihood.log_prob`."""
        level = (x * (self.maps - 1)).round().long().unsqueeze(1)
        log_p = out.unflatten(1, (self.maps, -1)).log_softmax(1)
        return log_p.gather(1, level).flatten(1).sum(1)

    def mean(self, out: Tensor) -> Tensor:
        """See `Likelihood.mean`."""
        values = torch.linspace(0, 1, self.maps, dtype=out.dtype, device=out.device)
        return torch.einsum("bkchw,k->bchw", out.unflatten(1, (self.maps, -1)).softmax(1), values)


LIKELIHOODS: dict[str, Callable[..., Any]] = {
    "bernoulli": Bernoulli,
    "gaussian": Gaussian,
    "laplace": Laplace,
    "continuous_bernoulli": ContinuousBernoulli,
    "categorical": Categorical,
}
