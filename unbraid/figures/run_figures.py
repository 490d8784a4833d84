"""The pictures of one run, each a matplotlib `Figure` (no global state, no window); `FIGURES` in pictures.py lists them all."""

from __future__ import annotations

import math
from collections.abc import Sequence
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
    tile_images,
)
from unbraid.runs.describing.titles import display_name
from unbraid.runs.evaluation.leaf_summary import DEAD_NATS, sample_prior_values
from unbraid.runs.folder.file_names import LEDGER_FILE
from unbraid.runs.run import Run

MAX_MARKED_POINTS = 60  # points below which a curve shows each of them
MAX_TERMS = 60  # terms of a ledger that are drawn


def _random_images(run: Run, count: int, seed: int, dataset: Any = None) -> np.ndarray:
    dataset = run.dataset() if dataset is None else dataset
    index = np.sort(np.random.default_rng(seed).permutation(len(dataset))[:count])
    return dataset.pixels(index)


def reconstructions(
    run: Run, count: int = 10, seed: int = 0, dataset: Any = None, images: Sequence[int] = ()
) -> Figure:
    """Images above, their reconstructions (decoded posterior means) below."""
    dataset = run.dataset() if dataset is None else dataset
    wrong = [i for i in images if not 0 <= i < len(dataset)]
    expect(not wrong, "there is no such image", found=wrong, allowed=f"0 to {len(dataset) - 1:,}")
    x = dataset.pixels(np.array(images)) if len(images) else _random_images(run, count, seed, dataset)
    return draw_sheet(
        tile_images(np.stack([x, run.decode(run.encode(x))])),
        ["image", "decoded"],
        f"{display_name(run)}: reconstructions",
    )


def reconstruction_scatter(run: Run, count: int = 1000, seed: int = 0, dataset: Any = None) -> Figure:
    """Data that are vectors, and their reconstructions, in the first two columns."""
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
    """Mean images of codes drawn from the prior."""
    x = run.sample(rows * columns, seed)
    return draw_sheet(
        tile_images(x.reshape(rows, columns, *x.shape[1:])), title=f"{display_name(run)}: samples from the prior"
    )


def kl_bars(codes: Codes, title: str = "") -> Figure:
    """KL(q(z_l|x) ‖ p(z_l)) of each leaf, in nats: which leaves are used, which are pruned (grey)."""
    expect(codes.kl is not None, "these codes carry no KL", do="Encode again with 'unbraid encode'.")
    kl = np.nan_to_num(np.asarray(codes.kl))
    names = [leaf.name for leaf in codes.tree.leaves]
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
    """q(z) of the live columns against the prior: one draw from every posterior, and as many from the prior."""
    tree = run.model.tree
    kl = np.full(len(tree.leaves), np.inf) if codes.kl is None else np.nan_to_num(np.asarray(codes.kl), nan=np.inf)
    live = [i for i in np.argsort(-kl, kind="stable") if kl[i] >= DEAD_NATS] or list(range(len(tree.leaves)))
    wanted = [i for i in live if not leaves or tree.leaves[i].name in leaves]
    expect(wanted, "no live leaf has such a name", found=list(leaves), allowed=[tree.leaves[i].name for i in live])
    noise = np.random.default_rng(seed).normal(size=codes.mean.shape)
    drawn = codes.mean + (0 if codes.scale is None else codes.scale * noise)
    prior = sample_prior_values(run, len(drawn), seed)
    panels = [(tree.leaves[i], c) for i in wanted for c in _panel_columns(tree.leaves[i], tree.slices[i])][:max_panels]
    across = 4
    down = math.ceil(len(panels) / across)
    figure = Figure(figsize=(PAGE_WIDTH, 1.6 * down + 0.3), layout="constrained")
    grid = figure.subplots(down, across, squeeze=False).ravel()
    for axes, (leaf, columns) in zip(grid, panels, strict=False):
        if leaf.kind == "real":
            _draw_densities(axes, drawn[:, columns[0]], prior[:, columns[0]])
        else:
            _draw_masses(axes, codes.mean[:, columns], prior[:, columns], leaf.kind)
        name = (
            leaf.name
            if leaf.kind == "onehot" or leaf.width == 1
            else f"{leaf.name}[{columns[0] - tree.slices[tree.leaves.index(leaf)].start}]"
        )
        axes.set_title(name, fontsize=8, loc="left")
        axes.tick_params(labelsize=7)
        axes.set_yticks([])
        axes.spines[["top", "right", "left"]].set_visible(False)
    for axes in grid[len(panels) :]:
        axes.set_visible(False)
    figure.suptitle(f"{display_name(run)}: q(z) (filled) and the prior (line)", fontsize=10, x=0.01, ha="left")
    return disable_mathtext(figure)


def _panel_columns(leaf: Any, columns: slice) -> list[list[int]]:
    """A one-hot leaf is one panel, any other leaf one panel per column."""
    every = list(range(columns.start, columns.stop))
    return [every] if leaf.kind == "onehot" else [[c] for c in every]


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
    """The terms of the ledger over the steps (of a long one the first `MOST`), each with the price charged at the end.

    A run that was validated also has its losses, its metrics, and a dashed line of held-out images in every panel.
    """
    rows, held = run.ledger(), run.validations()
    expect(len(rows) > 0, f"{run.path} has an empty ledger")
    terms = list(rows[-1]["nats"])
    scores = list(dict.fromkeys(f"score:{name}" for row in held for name in row.get("scores", {})))
    keys = [*(["loss"] if held else []), *terms[:MAX_TERMS], *scores]
    left, across = len(terms[MAX_TERMS:]), 3
    down = math.ceil(len(keys) / across)
    figure = Figure(figsize=(PAGE_WIDTH, 2.0 * down + 0.2), layout="constrained")
    grid = figure.subplots(down, across, squeeze=False).ravel()
    trained, seen = rows.columns(), held.columns()
    for axes, key, colour in zip(grid, keys, LINE_COLOURS * (1 + len(keys) // len(LINE_COLOURS)), strict=False):
        values = [_draw_curve(axes, trained, key, colour, 1.2), _draw_curve(axes, seen, key, INK, 1.0, "--")]
        axes.set_title(_panel_title(key, rows[-1]["prices"]), fontsize=9, loc="left")
        axes.tick_params(labelsize=7)
        _set_y_limits(axes, *values)
        despine(axes)
    for axes in grid[len(keys) :]:
        axes.set_visible(False)
    told = "; lines: training batches, dashed: held-out images" if held else ""
    figure.supxlabel((f"step ({left:,} more terms are in {LEDGER_FILE})" if left else "step") + told, fontsize=8)
    figure.supylabel("nats per example", fontsize=8)
    return disable_mathtext(figure)


def _draw_curve(
    axes: Any, columns: dict[str, list[Any]], key: str, colour: str, width: float, style: str = "-"
) -> list[float]:
    """One column over the steps, where it is known; its values."""
    points = [(s, v) for s, v in zip(columns.get("step", ()), columns.get(key, ()), strict=False) if v is not None]
    if points:
        axes.plot(
            *zip(*points, strict=True),
            color=colour,
            linewidth=width,
            linestyle=style,
            marker="." if len(points) < MAX_MARKED_POINTS else "",
            markersize=4,
        )
    return [value for _, value in points]


def _panel_title(key: str, prices: dict[str, float]) -> str:
    """A panel's title: the term and what it costs."""
    if key == "loss" or key.startswith("score:"):
        return key.removeprefix("score:")
    return f"{key} × {prices[key]:g}" if key in prices else f"{key} (not charged)"


def _set_y_limits(axes: Any, *lines: Sequence[float]) -> None:
    """The first steps start far away and would flatten the rest: past twenty points they may leave the axes."""
    kept = [line[len(line) // 20 :] for line in lines if len(line) > 20]
    if not kept:
        return
    rest = [v for line in kept for v in line] + [v for line in lines if 1 < len(line) <= 20 for v in line[1:]]
    low, high = min(rest), max(rest)
    room = 0.08 * max(high - low, 1e-9)
    axes.set_ylim(low - room, high + room)


def heat_map(matrix: Any, rows: Sequence[str], columns: Sequence[str], title: str = "", label: str = "") -> Figure:
    """A matrix with its numbers: latents down, factors across."""
    values = np.asarray(matrix, dtype=float)
    figure = Figure(figsize=(1.6 + 0.62 * values.shape[1], 1.1 + 0.3 * values.shape[0]), layout="constrained")
    axes = figure.subplots()
    top = max(float(np.nanmax(values)), 1e-9) if values.size else 1.0
    picture = axes.imshow(values, cmap="Blues", vmin=0, vmax=top, aspect="auto")
    axes.set_xticks(range(len(columns)), columns, rotation=30, ha="right", fontsize=8)
    axes.set_yticks(range(len(rows)), rows, fontsize=8)
    if values.size <= 400:
        for i, j in np.ndindex(*values.shape):
            ink = "white" if values[i, j] > 0.6 * top else INK
            axes.text(j, i, f"{values[i, j]:.2f}", ha="center", va="center", fontsize=7, color=ink, gid=f"cell{i}-{j}")
    figure.colorbar(picture, label=label, shrink=0.9)
    axes.set_title(title, fontsize=10, loc="left")
    return disable_mathtext(figure)
