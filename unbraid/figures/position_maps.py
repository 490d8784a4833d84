"""Latents over position: the mean of each live column over x and y and over every other factor. After Chen et al. 2018."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.figure import Figure

from unbraid.codes import Codes
from unbraid.core.errors import expect
from unbraid.figures.drawing import INK, LINE_COLOURS, PAGE_WIDTH, despine, disable_mathtext
from unbraid.runs.evaluation.leaf_summary import DEAD_NATS

MAX_POSITIONS = 256  # along an axis
COLOUR_LIMIT = 2.0  # colours run from −COLOUR_LIMIT (blue) to COLOUR_LIMIT (red)


def has_positions(codes: Codes | None) -> bool:
    """Whether codes have the factors x and y, each on a grid, and real columns.

    Args:
        codes: the codes.
    """
    if codes is None or codes.values is None or codes.factors is None or not codes.tree.columns_of_kind("real"):
        return False
    sizes = {factor.name: factor.size for factor in codes.factors.items}
    return all(1 < sizes.get(axis, 0) <= MAX_POSITIONS for axis in "xy")


def position_maps(codes: Codes, max_columns: int = 8, title: str = "") -> Figure:
    """Draw one row for each live column: its mean over x and y as colours, then over each other factor as lines.

    Each class of the first class factor, such as the shape, has its own line. Columns are sorted by their KL.
    Stühmer et al. 2019, Figs. 8–16, after Chen et al. 2018.

    Args:
        codes: codes with the factors x and y.
        max_columns: number of columns to draw.
        title: title of the figure.
    """
    expect(
        has_positions(codes),
        "this figure needs the factors x and y",
        do="Encode a data set that has them, such as sprites32.",
    )
    assert codes.values is not None
    assert codes.factors is not None
    names = list(codes.factors.names)
    whole = np.isfinite(codes.values).all(axis=1)  # without images that lack a label
    values, means = codes.values[whole], codes.mean[whole]
    x, y = (values[:, names.index(axis)] for axis in "xy")
    kinds = {factor.name: factor.kind for factor in codes.factors.items}
    lines = next((name for name in names if kinds[name] == "class"), "")
    others = [name for name in names if name not in ("x", "y", lines)]
    chosen = _live_columns(codes)[:max_columns]
    size = (min(PAGE_WIDTH, 1.9 * (1 + len(others)) + 1.4), 1.5 * len(chosen) + 0.4)
    figure = Figure(figsize=size, layout="constrained")
    grid = figure.subplots(len(chosen), 1 + len(others), squeeze=False)
    shapes = values[:, names.index(lines)] if lines else np.zeros(len(values))
    for row, (column, leaf) in zip(grid, chosen, strict=True):
        z = means[:, column]
        colours = {"cmap": "coolwarm", "vmin": -COLOUR_LIMIT, "vmax": COLOUR_LIMIT}
        row[0].imshow(mean_by_factors(z, x, y).T, **colours, interpolation="none")
        row[0].set(xticks=[], yticks=[], ylabel=leaf)
        for axes, name in zip(row[1:], others, strict=True):
            _draw_lines(axes, z, values[:, names.index(name)], shapes)
    if lines and others:
        classes = codes.factors.items[names.index(lines)].values
        labels = [str(classes[int(code)]) if classes else f"{lines} {code:g}" for code in np.unique(shapes)]
        last = grid[0][-1]
        last.legend(last.lines, labels, fontsize=7, frameon=False, loc="upper left", bbox_to_anchor=(1, 1))
    for axes, name in zip(grid[-1], ("position", *others), strict=True):
        axes.set_xlabel(name, fontsize=9)
    figure.suptitle(title or f"latents over position{f', one line per {lines}' if lines and others else ''}",
                    fontsize=10, x=0.01, ha="left", color=INK)  # fmt: skip
    return disable_mathtext(figure)


def _live_columns(codes: Codes) -> list[tuple[int, str]]:
    """Real columns and the names of their leaves, by descending KL, without dead leaves if any leaf is live."""
    leaves = codes.tree.leaves
    kl = np.full(len(leaves), np.inf) if codes.kl is None else np.nan_to_num(np.asarray(codes.kl), nan=np.inf)
    order = [i for i in np.argsort(-kl, kind="stable") if leaves[i].kind == "real"]
    kept = [i for i in order if kl[i] >= DEAD_NATS] or order
    return [(column, leaves[i].name) for i in kept for column in codes.tree.columns(leaves[i].name)]


def mean_by_factors(z: np.ndarray, first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Average z for each pair of values of two factors, "i j"; NaN for pairs without data.

    Args:
        z: one number for each image.
        first: values of the first factor.
        second: values of the second factor.

    >>> mean_by_factors(np.array([1.0, 3.0, 5.0]), np.array([0, 0, 1]), np.array([0, 0, 1]))
    array([[ 2., nan],
           [nan,  5.]])
    """
    (a, i), (b, j) = (np.unique(values, return_inverse=True) for values in (first, second))
    sums, counts = np.zeros((len(a), len(b))), np.zeros((len(a), len(b)))
    np.add.at(sums, (i, j), z)
    np.add.at(counts, (i, j), 1)
    return np.divide(sums, counts, out=np.full_like(sums, np.nan), where=counts > 0)


def _draw_lines(axes: Any, z: np.ndarray, values: np.ndarray, shapes: np.ndarray) -> None:
    """Plot the mean of z over the values of a factor, one line for each shape."""
    means = mean_by_factors(z, shapes, values)
    for colour, line in zip(LINE_COLOURS, means, strict=False):
        axes.plot(np.unique(values), line, ".-", color=colour, lw=1, ms=3)
    axes.set_ylim(-COLOUR_LIMIT, COLOUR_LIMIT)
    axes.tick_params(labelsize=7)
    despine(axes)
