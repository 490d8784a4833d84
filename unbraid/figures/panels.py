"""The pictures of one run: reconstructions, traversals, KL bars, ledger curves, latent × factor heat map.

Every function returns a matplotlib `Figure` (no global state, no window).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from unbraid.codes import Codes
from unbraid.ground.errors import expect
from unbraid.runs.run import Run

INK, BLUE, GREY = "#222222", "#2b6cb0", "#a0aec0"
LINES = ("#2b6cb0", "#c05621", "#2f855a", "#6b46c1", "#b83280", "#4a5568", "#d69e2e", "#319795")


def tile(images: np.ndarray, gap: int = 1, ground: float = 1.0) -> np.ndarray:
    """Rows and columns of images "r s c h w" as one picture "H W 3" with thin gaps.

    >>> tile(np.zeros((2, 3, 1, 8, 8))).shape
    (17, 26, 3)
    """
    r, s, c, h, w = images.shape
    expect(c in (1, 3), "a picture needs 1 or 3 channels", found=c)
    sheet = np.full((r * (h + gap) - gap, s * (w + gap) - gap, 3), ground)
    for i in range(r):
        for j in range(s):
            sheet[i * (h + gap) : i * (h + gap) + h, j * (w + gap) : j * (w + gap) + w] = np.moveaxis(
                images[i, j], 0, -1
            )
    return sheet.clip(0, 1)


def show(
    sheet: np.ndarray, rows: Sequence[str] = (), title: str = "", columns: Sequence[str] = (), scale: float = 1.0
) -> Figure:
    """One tiled picture with row and column labels."""
    h, w = sheet.shape[:2]
    wide = min(max(3.0, w / 60 * scale), 11)
    label = 0.085 * max((len(r) for r in rows), default=0) + 0.1
    figure = Figure(
        figsize=(wide + label, wide * h / w + (0.4 if title else 0.1) + (0.25 if columns else 0)), layout="constrained"
    )
    axes = figure.subplots()
    axes.imshow(sheet, interpolation="nearest")
    axes.set_xticks([(j + 0.5) * w / len(columns) for j in range(len(columns))], columns, fontsize=7)
    axes.set_yticks([(i + 0.5) * h / len(rows) for i in range(len(rows))], rows, fontsize=8)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    axes.xaxis.tick_top()
    if title:
        axes.set_title(title, fontsize=10, color=INK, loc="left")
    return figure


def _some(run: Run, count: int, seed: int, dataset: Any = None) -> np.ndarray:
    dataset = run.dataset() if dataset is None else dataset
    index = np.sort(np.random.default_rng(seed).permutation(len(dataset))[:count])
    return dataset.pixels(index)


def reconstructions(run: Run, count: int = 10, seed: int = 0, dataset: Any = None) -> Figure:
    """Images above, their reconstructions (decoded posterior means) below."""
    x = _some(run, count, seed, dataset)
    return show(
        tile(np.stack([x, run.decode(run.encode(x))])), ["image", "decoded"], f"{run.recipe.name}: reconstructions"
    )


def scatter(run: Run, count: int = 1000, seed: int = 0, dataset: Any = None) -> Figure:
    """Data that are vectors, and their reconstructions, in the first two columns."""
    x = _some(run, count, seed, dataset)
    found = run.decode(run.encode(x))
    figure = Figure(figsize=(4.2, 4), layout="constrained")
    axes = figure.subplots()
    for rows, name, colour in ((x, "data", GREY), (found, "decoded", BLUE)):
        flat = rows.reshape(len(rows), -1)
        axes.plot(flat[:, 0], flat[:, min(1, flat.shape[1] - 1)], ".", markersize=3, color=colour, label=name)
    axes.legend(fontsize=8, frameon=False)
    axes.set_title(f"{run.recipe.name}: reconstructions", fontsize=10, loc="left")
    _plain(axes)
    return figure


def samples(run: Run, rows: int = 4, columns: int = 10, seed: int = 0) -> Figure:
    """Mean images of codes drawn from the prior."""
    x = run.sample(rows * columns, seed)
    return show(tile(x.reshape(rows, columns, *x.shape[1:])), title=f"{run.recipe.name}: samples from the prior")


def traversals(
    run: Run,
    codes: Codes | None = None,
    image: int | None = None,
    low: float = -3.0,
    high: float = 3.0,
    steps: int = 9,
    most: int = 12,
    dataset: Any = None,
) -> Figure:
    """One row per leaf, sorted by KL: the leaf moved from −3 to 3 (a one-hot leaf through its classes), the rest held.

    Starts from the code of one image (by default a middling one). Kim & Mnih 2018, Fig. 5; Esmaeili et al. 2018, Fig. 5.
    """
    dataset = run.dataset() if dataset is None else dataset
    start = run.encode(dataset.pixels(len(dataset) // 2 if image is None else image))[0]
    tree = run.model.tree
    kl = np.zeros(len(tree.leaves)) if codes is None or codes.kl is None else np.nan_to_num(codes.kl)
    order = sorted(range(len(tree.leaves)), key=lambda i: -kl[i])[:most]
    rows, names = [], []
    for i in order:
        leaf, columns = tree.leaves[i], tree.slices[i]
        values = np.linspace(low, high, steps) if leaf.kind == "real" else np.linspace(0, 1, steps)
        if leaf.width == 1:
            images = run.traverse(start, columns.start, values)
        elif leaf.kind == "onehot":
            images = run.traverse(start, leaf.name)
            images = images[np.arange(steps) % len(images)] if len(images) < steps else images[:steps]
        else:
            images = run.traverse(start, columns.start, values)
        rows.append(images)
        names.append(f"{leaf.name}  {kl[i]:.2f} nats")
    heads = [f"{v:+.2g}" for v in np.linspace(low, high, steps)] if tree.all_real else []
    return show(tile(np.stack(rows)), names, f"{run.recipe.name}: traversals, most informative first", heads)


def kl_bars(codes: Codes, title: str = "") -> Figure:
    """KL(q(z_l|x) ‖ p(z_l)) of each leaf, in nats: which leaves are used, which are pruned."""
    expect(codes.kl is not None, "these codes carry no KL", do="Encode again with 'unbraid encode'.")
    kl = np.nan_to_num(np.asarray(codes.kl))
    names = [leaf.name for leaf in codes.tree.leaves]
    figure = Figure(figsize=(min(11, 1.4 + 0.42 * len(kl)), 2.6), layout="constrained")
    axes = figure.subplots()
    axes.bar(range(len(kl)), kl, color=[BLUE if k > 0.01 else GREY for k in kl])
    axes.set_xticks(range(len(kl)), names, rotation=90 if len(kl) > 12 else 0, fontsize=8)
    axes.set_ylabel("KL (nats)")
    axes.set_title(title or "KL of each leaf", fontsize=10, loc="left")
    _plain(axes)
    return figure


def ledger_curves(run: Run) -> Figure:
    """Every term of the ledger over the steps, each on its own axis, with the price charged at the end."""
    rows = run.ledger()
    expect(len(rows) > 0, f"{run.path} has an empty ledger")
    keys = list(rows[-1]["nats"])
    across = min(3, len(keys))
    down = math.ceil(len(keys) / across)
    figure = Figure(figsize=(3.4 * across, 2.1 * down + 0.2), layout="constrained")
    grid = figure.subplots(down, across, squeeze=False).ravel()
    for axes, key, colour in zip(grid, keys, LINES * 4):
        points = [(row["step"], row["nats"][key]) for row in rows if key in row["nats"]]
        axes.plot(*zip(*points), color=colour, linewidth=1.2)
        price = rows[-1]["prices"].get(key)
        axes.set_title(f"{key} × {price:g}" if price is not None else f"{key} (not charged)", fontsize=9, loc="left")
        axes.tick_params(labelsize=7)
        _plain(axes)
    for axes in grid[len(keys) :]:
        axes.set_visible(False)
    figure.supxlabel("step", fontsize=8)
    figure.supylabel("nats per example", fontsize=8)
    return figure


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
            axes.text(
                j,
                i,
                f"{values[i, j]:.2f}",
                ha="center",
                va="center",
                fontsize=7,
                color="white" if values[i, j] > 0.6 * top else INK,
            )
    figure.colorbar(picture, label=label, shrink=0.9)
    axes.set_title(title, fontsize=10, loc="left")
    return figure


def _plain(axes: Any) -> None:
    axes.spines[["top", "right"]].set_visible(False)
