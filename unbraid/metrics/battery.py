"""All metrics at once on one table, sharing bins, information matrices and predictors."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from unbraid.errors import choose, expect
from unbraid.metrics.inputs import Table, as_table
from unbraid.metrics.score import Metric, Score


def battery(
    codes: Any,
    factors: Any = None,
    *,
    metrics: str | Iterable[str] = "all",
    protocol: str = "fast",
    seeds: int = 1,
    seed: int = 0,
    advance: Callable[..., None] | None = None,
    **inputs: Any,
) -> dict[str, Score]:
    """Run many metrics and return their scores by name.

    protocol: 'paper', 'dlib' or 'fast', for each metric that knows it; the others have one definition. Without factors
    only the metrics of codes alone run. seeds: with more than one, each score carries an interval: the metric is run on
    that many random halves of the rows, each with its own seed; the deviation between halves estimates that of the
    whole (delete-half jackknife), and the interval is the score ± t · deviation. advance(note=…) follows each metric.

    >>> y = np.stack(np.unravel_index(np.arange(600), (3, 4, 50)), 1)[:, :2]
    >>> [str(s) for s in battery(y.astype(float), y, metrics=["mig", "mcc"]).values()]
    ['mig 1.000', 'mcc 1.000']
    """
    labelled = factors is not None or getattr(codes, "values", None) is not None or bool(getattr(codes, "names", ()))
    chosen = selected(metrics, labelled)
    choose(protocol, {"paper": 0, "dlib": 0, "fast": 0}, "protocol")
    expect(isinstance(seeds, int) and 1 <= seeds <= 1000, "seeds must be a whole number from 1 to 1000", found=seeds)
    table = as_table(codes, factors, needs_factors=any(m.needs == "factors" for m in chosen.values()), **inputs)
    halves = [_half(table, seed + r) for r in range(seeds)] if seeds > 1 else []
    scores = {}
    for name, metric in chosen.items():
        score = _run(metric, table, protocol, seed)
        if halves:
            values = np.array([_run(metric, half, protocol, seed + r).value for r, half in enumerate(halves)])
            how = f"{seeds} random halves, each with its own seed"
            score = score.within(_interval(score.value, values, metric.span), interval=how)
            score.table["halves"] = values
        scores[name] = score
        if advance is not None:
            advance(note=name)
    return scores


def selected(metrics: str | Iterable[str], labelled: bool) -> Mapping[str, Metric]:
    """The metrics asked for, by name; 'all' means every one that these inputs allow."""
    from unbraid.metrics import METRICS

    if isinstance(metrics, str):
        metrics = [m.strip() for m in metrics.split(",") if m.strip()]
    names = list(metrics)
    expect(names, "name at least one metric", allowed=["all", *METRICS])
    if names == ["all"]:
        return {n: m for n, m in METRICS.items() if m.needs == "codes" or (labelled and m.needs == "factors")}
    out = {name: choose(name, METRICS, "metric") for name in names}
    wrong = [n for n, m in out.items() if m.needs not in ("factors", "codes")]
    expect(
        not wrong,
        "these metrics do not score one table of codes",
        found=wrong,
        do="Call them from Python: metrics.udr([a, b]).",
    )
    unlabelled = [n for n, m in out.items() if m.needs == "factors" and not labelled]
    expect(
        not unlabelled,
        "these metrics need factors",
        found=unlabelled,
        do="Give labels, or ask for metrics of codes alone.",
    )
    return out


def _run(metric: Metric, table: Table, protocol: str, seed: int) -> Score:
    settings: dict[str, Any] = {"protocol": protocol} if protocol in metric.protocols else {}
    return metric(table, seed=seed, **settings)


def _half(table: Table, seed: int) -> Table:
    return table.subset(np.sort(np.random.default_rng([seed, 7]).permutation(len(table))[: max(2, len(table) // 2)]))


def _interval(value: float, values: np.ndarray, span: tuple[float, float]) -> tuple[float, float]:
    from scipy.stats import t

    half = float(t.ppf(0.975, len(values) - 1) * values.std(ddof=1))
    return max(span[0], value - half), min(span[1], value + half)
