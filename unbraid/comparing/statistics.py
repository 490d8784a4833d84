"""Statistics over seeds: means with intervals, paired differences, Holm's method, power, rank correlation.

An interval over rows shows how precisely one model was measured; the intervals here show how models of one setting vary
over seeds. The two are never mixed. Intervals are Student's t: at n = 5 a percentile bootstrap is too narrow, so it is
only reported next to it.
"""

from __future__ import annotations

import bisect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from unbraid.core.errors import choose

NAN = float("nan")
MAX_SEEDS = 10_000  # the largest number of seeds that is recommended


@dataclass(frozen=True)
class MeanEstimate:
    """A mean over seeds with its t interval.

    Args:
        mean: the mean.
        low: the lower end of the interval, NaN below two seeds.
        high: the upper end of the interval, NaN below two seeds.
        deviation: the sample standard deviation.
        n: the number of seeds.

    >>> MeanEstimate(0.5, 0.25, 0.75, 0.1, 3).half_width
    0.25
    """

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
    """The difference of two methods over paired seeds, tested against 0.

    Args:
        mean: the mean difference.
        low: the lower end of its interval.
        high: the upper end of its interval.
        deviation: the sample standard deviation of the differences.
        n: the number of pairs.
        p: the two-sided p value.
        effect: Cohen's d of paired differences, d_z = mean/sd.
        n_positive: the number of differences above 0.
        bootstrap: the percentile interval, which is too narrow for few seeds.
        level: the confidence level.
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

    @property
    def standard_error(self) -> float:
        """The standard error of the difference."""
        return self.deviation / self.n**0.5 if self.n else NAN


@lru_cache(maxsize=4096)
def t_quantile(level: float, dof: float) -> float:
    """The half width of a two-sided interval in standard errors (Student 1908).

    Args:
        level: the confidence level.
        dof: degrees of freedom.

    >>> round(t_quantile(0.95, 4), 3)
    2.776
    """
    return float(special.stdtrit(dof, 0.5 + level / 2)) if dof > 0 else NAN


def t_interval(values: Sequence[float] | np.ndarray, level: float = 0.95) -> MeanEstimate:
    """The mean of the finite values with its t interval: mean ± t(n−1) · sd/√n.

    Args:
        values: one value per seed.
        level: the confidence level.

    >>> e = t_interval([0.1, 0.2, 0.3])
    >>> round(e.low, 3), round(e.mean, 3), round(e.high, 3), e.n
    (-0.048, 0.2, 0.448, 3)
    """
    x = _finite(values)
    n = len(x)
    mean = float(x.mean()) if n else NAN
    deviation = _deviation(x) if n > 1 else NAN
    half = t_quantile(level, n - 1) * deviation / max(n, 1) ** 0.5
    return MeanEstimate(mean, mean - half, mean + half, deviation, n)


def paired_differences(first: Mapping[Any, float], second: Mapping[Any, float]) -> np.ndarray:
    """first − second for each seed that both have, in the order of the first.

    Args:
        first: values by seed.
        second: values by seed.

    >>> paired_differences({0: 0.5, 1: 0.75, 2: 0.1}, {0: 0.25, 1: 0.25})
    array([0.25, 0.5 ])
    """
    shared = [s for s in first if s in second]
    return _finite([first[s] - second[s] for s in shared])


def one_sample_contrast(effects: Sequence[float] | np.ndarray, level: float = 0.95, draws: int = 2000) -> Contrast:
    """Effects, one per seed, tested against 0: the paired t test if they are differences of pairs.

    Equal effects have no spread: their interval is a point, p is 0 (1 if they are 0), and there is no effect size.

    Args:
        effects: one effect per seed.
        level: the confidence level.
        draws: bootstrap samples.

    >>> c = one_sample_contrast(paired_differences({0: 0.5, 1: 0.7, 2: 0.6}, {0: 0.4, 1: 0.55, 2: 0.58}))
    >>> c.n, round(c.mean, 2), c.n_positive, round(c.p, 3)
    (3, 0.09, 3, 0.141)
    """
    x = _finite(effects)
    e = t_interval(x, level)
    effect, p = map(float, one_sample_t_test(e.mean, e.deviation, e.n))
    above, bootstrap = int((x > 0).sum()), bootstrap_interval(x, level, draws)
    return Contrast(e.mean, e.low, e.high, e.deviation, e.n, p, effect, above, bootstrap, level)


def one_sample_t_test(mean: ArrayLike, deviation: ArrayLike, n: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    """Effect size d_z = mean/sd and two-sided p value of means against 0; NaN below two values.

    Args:
        mean: the means.
        deviation: the sample standard deviations; where one is 0, p is 0 (1 if the mean is 0 too) and d_z is NaN.
        n: the numbers of values.
    """
    mean, deviation, n = np.asarray(mean), np.asarray(deviation), np.asarray(n)
    with np.errstate(invalid="ignore", divide="ignore"):
        effect = np.where(deviation > 0, mean / deviation, np.nan)
        p = 2 * special.stdtr(n - 1.0, -np.abs(effect) * np.sqrt(n))
    p = np.where(deviation == 0, mean == 0, p)
    return effect, np.where(n > 1, p, np.nan)


def bootstrap_interval(
    values: Sequence[float] | np.ndarray, level: float = 0.95, draws: int = 2000
) -> tuple[float, float]:
    """The percentile bootstrap interval of a mean (Efron 1979); it is reported, but never used for a verdict.

    Args:
        values: one value per seed.
        level: the confidence level.
        draws: bootstrap samples.

    >>> low, high = bootstrap_interval([0.1, 0.2, 0.3])
    >>> 0.1 <= low < 0.2 < high <= 0.3
    True
    """
    x = _finite(values)
    if len(x) < 2:
        return NAN, NAN
    rng = np.random.default_rng(0)
    means = x[rng.integers(0, len(x), (draws, len(x)))].mean(1)
    low, high = np.quantile(means, [0.5 - level / 2, 0.5 + level / 2])
    return float(low), float(high)


def holm_adjust(p: Sequence[float] | np.ndarray) -> np.ndarray:
    """p values adjusted for multiple tests (Holm 1979); a p of NaN counts as no test.

    Args:
        p: the p values.

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
    """The level of each test's interval that agrees with Holm's method: it excludes 0 exactly when Holm rejects.

    The k-th smallest of m p values is compared with α/(m−k+1); from the first that is not below, all tests keep that
    level.

    Args:
        p: p values, NaN for no test.
        level: the confidence level of the family.

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
    """The probability that the interval of n pairs excludes 0.

    Args:
        effect: the true mean in standard deviations.
        n: the number of pairs.
        level: the confidence level.

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
    """Nodes and weights for the mean over sd/σ of a normal sample; the noncentral t of scipy fails in its tails."""
    u, weight = _legendre()
    return np.sqrt(2 * special.gammaincinv(dof / 2, (u + 1) / 2) / dof), weight / 2


@lru_cache(maxsize=1)
def _legendre() -> tuple[np.ndarray, np.ndarray]:
    return np.polynomial.legendre.leggauss(96)


def smallest_gap(deviation: float, n: int, level: float = 0.95, target_power: float = 0.8) -> float:
    """The smallest true mean that n pairs detect with the target power.

    Args:
        deviation: the standard deviation of the differences.
        n: the number of pairs.
        level: the confidence level.
        target_power: the power.

    >>> round(smallest_gap(0.08, 12), 3)
    0.071
    """
    from scipy.optimize import brentq

    if n < 2 or not np.isfinite(deviation):
        return NAN
    top = 2 * (t_quantile(level, n - 1) + 4) / np.sqrt(n)
    return float(deviation * brentq(lambda d: power(d, n, level) - target_power, 0, top))


def seeds_needed(gap: float, deviation: float, level: float = 0.95, target_power: float = 0.8) -> int | None:
    """The number of pairs that detect a true mean with the target power; None above ten thousand.

    Args:
        gap: the true mean.
        deviation: the standard deviation of the differences.
        level: the confidence level.
        target_power: the power.

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
    """The number of pairs whose interval lies inside ±`margin` with the target power; None above ten thousand.

    Args:
        mean: the true mean.
        margin: the largest difference that counts as equivalence.
        deviation: the standard deviation of the differences.
        level: the confidence level.
        target_power: the power.

    >>> seeds_for_equivalence(0.2, margin=0.1, deviation=0.1) is None    # the mean is outside the margin
    True
    """
    if not (abs(mean) < margin) or not np.isfinite(deviation):
        return None

    def enough(n: int) -> bool:
        error = deviation / np.sqrt(n)
        slack = margin - t_quantile(level, n - 1) * error
        if error == 0:
            return True
        return bool(
            slack > 0 and special.ndtr((slack - mean) / error) - special.ndtr((-slack - mean) / error) >= target_power
        )

    return _smallest_n(enough)


def _smallest_n(enough: Callable[[int], bool]) -> int | None:
    """The smallest n from 2 with `enough(n)`, which holds for all larger n too; None above `MAX_SEEDS`."""
    n = 2 + bisect.bisect_left(range(2, MAX_SEEDS + 1), True, key=enough)
    return n if n <= MAX_SEEDS else None


def rank_correlation(columns: np.ndarray, method: str = "spearman") -> np.ndarray:
    """Rank correlations "q q" of columns, each pair over the rows that have both; NaN below three rows.

    Args:
        columns: values "n q".
        method: 'spearman' or 'kendall'.

    >>> rank_correlation(np.array([[1.0, 2.0], [2.0, 9.0], [3.0, 11.0]])).tolist()
    [[1.0, 1.0], [1.0, 1.0]]
    """
    from scipy import stats  # slow to import

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
    """The sample standard deviation; 0 within the rounding error of equal values."""
    found = float(x.std(ddof=1))
    return found if found > 1e-14 * float(np.abs(x).max()) else 0.0
