"""Means over seeds with intervals, paired differences, Holm, power, rank correlation. Numbers only.

A metric's own interval over rows says how well one model was measured; these say how models trained alike spread. The
two are never mixed. Intervals are Student's: at n = 5 a percentile bootstrap is too narrow, so it is only printed beside.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from scipy import special

from unbraid.core.errors import choose, expect

NAN = float("nan")
MAX_SEEDS = 10_000  # beyond this, "more seeds" is no advice


@dataclass(frozen=True)
class MeanEstimate:
    """A mean over n seeds with its t interval; low and high are NaN below two seeds."""

    mean: float
    low: float
    high: float
    deviation: float
    n: int

    @property
    def half_width(self) -> float:
        """Half the width of the interval."""
        return (self.high - self.low) / 2


@dataclass(frozen=True)
class Contrast:
    """A difference of two methods over seeds, tested against 0.

    effect is Cohen's d: of the paired differences, d_z = mean/sd, or of two samples with pooled deviation when no seed
    is shared. for_it counts the pairs above 0. bootstrap is the percentile interval, too narrow at few seeds.
    """

    mean: float
    low: float
    high: float
    deviation: float
    n: int
    p: float
    effect: float
    n_positive: int
    bootstrap: tuple[float, float]
    level: float = 0.95
    paired: bool = True
    n_other: int = 0  # seeds of the second sample, when unpaired

    @property
    def standard_error(self) -> float:
        """The standard error of the difference."""
        return self.deviation / self.n**0.5 if self.n else NAN


@lru_cache(maxsize=4096)
def t_quantile(level: float, dof: float) -> float:
    """How many standard errors a two-sided interval at this level reaches to either side (Student 1908).

    >>> round(t_quantile(0.95, 4), 3)
    2.776
    """
    return float(special.stdtrit(dof, 0.5 + level / 2)) if dof > 0 else NAN


def t_interval(values: Sequence[float] | np.ndarray, level: float = 0.95) -> MeanEstimate:
    """The mean of finite values with its t interval: mean ± t(n−1) · sd/√n.

    >>> e = t_interval([0.1, 0.2, 0.3])
    >>> round(e.low, 3), round(e.mean, 3), round(e.high, 3), e.n
    (-0.048, 0.2, 0.448, 3)
    """
    x = _finite(values)
    n = len(x)
    if n == 0:
        return MeanEstimate(NAN, NAN, NAN, NAN, 0)
    mean = float(x.mean())
    if n == 1:
        return MeanEstimate(mean, NAN, NAN, NAN, 1)
    deviation = _deviation(x)
    half = t_quantile(level, n - 1) * deviation / n**0.5
    return MeanEstimate(mean, mean - half, mean + half, deviation, n)


def paired_differences(first: Mapping[Any, float], second: Mapping[Any, float]) -> np.ndarray:
    """first − second for each seed that both have, in the order of the first."""
    shared = [s for s in first if s in second]
    return _finite([first[s] - second[s] for s in shared])


def paired_contrast(first: Mapping[Any, float], second: Mapping[Any, float], level: float = 0.95) -> Contrast:
    """The difference of two methods over the seeds they share.

    >>> c = paired_contrast({0: 0.5, 1: 0.7, 2: 0.6}, {0: 0.4, 1: 0.55, 2: 0.58})
    >>> c.n, round(c.mean, 2), c.n_positive, round(c.p, 3)
    (3, 0.09, 3, 0.141)
    """
    return one_sample_contrast(paired_differences(first, second), level)


def one_sample_contrast(effects: Sequence[float] | np.ndarray, level: float = 0.95, draws: int = 2000) -> Contrast:
    """Effects, one for each seed, against 0: the paired t test when they are differences of pairs.

    Effects that are all alike have no spread: their interval is a point, p is 0 (1 at 0) and no effect size is given.
    """
    x = _finite(effects)
    e = t_interval(x, level)
    above, n = int((x > 0).sum()), len(x)
    if n < 2:
        return Contrast(e.mean, e.low, e.high, e.deviation, n, NAN, NAN, above, (NAN, NAN), level)
    if e.deviation == 0:
        p, d = float(e.mean == 0), NAN
    else:
        d = e.mean / e.deviation
        p = float(2 * special.stdtr(n - 1, -abs(d) * np.sqrt(n)))
    return Contrast(e.mean, e.low, e.high, e.deviation, n, p, d, above, bootstrap_interval(x, level, draws), level)


def welch_contrast(
    first: Sequence[float] | np.ndarray, second: Sequence[float] | np.ndarray, level: float = 0.95
) -> Contrast:
    """The difference of two samples that share no seed (Welch 1947); effect size with pooled deviation.

    >>> c = welch_contrast([1.0, 2.0, 3.0], [0.0, 1.0, 2.0, 1.0])
    >>> c.paired, c.n, c.n_other, round(c.mean, 1)
    (False, 3, 4, 1.0)
    """
    x, y = _finite(first), _finite(second)
    n, m = len(x), len(y)
    expect(n >= 2 and m >= 2, "two samples need at least two seeds each", found=f"{n} and {m}")
    u, v = _deviation(x) ** 2 / n, _deviation(y) ** 2 / m
    mean, error = float(x.mean() - y.mean()), float(np.sqrt(u + v))
    if error == 0:
        low, high, p, d = mean, mean, float(mean == 0), NAN
    else:
        freedom = (u + v) ** 2 / (u**2 / (n - 1) + v**2 / (m - 1))
        half = float(special.stdtrit(freedom, 0.5 + level / 2)) * error
        low, high, p = mean - half, mean + half, float(2 * special.stdtr(freedom, -abs(mean) / error))
        d = mean / np.sqrt((u * n * (n - 1) + v * m * (m - 1)) / (n + m - 2))
    rng = np.random.default_rng(0)
    drawn = x[rng.integers(0, n, (2000, n))].mean(1) - y[rng.integers(0, m, (2000, m))].mean(1)
    ends = _percentiles(drawn, level)
    return Contrast(mean, low, high, error * np.sqrt(n), n, p, float(d), 0, ends, level, False, m)


def bootstrap_interval(
    values: Sequence[float] | np.ndarray, level: float = 0.95, draws: int = 2000
) -> tuple[float, float]:
    """The percentile bootstrap interval of a mean (Efron 1979): for show beside the t interval, never for a verdict."""
    x = _finite(values)
    if len(x) < 2:
        return NAN, NAN
    rng = np.random.default_rng(0)
    return _percentiles(x[rng.integers(0, len(x), (draws, len(x)))].mean(1), level)


def holm_adjust(p: Sequence[float] | np.ndarray) -> np.ndarray:
    """p values adjusted for all of them being looked at (Holm 1979); NaN is no test and counts for nothing.

    >>> holm_adjust([0.01, 0.04, 0.03]).round(3).tolist()
    [0.03, 0.06, 0.06]
    """
    p = np.asarray(p, float)
    known = np.flatnonzero(np.isfinite(p))
    order = known[np.argsort(p[known], kind="stable")]
    out = np.full(p.shape, np.nan)
    out[order] = np.minimum(1, np.maximum.accumulate(p[order] * np.arange(len(order), 0, -1)))
    return out


def holm_levels(p: Sequence[float] | np.ndarray, level: float = 0.95) -> np.ndarray:
    """The level of each test's interval that agrees with Holm: it leaves out 0 exactly when Holm rejects.

    The k-th smallest of m p values is held against α/(m−k+1); from the first that is not below it on, all are.

    >>> (1 - holm_levels([0.01, 0.04, 0.03])).round(4).tolist()
    [0.0167, 0.025, 0.025]
    """
    p = np.asarray(p, float)
    known = np.flatnonzero(np.isfinite(p))
    out, alpha, kept = np.full(p.shape, np.nan), 1 - level, 0.0
    for rank, i in enumerate(known[np.argsort(p[known], kind="stable")]):
        kept = kept or (alpha / (len(known) - rank) if p[i] >= alpha / (len(known) - rank) else 0.0)
        out[i] = 1 - (kept or alpha / (len(known) - rank))
    return out


def power(effect: float, n: int, level: float = 0.95) -> float:
    """The chance that n pairs leave 0 outside their interval, when the true mean is `effect` deviations from 0.

    >>> round(power(0.5, 34), 2)
    0.81
    """
    if n < 2:
        return 0.0
    t, shift = t_quantile(level, n - 1), abs(effect) * n**0.5
    spread, weight = _sd_quadrature(n - 1)
    return float(weight @ (special.ndtr(shift - t * spread) + special.ndtr(-shift - t * spread)))


@lru_cache(maxsize=4096)
def _sd_quadrature(dof: int) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights for an average over sd/σ of a normal sample; scipy's noncentral t has gaps in its tails."""
    u, weight = _legendre()
    return np.sqrt(2 * special.gammaincinv(dof / 2, (u + 1) / 2) / dof), weight / 2


@lru_cache(maxsize=1)
def _legendre() -> tuple[np.ndarray, np.ndarray]:
    return np.polynomial.legendre.leggauss(96)


def smallest_gap(deviation: float, n: int, level: float = 0.95, target_power: float = 0.8) -> float:
    """The smallest true mean of pairs with this deviation that n of them show with 80% power.

    >>> round(smallest_gap(0.08, 12), 3)
    0.071
    """
    from scipy.optimize import brentq

    if n < 2 or not np.isfinite(deviation):
        return NAN
    top = 2 * (t_quantile(level, n - 1) + 4) / np.sqrt(n)
    return float(deviation * brentq(lambda d: power(d, n, level) - target_power, 0, top))


def seeds_needed(gap: float, deviation: float, level: float = 0.95, target_power: float = 0.8) -> int | None:
    """How many pairs show a true mean of `gap` with 80% power; None when more than ten thousand would be needed.

    >>> seeds_needed(0.09, 0.08), seeds_needed(0.0, 0.08)
    (9, None)
    """
    if not np.isfinite(gap) or not np.isfinite(deviation):
        return None
    return _smallest_n(
        lambda n: power(gap / deviation if deviation else np.inf, n, level) >= target_power if gap else False
    )


def seeds_for_equivalence(
    mean: float, margin: float, deviation: float, level: float = 0.95, target_power: float = 0.8
) -> int | None:
    """How many pairs with this true mean have their whole interval inside ±`within`, with 80% power; None: too many."""
    if not (abs(mean) < margin) or not np.isfinite(deviation):
        return None

    def enough(n: int) -> bool:
        error = deviation / np.sqrt(n)
        room = margin - t_quantile(level, n - 1) * error
        if error == 0:
            return True
        return bool(
            room > 0 and special.ndtr((room - mean) / error) - special.ndtr((-room - mean) / error) >= target_power
        )

    return _smallest_n(enough)


def _smallest_n(enough: Any) -> int | None:
    """The smallest n from 2 for which `enough(n)`, by doubling and halving."""
    high = 2
    while not enough(high):
        high *= 2
        if high > MAX_SEEDS:
            return None
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if middle >= 2 and enough(middle) else (middle, high)
    return high


def rank_correlation(columns: np.ndarray, method: str = "spearman") -> np.ndarray:
    """Rank correlations "q q" of columns "n q", each pair over the rows that have both; NaN below three rows.

    >>> rank_correlation(np.array([[1.0, 2.0], [2.0, 9.0], [3.0, 11.0]])).tolist()
    [[1.0, 1.0], [1.0, 1.0]]
    """
    from scipy import stats  # slow to import, and only needed here

    call = choose(method, {"spearman": stats.spearmanr, "kendall": stats.kendalltau}, "rank correlation")
    x = np.asarray(columns, float)
    out = np.full((x.shape[1], x.shape[1]), np.nan)
    for i in range(x.shape[1]):
        for j in range(i + 1):
            rows = np.isfinite(x[:, i]) & np.isfinite(x[:, j])
            a, b = x[rows, i], x[rows, j]
            if len(a) >= 3 and np.ptp(a) > 0 and np.ptp(b) > 0:
                out[i, j] = out[j, i] = round(float(call(a, b).statistic), 12)
    return out


def _finite(values: Sequence[float] | np.ndarray) -> np.ndarray:
    x = np.asarray(values, float).reshape(-1)
    return x[np.isfinite(x)]


def _deviation(x: np.ndarray) -> float:
    """The sample deviation; what rounding makes of equal values counts as 0."""
    found = float(x.std(ddof=1))
    return found if found > 1e-14 * float(np.abs(x).max()) else 0.0


def _percentiles(drawn: np.ndarray, level: float) -> tuple[float, float]:
    low, high = np.quantile(drawn, [0.5 - level / 2, 0.5 + level / 2])
    return float(low), float(high)
