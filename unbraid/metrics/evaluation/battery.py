"""Run many metrics on one table; they share bins, information matrices and predictors."""

from __future__ import annotations

import json
import math
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
from unbraid.metrics.evaluation.records import Interval, Metric, Protocol, Score
from unbraid.metrics.inputs.table import Table
from unbraid.metrics.inputs.validation import as_table, function_metrics


def battery(
    codes: Any,
    factors: Any = None,
    *,
    metrics: str | Iterable[str] = "all",
    protocol: Protocol = "fast",
    seeds: int = 1,
    interval: Interval = "half",
    seed: int = 0,
    bins: int | None = None,
    advance: Callable[..., None] | None = None,
    **inputs: Any,
) -> dict[str, Score]:
    """Run many metrics and return their scores by name.

    With 'all', a metric that cannot run on these data is skipped: its value is NaN, and `settings["skipped"]` holds the
    reason. A metric that is named raises the error instead; only an error that is no `UnbraidError`, such as one in a
    custom metric, is reported as skipped there too. Without factors only metrics of codes run.

    Args:
        codes: codes of any form that `as_table` accepts.
        factors: labels "n k", or None.
        metrics: 'all', or names such as "mig,dci,mig@paper"; the protocol after an @ holds for that metric alone.
        protocol: 'paper', 'dlib' or 'fast', for each metric that has it; the others have one definition.
        seeds: repetitions behind the interval of each score; 1 computes no interval.
        interval: 'half', 'bootstrap' or 'seeds', the kind of repetition (see `interval`).
        seed: the seed of every draw.
        bins: bins per unit, for the metrics that discretise codes (default 20).
        advance: called as advance(note=name) after each metric and each of its repetitions.
        inputs: options of `as_table`.

    >>> y = np.stack(np.unravel_index(np.arange(600), (3, 4, 50)), 1)[:, :2]
    >>> [str(s) for s in battery(y.astype(float), y, metrics=["mig", "mcc"]).values()]
    ['mig 1.000', 'mcc 1.000']
    """
    expect(
        not callable(codes) or isinstance(codes, Table),
        "battery needs codes",
        found="a function",
        do=f"Only these metrics take a function: {function_metrics()}.",
    )
    choose(protocol, {"paper": 0, "dlib": 0, "fast": 0}, "protocol")
    check_repetitions(interval, seeds)
    wanted = parse_metric_names(metrics)
    table = as_table(codes, factors, metric_name="battery", seed=seed, needs_factors=False, **inputs)
    chosen, strict = select_metrics(wanted, table), wanted != ["all"]
    first = _run_metrics(chosen, table, protocol, seed, bins, strict, advance)
    why = [s.settings["skipped"] for s in first.values() if "skipped" in s.settings]
    expect(
        len(why) < len(first), "at least one metric must be able to run on these data", found=why[0] if why else None
    )
    if seeds == 1:
        return first
    others: dict[str, list[Score]] = {name: [] for name in chosen}
    # one resampled table at a time limits memory, and its metrics share intermediate results
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
    """The score with its interval, or with the reason why it has none."""
    if "skipped" in first.settings:
        return first
    if reason and metric.needs == "factors":
        return first if first.interval else first.with_interval(None, interval=f"none: {reason}")
    failed = next((s.settings["skipped"] for s in others if "skipped" in s.settings), None)
    if failed:
        return first.with_interval(None, interval=f"none: {RESAMPLING_PHRASES[method]}, {failed}")
    return add_interval(first, others, method, metric)


def count_metric_calls(metrics: Mapping[str, Metric], seeds: int, interval: str, table: Table | None = None) -> int:
    """The number of times that `battery` calls `advance`.

    Args:
        metrics: the metrics by name.
        seeds: repetitions per metric.
        interval: the kind of repetition.
        table: the table, if it is known; it decides which metrics depend on a seed.
    """
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
            score = metric(table, seed=seed, **settings)
            scores[name] = _checked(replace(score, name=name, value=float(score.value)))
        except (Exception, SystemExit) as error:  # a custom metric may raise anything; the other scores are kept
            if strict and isinstance(error, UnbraidError):
                raise
            why = _describe_error(error)
            scores[name] = Score(name, float("nan"), {}, None, {**settings, "skipped": why})
        if advance is not None:
            advance(note=name)
    return scores


def _checked(score: Score) -> Score:
    """The score of a metric, if its details have the types that tables need and can be stored with the other scores."""
    ends = score.interval
    for field, right in {
        "table": isinstance(score.table, dict),
        "settings": isinstance(score.settings, dict),
        "interval": ends is None or (len(ends) == 2 and all(isinstance(end, int | float) for end in ends)),
    }.items():
        if not right:
            raise TypeError(f"its score has a {field} of type {type(getattr(score, field)).__name__}")
    if ends is not None and not all(map(math.isfinite, ends)):
        raise ValueError(f"its score has the interval {ends}")
    if "skipped" in score.settings and not isinstance(score.settings["skipped"], str):
        raise TypeError("its score gives a reason for skipping that is no text")
    json.dumps(score.as_dict(), ensure_ascii=False).encode()
    return score


def _describe_error(error: BaseException) -> str:
    """The text of an error, with its type if it is no `UnbraidError`, even if its text cannot be made or stored."""
    try:
        text = str(error) if isinstance(error, UnbraidError) else f"{type(error).__name__}: {error}"
        return text.encode("utf-8", "replace").decode()
    except Exception:
        return type(error).__name__


def parse_metric_names(metrics: str | Iterable[str]) -> list[str]:
    """Split and check metric names.

    Args:
        metrics: 'all', names with commas between them, or an iterable of names.

    Returns a list of names, or ['all'].

    >>> parse_metric_names("mig, dci")
    ['mig', 'dci']
    >>> parse_metric_names("MIG")
    ['mig']
    """
    from unbraid.metrics import METRICS

    names = [m.strip() for m in metrics.split(",")] if isinstance(metrics, str) else list(metrics)
    names = [_fold_case(name, METRICS) for name in names if name]
    expect(names, "at least one metric must be named", allowed=["all", *METRICS])
    for name in names if names != ["all"] else ():
        known = choose(strip_protocol(name), METRICS, "metric")
        expect(
            "@" not in name or "protocol" in signature(known.call).parameters,
            f"{strip_protocol(name)} has one definition and no protocols",
            found=name,
        )
    return names


def _fold_case(name: Any, known: Mapping[str, Metric]) -> Any:
    """A name that is known in lower case, in lower case: MIG is mig."""
    lower = name.lower() if isinstance(name, str) else name
    return lower if isinstance(name, str) and (lower == "all" or strip_protocol(lower) in known) else name


def strip_protocol(name: str) -> str:
    """The metric in the name of a score: 'mig' for 'mig@paper'.

    Args:
        name: the name of a score, such as 'mig@paper'.
    """
    return name.partition("@")[0]


def get_metric(name: str) -> Metric:
    """The metric of the name of a score such as 'mig' or 'mig@paper'.

    Args:
        name: the name of a score, such as 'mig@paper'.
    """
    from unbraid.metrics import METRICS

    return METRICS[strip_protocol(name)]


def select_metrics(metrics: str | Iterable[str], table: Table) -> Mapping[str, Metric]:
    """The requested metrics by name.

    Args:
        metrics: 'all' for every metric that the table allows, or names.
        table: the codes and labels to score.
    """
    from unbraid.metrics import METRICS

    names = parse_metric_names(metrics)
    classes = any(unit.kind == "onehot" for unit in table.units)
    there = {"codes": True, "factors": bool(table.names), "posteriors": table.scale is not None, "classes": classes}
    if names == ["all"]:
        return {n: m for n, m in METRICS.items() if there.get(m.needs, False)}
    out = {name: get_metric(name) for name in names}
    wrong = [n for n, m in out.items() if m.needs not in there]
    expect(
        not wrong,
        "these metrics do not score one table of codes",
        found=wrong,
        do="Call them in Python, for example metrics.udr([a, b]).",
    )
    unlabelled = [n for n, m in out.items() if m.needs == "factors" and not there["factors"]]
    expect(
        not unlabelled,
        "these metrics need factors",
        found=unlabelled,
        do="Provide labels, or choose metrics that need codes only.",
    )
    return out
