"""Recipes and scores of a few runs next to each other, above their traversals."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from nicegui import ui

from unbraid.comparing.quantities import direction, direction_arrow, sort_quantities
from unbraid.comparing.run_record import read_run
from unbraid.comparing.setting_labels import varying_fields
from unbraid.studio.run_library import Library

MAX_SCORES = 12
BEST_MARK = " ★"


def comparison_rows(library: Library, names: list[str]) -> tuple[list[dict[str, str]], list[dict[str, str]]]:
    """Return the recipe fields that differ and the scores, as rows of "what", then r0, r1, … for the runs.

    Args:
        library: the runs of the studio.
        names: the runs.
    """
    models = [read_run(library.path(name), name) for name in names]
    fields = [{**model.fields, "seed": model.seed} for model in models]
    differing = [
        {"what": key} | {f"r{i}": format_field(one.get(key)) for i, one in enumerate(fields)}
        for key in varying_fields(fields)
    ]
    scores = []
    same_data = len({str(model.fields.get("data.name")) for model in models}) == 1  # else no value is the best
    counts = Counter(name for model in models for name in model.values)
    for name in most_common(sort_quantities(counts), counts, MAX_SCORES):
        found = [model.values.get(name) for model in models]
        best = best_value([value for value in found if value is not None], name) if same_data else None
        cells = {
            f"r{i}": "" if value is None else f"{value:.3g}{BEST_MARK if value == best else ''}"
            for i, value in enumerate(found)
        }
        scores.append({"what": f"{name}{direction_arrow(name)}"} | cells)
    return differing, scores


def most_common(names: Sequence[str], counts: Mapping[str, int], limit: int) -> list[str]:
    """Return the quantities that most runs have, in the given order.

    Args:
        names: all quantities.
        counts: number of runs that have each.
        limit: how many to return.

    >>> most_common(["mig", "jemmig", "dci"], {"mig": 3, "jemmig": 1, "dci": 3}, 2)
    ['mig', 'dci']
    """
    kept = set(sorted(names, key=lambda name: -counts[name])[:limit])
    return [name for name in names if name in kept]


def best_value(values: list[float], quantity: str) -> float | None:
    """Return the best of several values; None if neither direction is better or there is only one.

    Args:
        values: the values.
        quantity: their name.
    """
    better = {"up": max, "down": min}.get(direction(quantity))
    return better(values) if better is not None and len(values) > 1 else None


def format_field(value: Any) -> str:
    """Return the value of a recipe field as short text.

    Args:
        value: the value; None if the recipe does not have the field.
    """
    if isinstance(value, dict):
        return ", ".join(f"{key} {format_field(part)}" for key, part in value.items())
    return "—" if value is None else f"{value:g}" if isinstance(value, float) else str(value)


def show_comparison(library: Library, names: list[str]) -> None:
    """Show the tables of differing recipe fields and scores.

    Args:
        library: the runs of the studio.
        names: the runs.
    """
    with ui.element("div").classes("grid2"):
        titles = ("Recipe fields that differ", "Scores")
        for title, rows in zip(titles, comparison_rows(library, names), strict=True):
            if not rows:
                continue
            heads = [{"name": "what", "label": title, "field": "what", "align": "left"}]
            heads += [
                {"name": f"r{i}", "label": name, "field": f"r{i}", "align": "left"} for i, name in enumerate(names)
            ]
            with ui.element("div").classes("scroll"):
                ui.table(columns=heads, rows=rows, row_key="what").props(
                    "dense flat wrap-cells hide-pagination"
                ).classes("comparison")
