"""Intervals for scores: how far a score would move with other rows, or with another seed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from numbers import Integral
from typing import Any

import numpy as np

from unbraid.ground.errors import UnbraidError, choose, expect
from unbraid.metrics.inputs import INPUTS, as_table
from unbraid.metrics.score import Metric, Score
from unbraid.metrics.table import Table

INTERVALS = {
    "half": "{} random halves of the rows, each with its own seed",
    "bootstrap": "{} bootstrap samples of the rows, each with its own seed",
    "seeds": "{} seeds on the same rows",
}
NAMES = {"half": "on half of the rows", "bootstrap": "on a bootstrap sample of the rows", "seeds": "with another seed"}


def interval(
    metric: str | Metric | Callable[..., Score],
    codes: Any,
    factors: Any = None,
    *,
    how: str = "half",
    seeds: int = 20,
    seed: int = 0,
    **settings: Any,
) -> Score:
    """One metric's score with a 95% interval: the score ± t · the deviation between `seeds` repetitions.

    how: 'half' repeats on random halves of the rows (the deviation between halves is that of the whole: delete-half
    jackknife), 'bootstrap' on as many rows drawn with replacement, 'seeds' on the same rows with other seeds. The first
    two answer "other rows?", the last "another seed?". Every form is centred on the score, never on the repetitions:
    rows that repeat inflate information and leak into held-out sets, fewer rows lower what predictors learn; both
    shift a score and hardly change its spread. Other settings go to the metric. Politis, Romano & Wolf 1999; Efron 1979

    >>> y = np.random.default_rng(0).integers(4, size=(500, 2))
    >>> z = y + 0.5 * np.random.default_rng(1).normal(size=y.shape)
    >>> from unbraid import metrics
    >>> score = interval(metrics.mig, z, y, bins=10)
    >>> score.interval[0] < score.value < score.interval[1], score.settings["interval"]
    (True, '20 random halves of the rows, each with its own seed')
    """
    from unbraid.metrics import METRICS

    entry = choose(metric, METRICS, "metric") if isinstance(metric, str) else metric
    call = entry.call if isinstance(entry, Metric) else entry
    known = next((m for m in METRICS.values() if m.call is call), None)
    one = known is None or known.needs in ("factors", "codes", "posteriors")
    expect(one, "intervals are for metrics of one table of codes", found=getattr(call, "__name__", "a function"))
    checked(how, seeds, fewest=2)
    entry = known or Metric(call, "", span=(-np.inf, np.inf), seeded=True)
    if callable(codes) and not isinstance(codes, Table):
        expect(how == "seeds", "a function that encodes has no rows to resample", found=how, allowed="seeds")
        first = call(codes, factors, seed=seed, **settings)
        return widened(first, [call(codes, factors, seed=seed + r, **settings) for r in range(seeds)], how, entry)
    inputs = {key: settings.pop(key) for key in INPUTS if key in settings}
    table = as_table(codes, factors, asked="interval", seed=seed, needs_factors=entry.needs == "factors", **inputs)
    first = call(table, seed=seed, **settings)
    if how == "seeds" and not moving(entry, table, settings.get("protocol")):
        return widened(first, [], how, entry)
    lone = single(table, how, seeds, seed) if entry.needs == "factors" else ""
    if lone:  # votes keep the interval that they come with
        return first if first.interval else first.within(None, interval=f"none: {lone}")
    try:
        others = [call(other, seed=each, **settings) for each, other in resamples(table, how, seeds, seed)]
    except UnbraidError as error:
        raise UnbraidError(f"{NAMES[how]}: {error} Or take how='seeds', which keeps all rows.") from error
    return widened(first, others, how, entry)


def moving(metric: Metric, table: Table, protocol: str | None = None) -> bool:
    """Whether a seed may change the score: the metric draws, or k-means, posteriors, neighbours or subsamples do."""
    drawn = table.scale is not None or protocol == "knn" or len(table) > 100_000
    return metric.seeded or drawn or any(len(u.columns) > 1 and u.kind == "real" for u in table.units)


def single(table: Table, how: str, seeds: int, seed: int) -> str:
    """Why no interval can be had: the factors that lose all but one value in some repetition; '' when none does."""
    lost: set[str] = set()
    for each in range(seed, seed + seeds if how != "seeds" else seed):
        rows = table.y[_rows(len(table), how, each)]
        lost |= {
            name for name, y in zip(table.names, rows.T, strict=True) if np.count_nonzero(np.bincount(y[y >= 0])) < 2
        }
    return f"{', '.join(sorted(lost))} takes a single value in some of the repetitions" if lost else ""


def checked(how: str, seeds: int, fewest: int = 1) -> None:
    """Complain about an unknown kind of interval or a number of repetitions that cannot be."""
    choose(how, INTERVALS, "interval")
    whole = isinstance(seeds, Integral) and fewest <= int(seeds) <= 1000
    expect(whole, f"seeds must be a whole number from {fewest} to 1000", found=seeds)


def resamples(table: Table, how: str, seeds: int, seed: int) -> Iterator[tuple[int, Table]]:
    """The seeds and tables that metrics are repeated on, one at a time."""
    for each in range(seed, seed + seeds):
        yield each, table if how == "seeds" else table.subset(_rows(len(table), how, each))


def _rows(n: int, how: str, seed: int) -> np.ndarray:
    rng = np.random.default_rng([seed, 7])
    return np.sort(rng.integers(n, size=n) if how == "bootstrap" else rng.permutation(n)[: max(2, n // 2)])


def widened(first: Score, others: list[Score], how: str, metric: Metric) -> Score:
    """A score with the interval score ± t · deviation of the others, cut to the metric's range."""
    from scipy.stats import t

    if not others:
        return first.within(None, interval="none: this metric does not depend on a seed")
    values = np.array([s.value for s in others])
    if not np.isfinite(values).all():
        return first.within(None, interval="none: some repetitions have no score")
    if np.ptp(values) < 1e-12 and (how == "seeds" or first.interval):  # votes keep the interval that they come with
        same = first.settings.get("interval", "none: every seed gave the same score")
        return first.within(first.interval, interval=same)
    half = float(t.ppf(0.975, len(values) - 1) * values.std(ddof=1))
    bounds = max(metric.span[0], first.value - half), min(metric.span[1], first.value + half)
    found = first.within(bounds, interval=INTERVALS[how].format(len(others)))
    found.table["repetitions"] = values
    return found
