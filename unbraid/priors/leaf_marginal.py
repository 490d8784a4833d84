"""The marginal of one column under an Lp-nested prior: no closed form, but one integral at any depth.

|z| is a product of independent draws (the radius, and a Dirichlet share to a power at each node on the way down), so
its moments are products of Gamma functions, M(s) = E|z|^s, and the density of y = log|z| is an inverse transform:

    f(y) = e^{−cy}/2π ∫ e^{−ity} M(c + it) dt    for any c > −1,

taken at the saddle point c(y) of each y, where the integrand is a bump: then even far tails keep their digits.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from scipy.integrate import trapezoid
from scipy.interpolate import CubicSpline
from scipy.special import digamma, loggamma

PathStep = tuple[float, float, float]  # n of the node, n of the child taken, p of the node


@lru_cache(maxsize=64)
def cached_leaf_marginal(n: float, p0: float, scale: float, path: tuple[PathStep, ...]) -> LeafMarginal:
    """The table of one column, made once.

    Args:
        n: the number of columns of the whole tree.
        p0: the exponent of the root.
        scale: the scale s.
        path: the branches from the root to the column.
    """
    return LeafMarginal(n, p0, scale, path)


class LeafMarginal:
    """log p(z) of one column, tabulated once over its saddle points; `path` leads from the root to the column.

    >>> normal = LeafMarginal(3.0, 2.0, 2.0, [(3.0, 1.0, 2.0)])    # all p = 2: standard normal
    >>> np.round(normal(np.array([0.0, 1.0, 20.0])), 4)
    array([  -0.9189,   -1.4189, -200.9189])
    """

    def __init__(self, n: float, p0: float, scale: float, path: Sequence[PathStep]):
        self.n, self.p0, self.log_s, self.path = n, p0, math.log(scale), list(path)
        c = np.concatenate([np.linspace(-0.93, 4, 80), 4 + np.geomspace(0.08, 1e5, 100)])
        y = self._slope(c)
        log_f = np.array([self._log_f(float(saddle), float(at)) for saddle, at in zip(c, y, strict=True)])
        self.spline = CubicSpline(y, log_f - y - math.log(2))  # log p(z), p(z) = f(log|z|)/(2|z|)
        self.low, self.high = float(y[0]), float(y[-1])

    def __call__(self, z: np.ndarray) -> np.ndarray:
        """log p(z); flat below the table, where the density is constant."""
        return self.spline(np.log(np.maximum(np.abs(z), 1e-300)).clip(self.low, self.high))

    def _log_moment(self, s: np.ndarray) -> np.ndarray:
        """log E|z|^s for complex s."""
        total = s / self.p0 * self.log_s + loggamma((self.n + s) / self.p0) - loggamma(self.n / self.p0)
        for n, k, p in self.path:
            total = total + loggamma((k + s) / p) - loggamma(k / p) - loggamma((n + s) / p) + loggamma(n / p)
        return total

    def _slope(self, c: np.ndarray) -> np.ndarray:
        """d log M/dc: the y whose saddle point is c."""
        total = self.log_s / self.p0 + digamma((self.n + c) / self.p0) / self.p0
        for n, k, p in self.path:
            total = total + (digamma((k + c) / p) - digamma((n + c) / p)) / p
        return total

    def _log_f(self, c: float, y: float) -> float:
        """log f(y) at its saddle point c, by the trapezoidal rule along c + it."""
        reach = 25 * self.p0 + 12 * math.sqrt(self.p0 * (self.n + c))
        t = np.linspace(0, reach, 6000 if c < 1 else 1500)  # near −1 the bump is narrow and its foot wide
        log_moment = self._log_moment(c + 1j * t)
        peak = float(log_moment[0].real)
        wave = np.exp(log_moment - peak - 1j * t * y).real
        return float(peak - c * y + math.log(trapezoid(wave, t) / math.pi))
