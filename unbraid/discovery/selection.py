"""Choosing a setting without labels: UDR over its seeds, with intervals, and the one-standard-error rule."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from unbraid.codes import Codes
from unbraid.comparing.statistics import t_quantile
from unbraid.core.errors import expect
from unbraid.metrics import METRICS

VARIANTS = ("lasso", "spearman", "ratio")  # both of Duan et al. 2020, and the one that ranks settings


@dataclass(frozen=True)
class PairMean:
    """A mean over the pairs of some runs.

    Args:
        mean: the mean.
        error: its standard error, by leaving out one run at a time; NaN below three runs.
        low: lower end of the 95% interval.
        high: upper end of the 95% interval.
        pairs: number of pairs.
    """

    mean: float
    error: float
    low: float
    high: float
    pairs: int


@dataclass(frozen=True)
class Agreement:
    """Agreement of the runs of one setting.

    Args:
        lasso: UDR with Lasso weights.
        spearman: UDR with rank correlations.
        ratio: UDR with correlation ratios, which ranks settings and runs: the published variants do not recognise a cyclic
            factor, because every seed cuts it open at another place.
        models: for each run, its median agreement with the others by correlation ratios.
    """

    lasso: PairMean
    spearman: PairMean
    ratio: PairMean
    models: tuple[float, ...]


def measure_agreement(codes: Sequence[Codes]) -> Agreement:
    """UDR of several runs of one setting, by every variant, with intervals over pairs.

    Args:
        codes: codes of the same examples, one entry per run.

    >>> from unbraid.latent import Latent
    >>> z = np.random.default_rng(0).normal(size=(500, 3))
    >>> runs = [Codes(z[:, order], Latent.of(3)) for order in ([0, 1, 2], [2, 0, 1], [1, 0, 2])]
    >>> measure_agreement(runs).spearman.mean > 0.8
    True
    """
    expect(len(codes) >= 2, "the agreement of runs needs at least two", found=len(codes))
    scores = {name: METRICS["udr"](list(codes), similarity=name) for name in VARIANTS}
    means = {name: mean_over_pairs(np.asarray(score.table["pairwise"])) for name, score in scores.items()}
    return Agreement(**means, models=tuple(float(v) for v in scores["ratio"].table["models"]))


def mean_over_pairs(matrix: np.ndarray) -> PairMean:
    """Mean of the entries off the diagonal, with a jackknife error: pairs share runs, so they are not independent.

    Args:
        matrix: values of ordered pairs "r r".

    >>> mean_over_pairs(np.array([[1, 0.5, 0.5], [0.5, 1, 0.5], [0.5, 0.5, 1]])).mean
    0.5
    """
    n = len(matrix)
    pair = {(i, j): (matrix[i, j] + matrix[j, i]) / 2 for i, j in combinations(range(n), 2)}
    mean = float(np.mean(list(pair.values())))
    if n < 3:
        return PairMean(mean, math.nan, math.nan, math.nan, len(pair))
    left_out = [np.mean([value for at, value in pair.items() if k not in at]) for k in range(n)]
    error = math.sqrt((n - 1) / n * float(np.sum((np.array(left_out) - np.mean(left_out)) ** 2)))
    half = t_quantile(0.95, n - 1) * error
    return PairMean(mean, error, max(0.0, mean - half), min(1.0, mean + half), len(pair))


@dataclass(frozen=True)
class Candidate:
    """A setting that may be chosen.

    Args:
        name: the setting.
        complexity: rank of its simplicity.
        agreement: mean UDR with its error.
        alive: whether it reconstructs and uses leaves.
        gain: share of the gainable nats that it gains.
    """

    name: str
    complexity: float
    agreement: PairMean
    alive: bool = True
    gain: float = 0.0


@dataclass(frozen=True)
class Choice:
    """The chosen setting and why.

    Args:
        name: the chosen setting.
        best: the setting with the largest mean UDR.
        tied: settings within one standard error of the best, the best included.
        margin: difference of the chosen one from the next setting outside of the tie, or NaN.
        reason: the choice as a sentence.
    """

    name: str
    best: str
    tied: tuple[str, ...]
    margin: float
    reason: str


def choose_setting(
    candidates: Sequence[Candidate], labels: dict[str, str] | None = None, stopped: bool = False
) -> Choice:
    """Choose the simplest setting within one standard error of the largest UDR (the rule of Breiman et al. 1984).

    Two settings cannot be told apart if their difference is at most its standard error, √(e₁² + e₂²).

    Args:
        candidates: the settings; those that are not alive are taken only if all are dead.
        labels: names for the sentence.
        stopped: whether other settings stopped earlier.

    >>> one, two = (PairMean(m, 0.03, 0, 1, 3) for m in (0.70, 0.72))
    >>> choose_setting([Candidate("simple", 1, one), Candidate("rich", 2, two)]).name
    'simple'
    """
    expect(len(candidates) > 0, "there is no setting to choose from")
    pool = [c for c in candidates if c.alive] or list(candidates)
    ranked = sorted(pool, key=lambda c: (-c.agreement.mean, c.complexity))
    best = ranked[0]
    tied = [c for c in ranked if best.agreement.mean - c.agreement.mean <= _difference_error(best, c)]
    tied = tied or [best]
    simplest = min(c.complexity for c in tied)
    chosen = max((c for c in tied if c.complexity == simplest), key=lambda c: c.agreement.mean)
    outside = [c for c in ranked if c not in tied]
    margin = chosen.agreement.mean - outside[0].agreement.mean if outside else math.nan
    names = {c.name: (labels or {}).get(c.name, c.name) for c in pool}
    reason = _explain(chosen, tied, outside, names, stopped or len(candidates) > len(pool))
    return Choice(chosen.name, best.name, tuple(c.name for c in tied), margin, reason)


def _difference_error(first: Candidate, second: Candidate) -> float:
    if first is second:
        return 0.0
    errors = [c.agreement.error for c in (first, second)]
    return math.hypot(*errors) if all(map(math.isfinite, errors)) else 0.0


def _explain(
    chosen: Candidate, tied: Sequence[Candidate], outside: Sequence[Candidate], names: dict[str, str], stopped: bool
) -> str:
    text = f"{names[chosen.name]} is chosen with a UDR of {chosen.agreement.mean:.2f}"
    if not chosen.alive:
        text += ", although every setting collapsed or has learned too little yet"
    if not outside and len(tied) == 1:
        text += (
            ". Every other setting failed, collapsed or stopped earlier"
            if stopped
            else (". There was no time to compare it with another setting")
        )
    if len(tied) > 1:
        others = " and ".join(f"{names[c.name]} ({c.agreement.mean:.2f})" for c in tied if c is not chosen)
        text += f". It cannot be told apart from {others}: the difference is within one standard error"
        equal = [c for c in tied if c.complexity == chosen.complexity]
        text += ", and it is the simpler one" if len(equal) < len(tied) else ""
    if outside:
        gap = chosen.agreement.mean - outside[0].agreement.mean
        text += f". The next setting, {names[outside[0].name]}, is {gap:.2f} below"
    return text + "."


def as_plain(value: PairMean) -> dict[str, Any]:
    """A mean over pairs as JSON; NaN becomes null.

    Args:
        value: the mean.
    """
    return {
        key: (None if isinstance(v, float) and not math.isfinite(v) else round(v, 4) if isinstance(v, float) else v)
        for key, v in vars(value).items()
    }
