"""The tables of a report: `compare`'s, quantities down and settings across, the best marked."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from types import MappingProxyType
from typing import Any

from unbraid.comparing import Comparison, compare
from unbraid.comparing.number_format import decimal_places, format_half_width, format_mean
from unbraid.comparing.quantities import TERM_DIRECTIONS, base_name, direction_arrow
from unbraid.comparing.table import MeanTable
from unbraid.core.errors import UnbraidError
from unbraid.metrics import METRICS
from unbraid.metrics.evaluation.battery import strip_protocol
from unbraid.runs.evaluation.scores import Scores
from unbraid.runs.run import Run


@dataclass(frozen=True)
class TableRow:
    """One quantity: its name, an arrow to its better side, a cell for every column, and what duplicates allow."""

    name: str
    arrow: str
    cells: tuple[str, ...]
    best: int | None = None
    ceiling: str = ""


@dataclass(frozen=True)
class ReportTables:
    """Heads (name, seeds) with lines of scores and of nats; `every` holds the same for single runs, where seeds were averaged."""

    heads: tuple[tuple[str, int], ...]
    scores: tuple[TableRow, ...]
    nats: tuple[TableRow, ...]
    audited: bool
    every: ReportTables | None = None


def build_report_tables(runs: Sequence[Run], names: Mapping[str, str] = MappingProxyType({})) -> ReportTables:
    """The tables over some runs; from the last lines of their ledgers where none was scored or audited yet.

    names: words for recipes, by their names; those settings are headed so, and stand in this order.
    """
    for run in runs:  # compare counts a damaged file as a failed run; a page of that run names it
        saved_scores(run)
        run.saved_audit()
    if any(run.snapshot is not None for run in runs):  # what is written of a run is of its last weights
        return _ledger_tables(runs, names)
    try:
        found = compare(*runs, agreement=False)
    except UnbraidError:
        return _ledger_tables(runs, names)
    recipes = {str(run.path): run.recipe.name for run in runs}
    found = _relabel_settings(
        found, {place: names[recipe] for place, recipe in recipes.items() if recipe in names}, list(names.values())
    )
    tops = saved_ceilings(runs)
    lines = [_comparison_row(found, j, tops) for j in range(len(found.quantities))]
    scores, nats = _split_scores_and_nats(lines)
    heads = tuple((g.label, len(g.models)) for g in found.groups)
    return ReportTables(
        heads, scores, nats or _ledger_tables(runs, names).nats, bool(nats), _per_run_tables(found, len(runs))
    )


def _relabel_settings(table: Comparison, labels: Mapping[str, str], order: Sequence[str]) -> Comparison:
    """The same comparison with settings called by the words for their runs' places, in the order of the words."""
    groups = list(table.groups)
    for i, group in enumerate(groups):
        called = {labels[m.place] for m in group.models if m.place in labels}
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
    cells = MeanTable(**{field.name: getattr(table.cells, field.name)[kept] for field in fields(MeanTable)})
    return replace(
        table, groups=tuple(groups[i] for i in kept), cells=cells, row_half_widths=table.row_half_widths[kept]
    )


def saved_scores(run: Run) -> Scores:
    """The scores written by `unbraid score`; empty when there are none."""
    return run.scores() or Scores({})


def saved_ceilings(runs: Sequence[Run]) -> dict[str, float]:
    """What duplicate images allow, by metric, as the first run that knows has it."""
    known = (saved_scores(run).ceilings for run in runs)
    return next((found for found in known if found), {})


def _comparison_row(table: Comparison, j: int, ceilings: dict[str, float]) -> TableRow:
    """Means ± half their interval over seeds, in the digits that the intervals deserve."""
    name, digits = table.quantities[j], table.cells.digits[j]
    cells = []
    for i in range(len(table.groups)):
        half = format_half_width(float(table.cells.half_width[i, j]), digits)
        cells.append(format_mean(float(table.cells.mean[i, j]), digits) + (f" ± {half}" if half else ""))
    return TableRow(
        name,
        direction_arrow(name).strip(),
        tuple(cells),
        table.best(name),
        _format_ceiling(ceilings.get(strip_protocol(base_name(name)))),
    )


def _per_run_tables(table: Comparison, count: int) -> ReportTables | None:
    """The same quantities of every single run; None when that would be the same table."""
    models = [model for group in table.groups for model in group.models]
    if len(models) <= len(table.groups) or count < 2:
        return None
    lines = []
    for name in table.quantities:
        values = [float(m.values.get(name, math.nan)) for m in models]
        digits = _decimal_places(values)
        lines.append(TableRow(name, direction_arrow(name).strip(), tuple(format_mean(v, digits) for v in values)))
    heads = tuple((model.name, 1) for model in models)
    return ReportTables(heads, *_split_scores_and_nats(lines), audited=True)


def _split_scores_and_nats(lines: Sequence[TableRow]) -> tuple[tuple[TableRow, ...], tuple[TableRow, ...]]:
    """Scores apart from nats."""
    scores = tuple(
        line
        for line in lines
        if strip_protocol(base_name(line.name)) in METRICS and base_name(line.name) not in TERM_DIRECTIONS
    )
    return scores, tuple(line for line in lines if line not in scores)


def _ledger_tables(runs: Sequence[Run], names: Mapping[str, str] = MappingProxyType({})) -> ReportTables:
    """What the last lines of the ledgers say, by each objective's own estimator."""
    last: list[dict[str, Any]] = [_last_ledger_nats(run) for run in runs]
    terms = dict.fromkeys(name for nats in last for name in nats)
    lines = []
    for name in terms:
        values = [float(v) if isinstance(v := nats.get(name), int | float) else math.nan for nats in last]
        lines.append(
            TableRow(
                name, direction_arrow(name).strip(), tuple(format_mean(v, _decimal_places(values)) for v in values)
            )
        )
    return ReportTables(tuple((run_heading(run, names), 1) for run in runs), (), tuple(lines), audited=False)


def _last_ledger_nats(run: Run) -> dict[str, Any]:
    """The terms of the last line of a ledger that was written before the weights of this moment."""
    rows = [row for row in run.ledger() if row["step"] < run.state["step"]]
    return rows[-1]["nats"] if rows else {}


def run_heading(run: Run, names: Mapping[str, str]) -> str:
    """A run's heading: the word for its recipe with its seed, or its folder's name; the step of other weights than the last."""
    word = names.get(run.recipe.name)
    when = "" if run.snapshot is None else f" after step {run.state['step']:,}"
    return (f"{word}, seed {run.recipe.seed}" if word else run.path.name) + when


def _decimal_places(values: Sequence[float]) -> int:
    import numpy as np

    return decimal_places(np.array(values), np.full(len(values), np.nan))


def _format_ceiling(value: Any) -> str:
    return "" if value is None or not math.isfinite(value) or value >= 0.9995 else f"{value:.3f}"
