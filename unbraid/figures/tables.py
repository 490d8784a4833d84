"""The tables of a report: quantities down, settings across, means over seeds with their intervals, the best marked."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from unbraid.comparing.statistics import interval
from unbraid.metrics import METRICS
from unbraid.metrics.suite import base
from unbraid.runs.run import SCORES, Run
from unbraid.runs.scores import Scores

NATS = {  # which way is better, where there is one: less error, and less of what the papers charge for
    "reconstruction": "↓",
    "tc_q:root": "↓",
}


@dataclass(frozen=True)
class Line:
    """One quantity: its name, an arrow to its better side, a cell for every setting, and what duplicates allow."""

    name: str
    arrow: str
    cells: tuple[str, ...]
    best: int | None
    ceiling: str = ""


def settings(runs: Sequence[Run]) -> dict[str, list[Run]]:
    """Runs by recipe name; runs of one name with different recipes stay apart."""
    groups: dict[str, list[Run]] = {}
    for run in runs:
        same = [g for g in groups.values() if not _unlike(g[0], run)]
        if same:
            same[0].append(run)
        else:
            name = run.recipe.name
            taken = sum(key == name or key.startswith(f"{name} (") for key in groups)
            groups[f"{name} ({taken + 1})" if taken else name] = [run]
    return groups


def _unlike(first: Run, second: Run) -> list[str]:
    """Fields other than the seed in which two runs' recipes differ."""
    return [line for line in first.recipe.differences(second.recipe) if not line.startswith("seed:")]


def scores_of(run: Run) -> Scores:
    """The scores written by `unbraid score`; empty when there are none."""
    return Scores.load(run.path) if (run.path / SCORES).is_file() else Scores({})


def ceilings_of(runs: Sequence[Run]) -> dict[str, float]:
    """What duplicate images allow, by metric, as the first run that knows has it."""
    known = (scores_of(run).ceilings for run in runs)
    return next((found for found in known if found), {})


def audit_of(run: Run) -> dict[str, Any] | None:
    """What `unbraid audit` wrote, or None."""
    return run.audited()


def score_lines(groups: Mapping[str, Sequence[Run]]) -> list[Line]:
    """A line for every metric that any run has, in the library's order."""
    values = {name: [_values(scores_of(r)) for r in runs] for name, runs in groups.items()}
    found = {key for rows in values.values() for row in rows for key in row}
    place = {name: i for i, name in enumerate(METRICS)}
    order = sorted(found, key=lambda n: (place.get(base(n), len(place)), n))
    tops = ceilings_of([run for runs in groups.values() for run in runs])
    down = {name for name, metric in METRICS.items() if metric.direction == "down"}
    arrows = {n: "↓" if base(n) in down else "↑" for n in order}
    return [_line(n, arrows[n], values, "{:.3f}".format, _ceiling(tops.get(base(n)))) for n in order]


def nats_lines(groups: Mapping[str, Sequence[Run]]) -> list[Line]:
    """A line for every audited term (else for those of the last batch), in nats per example."""
    values = {name: [_nats(r) for r in runs] for name, runs in groups.items()}
    order: dict[str, None] = {}
    for rows in values.values():
        for row in rows:
            order.update(dict.fromkeys(row))
    return [_line(n, NATS.get(n, ""), values, _two) for n in order]


def _values(scores: Scores) -> dict[str, float]:
    return {name: s.value for name, s in scores.items() if math.isfinite(s.value)}


def _nats(run: Run) -> dict[str, float]:
    audited = audit_of(run)
    found = audited["nats"] if audited is not None else (run.ledger() or [{"nats": {}}])[-1]["nats"]
    return {key: float(v) for key, v in found.items() if isinstance(v, int | float) and math.isfinite(v)}


def _line(
    name: str,
    arrow: str,
    values: Mapping[str, Sequence[Mapping[str, float]]],
    shown: Callable[[float], str],
    ceiling: str = "",
) -> Line:
    cells, means = [], []
    for rows in values.values():
        known = [row[name] for row in rows if name in row]
        means.append(sum(known) / len(known) if known else math.nan)
        spread = f" ± {shown(interval(known).half)}" if len(known) > 1 else ""
        cells.append(f"{shown(means[-1])}{spread}" if known else "–")
    ranked = [i for i, mean in enumerate(means) if math.isfinite(mean)]
    best = (max if arrow == "↑" else min)(ranked, key=lambda i: means[i]) if arrow and len(ranked) > 1 else None
    return Line(name, arrow, tuple(cells), best, ceiling)


def _two(value: float) -> str:
    """Two digits, and no −0.00."""
    return f"{round(value, 2) + 0.0:.2f}"


def _ceiling(value: float | None) -> str:
    return "" if value is None or not math.isfinite(value) or value >= 0.9995 else f"{value:.3f}"
