"""Plotly figures of the studio as plain dicts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

INK, BLUE, ORANGE, GREY = "#717c8e", "#3b82c4", "#dd6b20", "#a0aec0"
LINES = (BLUE, ORANGE, "#2f9e62", "#8464c8", "#c9428c", "#8a9099", "#c9971c", "#2ba3a3")
# transparent, so it works on light and dark backgrounds
COLOUR_SCALE = [[0, "rgba(59,130,196,0.04)"], [0.5, "rgba(59,130,196,0.55)"], [1, "rgba(33,96,160,1)"]]
AXIS = {"gridcolor": "rgba(128,138,155,.25)", "zerolinecolor": "rgba(128,138,155,.4)", "automargin": True}
CONFIG = {"displaylogo": False, "responsive": True, "modeBarButtonsToRemove": ["lasso2d", "select2d"]}
Figure = dict[str, Any]


def make_figure(data: list[dict[str, Any]], title: str, height: int = 320, **layout: Any) -> Figure:
    """Combine traces with the studio's layout, readable on light and dark backgrounds.

    Args:
        data: the traces.
        title: title of the figure.
        height: height in pixels.
        layout: further layout entries; dicts are merged.
    """
    base: dict[str, Any] = {
        "title": {"text": escape_text(title), "font": {"size": 14}, "x": 0, "xref": "paper"},
        "height": height,
        "margin": {"l": 50, "r": 16, "t": 40, "b": 44},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "font": {"color": INK, "size": 12},
        "xaxis": dict(AXIS),
        "yaxis": dict(AXIS),
        "legend": {"orientation": "h", "y": 1.1, "x": 1, "xanchor": "right"},
    }
    for key, value in layout.items():
        base[key] = {**base[key], **value} if isinstance(base.get(key), dict) and isinstance(value, dict) else value
    return {"data": data, "layout": base, "config": dict(CONFIG)}


def escape_text(text: Any) -> str:
    """Escape text for plotly, whose labels interpret some HTML.

    Args:
        text: the label.
    """
    return str(text).replace("&", "&amp;").replace("<", "&lt;")


def plot_bars(names: Sequence[str], nats: Sequence[float], threshold: float, title: str) -> Figure:
    """Plot nats per leaf; leaves below the threshold are grey.

    Args:
        names: names of the leaves.
        nats: nats of each leaf.
        threshold: nats below which a leaf counts as dead.
        title: title of the figure.
    """
    colours = [BLUE if n >= threshold else GREY for n in nats]
    trace = {"type": "bar", "x": [escape_text(n) for n in names], "y": list(nats), "marker": {"color": colours}}
    return make_figure([trace], title, yaxis={"title": {"text": "nats"}}, showlegend=False)


def plot_marginal(mean: np.ndarray, scale: np.ndarray | None, prior: np.ndarray, name: str) -> Figure:
    """Plot q(z_j), the average of the posterior densities, against samples of the prior.

    Args:
        mean: posterior means of the column.
        scale: posterior scales; None for a histogram of the means.
        prior: samples of the prior.
        name: name of the column.
    """
    low, high = min(mean.min(), np.quantile(prior, 0.001)), max(mean.max(), np.quantile(prior, 0.999))
    edges = np.linspace(low - 0.1, high + 0.1, 82)
    middle = (edges[1:] + edges[:-1]) / 2
    counts, _ = np.histogram(prior, edges, density=True)
    if scale is None or not (scale > 0).all():
        density, _ = np.histogram(mean, edges, density=True)
    else:
        wide = np.maximum(scale, 1e-3)
        u = (middle[:, None] - mean[None]) / wide[None]
        density = (np.exp(-0.5 * u**2) / (wide[None] * np.sqrt(2 * np.pi))).mean(1)
    data = [
        {"x": middle.tolist(), "y": counts.tolist(), "name": "prior", "fill": "tozeroy", "line": {"color": GREY}},
        {"x": middle.tolist(), "y": density.tolist(), "name": "q(z)", "line": {"color": BLUE, "width": 2}},
    ]
    return make_figure(data, "q(z) against the prior", xaxis={"title": {"text": escape_text(name)}})


def plot_density(sample: np.ndarray, prior: np.ndarray, names: tuple[str, str]) -> Figure:
    """Plot two columns of q(z) as a heat map with contours of the prior.

    Args:
        sample: samples of q(z) "n 2".
        prior: samples of the prior "m 2".
        names: names of the two columns.
    """
    both = np.concatenate([sample, prior])
    low, high = np.quantile(both, (0.001, 0.999), axis=0)
    x, y = np.linspace(low[0], high[0], 41), np.linspace(low[1], high[1], 41)
    found, _, _ = np.histogram2d(sample[:, 0], sample[:, 1], (x, y), density=True)
    drawn, _, _ = np.histogram2d(prior[:, 0], prior[:, 1], (x[::2], y[::2]), density=True)
    mid = ((x[1:] + x[:-1]) / 2).tolist(), ((y[1:] + y[:-1]) / 2).tolist()
    coarse = ((x[::2][1:] + x[::2][:-1]) / 2).tolist(), ((y[::2][1:] + y[::2][:-1]) / 2).tolist()
    data = [
        {"type": "heatmap", "x": mid[0], "y": mid[1], "z": found.T.tolist(), "colorscale": COLOUR_SCALE, "showscale": False},
        {"type": "contour", "x": coarse[0], "y": coarse[1], "z": drawn.T.tolist(), "contours": {"coloring": "lines"},
         "colorscale": [[0, ORANGE], [1, ORANGE]], "showscale": False, "ncontours": 6, "line": {"width": 1.2}},
    ]  # fmt: skip
    axes = {"xaxis": {"title": {"text": escape_text(names[0])}}, "yaxis": {"title": {"text": escape_text(names[1])}}}
    return make_figure(data, "q(z) in blue, the prior's contours in orange", 400, **axes)


def plot_heatmap(
    matrix: np.ndarray, rows: Sequence[str], columns: Sequence[str], title: str, max_value: float | None = None
) -> Figure:
    """Plot a matrix with its values.

    Args:
        matrix: the values, 0 or more.
        rows: row labels.
        columns: column labels.
        title: title of the figure.
        max_value: value of the darkest colour; None for the maximum.
    """
    values = np.nan_to_num(np.asarray(matrix, float))
    text = [[f"{v:.2f}" for v in row] for row in values] if values.size <= 400 else None
    trace: dict[str, Any] = {
        "type": "heatmap", "z": values.tolist(), "x": [escape_text(c) for c in columns], "y": [escape_text(r) for r in rows],
        "colorscale": COLOUR_SCALE, "zmin": 0, "zmax": max_value or max(float(values.max()), 1e-9), "showscale": False,
    }  # fmt: skip
    if text:
        trace |= {"text": text, "texttemplate": "%{text}", "textfont": {"size": 10}}
    height = 130 + 24 * len(rows)
    return make_figure(
        [trace],
        title,
        max(260, height),
        yaxis={"autorange": "reversed", "type": "category"},
        xaxis={"type": "category"},
    )


def plot_positions(means: np.ndarray, x: np.ndarray, y: np.ndarray, names: Sequence[str]) -> Figure:
    """Plot the mean of each latent over the position of the object. Chen et al. 2018, Fig. 6.

    Args:
        means: posterior means "n k".
        x: horizontal positions "n".
        y: vertical positions "n".
        names: names of the latents.
    """
    across, n = min(5, len(names)), len(names)
    down = -(-n // across)
    xs, ys = np.unique(x), np.unique(y)
    data, layout = [], {}
    for i, column in enumerate(means.T):
        total, count = np.zeros((len(ys), len(xs))), np.zeros((len(ys), len(xs)))
        at = (np.searchsorted(ys, y), np.searchsorted(xs, x))
        np.add.at(total, at, column)
        np.add.at(count, at, 1)
        grid = np.where(count > 0, total / np.maximum(count, 1), np.nan)
        k = "" if i == 0 else str(i + 1)
        most = float(np.nanmax(np.abs(means))) or 1.0
        z = [[None if np.isnan(v) else float(v) for v in row] for row in grid]
        data.append({"type": "heatmap", "z": z, "xaxis": f"x{k}", "yaxis": f"y{k}", "colorscale": "RdBu", "zmin": -most,
                     "zmax": most, "showscale": False, "name": escape_text(names[i])})  # fmt: skip
        layout[f"xaxis{k}"] = {
            "showticklabels": False,
            "showgrid": False,
            "zeroline": False,
            "ticks": "",
            "title": {"text": escape_text(names[i]).replace(" (", "<br>("), "font": {"size": 11}, "standoff": 4},
        }
        layout[f"yaxis{k}"] = {
            "visible": False,
            "scaleanchor": f"x{k}",
            "autorange": "reversed",
            "constraintoward": "bottom",
        }
    layout["grid"] = {"rows": down, "columns": across, "pattern": "independent", "ygap": 0.25}
    return make_figure(data, "Mean of each latent over the object's position", 90 + 140 * down, **layout)


def plot_tradeoff(points: Sequence[dict[str, Any]], x: str, y: str) -> Figure:
    """Plot one point per run by two quantities, coloured by objective.

    Args:
        points: rows of the run table.
        x: quantity of the horizontal axis.
        y: quantity of the vertical axis.
    """
    kinds: dict[str, list[dict[str, Any]]] = {}
    for point in points:
        kinds.setdefault(str(point["objective"]), []).append(point)
    data = [
        {
            "type": "scattergl" if len(points) > 3000 else "scatter", "mode": "markers", "name": escape_text(kind or "unknown"),
            "x": [p[x] for p in group], "y": [p[y] for p in group], "customdata": [p["name"] for p in group],
            "text": [escape_text(p["name"]) for p in group], "hovertemplate": "%{text}<br>%{x:.3g}, %{y:.3g}<extra></extra>",
            "marker": {"size": 9, "color": LINES[i % len(LINES)]},
        }
        for i, (kind, group) in enumerate(sorted(kinds.items()))
    ]  # fmt: skip
    return make_figure(data, "", 420, xaxis={"title": {"text": escape_text(x)}}, yaxis={"title": {"text": escape_text(y)}},
                  margin={"t": 20}, showlegend=True)  # fmt: skip
