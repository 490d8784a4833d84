"""All metrics at once on one table, sharing bins, information matrices and predictors."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from inspect import signature
from typing import Any

from unbraid.core.errors import UnbraidError, choose, expect
from unbraid.metrics.evaluation.intervals import (
    RESAMPLING_PHRASES,
    add_interval,
    check_repetitions,
    depends_on_seed,
    no_interval_reason,
    resamples,
)
from unbraid.metrics.evaluation.records import Metric, Score
from unbraid.metrics.inputs.table import Table
from unbraid.metrics.inputs.validation import as_table


def battery(
    codes: Any,
    factors: Any = None,
    *,
    metrics: str | Iterable[str] = "all",
    protocol: str = "fast",
    seeds: int = 1,
    interval: str = "half",
    seed: int = 0,
    bins: int | None = None,
    advance: Callable[..., None] | None = None,
    **inputs: Any,
) -> dict[str, Score]:
    """Run many metrics and return their scores by name.

    metrics: 'all', or names such as "mig,dci,mig@paper": after the @ stands a protocol of that metric alone. protocol:
    'paper', 'dlib' or 'fast', for each metric that knows it; the others have one definition. Without factors only the
    metrics of codes alone run. seeds: with more than one, each score carries an interval from that many
    repetitions, on 'half' of the rows, on a 'bootstrap' sample of them or with other 'seeds' (see `interval`). bins: for
    the metrics that count bins of codes (20). advance(note=…) follows each metric and each of its repetitions.

    Under 'all' a metric that cannot run on these data is skipped: its value is NaN, and `settings["skipped"]` says why.
    One that was named raises.

    >>> y = np.stack(np.unravel_index(np.arange(600), (3, 4, 50)), 1)[:, :2]
    >>> [str(s) for s in battery(y.astype(float), y, metrics=["mig", "mcc"]).values()]
    ['mig 1.000', 'mcc 1.000']
    """
    expect(
        not callable(codes) or isinstance(codes, Table),
        "a battery scores codes, not a function that encodes",
        do="factor_vae, beta_vae and irs take a function: metrics.factor_vae(function, factors).",
    )
    choose(protocol, {"paper": 0, "dlib": 0, "fast": 0}, "protocol")
    check_repetitions(interval, seeds)
    wanted = parse_metric_names(metrics)
    table = as_table(codes, factors, metric_name="battery", seed=seed, needs_factors=False, **inputs)
    chosen, strict = select_metrics(wanted, table), wanted != ["all"]
    first = _run_metrics(chosen, table, protocol, seed, bins, strict, advance)
    why = [s.settings["skipped"] for s in first.values() if "skipped" in s.settings]
    expect(len(why) < len(first), "no metric can run on these data", found=why[0] if why else None)
    if seeds == 1:
        return first
    others: dict[str, list[Score]] = {name: [] for name in chosen}
    # table by table, so that only one is in memory and metrics share what they make of it
    moved = {name: metric for name, metric in chosen.items() if interval != "seeds" or depends_on_seed(metric, table)}
    lone = no_interval_reason(table, interval, seeds, seed)
    able = {n: m for n, m in moved.items() if "skipped" not in first[n].settings and (not lone or m.needs != "factors")}
    for each, other in resamples(table, interval, seeds, seed):
        for name, score in _run_metrics(able, other, protocol, each, bins, False, advance).items():
            others[name].append(score)
        for name in moved.keys() - able.keys() if advance is not None else ():
            advance(note=name)
    return {name: _add_interval(score, others[name], interval, chosen[name], lone) for name, score in first.items()}


def _add_interval(first: Score, others: list[Score], method: str, metric: Metric, reason: str) -> Score:
    """A score with its interval, or with the reason why there is none."""
    if "skipped" in first.settings:
        return first
    if reason and metric.needs == "factors":
        return first if first.interval else first.with_interval(None, interval=f"none: {reason}")
    failed = next((s.settings["skipped"] for s in others if "skipped" in s.settings), None)
    if failed:
        return first.with_interval(None, interval=f"none: {RESAMPLING_PHRASES[method]}, {failed}")
    return add_interval(first, others, method, metric)


def count_metric_calls(metrics: Mapping[str, Metric], seeds: int, interval: str, table: Table | None = None) -> int:
    """How often `battery` calls `advance`: once for each metric, and once for each repetition of it."""
    moved = [m for m in metrics.values() if interval != "seeds" or (depends_on_seed(m, table) if table else m.seeded)]
    return len(metrics) + (len(moved) * seeds if seeds > 1 else 0)


def _run_metrics(
    chosen: Mapping[str, Metric],
    table: Table,
    protocol: str,
    seed: int,
    bins: int | None,
    strict: bool,
    advance: Callable[..., None] | None,
) -> dict[str, Score]:
    scores = {}
    for name, metric in chosen.items():
        own = name.partition("@")[2]
        settings: dict[str, Any] = {"protocol": protocol} if protocol in metric.protocols else {}
        settings |= {"protocol": own} if own else {}
        if bins is not None and "bins" in signature(metric.call).parameters:
            settings["bins"] = bins
        try:
            scores[name] = replace(metric(table, seed=seed, **settings), name=name)
        except UnbraidError as error:
            if strict:
                raise
            scores[name] = Score(name, float("nan"), {}, None, {**settings, "skipped": str(error)})
        if advance is not None:
            advance(note=name)
    return scores


def parse_metric_names(metrics: str | Iterable[str]) -> list[str]:
    """The names asked for, each one known; or ['all'].

    >>> parse_metric_names("mig, dci")
    ['mig', 'dci']
    """
    from unbraid.metrics import METRICS

    names = [m.strip() for m in metrics.split(",")] if isinstance(metrics, str) else list(metrics)
    names = [name for name in names if name]
    expect(names, "name at least one metric", allowed=["all", *METRICS])
    for name in names if names != ["all"] else ():
        known = choose(strip_protocol(name), METRICS, "metric")
        expect(
            "@" not in name or "protocol" in signature(known.call).parameters,
            f"{strip_protocol(name)} has one definition, and no protocols",
            found=name,
        )
    return names


def strip_protocol(name: str) -> str:
    """The metric's own name in the name of a score: 'mig' of 'mig@paper'."""
    return name.partition("@")[0]


def get_metric(name: str) -> Metric:
    """The metric behind the name of a score: 'mig', or 'mig@paper'."""
    from unbraid.metrics import METRICS

    return METRICS[strip_protocol(name)]


def select_metrics(metrics: str | Iterable[str], table: Table) -> Mapping[str, Metric]:
    """The metrics asked for, by name; 'all' means every one that this table allows."""
    from unbraid.metrics import METRICS

    names = parse_metric_names(metrics)
    there = {"codes": True, "factors": bool(table.names), "posteriors": table.scale is not None}
    if names == ["all"]:
        return {n: m for n, m in METRICS.items() if there.get(m.needs, False)}
    out = {name: get_metric(name) for name in names}
    wrong = [n for n, m in out.items() if m.needs not in there]
    expect(
        not wrong,
        "these metrics do not score one table of codes",
        found=wrong,
        do="Call them from Python: metrics.udr([a, b]).",
    )
    unlabelled = [n for n, m in out.items() if m.needs == "factors" and not there["factors"]]
    expect(
        not unlabelled,
        "these metrics need factors",
        found=unlabelled,
        do="Give labels, or ask for metrics of codes alone.",
    )
    return out
