"""Pictures of scores: the matrices behind them as heat maps, and all scores of several codes side by side."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle

from unbraid.core.errors import expect
from unbraid.figures.drawing import GREY, INK, disable_mathtext
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
    """The unit × factor matrices behind the scores, with names of both; the best unit of each factor is outlined.

    Units of leaves named in `dead` are grey, and never outlined: what a matrix says of them is noise.
    """
    shown = [n for n in names if n in scores and "matrix" in scores[n].table] or [
        n for n in scores if "matrix" in scores[n].table
    ]
    expect(shown, "no score here has a unit × factor matrix", found=list(scores), do="Score mig, dci, mcc or sap.")
    units = len(scores[shown[0]].table["units"])
    factors = len(scores[shown[0]].table["factors"])
    across = min(3, len(shown))
    down = -(-len(shown) // across)
    size = (across * (1.3 + 0.62 * factors), down * (1.3 + 0.27 * units))
    figure = Figure(figsize=size, layout="constrained")
    grid = np.atleast_1d(figure.subplots(down, across)).ravel()
    for axes in grid[len(shown) :]:
        axes.axis("off")
    for axes, name in zip(grid, shown, strict=False):
        score = scores[name]
        draw_heat_map(axes, np.asarray(score.table["matrix"]), score.table["units"], score.table["factors"], dead)
        axes.set_title(f"{TITLES.get(name, name)}   {score.value:.2f}", fontsize=9, color=INK, loc="left")
    return disable_mathtext(figure)


def draw_heat_map(
    axes: Axes, matrix: np.ndarray, rows: Sequence[str], columns: Sequence[str], dead: Collection[str] = ()
) -> None:
    """One matrix with its numbers written in when there is room."""
    top = max(float(np.nanmax(matrix)), 1e-9)
    live = np.array([str(row).split("[")[0] not in dead for row in rows])
    live |= not live.any()  # where nothing lives, nothing is to be told apart
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
            axes.add_patch(_outline(j, i))


def _outline(x: int, y: int) -> Patch:
    return Rectangle((x - 0.5, y - 0.5), 1, 1, fill=False, edgecolor="#c05621", linewidth=1.2)


def score_gallery(values: Mapping[str, Mapping[str, Score]], title: str = "") -> Figure:
    """Scores of several codes as one heat map: a row per metric, a column per code; worse is paler."""
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
    """0 for the worst value a metric can take and 1 for the best; without an upper end, relative to the row."""
    low, high = METRICS[name].span
    low, high = max(low, 0.0), high if np.isfinite(high) else max(float(row.max()), 1e-9)
    shade = np.clip((row - low) / (high - low), 0, 1)
    return 1 - shade if METRICS[name].direction == "down" else shade
