"""Confidence intervals of scores, from repetitions on other rows or with other seeds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from numbers import Integral
from typing import Any

import numpy as np

from unbraid.core.errors import UnbraidError, choose, expect
from unbraid.metrics.evaluation.records import Metric, Score
from unbraid.metrics.inputs.table import Table
from unbraid.metrics.inputs.validation import INPUT_OPTIONS, as_table

INTERVAL_METHODS = {
    "half": "{} random halves of the rows, each with its own seed",
    "bootstrap": "{} bootstrap samples of the rows, each with its own seed",
    "seeds": "{} seeds on the same rows",
}
RESAMPLING_PHRASES = {
    "half": "on half of the rows",
    "bootstrap": "on a bootstrap sample of the rows",
    "seeds": "with another seed",
}


def interval(
    metric: str | Metric | Callable[..., Score],
    codes: Any,
    factors: Any = None,
    *,
    method: str = "half",
    seeds: int = 20,
    seed: int = 0,
    **settings: Any,
) -> Score:
    """One metric's score with a 95% interval: the score ± t · the standard deviation of the repetitions.

    'half' and 'bootstrap' estimate the variation over rows, 'seeds' that over seeds. The interval is centred on the
    score, not on the repetitions: repeated rows inflate information and leak into held-out sets, and fewer rows weaken
    predictors; both shift the score and hardly change its spread. Politis, Romano & Wolf 1999; Efron 1979

    Args:
        metric: the name of a metric, its entry of `METRICS`, or its function.
        codes: codes of any form that `as_table` accepts.
        factors: labels "n k", or None.
        method: 'half' (random halves of the rows: the delete-half jackknife), 'bootstrap' (as many rows, drawn with
            replacement) or 'seeds' (the same rows, other seeds).
        seeds: the number of repetitions.
        seed: the first seed.
        settings: options of the metric.

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
    expect(one, "an interval needs a metric of one table of codes", found=getattr(call, "__name__", "a function"))
    check_repetitions(method, seeds, min_seeds=2)
    entry = known or Metric(call, "", span=(-np.inf, np.inf), seeded=True)
    if callable(codes) and not isinstance(codes, Table):
        expect(method == "seeds", "a function that encodes has no rows to resample", found=method, allowed="seeds")
        first = call(codes, factors, seed=seed, **settings)
        return add_interval(
            first, [call(codes, factors, seed=seed + r, **settings) for r in range(seeds)], method, entry
        )
    inputs = {key: settings.pop(key) for key in INPUT_OPTIONS if key in settings}
    table = as_table(
        codes, factors, metric_name="interval", seed=seed, needs_factors=entry.needs == "factors", **inputs
    )
    first = call(table, seed=seed, **settings)
    if method == "seeds" and not depends_on_seed(entry, table, settings.get("protocol")):
        return add_interval(first, [], method, entry)
    lone = no_interval_reason(table, method, seeds, seed) if entry.needs == "factors" else ""
    if lone:  # proportions keep their Wilson interval
        return first if first.interval else first.with_interval(None, interval=f"none: {lone}")
    try:
        others = [call(other, seed=each, **settings) for each, other in resamples(table, method, seeds, seed)]
    except UnbraidError as error:
        raise UnbraidError(
            f"{RESAMPLING_PHRASES[method]}: {error} Or use method='seeds', which keeps all rows."
        ) from error
    return add_interval(first, others, method, entry)


def depends_on_seed(metric: Metric, table: Table, protocol: str | None = None) -> bool:
    """Whether the seed can change the score: the metric draws, or k-means, posteriors, neighbours or subsamples do.

    Args:
        metric: the metric.
        table: the codes and labels.
        protocol: the protocol of the metric, if one was chosen.
    """
    drawn = table.scale is not None or protocol == "knn" or len(table) > 100_000
    return metric.seeded or drawn or any(len(u.columns) > 1 and u.kind == "real" for u in table.units)


def no_interval_reason(table: Table, method: str, seeds: int, seed: int) -> str:
    """Why no interval is possible: the factors with a single value in some repetition; '' if there are none.

    Args:
        table: the codes and labels.
        method: 'half', 'bootstrap' or 'seeds'.
        seeds: the number of repetitions.
        seed: the first seed.
    """
    lost: set[str] = set()
    for each in range(seed, seed + seeds if method != "seeds" else seed):
        rows = table.y[_resample_rows(len(table), method, each)]
        lost |= {
            name for name, y in zip(table.names, rows.T, strict=True) if np.count_nonzero(np.bincount(y[y >= 0])) < 2
        }
    return f"{', '.join(sorted(lost))} takes a single value in some of the repetitions" if lost else ""


def check_repetitions(method: str, seeds: int, min_seeds: int = 1) -> None:
    """Check the kind of an interval and its number of repetitions.

    Args:
        method: 'half', 'bootstrap' or 'seeds'.
        seeds: the number of repetitions.
        min_seeds: the smallest number allowed.
    """
    choose(method, INTERVAL_METHODS, "interval")
    whole = isinstance(seeds, Integral) and min_seeds <= int(seeds) <= 1000
    expect(whole, f"seeds must be a whole number from {min_seeds} to 1000", found=seeds)


def resamples(table: Table, method: str, seeds: int, seed: int) -> Iterator[tuple[int, Table]]:
    """Yield the seed and the table of each repetition.

    Args:
        table: the codes and labels.
        method: 'half', 'bootstrap' or 'seeds'.
        seeds: the number of repetitions.
        seed: the first seed.
    """
    for each in range(seed, seed + seeds):
        yield each, table if method == "seeds" else table.subset(_resample_rows(len(table), method, each))


def _resample_rows(n: int, method: str, seed: int) -> np.ndarray:
    rng = np.random.default_rng([seed, 7])
    return np.sort(rng.integers(n, size=n) if method == "bootstrap" else rng.permutation(n)[: max(2, n // 2)])


def add_interval(first: Score, others: list[Score], method: str, metric: Metric) -> Score:
    """A score with the interval score ± t · standard deviation of the repetitions, clipped to the metric's range.

    Args:
        first: the score on all rows.
        others: the scores of the repetitions.
        method: 'half', 'bootstrap' or 'seeds'.
        metric: the metric.
    """
    from scipy.stats import t

    if not others:
        return first.with_interval(None, interval="none: this metric does not depend on a seed")
    values = np.array([s.value for s in others])
    if not np.isfinite(values).all():
        return first.with_interval(None, interval="none: some repetitions have no score")
    if np.ptp(values) < 1e-12 and (method == "seeds" or first.interval):  # keep a Wilson interval
        same = first.settings.get("interval", "none: every seed gave the same score")
        return first.with_interval(first.interval, interval=same)
    half = float(t.ppf(0.975, len(values) - 1) * values.std(ddof=1))
    bounds = max(metric.span[0], first.value - half), min(metric.span[1], first.value + half)
    found = first.with_interval(bounds, interval=INTERVAL_METHODS[method].format(len(others)))
    found.table["repetitions"] = values
    return found
