"""Figures of a comparison: trade-off, score over a swept field, rank correlations, box plots."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from unbraid.comparing.quantities import direction, direction_arrow
from unbraid.comparing.setting_labels import short_field_name
from unbraid.comparing.statistics import rank_correlation, t_interval
from unbraid.comparing.table import Comparison
from unbraid.core.errors import choose, expect
from unbraid.figures.drawing import INK

PALE = "#999999"
# the colours of Okabe & Ito, which colour-blind readers can distinguish, with markers for grey print
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#222222", "#8a6d3b")
MARKERS = "osD^vPX*"


def trade_off(table: Comparison, x: str = "reconstruction", y: str = "") -> Figure:
    """Plot two quantities against each other: seeds as dots, means of settings with intervals, and the Pareto front.

    Args:
        table: the comparison.
        x: quantity of the x axis.
        y: quantity of the y axis; by default the first other one.
    """
    x, y = _check_quantity(table, x), _check_quantity(table, y or _default_quantity(table, x))
    figure, axes = _new_axes(6.2, 4.2)
    i, j = table.quantities.index(x), table.quantities.index(y)
    cells = table.cells
    for k, method in enumerate(_methods(table)):
        colour, marker = COLOURS[k % len(COLOURS)], MARKERS[k % len(MARKERS)]
        rows = [g for g, group in enumerate(table.groups) if group.method == method]
        for g in rows:
            dots = [(m.values[x], m.values[y]) for m in table.groups[g].models if x in m.values and y in m.values]
            if dots:
                axes.scatter(*np.array(dots).T, s=9, color=colour, alpha=0.35, linewidths=0, zorder=2)
        known = [g for g in rows if np.isfinite(cells.mean[g, [i, j]]).all()]
        x_error, y_error = (np.nan_to_num(cells.half_width[known, column]) for column in (i, j))
        axes.errorbar(
            cells.mean[known, i], cells.mean[known, j], y_error, x_error, fmt=marker, ms=6, color=colour, elinewidth=1.1,
            capsize=0, markeredgecolor="white", markeredgewidth=0.6, label=method, zorder=4,
        )  # fmt: skip
        _annotate_settings(axes, table, known, i, j, method)
    _draw_pareto_front(axes, table, i, j)
    axes.set_xlabel(x + direction_arrow(x))
    axes.set_ylabel(y + direction_arrow(y))
    _add_legend(axes, len(_methods(table)))
    return figure


def sweep_curves(table: Comparison, field: str = "", y: str = "") -> Figure:
    """Plot a quantity over a swept field: seeds as dots, and for each method a line of means with a band of intervals.

    Args:
        table: the comparison.
        field: the swept field; by default the first.
        y: the quantity; by default the first.
    """
    expect(
        table.swept,
        "no field with numbers differs between these settings",
        found=", ".join(table.fields) or "one setting",
    )
    names = {short_field_name(f, table.swept): f for f in table.swept} | {f.split(".")[-1]: f for f in table.swept}
    names = {f: f for f in table.swept} | names
    field = choose(field, names, "swept field") if field else table.swept[0]
    y = _check_quantity(table, y or _default_quantity(table, ""))
    j = table.quantities.index(y)
    figure, axes = _new_axes(5.4, 3.8)
    positions = []
    for k, method in enumerate(_methods(table)):
        groups = [(i, g) for i, g in enumerate(table.groups) if g.method == method and field in g.fields]
        rows = sorted((g.fields[field], i) for i, g in groups if np.isfinite(table.cells.mean[i, j]))
        if not rows:
            continue
        colour, marker = COLOURS[k % len(COLOURS)], MARKERS[k % len(MARKERS)]
        at, order = np.array([v for v, _ in rows], float), [i for _, i in rows]
        positions += list(at)
        for v, i in rows:
            seen = list(table.values(y)[i].values())
            axes.scatter([v] * len(seen), seen, s=9, color=colour, alpha=0.35, linewidths=0)
        mean, half = table.cells.mean[order, j], np.nan_to_num(table.cells.half_width[order, j])
        axes.plot(at, mean, color=colour, marker=marker, ms=5, lw=1.4, label=method)
        axes.fill_between(at, mean - half, mean + half, color=colour, alpha=0.14, linewidth=0)
    if min(positions) > 0 and max(positions) / min(positions) >= 8:
        axes.set_xscale("log")
        axes.set_xticks(sorted(set(positions)), [f"{v:g}" for v in sorted(set(positions))])
        axes.minorticks_off()
    axes.set_xlabel(short_field_name(field, table.swept))
    axes.set_ylabel(y + direction_arrow(y))
    _add_legend(axes, len(_methods(table)))
    return figure


def correlation_heat_map(table: Comparison, method: str = "spearman") -> Figure:
    """Draw the rank correlations between quantities over all models.

    Args:
        table: the comparison.
        method: 'spearman' or 'kendall'.
    """
    models = [m for g in table.groups for m in g.models]
    expect(len(models) >= 3, "rank correlations need three models or more", found=len(models))
    values = np.array([[m.values.get(q, np.nan) for q in table.quantities] for m in models])
    matrix = rank_correlation(values, method)
    kept = [k for k in range(len(matrix)) if np.isfinite(np.delete(matrix[k], k)).any()]
    expect(len(kept) > 1, "two quantities or more must vary over the models", found=", ".join(table.quantities))
    names, matrix = [table.quantities[k] for k in kept], matrix[np.ix_(kept, kept)]
    side = 1.8 + 0.42 * len(names)
    figure = Figure(figsize=(side + 0.6, side), layout="constrained")
    axes = figure.subplots()
    drawn = axes.imshow(matrix, cmap="RdBu", vmin=-1, vmax=1)
    axes.set_xticks(range(len(names)), names, fontsize=7, rotation=45, ha="right", rotation_mode="anchor")
    axes.set_yticks(range(len(names)), names, fontsize=7)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    for (a, b), value in np.ndenumerate(matrix):
        if np.isfinite(value) and len(names) <= 24:
            ink = "white" if abs(value) > 0.6 else INK
            axes.text(b, a, f"{value:.2f}".replace("0.", "."), ha="center", va="center", fontsize=6, color=ink)
    scale = figure.colorbar(drawn, ax=axes, shrink=0.7)
    scale.set_label(f"{method} over {len(models)} models", fontsize=8)
    scale.ax.tick_params(labelsize=7)
    return figure


def box_plots(table: Comparison, y: str = "") -> Figure:
    """Draw a box for each setting, with seeds as dots and the mean with its interval below.

    Args:
        table: the comparison.
        y: the quantity; by default the first.
    """
    y = _check_quantity(table, y or _default_quantity(table, ""))
    seen = [(g, list(v.values())) for g, v in zip(table.groups, table.values(y), strict=True) if v]
    expect(
        len(seen) <= 60,
        "a figure has at most 60 boxes",
        found=f"{len(seen)} settings",
        do="Compare fewer, or plot 'against' a field.",
    )
    methods = _methods(table)
    figure, axes = _new_axes(5.6, 0.9 + 0.36 * len(seen))
    rng = np.random.default_rng(0)
    for k, (group, values) in enumerate(seen):
        colour = COLOURS[methods.index(group.method) % len(COLOURS)]
        at = len(seen) - 1 - k
        axes.boxplot(
            values, positions=[at], orientation="horizontal", widths=0.55, showfliers=False, medianprops={"color": colour},
            boxprops={"color": colour}, whiskerprops={"color": colour}, capprops={"color": colour}, manage_ticks=False,
        )  # fmt: skip
        axes.scatter(
            values, at + rng.uniform(-0.14, 0.14, len(values)), s=10, color=colour, alpha=0.5, linewidths=0, zorder=3
        )
        e = t_interval(values, table.level)
        half = e.half_width if np.isfinite(e.half_width) else 0.0
        axes.errorbar([e.mean], [at - 0.38], xerr=[half], fmt="d", ms=4, color=INK, elinewidth=1, zorder=4)
    axes.set_yticks(range(len(seen)), [f"{g.label} ({len(v)})" for g, v in reversed(seen)], fontsize=8)
    axes.set_ylim(-0.7, len(seen) - 0.4)
    axes.set_xlabel(y + direction_arrow(y))
    legend = f"box: quartiles over seeds; diamond: mean, {table.level:.0%} t interval"
    axes.set_title(legend, loc="right", fontsize=7, color=PALE)
    return figure


def pareto_front(points: np.ndarray, directions: Sequence[str]) -> list[int]:
    """Return the indices of the Pareto-optimal points, sorted by the first coordinate.

    Args:
        points: points "n 2".
        directions: 'up' or 'down' for each coordinate: which values are better.

    >>> pareto_front(np.array([[1.0, 1.0], [2.0, 3.0], [3.0, 2.0]]), ("down", "up"))
    [0, 1]
    """
    signed = points * [1.0 if way == "up" else -1.0 for way in directions]
    better = [np.flatnonzero((signed >= p).all(1) & (signed > p).any(1)) for p in signed]
    kept = [k for k, found in enumerate(better) if not len(found) and np.isfinite(signed[k]).all()]
    return sorted(kept, key=lambda k: points[k, 0])


def _draw_pareto_front(axes: Axes, table: Comparison, i: int, j: int) -> None:
    """Draw a dashed line through the Pareto-optimal means, if both quantities have a better direction."""
    directions = [direction(table.quantities[k]) for k in (i, j)]
    points = table.cells.mean[:, [i, j]]
    if not all(directions) or np.isfinite(points).all(1).sum() < 3:
        return
    kept = pareto_front(points, directions)
    axes.plot(*points[kept].T, color=INK, lw=0.9, ls=(0, (4, 3)), zorder=3, label="front")
    axes.scatter(*points[kept].T, s=95, facecolors="none", edgecolors=INK, linewidths=0.9, zorder=5)


def _annotate_settings(axes: Axes, table: Comparison, known: list[int], i: int, j: int, method: str) -> None:
    """Annotate each mean with its setting, if there are few."""
    if len(table.groups) > 24:
        return
    for g in known:
        label = table.groups[g].label.removeprefix(method).strip()
        point = (float(table.cells.mean[g, i]), float(table.cells.mean[g, j]))
        axes.annotate(label, point, xytext=(6, 5), textcoords="offset points", fontsize=7, color=INK, parse_math=False)


def _methods(table: Comparison) -> list[str]:
    return list(dict.fromkeys(g.method for g in table.groups))


def _check_quantity(table: Comparison, name: str) -> str:
    choose(name, dict.fromkeys(table.quantities), "quantity")
    return name


def _default_quantity(table: Comparison, other: str) -> str:
    return next((q for q in table.quantities if q != other), table.quantities[0])


def _new_axes(width: float, height: float) -> tuple[Figure, Axes]:
    figure = Figure(figsize=(width, height), layout="constrained")
    axes = figure.subplots()
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(color="#e5e5e5", lw=0.6)
    axes.set_axisbelow(True)
    axes.tick_params(labelsize=8)
    axes.xaxis.label.set_fontsize(9)
    axes.yaxis.label.set_fontsize(9)
    return figure, axes


def _add_legend(axes: Axes, methods: int) -> None:
    axes.legend(frameon=False, fontsize=8, ncols=1 if methods < 8 else 2)


PLOTS: dict[str, Callable[..., Figure]] = {
    "trade_off": trade_off,
    "against": sweep_curves,
    "correlations": correlation_heat_map,
    "boxes": box_plots,
}
