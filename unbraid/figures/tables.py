"""The tables of a report: `compare`'s, quantities down and settings across, the best marked."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from types import MappingProxyType
from typing import Any

from unbraid.comparing import Comparison, compare
from unbraid.comparing.numbers import mean, places, spread
from unbraid.comparing.quantities import TERMS, arrow, bare
from unbraid.comparing.table import Cells
from unbraid.ground.errors import UnbraidError
from unbraid.metrics import METRICS
from unbraid.metrics.suite import base
from unbraid.runs.run import Run
from unbraid.runs.scores import Scores


@dataclass(frozen=True)
class Line:
    """One quantity: its name, an arrow to its better side, a cell for every column, and what duplicates allow."""

    name: str
    arrow: str
    cells: tuple[str, ...]
    best: int | None = None
    ceiling: str = ""


@dataclass(frozen=True)
class Tables:
    """Heads (name, seeds) with lines of scores and of nats; `every` holds the same for single runs, where seeds were averaged."""

    heads: tuple[tuple[str, int], ...]
    scores: tuple[Line, ...]
    nats: tuple[Line, ...]
    audited: bool
    every: Tables | None = None


def tables(runs: Sequence[Run], names: Mapping[str, str] = MappingProxyType({})) -> Tables:
    """The tables over some runs; from the last lines of their ledgers where none was scored or audited yet.

    names: words for recipes, by their names; those settings are headed so, and stand in this order.
    """
    for run in runs:  # compare counts a damaged file as a failed run; a page of that run names it
        scores_of(run)
        run.audited()
    if any(run.moment is not None for run in runs):  # what is written of a run is of its last weights
        return _unscored(runs, names)
    try:
        found = compare(*runs, agreement=False)
    except UnbraidError:
        return _unscored(runs, names)
    recipes = {str(run.path): run.recipe.name for run in runs}
    found = _headed(
        found, {place: names[recipe] for place, recipe in recipes.items() if recipe in names}, list(names.values())
    )
    tops = ceilings_of(runs)
    lines = [_line(found, j, tops) for j in range(len(found.quantities))]
    scores, nats = _parted(lines)
    heads = tuple((g.label, len(g.models)) for g in found.groups)
    return Tables(heads, scores, nats or _unscored(runs, names).nats, bool(nats), _every(found, len(runs)))


def _headed(table: Comparison, words: Mapping[str, str], order: Sequence[str]) -> Comparison:
    """The same comparison with settings called by the words for their runs' places, in the order of the words."""
    groups = list(table.groups)
    for i, group in enumerate(groups):
        called = {words[m.place] for m in group.models if m.place in words}
        if len(called) == 1:
            word = called.pop()
            models = tuple(replace(m, name=f"{word}, seed {m.seed}") for m in group.models)
            groups[i] = replace(group, label=word, models=models)
    if len({g.label for g in groups}) < len(
        groups
    ):  # one recipe in several settings: only compare's labels tell them apart
        return table
    ranks = [order.index(g.label) if g.label in order else len(order) for g in groups]
    kept = sorted(range(len(groups)), key=lambda i: ranks[i])
    cells = Cells(**{field.name: getattr(table.cells, field.name)[kept] for field in fields(Cells)})
    return replace(table, groups=tuple(groups[i] for i in kept), cells=cells, own=table.own[kept])


def scores_of(run: Run) -> Scores:
    """The scores written by `unbraid score`; empty when there are none."""
    return run.scores() or Scores({})


def ceilings_of(runs: Sequence[Run]) -> dict[str, float]:
    """What duplicate images allow, by metric, as the first run that knows has it."""
    known = (scores_of(run).ceilings for run in runs)
    return next((found for found in known if found), {})


def _line(table: Comparison, j: int, tops: dict[str, float]) -> Line:
    """Means ± half their interval over seeds, in the digits that the intervals deserve."""
    name, digits = table.quantities[j], table.cells.places[j]
    cells = []
    for i in range(len(table.groups)):
        half = spread(float(table.cells.half[i, j]), digits)
        cells.append(mean(float(table.cells.mean[i, j]), digits) + (f" ± {half}" if half else ""))
    return Line(name, arrow(name).strip(), tuple(cells), table.best(name), _ceiling(tops.get(base(bare(name)))))


def _every(table: Comparison, count: int) -> Tables | None:
    """The same quantities of every single run; None when that would be the same table."""
    models = [model for group in table.groups for model in group.models]
    if len(models) <= len(table.groups) or count < 2:
        return None
    lines = []
    for name in table.quantities:
        values = [float(m.values.get(name, math.nan)) for m in models]
        digits = _digits(values)
        lines.append(Line(name, arrow(name).strip(), tuple(mean(v, digits) for v in values)))
    heads = tuple((model.name, 1) for model in models)
    return Tables(heads, *_parted(lines), audited=True)


def _parted(lines: Sequence[Line]) -> tuple[tuple[Line, ...], tuple[Line, ...]]:
    """Scores apart from nats."""
    scores = tuple(line for line in lines if base(bare(line.name)) in METRICS and bare(line.name) not in TERMS)
    return scores, tuple(line for line in lines if line not in scores)


def _unscored(runs: Sequence[Run], names: Mapping[str, str] = MappingProxyType({})) -> Tables:
    """What the last lines of the ledgers say, by each objective's own estimator."""
    last: list[dict[str, Any]] = [_last(run) for run in runs]
    terms = dict.fromkeys(name for nats in last for name in nats)
    lines = []
    for name in terms:
        values = [float(v) if isinstance(v := nats.get(name), int | float) else math.nan for nats in last]
        lines.append(Line(name, arrow(name).strip(), tuple(mean(v, _digits(values)) for v in values)))
    return Tables(tuple((headed(run, names), 1) for run in runs), (), tuple(lines), audited=False)


def _last(run: Run) -> dict[str, Any]:
    """The terms of the last line of a ledger that was written before the weights of this moment."""
    rows = [row for row in run.ledger() if row["step"] < run.state["step"]]
    return rows[-1]["nats"] if rows else {}


def headed(run: Run, names: Mapping[str, str]) -> str:
    """A run's heading: the word for its recipe with its seed, or its folder's name; the step of other weights than the last."""
    word = names.get(run.recipe.name)
    when = "" if run.moment is None else f" after step {run.state['step']:,}"
    return (f"{word}, seed {run.recipe.seed}" if word else run.path.name) + when


def _digits(values: Sequence[float]) -> int:
    import numpy as np

    return places(np.array(values), np.full(len(values), np.nan))


def _ceiling(value: Any) -> str:
    return "" if value is None or not math.isfinite(value) or value >= 0.9995 else f"{value:.3f}"
