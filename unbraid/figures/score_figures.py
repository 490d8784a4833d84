"""Figures of scores: their unit × factor matrices as heat maps, and the scores of several codes side by side."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from numpy.typing import ArrayLike

from unbraid.core.errors import expect
from unbraid.figures.drawing import GREY, INK, disable_mathtext, panel_grid
from unbraid.metrics import METRICS, Score

BLUES, GREYS, DIM_INK = colormaps["Blues"], colormaps["Greys"], "#7a8494"
DEFAULT_MATRICES = ("mig", "dci", "mcc", "sap", "factor_vae", "irs")
TITLES = {
    "mig": "information in nats (MIG)",
    "dci": "importance (DCI)",
    "mcc": "|correlation| (MCC)",
    "sap": "single-unit predictability (SAP)",
    "factor_vae": "share of votes (FactorVAE)",
    "irs": "robustness (IRS)",
}


def score_heat_maps(
    scores: Mapping[str, Score], names: Sequence[str] = DEFAULT_MATRICES, dead: Collection[str] = ()
) -> Figure:
    """Draw the unit × factor matrices of scores; the best unit of each factor is outlined.

    Args:
        scores: scores by name.
        names: scores to draw; those without a matrix are skipped.
        dead: names of dead leaves; their units are grey and never outlined, because their entries are noise.
    """
    drawable = [n for n in scores if "matrix" in scores[n].table]
    shown = [n for n in names if n in drawable] or drawable
    expect(shown, "no score here has a unit × factor matrix", found=list(scores), do="Score mig, dci, mcc or sap.")
    units = len(scores[shown[0]].table["units"])
    factors = len(scores[shown[0]].table["factors"])
    columns = min(3, len(shown))
    figure, grid = panel_grid(len(shown), columns, columns * (1.3 + 0.62 * factors), 1.3 + 0.27 * units)
    for axes, name in zip(grid, shown, strict=True):
        score = scores[name]
        draw_heat_map(axes, score.table["matrix"], score.table["units"], score.table["factors"], dead)
        axes.set_title(f"{TITLES.get(name, name)}   {score.value:.2f}", fontsize=9, color=INK, loc="left")
    return disable_mathtext(figure)


def draw_heat_map(
    axes: Axes, matrix: ArrayLike, rows: Sequence[str], columns: Sequence[str], dead: Collection[str] = ()
) -> None:
    """Draw a matrix as a heat map, with its numbers if it is small; the best row of each column is outlined.

    Args:
        axes: axes to draw on.
        matrix: non-negative numbers.
        rows: names of the rows.
        columns: names of the columns.
        dead: names of dead leaves; their rows are grey and never outlined.

    >>> axes = Figure().subplots()
    >>> draw_heat_map(axes, [[0.9, 0.1], [0.2, 0.8]], ["z0", "z1"], ["x", "y"])
    >>> [text.get_text() for text in axes.texts]
    ['0.90', '0.10', '0.20', '0.80']
    """
    matrix = np.asarray(matrix, dtype=float)
    top = max(float(np.nanmax(matrix)), 1e-9)
    live = np.array([str(row).split("[")[0] not in dead for row in rows])
    live |= not live.any()  # if all are dead, none is grey
    shades = np.nan_to_num(matrix / top)
    axes.imshow(np.where(live[:, None, None], BLUES(shades), GREYS(0.5 * shades)), aspect="auto")
    axes.set_xticks(range(len(columns)), columns, fontsize=7, rotation=30 if max(map(len, columns)) > 6 else 0)
    axes.set_yticks(range(len(rows)), rows, fontsize=7)
    for label, alive in zip(axes.get_yticklabels(), live, strict=True):
        label.set_color("black" if alive else GREY)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    if matrix.size <= 240:
        for (i, j), value in np.ndenumerate(matrix):
            ink = ("white" if value > 0.6 * top else INK) if live[i] else DIM_INK
            axes.text(j, i, f"{value:.2f}", ha="center", va="center", fontsize=6.5, color=ink, gid=f"cell{i}-{j}")
    for j in range(matrix.shape[1]):
        i = int(np.argmax(np.where(live, matrix[:, j], -np.inf)))
        if matrix[i, j] > 0:
            axes.add_patch(Rectangle((j - 0.5, i - 0.5), 1, 1, fill=False, edgecolor="#c05621", linewidth=1.2))


def score_gallery(values: Mapping[str, Mapping[str, Score]], title: str = "") -> Figure:
    """Draw the scores of several codes as one heat map: one row per metric, one column per code; paler is worse.

    Args:
        values: code → metric → score.
        title: title of the figure.
    """
    codes = list(values)
    names = [n for n in METRICS if all(n in values[c] for c in codes)]
    expect(names, "the codes share no score")
    raw = np.array([[values[c][n].value for c in codes] for n in names])
    shade = np.array([_shade(n, row) for n, row in zip(names, raw, strict=True)])
    figure = Figure(figsize=(2.2 + 0.85 * len(codes), 0.7 + 0.26 * len(names)), layout="constrained")
    axes = figure.subplots()
    axes.imshow(shade, cmap="Blues", vmin=0, vmax=1, aspect="auto")
    axes.set_xticks(range(len(codes)), codes, fontsize=8)
    axes.set_yticks(range(len(names)), [f"{n}  ↓" if METRICS[n].direction == "down" else n for n in names], fontsize=8)
    axes.xaxis.tick_top()
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    for (i, j), value in np.ndenumerate(raw):
        text = f"{value:.2f}" if abs(value) < 10 else f"{value:.0f}"
        axes.text(j, i, text, ha="center", va="center", fontsize=7, color="white" if shade[i, j] > 0.6 else INK)
    if title:
        axes.set_title(title, fontsize=10, color=INK, loc="left")
    return disable_mathtext(figure)


def _shade(name: str, row: np.ndarray) -> np.ndarray:
    """Scale values to 0 for the worst and 1 for the best; without an upper bound, relative to the row."""
    low, high = METRICS[name].span
    low, high = max(low, 0.0), high if np.isfinite(high) else max(float(row.max()), 1e-9)
    shade = np.clip((row - low) / (high - low), 0, 1)
    return 1 - shade if METRICS[name].direction == "down" else shade
