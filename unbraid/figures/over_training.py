"""Scores and audited terms over training, one panel each."""

from __future__ import annotations

from typing import Any

from matplotlib.figure import Figure

from unbraid.core.errors import expect
from unbraid.figures.drawing import LINE_COLOURS, PAGE_WIDTH, despine, disable_mathtext, panel_grid
from unbraid.runs.evaluation.snapshot_scores import score_series

MAX_PANELS = 24  # of one figure


def scores_over_training(result: dict[str, Any]) -> Figure:
    """Plot every quantity of `unbraid score RUN --over-training` over the steps.

    Args:
        result: the content of over_training.json.
    """
    points = score_series(result)
    expect(points, "there is nothing to draw over training", found="no finite number")
    names = list(points)[:MAX_PANELS]
    columns = min(4, len(names))
    figure, grid = panel_grid(len(names), columns, PAGE_WIDTH * max(columns, 2) / 4, 1.9, 0.3)
    for axes, name in zip(grid, names, strict=True):
        is_score = any(name in row["scores"] for row in result["rows"])
        colour = LINE_COLOURS[0 if is_score else 1]
        axes.plot(*zip(*points[name], strict=True), color=colour, linewidth=1.2, marker=".", markersize=4)
        axes.set_title(name if is_score else f"{name} (nats)", fontsize=9, loc="left")
        axes.tick_params(labelsize=7)
        despine(axes)
    left = len(points) - len(names)
    figure.supxlabel(f"steps ({left} more quantities are in over_training.json)" if left else "steps", fontsize=8)
    return disable_mathtext(figure)
