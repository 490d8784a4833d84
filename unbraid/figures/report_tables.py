"""The tables of a report: a comparison with quantities as rows and settings as columns; the best is marked."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from types import MappingProxyType
from typing import Any

import numpy as np

from unbraid.comparing import Comparison, compare
from unbraid.comparing.number_format import decimal_places, format_estimate, format_mean
from unbraid.comparing.quantities import TERM_DIRECTIONS, base_name, direction_arrow
from unbraid.comparing.table import MeanTable
from unbraid.core.errors import UnbraidError
from unbraid.metrics import METRICS
from unbraid.metrics.evaluation.battery import strip_protocol
from unbraid.runs import Run, Scores


@dataclass(frozen=True)
class TableRow:
    """One quantity of a table.

    Args:
        name: name of the quantity.
        arrow: ↑ or ↓: which values are better.
        cells: one cell for each column.
        best: number of the best cell.
        ceiling: the best score that duplicate images allow.
    """

    name: str
    arrow: str
    cells: tuple[str, ...]
    best: int | None = None
    ceiling: str = ""


@dataclass(frozen=True)
class ReportTables:
    """The tables of a report.

    Args:
        heads: label and number of seeds of each column.
        scores: rows of scores.
        nats: rows of terms in nats.
        audited: whether the terms come from an audit.
        per_run: the same tables for each single run, if seeds were averaged.
    """

    heads: tuple[tuple[str, int], ...]
    scores: tuple[TableRow, ...]
    nats: tuple[TableRow, ...]
    audited: bool
    per_run: ReportTables | None = None


def build_report_tables(runs: Sequence[Run], names: Mapping[str, str] = MappingProxyType({})) -> ReportTables:
    """Build the tables of some runs; without scores and audits, from the last rows of their ledgers.

    Args:
        runs: the runs.
        names: labels of recipes, by recipe name, in the order of the columns.
    """
    for run in runs:  # compare treats a damaged file as a failed run; here it is an error
        saved_scores(run)
        run.saved_audit()
    if any(run.snapshot is not None for run in runs):  # stored scores and audits belong to the last weights
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
    """Relabel the settings of a comparison by the labels of their run directories, in the order of the labels."""
    groups = list(table.groups)
    for i, group in enumerate(groups):
        new = {labels[m.place] for m in group.models if m.place in labels}
        if len(new) == 1:
            label = new.pop()
            models = tuple(replace(m, name=f"{label}, seed {m.seed}") for m in group.models)
            groups[i] = replace(group, label=label, models=models)
    if len({g.label for g in groups}) < len(groups):  # one recipe in several settings: keep the distinct labels
        return table
    ranks = [order.index(g.label) if g.label in order else len(order) for g in groups]
    kept = sorted(range(len(groups)), key=lambda i: ranks[i])
    cells = MeanTable(**{field.name: getattr(table.cells, field.name)[kept] for field in fields(MeanTable)})
    return replace(
        table, groups=tuple(groups[i] for i in kept), cells=cells, row_half_widths=table.row_half_widths[kept]
    )


def saved_scores(run: Run) -> Scores:
    """The stored scores of a run; empty when there are none.

    Args:
        run: the run.
    """
    return run.scores() or Scores({})


def saved_ceilings(runs: Sequence[Run]) -> dict[str, float]:
    """The best scores that duplicate images allow, by metric, of the first run that has them.

    Args:
        runs: the runs.
    """
    return next((ceilings for run in runs if (ceilings := saved_scores(run).ceilings)), {})


def _comparison_row(table: Comparison, j: int, ceilings: dict[str, float]) -> TableRow:
    """Format means ± half their interval over seeds, with as many digits as the intervals justify."""
    name, digits = table.quantities[j], table.cells.digits[j]
    means, half_widths = table.cells.mean[:, j].tolist(), table.cells.half_width[:, j].tolist()
    cells = tuple(format_estimate(*each, digits) for each in zip(means, half_widths, strict=True))
    top = ceilings.get(strip_protocol(base_name(name)))
    ceiling = "" if top is None or not math.isfinite(top) or top >= 0.9995 else f"{top:.3f}"
    return TableRow(name, direction_arrow(name).strip(), cells, table.best(name), ceiling)


def _per_run_tables(table: Comparison, count: int) -> ReportTables | None:
    """The tables of every single run; None when they would be equal."""
    models = [model for group in table.groups for model in group.models]
    if len(models) <= len(table.groups) or count < 2:
        return None
    lines = [_value_row(name, [float(m.values.get(name, math.nan)) for m in models]) for name in table.quantities]
    heads = tuple((model.name, 1) for model in models)
    return ReportTables(heads, *_split_scores_and_nats(lines), audited=True)


def _split_scores_and_nats(lines: Sequence[TableRow]) -> tuple[tuple[TableRow, ...], tuple[TableRow, ...]]:
    """Separate scores from terms in nats."""
    names = {line.name: base_name(line.name) for line in lines}
    scored = {name for name, base in names.items() if strip_protocol(base) in METRICS and base not in TERM_DIRECTIONS}
    return tuple(r for r in lines if r.name in scored), tuple(r for r in lines if r.name not in scored)


def _ledger_tables(runs: Sequence[Run], names: Mapping[str, str] = MappingProxyType({})) -> ReportTables:
    """Tables of the last rows of the ledgers, by each objective's own estimator."""
    last: list[dict[str, Any]] = [_last_ledger_nats(run) for run in runs]
    lines = []
    for name in dict.fromkeys(name for nats in last for name in nats):
        values = [float(v) if isinstance(v := nats.get(name), int | float) else math.nan for nats in last]
        lines.append(_value_row(name, values))
    return ReportTables(tuple((run_heading(run, names), 1) for run in runs), (), tuple(lines), audited=False)


def _last_ledger_nats(run: Run) -> dict[str, Any]:
    """The terms of the last ledger row before the step of the loaded weights."""
    rows = [row for row in run.ledger() if row["step"] < run.state["step"]]
    return rows[-1]["nats"] if rows else {}


def run_heading(run: Run, names: Mapping[str, str]) -> str:
    """The heading of a run: the label of its recipe with the seed, or the name of its folder; and the step of a snapshot.

    Args:
        run: the run.
        names: labels of recipes, by recipe name.
    """
    label = names.get(run.recipe.name)
    step = "" if run.snapshot is None else f" after step {run.state['step']:,}"
    return (f"{label}, seed {run.recipe.seed}" if label else run.path.name) + step


def _value_row(name: str, values: Sequence[float]) -> TableRow:
    """The row of a quantity that has one value per column and no interval."""
    digits = decimal_places(np.array(values), np.full(len(values), np.nan))
    return TableRow(name, direction_arrow(name).strip(), tuple(format_mean(v, digits) for v in values))
