"""Scores and audited terms over training, a panel each."""

from __future__ import annotations

import math
from typing import Any

from matplotlib.figure import Figure

from unbraid.core.errors import expect
from unbraid.figures.drawing import LINE_COLOURS, PAGE_WIDTH, despine, disable_mathtext
from unbraid.runs.evaluation.snapshot_scores import score_series

MAX_PANELS = 24  # panels of one picture


def scores_over_training(result: dict[str, Any]) -> Figure:
    """Every quantity of `unbraid score RUN --over-training` against the steps done."""
    points = score_series(result)
    expect(points, "there is nothing to draw over training", found="no finite number")
    names = list(points)[:MAX_PANELS]
    across = min(4, len(names))
    down = math.ceil(len(names) / across)
    figure = Figure(figsize=(PAGE_WIDTH * max(across, 2) / 4, 1.9 * down + 0.3), layout="constrained")
    grid = figure.subplots(down, across, squeeze=False).ravel()
    for axes, name in zip(grid, names, strict=False):
        score = any(name in row["scores"] for row in result["rows"])
        axes.plot(
            *zip(*points[name], strict=True),
            color=LINE_COLOURS[0 if score else 1],
            linewidth=1.2,
            marker=".",
            markersize=4,
        )
        axes.set_title(name if score else f"{name} (nats)", fontsize=9, loc="left")
        axes.tick_params(labelsize=7)
        despine(axes)
    for axes in grid[len(names) :]:
        axes.set_visible(False)
    left = len(points) - len(names)
    figure.supxlabel(f"steps ({left} more quantities are in over_training.json)" if left else "steps", fontsize=8)
    return disable_mathtext(figure)
