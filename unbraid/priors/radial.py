"""Radial laws of Lp-nested priors: how far from 0 a draw lies, ψ0(v) of v = f(z). Only 'chi' makes subspaces independent."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from unbraid.core import options
from unbraid.core.errors import choose, expect
from unbraid.core.shapes import Float, Tensor
from unbraid.priors.generalised_gaussian import sample_log_gamma

LOG_2PI = math.log(2 * math.pi)


class Radial(ABC):
    """ψ0 on v > 0, from log v; `n` is the number of columns. Left to themselves, laws have E v² = n, as N(0, I) has."""

    @abstractmethod
    def log_density(self, log_v: Tensor, n: int) -> Tensor:
        """log ψ0(v), a density in v.

        Args:
            log_v: log v.
            n: the number of columns.
        """

    @abstractmethod
    def sample(self, like: Float[Tensor, "b"], n: int) -> Float[Tensor, "b"]:
        """log v of some draws.

        Args:
            like: a tensor whose shape, type and device are used.
            n: the number of columns.
        """

    @abstractmethod
    def log_second_moment(self, n: int) -> float:
        """log E v².

        Args:
            n: the number of columns.
        """


@dataclass(frozen=True)
class LogNormal(Radial):
    """log v ~ N(mean, sigma²); the mean is ½ log n − sigma² unless given.

    >>> round(LogNormal(0.5).log_second_moment(4), 4) == round(math.log(4), 4)
    True
    """

    sigma: float = 0.5
    mean: float | None = None

    def __post_init__(self) -> None:
        expect(self.sigma > 0, "sigma of radial law 'log_normal' must be positive", found=self.sigma)

    def _mean(self, n: int) -> float:
        return 0.5 * math.log(n) - self.sigma**2 if self.mean is None else self.mean

    def log_density(self, log_v: Tensor, n: int) -> Tensor:
        """See `Radial.log_density`."""
        u = (log_v - self._mean(n)) / self.sigma
        return -0.5 * (u.square() + LOG_2PI) - math.log(self.sigma) - log_v

    def sample(self, like: Float[Tensor, "b"], n: int) -> Float[Tensor, "b"]:
        """See `Radial.sample`."""
        return self._mean(n) + self.sigma * torch.randn_like(like)

    def log_second_moment(self, n: int) -> float:
        """See `Radial.log_second_moment`."""
        return 2 * self._mean(n) + 2 * self.sigma**2


@dataclass(frozen=True)
class Gamma(Radial):
    """v ~ Gamma(shape)·width; shape is n and the width √(n/(shape (shape + 1))) unless given. Shape 1: exponential.

    >>> round(Gamma(3.0).log_second_moment(4), 4) == round(math.log(4), 4)
    True
    """

    shape: float | None = None
    width: float | None = None

    def __post_init__(self) -> None:
        ok = all(given is None or given > 0 for given in (self.shape, self.width))
        expect(ok, "shape and width of radial law 'gamma' must be positive", found=(self.shape, self.width))

    def _shape_and_width(self, n: int) -> tuple[float, float]:
        shape = float(n) if self.shape is None else self.shape
        return shape, math.sqrt(n / (shape * (shape + 1))) if self.width is None else self.width

    def log_density(self, log_v: Tensor, n: int) -> Tensor:
        """See `Radial.log_density`."""
        shape, width = self._shape_and_width(n)
        y = log_v - math.log(width)
        return (shape - 1) * y - y.clamp_max(80.0).exp() - math.lgamma(shape) - math.log(width)

    def sample(self, like: Float[Tensor, "b"], n: int) -> Float[Tensor, "b"]:
        """See `Radial.sample`."""
        shape, width = self._shape_and_width(n)
        return sample_log_gamma(torch.full_like(like, shape)) + math.log(width)

    def log_second_moment(self, n: int) -> float:
        """See `Radial.log_second_moment`."""
        shape, width = self._shape_and_width(n)
        return math.log(shape * (shape + 1)) + 2 * math.log(width)


RADIALS: dict[str, type[Radial] | None] = {"chi": None, "log_normal": LogNormal, "gamma": Gamma}


def read_radial(spec: str | Mapping[str, Any]) -> Radial | None:
    """A law by name, or a table `{name = "log_normal", sigma = 0.3}`; None is that of Eq. 11, 'chi'.

    Args:
        spec: the table of the recipe, or a name.
    """
    table = {"name": spec} if isinstance(spec, str) else dict(spec)
    name = str(table.pop("name", "chi"))
    made = choose(name, RADIALS, "radial law")
    if made is None:
        expect(not table, "radial law 'chi' takes p0 and scale from the prior", found=table)
        return None
    return options.build_record(made, table, f"radial law {name!r}")
