"""Plots that several studies share: seeds as small dots, means as larger ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from unbraid.core.errors import UnbraidError
from unbraid.studies.framework.results import Results

if TYPE_CHECKING:
    from unbraid.runs import Run


def create_figure(columns: int, width: float = 3.6, height: float = 3.5) -> tuple[Any, Any]:
    """Create a figure with one row of axes.

    Args:
        columns: number of axes.
        width: width of each, in inches.
        height: height in inches.
    """
    from matplotlib.figure import Figure

    made = Figure(figsize=(width * columns, height), layout="constrained")
    axes = list(np.atleast_1d(made.subplots(1, columns)))
    for each in axes:
        each.spines[["top", "right"]].set_visible(False)
    return made, axes


def add_legend(axes: Any, **options: Any) -> None:
    """Add a legend if there are labels, and format logarithmic ticks.

    Args:
        axes: matplotlib axes in their final scale.
        options: further options of the legend.
    """
    format_log_ticks(axes)
    if axes.get_legend_handles_labels()[0]:
        axes.legend(frameon=False, fontsize=8, **options)


def format_log_ticks(axes: Any) -> None:
    """Label 1, 2 and 5 of each power of ten in plain digits on logarithmic axes without fixed ticks.

    Args:
        axes: matplotlib axes.
    """
    from matplotlib.ticker import FixedLocator, LogLocator, NullFormatter

    for axis in (each for each in (axes.xaxis, axes.yaxis) if each.get_scale() == "log"):
        axis.set_minor_formatter(NullFormatter())
        if not isinstance(axis.get_major_locator(), FixedLocator):
            axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
            axis.set_major_formatter("{x:g}")


def plot_tradeoff(axes: Any, results: Results, methods: Mapping[str, Sequence[str]], x: str, y: str) -> None:
    """Plot one quantity over another: a line through the means of each method's settings, seeds as dots.

    Args:
        axes: matplotlib axes.
        results: the results.
        methods: labels of the arms by method.
        x: quantity of the horizontal axis.
        y: quantity of the vertical axis.
    """
    from unbraid.figures.drawing import LINE_COLOURS

    for colour, (method, arms) in zip(cycle(LINE_COLOURS), methods.items(), strict=False):
        means = []
        for arm in (a for a in arms if results.values(a, y) and results.values(a, x)):
            pairs = [(results.value(arm, s, x), results.value(arm, s, y)) for s in results.seeds(arm)]
            known = np.array([(a, b) for a, b in pairs if a is not None and b is not None])
            axes.plot(*known.T, ".", color=colour, alpha=0.35, ms=4)
            means.append(known.mean(0))
            axes.annotate(arm_setting(arm), means[-1], fontsize=8, textcoords="offset points", xytext=(4, 4))
        if means:
            axes.plot(*np.array(means).T, "o-", color=colour, label=method, ms=5)
    axes.set(xlabel=x, ylabel=y)


def plot_paper_points(axes: Any, numbers: Mapping[str, Any], points: Sequence[tuple[str, str, str]]) -> None:
    """Plot printed numbers as hollow points with their names; a point that the paper does not print is left out.

    Args:
        axes: matplotlib axes.
        numbers: the paper's numbers by key.
        points: name, key of the horizontal and key of the vertical number of each point.
    """
    for name, x, y in points:
        if x in numbers and y in numbers:
            point = (numbers[x].value, numbers[y].value)
            axes.plot(*point, "o", mfc="none", color="grey", ms=6)
            axes.annotate(name, point, fontsize=7, color="grey", textcoords="offset points", xytext=(4, -9))


def arms_by_method(results: Results, prefixes: Mapping[str, str]) -> dict[str, list[str]]:
    """The arms of each method: those whose label is its prefix and a number, so that every setting of a scale is drawn.

    Args:
        results: the results.
        prefixes: prefix of the labels by method.

    >>> from unbraid.studies.framework.results import RunResult
    >>> rows = tuple(RunResult(arm, 0) for arm in ("tc1", "isatc1", "tc2.5"))
    >>> arms_by_method(Results("demo", "cpu", rows), {"β-TCVAE": "tc"})
    {'β-TCVAE': ['tc1', 'tc2.5']}
    """
    return {m: [a for a in results.arms if a == head + arm_setting(a)] for m, head in prefixes.items()}


def arm_setting(arm: str) -> str:
    """Return the setting in an arm's label: 'beta4' → '4'.

    Args:
        arm: the label.
    """
    return arm.lstrip("abcdefghijklmnopqrstuvwxyz_-") or arm


def plot_lines(axes: Any, results: Results, series: Mapping[str, Mapping[float, tuple[str, str]]], xlabel: str) -> None:
    """Plot quantities against a setting.

    Args:
        axes: matplotlib axes.
        results: the results.
        series: for each line, a map from the setting to arm and quantity.
        xlabel: label of the horizontal axis.
    """
    from unbraid.figures.drawing import LINE_COLOURS

    for colour, (name, points) in zip(cycle(LINE_COLOURS), series.items(), strict=False):
        known = [(x, results.values(arm, quantity)) for x, (arm, quantity) in points.items()]
        known = [(x, values) for x, values in known if values]
        for x, values in known:
            axes.plot([x] * len(values), values, ".", color=colour, alpha=0.35, ms=4)
        if known:
            means = [float(np.mean(values)) for _, values in known]
            axes.plot([x for x, _ in known], means, "o-", color=colour, label=name, ms=5)
    axes.set(xlabel=xlabel)


def plot_boxes(axes: Any, results: Results, arms: Sequence[str], quantity: str) -> None:
    """Plot a box per arm with its seeds as dots.

    Args:
        axes: matplotlib axes.
        results: the results.
        arms: labels of the arms.
        quantity: name of the measured number.
    """
    from unbraid.figures.drawing import LINE_COLOURS

    values = [results.values(arm, quantity) for arm in arms]
    axes.boxplot(values, tick_labels=list(arms), widths=0.6, showfliers=False, medianprops={"color": LINE_COLOURS[1]})
    for i, found in enumerate(values, 1):
        at = i + np.linspace(-0.12, 0.12, len(found))
        axes.plot(at, found, ".", color=LINE_COLOURS[0], ms=4, alpha=0.6)
    axes.set_ylabel(quantity)
    axes.tick_params(axis="x", rotation=50, labelsize=8)


def load_paired_runs(results: Results, runs: Path, *arms: str) -> list[Run]:
    """Load one run per arm, all of the first seed whose runs are on this disk.

    Args:
        results: the results.
        runs: folder of the runs.
        arms: labels of the arms.
    """
    from unbraid.runs import Run

    for seed in results.seeds(*arms):
        places = [runs / str(results.metadata["runs"][f"{arm}/{seed}"]) for arm in arms]
        if all(place.is_dir() for place in places):
            return [Run.load(place) for place in places]
    raise UnbraidError(f"no seed of {', '.join(arms)} has its runs in {runs}.")


def plot_marginals(axes: Any, run: Run, title: str) -> None:
    """Plot q(z_j) of the active columns, one sample per posterior, against the standard normal.

    Args:
        axes: matplotlib axes.
        run: the run.
        title: title of the axes.
    """
    from unbraid.figures.drawing import LINE_COLOURS
    from unbraid.runs import encode

    codes = encode(run, max_images=20_000, quiet=True, save=False)
    scale = np.zeros_like(codes.mean) if codes.scale is None else codes.scale
    drawn = codes.mean + scale * np.random.default_rng(0).normal(size=codes.mean.shape)
    edges = np.linspace(-4, 4, 61)
    for column in np.flatnonzero(codes.mean.std(0) > 0.1):
        axes.hist(drawn[:, column], edges, density=True, histtype="step", color=LINE_COLOURS[0], alpha=0.7)
    middle = (edges[1:] + edges[:-1]) / 2
    axes.plot(middle, np.exp(-(middle**2) / 2) / np.sqrt(2 * np.pi), color="black", lw=1.2, label="N(0, 1)")
    axes.set_title(title, fontsize=9)
    axes.set(xlabel="z", yticks=[])
    add_legend(axes)


def plot_matrix(
    axes: Any, values: np.ndarray, title: str, rows: Sequence[str] = (), columns: Sequence[str] = ()
) -> None:
    """Plot a matrix of values in 0 … 1 as shades with numbers.

    Args:
        axes: matplotlib axes.
        values: the matrix.
        title: title of the axes.
        rows: row labels.
        columns: column labels.
    """
    axes.imshow(values, vmin=0, vmax=1, cmap="Blues", aspect="auto")
    for i, j in np.ndindex(*values.shape):
        shade = "white" if values[i, j] > 0.6 else "black"
        axes.text(j, i, f"{values[i, j]:.1f}".lstrip("0"), ha="center", va="center", fontsize=6, color=shade)
    axes.set_xticks(range(values.shape[1]), columns or range(values.shape[1]), fontsize=7)
    axes.set_yticks(range(values.shape[0]), rows or range(values.shape[0]), fontsize=7)
    axes.set_title(title, fontsize=9)


def plot_correlations(
    latents: Any, factors: Any, codes: np.ndarray, values: np.ndarray, title: str, names: Sequence[str]
) -> None:
    """Plot |correlation| of the active latents with each other and with labels.

    Args:
        latents: matplotlib axes for the latents.
        factors: matplotlib axes for the labels.
        codes: codes "n d".
        values: labels "n k".
        title: title of both axes.
        names: names of the labels.
    """
    live = np.flatnonzero(codes.std(0) > 0.1)
    live = live if live.size else np.arange(codes.shape[1])  # a run of a few steps uses none
    both, width = np.abs(np.corrcoef(codes[:, live].T, values.T)), len(live)
    columns = [f"z{c}" for c in live]
    plot_matrix(latents, both[:width, :width], f"{title}: latents", columns, columns)
    plot_matrix(factors, both[:width, width:], f"{title}: factors", columns, names)
    factors.tick_params(axis="x", rotation=50)
