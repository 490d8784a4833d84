"""Pictures that several studies draw: every seed a dot, the mean a larger one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from unbraid.studies.results import Results


def figure(columns: int, width: float = 3.6, height: float = 3.5) -> tuple[Any, Any]:
    """A figure of one row, and its axes as a list."""
    from matplotlib.figure import Figure

    made = Figure(figsize=(width * columns, height), layout="constrained")
    axes = list(np.atleast_1d(made.subplots(1, columns)))
    for each in axes:
        each.spines[["top", "right"]].set_visible(False)
    return made, axes


def legend(axes: Any, **options: Any) -> None:
    """A legend, if there is anything to explain; the axes are as they stay then, so logarithmic ones get their ticks."""
    for axis in (axes.xaxis, axes.yaxis):
        _ticks(axis)
    if axes.get_legend_handles_labels()[0]:
        axes.legend(frameon=False, fontsize=8, **options)


def _ticks(axis: Any) -> None:
    """On a logarithmic axis its own ticks, or else 1, 2 and 5 of each power of ten in plain digits; no words between."""
    from matplotlib.ticker import FixedLocator, LogLocator, NullFormatter

    if axis.get_scale() != "log":
        return
    axis.set_minor_formatter(NullFormatter())
    if not isinstance(axis.get_major_locator(), FixedLocator):
        axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axis.set_major_formatter("{x:g}")


def tradeoff(axes: Any, results: Results, methods: Mapping[str, Sequence[str]], x: str, y: str) -> None:
    """One quantity over another: a line through the means of each method's settings, its seeds as dots."""
    from unbraid.figures.canvas import LINES

    for colour, (method, arms) in zip(LINES, methods.items(), strict=False):
        means = []
        for arm in (a for a in arms if results.values(a, y) and results.values(a, x)):
            pairs = [(results.value(arm, s, x), results.value(arm, s, y)) for s in results.seeds(arm)]
            known = np.array([(a, b) for a, b in pairs if a is not None and b is not None])
            axes.plot(*known.T, ".", color=colour, alpha=0.35, ms=4)
            means.append(known.mean(0))
            axes.annotate(number(arm), means[-1], fontsize=8, textcoords="offset points", xytext=(4, 4))
        if means:
            axes.plot(*np.array(means).T, "o-", color=colour, label=method, ms=5)
    axes.set(xlabel=x, ylabel=y)


def number(arm: str) -> str:
    """The setting in an arm's label: 'beta4' → '4'."""
    return arm.lstrip("abcdefghijklmnopqrstuvwxyz_-") or arm


def lines(axes: Any, results: Results, series: Mapping[str, Mapping[float, tuple[str, str]]], xlabel: str) -> None:
    """Quantities against a setting; `series` gives for each line and setting the arm and the quantity."""
    from unbraid.figures.canvas import LINES

    for colour, (name, points) in zip(LINES, series.items(), strict=False):
        known = [(x, results.values(arm, quantity)) for x, (arm, quantity) in points.items()]
        known = [(x, values) for x, values in known if values]
        for x, values in known:
            axes.plot([x] * len(values), values, ".", color=colour, alpha=0.35, ms=4)
        if known:
            axes.plot(
                [x for x, _ in known], [float(np.mean(v)) for _, v in known], "o-", color=colour, label=name, ms=5
            )
    axes.set(xlabel=xlabel)


def boxes(axes: Any, results: Results, arms: Sequence[str], quantity: str) -> None:
    """A box per arm with its seeds as dots."""
    from unbraid.figures.canvas import LINES

    values = [results.values(arm, quantity) for arm in arms]
    axes.boxplot(values, tick_labels=list(arms), widths=0.6, showfliers=False, medianprops={"color": LINES[1]})
    for i, found in enumerate(values, 1):
        axes.plot(
            np.full(len(found), i) + np.linspace(-0.12, 0.12, len(found)), found, ".", color=LINES[0], ms=4, alpha=0.6
        )
    axes.set_ylabel(quantity)
    axes.tick_params(axis="x", rotation=50, labelsize=8)
