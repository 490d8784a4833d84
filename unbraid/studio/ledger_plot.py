"""Curves of the training log: one figure per term, several runs in each, with smoothing and robust axes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from unbraid.studio.plots import LINES, Figure, escape_text, make_figure

Rows = Sequence[Mapping[str, Any]]
MAX_PANELS = 12
IGNORED_SHARE = 0.1  # first part of the steps, which does not set the range of the axis
OUTLIERS = 0.01  # share of values at either end that does not set the range either


@dataclass(frozen=True)
class CurveOptions:
    """How curves are drawn.

    Args:
        log_scale: logarithmic vertical axes.
        smoothing: weight of the past in the moving average, 0 … 0.99.
        robust: the first tenth of the steps does not set the range of the axes.
        max_points: approximate upper limit of points per curve.
    """

    log_scale: bool = False
    smoothing: float = 0.0
    robust: bool = True
    max_points: int = 400


def plot_ledgers(ledgers: Mapping[str, Rows], options: CurveOptions | None = None) -> dict[str, Figure]:
    """Plot loss and every term over the steps, one figure each; colours are those of `run_colours`.

    Args:
        ledgers: rows of the ledger of each run, by its name.
        options: how the curves are drawn.
    """
    options = options or CurveOptions()
    colours = run_colours(list(ledgers))
    ledgers = {name: rows for name, rows in ledgers.items() if rows}
    keys = list(dict.fromkeys(key for rows in ledgers.values() for key in ["loss", *rows[-1]["nats"]]))[:MAX_PANELS]
    figures = {}
    for key in keys:
        data: list[dict[str, Any]] = []
        shown = []
        for name, rows in ledgers.items():
            steps, values = curve(rows, key, options.max_points)
            if not len(steps):
                continue
            smooth = smoothed(values, options.smoothing)
            shown.append((steps, values))
            line = {"type": "scatter", "mode": "lines", "x": steps.tolist(), "name": escape_text(name)}
            if options.smoothing:
                faint = {"color": colours[name], "width": 1}
                data.append(line | {"y": values.tolist(), "opacity": 0.25, "hoverinfo": "skip", "line": faint})
            data.append(line | {"y": smooth.tolist(), "line": {"color": colours[name], "width": 1.6}})
        prices = [rows[-1].get("prices", {}).get(key) for rows in ledgers.values()]
        known = sorted({f"{price:g}" for price in prices if isinstance(price, int | float)}, key=float)
        title = f"{key} × {', '.join(known)}" if known else key
        # a constant revision keeps the zoom of the user when new rows arrive
        figures[key] = make_figure(data, title, 230, showlegend=False, margin={"t": 34, "b": 36},
                                   uirevision=f"{options.log_scale} {options.robust}",
                                   yaxis=axis_range(shown, options))  # fmt: skip
    return figures


def run_colours(names: Sequence[str]) -> dict[str, str]:
    """Return the colour of each run.

    Args:
        names: the runs, in the order of the plot.
    """
    return {name: LINES[i % len(LINES)] for i, name in enumerate(names)}


def curve(rows: Rows, key: str, max_points: int) -> tuple[np.ndarray, np.ndarray]:
    """Return steps and finite values of one term.

    Args:
        rows: rows of the ledger.
        key: name of the term, or "loss".
        max_points: approximate upper limit of points; the last row is always kept.
    """
    points = [(row["step"], row.get("loss") if key == "loss" else row["nats"].get(key)) for row in rows]
    points = [(step, value) for step, value in points if isinstance(value, int | float) and math.isfinite(value)]
    every = max(1, len(points) // max_points)
    kept = points[::every] + ([points[-1]] if points and (len(points) - 1) % every else [])
    return np.array([p[0] for p in kept], float), np.array([p[1] for p in kept], float)


def smoothed(values: np.ndarray, weight: float) -> np.ndarray:
    """Return the exponential moving average, corrected for its start.

    Args:
        values: the values.
        weight: weight of the past, 0 … 0.99; 0 returns the values.

    >>> smoothed(np.array([4.0, 4.0, 4.0]), 0.9).tolist()
    [4.0, 4.0, 4.0]
    """
    found, average, mass = np.empty_like(values), 0.0, 0.0
    for i, value in enumerate(values):
        average, mass = weight * average + (1 - weight) * value, weight * mass + (1 - weight)
        found[i] = average / mass
    return np.round(found, 6)


def axis_range(curves: Sequence[tuple[np.ndarray, np.ndarray]], options: CurveOptions) -> dict[str, Any]:
    """Return type and range of a vertical axis; without a range plotly shows all values.

    Args:
        curves: steps and values of each curve of the panel.
        options: how the curves are drawn.
    """
    kind = {"type": "log"} if options.log_scale else {}
    late = [values[steps >= IGNORED_SHARE * steps[-1]] for steps, values in curves] if options.robust else []
    found = np.concatenate(late) if late else np.array([])
    found = np.log10(found[found > 0]) if options.log_scale else found
    if len(found) < 3:
        return kind
    low, high = np.quantile(found, [OUTLIERS, 1 - OUTLIERS])
    margin = 0.15 * float(high - low) or 0.05 * abs(float(high)) or 0.1
    return {**kind, "range": [float(low) - margin, float(high) + margin], "autorange": False}
