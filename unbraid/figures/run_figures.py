"""Figures of one run, each a matplotlib `Figure` without global state; `FIGURES` in registry.py lists them all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from unbraid.codes import Codes
from unbraid.core.errors import expect
from unbraid.figures.drawing import (
    BLUE,
    GREY,
    INK,
    LINE_COLOURS,
    PAGE_WIDTH,
    despine,
    disable_mathtext,
    draw_sheet,
    panel_grid,
    tile_images,
)
from unbraid.runs import Run
from unbraid.runs.describing.titles import display_name
from unbraid.runs.evaluation.leaf_summary import DEAD_NATS, sample_prior_values
from unbraid.runs.folder.file_names import LEDGER_FILE
from unbraid.runs.folder.leaf_names import read_leaf_names

MAX_MARKED_POINTS = 60  # curves with fewer points mark each of them
MAX_TERMS = 60  # of a ledger that are drawn


def _random_images(run: Run, count: int, seed: int, dataset: Any = None) -> np.ndarray:
    dataset = run.dataset() if dataset is None else dataset
    index = np.sort(np.random.default_rng(seed).permutation(len(dataset))[:count])
    return dataset.pixels(index)


def reconstructions(
    run: Run, count: int = 10, seed: int = 0, dataset: Any = None, images: Sequence[int] = ()
) -> Figure:
    """Draw images, and below them their reconstructions (decoded posterior means).

    Args:
        run: the run.
        count: number of random images.
        seed: seed of the choice.
        dataset: the data; by default the run's own.
        images: image numbers, in place of random images.
    """
    dataset = run.dataset() if dataset is None else dataset
    x = dataset.pixels(np.array(images)) if len(images) else _random_images(run, count, seed, dataset)
    sheet = tile_images(np.stack([x, run.decode(run.encode(x))]))
    return draw_sheet(sheet, ["image", "decoded"], f"{display_name(run)}: reconstructions")


def reconstruction_scatter(run: Run, count: int = 1000, seed: int = 0, dataset: Any = None) -> Figure:
    """Plot vectors and their reconstructions in the first two columns.

    Args:
        run: the run.
        count: number of random rows.
        seed: seed of the choice.
        dataset: the data; by default the run's own.
    """
    x = _random_images(run, count, seed, dataset)
    found = run.decode(run.encode(x))
    figure = Figure(figsize=(4.2, 4), layout="constrained")
    axes = figure.subplots()
    for rows, name, colour in ((x, "data", GREY), (found, "decoded", BLUE)):
        flat = rows.reshape(len(rows), -1)
        axes.plot(flat[:, 0], flat[:, min(1, flat.shape[1] - 1)], ".", markersize=3, color=colour, label=name)
    axes.legend(fontsize=8, frameon=False)
    axes.set_title(f"{display_name(run)}: reconstructions", fontsize=10, loc="left")
    despine(axes)
    return disable_mathtext(figure)


def prior_samples(run: Run, rows: int = 3, columns: int = 10, seed: int = 0) -> Figure:
    """Draw the mean images of codes that are sampled from the prior.

    Args:
        run: the run.
        rows: number of rows.
        columns: number of columns.
        seed: seed of the samples.
    """
    x = run.sample(rows * columns, seed)
    sheet = tile_images(x.reshape(rows, columns, *x.shape[1:]))
    return draw_sheet(sheet, title=f"{display_name(run)}: samples from the prior")


def kl_bars(codes: Codes, title: str = "", labels: Mapping[str, str] = MappingProxyType({})) -> Figure:
    """Plot KL(q(z_l|x) ‖ p(z_l)) of each leaf in nats; pruned leaves are grey.

    Args:
        codes: codes with a KL.
        title: title of the figure.
        labels: names of leaves that are shown in place of their own.
    """
    expect(codes.kl is not None, "these codes have no KL", do="Encode the run again.")
    kl = np.nan_to_num(np.asarray(codes.kl))
    names = [labels.get(leaf.name, leaf.name) for leaf in codes.tree.leaves]
    figure = Figure(figsize=(PAGE_WIDTH, 2.3), layout="constrained")
    axes = figure.subplots()
    axes.bar(range(len(kl)), kl, width=min(0.8, 0.08 * len(kl)), color=[BLUE if k >= DEAD_NATS else GREY for k in kl])
    axes.set_xticks(range(len(kl)), names, rotation=90 if len(kl) > 12 else 0, fontsize=8)
    axes.set_ylabel("KL (nats)")
    axes.set_title(title or "KL of each leaf", fontsize=10, loc="left")
    despine(axes)
    return disable_mathtext(figure)


def aggregate_histograms(
    run: Run, codes: Codes, max_panels: int = 16, seed: int = 0, leaves: Sequence[str] = ()
) -> Figure:
    """Plot q(z) of the live columns and the prior: one sample of every posterior, and as many of the prior.

    Args:
        run: the run.
        codes: its codes.
        max_panels: number of panels.
        seed: seed of the samples.
        leaves: names of leaves; by default all live ones.
    """
    tree, labels = run.model.tree, read_leaf_names(run.path)
    kl = np.full(len(tree.leaves), np.inf) if codes.kl is None else np.nan_to_num(np.asarray(codes.kl), nan=np.inf)
    live = [i for i in np.argsort(-kl, kind="stable") if kl[i] >= DEAD_NATS] or list(range(len(tree.leaves)))
    wanted = [i for i in live if not leaves or tree.leaves[i].name in leaves]
    expect(
        wanted, "there is no live leaf of this name", found=list(leaves), allowed=[tree.leaves[i].name for i in live]
    )
    noise = np.random.default_rng(seed).normal(size=codes.mean.shape)
    drawn = codes.mean + (0 if codes.scale is None else codes.scale * noise)
    prior = sample_prior_values(run, len(drawn), seed)
    panels = [(tree.leaves[i], c) for i in wanted for c in _panel_columns(tree.leaves[i], tree.slices[i])][:max_panels]
    figure, grid = panel_grid(len(panels), 4, PAGE_WIDTH, 1.6, 0.3)
    for axes, (leaf, columns) in zip(grid, panels, strict=True):
        if leaf.kind == "real":
            _draw_densities(axes, drawn[:, columns[0]], prior[:, columns[0]])
        else:
            _draw_masses(axes, codes.mean[:, columns], prior[:, columns], leaf.kind)
        column = columns[0] - tree.slices[tree.leaves.index(leaf)].start
        whole = leaf.kind == "onehot" or leaf.width == 1
        name = labels.get(leaf.name, leaf.name) if whole else f"{leaf.name}[{column}]"
        axes.set_title(name, fontsize=8, loc="left")
        axes.tick_params(labelsize=7)
        axes.set_yticks([])
        axes.spines[["top", "right", "left"]].set_visible(False)
    figure.suptitle(f"{display_name(run)}: q(z) (filled) and the prior (line)", fontsize=10, x=0.01, ha="left")
    return disable_mathtext(figure)


def _panel_columns(leaf: Any, columns: slice) -> list[list[int]]:
    """The columns of each panel: all of a one-hot leaf, one of any other leaf."""
    indices = list(range(columns.start, columns.stop))
    return [indices] if leaf.kind == "onehot" else [[c] for c in indices]


def _draw_densities(axes: Any, found: np.ndarray, prior: np.ndarray) -> None:
    low, high = np.quantile(np.r_[found, prior], [0.001, 0.999])
    edges = np.linspace(low, max(high, low + 1e-6), 49)
    axes.hist(found, edges, density=True, color=BLUE, alpha=0.55, linewidth=0)
    axes.hist(prior, edges, density=True, histtype="step", color=INK, linewidth=1)


def _draw_masses(axes: Any, found: np.ndarray, prior: np.ndarray, kind: str) -> None:
    masses, expected = found.mean(0), prior.mean(0)
    if kind == "binary":
        masses, expected = np.r_[1 - masses, masses], np.r_[1 - expected, expected]
    axes.bar(range(len(masses)), masses, color=BLUE, alpha=0.55)
    axes.step(np.arange(-0.5, len(masses) + 0.5), np.r_[expected, expected[-1:]], where="post", color=INK, linewidth=1)
    axes.set_xticks(range(len(masses)) if len(masses) <= 12 else [0, len(masses) - 1])


def ledger_curves(run: Run) -> Figure:
    """Plot the terms of the ledger over the steps (at most `MAX_TERMS`), each with its final price.

    A validated run also has its losses, its metrics, and a dashed line of held-out images in every panel.

    Args:
        run: the run.
    """
    rows, held = run.ledger(), run.validations()
    expect(len(rows) > 0, f"{run.path} has an empty ledger")
    terms = list(rows[-1]["nats"])
    scores = list(dict.fromkeys(f"score:{name}" for row in held for name in row.get("scores", {})))
    keys = [*(["loss"] if held else []), *terms[:MAX_TERMS], *scores] or ["loss"]
    left = len(terms[MAX_TERMS:])
    figure, grid = panel_grid(len(keys), 3, PAGE_WIDTH, 2.0, 0.2)
    training, validation = rows.columns(), held.columns()
    for axes, key, colour in zip(grid, keys, LINE_COLOURS * (1 + len(keys) // len(LINE_COLOURS)), strict=False):
        values = [_draw_curve(axes, training, key, colour, 1.2), _draw_curve(axes, validation, key, INK, 1.0, "--")]
        axes.set_title(_panel_title(key, rows[-1]["prices"]), fontsize=9, loc="left")
        axes.tick_params(labelsize=7)
        _set_y_limits(axes, *values)
        despine(axes)
    legend = "; lines: training batches, dashed: held-out images" if held else ""
    figure.supxlabel((f"step ({left:,} more terms are in {LEDGER_FILE})" if left else "step") + legend, fontsize=8)
    figure.supylabel("nats per example", fontsize=8)
    return disable_mathtext(figure)


def _draw_curve(
    axes: Any, columns: dict[str, list[Any]], key: str, colour: str, width: float, style: str = "-"
) -> list[float]:
    """Plot one column over the steps where it has values; returns the values."""
    points = [(s, v) for s, v in zip(columns.get("step", ()), columns.get(key, ()), strict=False) if v is not None]
    if points:
        line = {"color": colour, "linewidth": width, "linestyle": style}
        marker = "." if len(points) < MAX_MARKED_POINTS else ""
        axes.plot(*zip(*points, strict=True), **line, marker=marker, markersize=4)
    return [value for _, value in points]


def _panel_title(key: str, prices: dict[str, float]) -> str:
    """The title of a panel: the term and its price."""
    if key == "loss" or key.startswith("score:"):
        return key.removeprefix("score:")
    return f"{key} × {prices[key]:g}" if key in prices else f"{key} (not charged)"


def _set_y_limits(axes: Any, *lines: Sequence[float]) -> None:
    """Limit the y axis to later steps when there are more than twenty: the first steps would flatten the rest."""
    kept = [line[len(line) // 20 :] for line in lines if len(line) > 20]
    if not kept:
        return
    rest = [v for line in kept for v in line] + [v for line in lines if 1 < len(line) <= 20 for v in line[1:]]
    low, high = min(rest), max(rest)
    margin = 0.08 * max(high - low, 1e-9)
    axes.set_ylim(low - margin, high + margin)
