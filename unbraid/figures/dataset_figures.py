"""Pictures of a data set: a contact sheet, and every factor traversed on its own."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from unbraid.core.errors import expect
from unbraid.core.files import atomic_write
from unbraid.data.dataset import Dataset

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def contact_sheet(dataset: Dataset, rows: int = 6, columns: int = 12, seed: int = 0) -> np.ndarray:
    """Random images of the set as one picture "h w 3" in [0, 1]; none comes twice, so a small set gives a small sheet.

    >>> from unbraid.data import load
    >>> contact_sheet(load("sprites32"), 2, 3).shape
    (70, 104, 3)
    """
    rng = np.random.default_rng(seed)
    index = np.sort(rng.choice(len(dataset), min(len(dataset), rows * columns), replace=False))
    return mosaic(dataset.pixels(index), min(columns, len(index)))


def factor_traversal_indices(dataset: Dataset, steps: int = 10) -> list[tuple[str, np.ndarray]]:
    """For each factor with more than one value, the images met when it alone moves from a middle image.

    On a full grid they are found by arithmetic; elsewhere among the images that agree in all other factors
    (if there are fewer than two, that factor is shown by one image for each value). Images whose label is missing
    (−1) are left out.
    """
    factors = dataset.factors
    if factors is None:
        return []
    rows = []
    middle = np.array(
        [(f.size - 1) // 2 if f.kind != "circular" else 4 * k % f.size for k, f in enumerate(factors.items)]
    )  # hues apart from each other
    labels = None if factors.grid else dataset.labels()
    for column, factor in enumerate(factors.items):
        if factor.size < 2:
            continue
        if factors.grid:
            values = np.unique(np.linspace(0, factor.size - 1, min(steps, factor.size)).round().astype(int))
            tuples = np.tile(middle, (len(values), 1))
            tuples[:, column] = values
            rows.append((factor.name, factors.index(tuples)))
        else:
            rows.append((factor.name, _vary_one_factor(np.asarray(labels), column, steps)))
    return [(name, index) for name, index in rows if len(index)]


def _vary_one_factor(labels: np.ndarray, column: int, steps: int) -> np.ndarray:
    known = np.flatnonzero(labels[:, column] >= 0)  # false for NaN too
    if not len(known):
        return known
    others = np.delete(labels, column, axis=1)
    same = known[(others[known] == others[known[len(known) // 2]]).all(axis=1)]
    if len(np.unique(labels[same, column])) < 2:
        same = known
    value, first = np.unique(labels[same, column], return_index=True)
    chosen = np.unique(np.linspace(0, len(value) - 1, min(steps, len(value))).round().astype(int))
    return same[first[chosen]]


def mosaic(images: np.ndarray, columns: int, gap: int = 2) -> np.ndarray:
    """Images "b c h w" side by side in a picture "H W 3" with light lines between."""
    b, c, h, w = images.shape
    expect(c in (1, 3), "a mosaic shows grey or colour images", found=f"{c} channels")
    rows = -(-b // columns)
    sheet = np.full((gap + rows * (h + gap), gap + columns * (w + gap), 3), 0.85, np.float32)
    for i, image in enumerate(np.broadcast_to(images, (b, 3, h, w)) if c == 3 else images.repeat(3, axis=1)):
        y, x = gap + i // columns * (h + gap), gap + i % columns * (w + gap)
        sheet[y : y + h, x : x + w] = image.transpose(1, 2, 0).clip(0, 1)
    return sheet


def dataset_figure(dataset: Dataset, rows: int = 6, columns: int = 12, seed: int = 0) -> Figure:
    """A figure of the set: the contact sheet, and below it one row for each factor (points for vectors)."""
    from matplotlib.figure import Figure

    from unbraid.figures.drawing import disable_mathtext

    if dataset.shape[1:] == (1, 1):
        return _scatter(dataset)
    sheet, walks = contact_sheet(dataset, rows, columns, seed), factor_traversal_indices(dataset)[:12]
    inch = 0.62
    rows = -(-min(len(dataset), rows * columns) // columns)
    heights = [rows * inch, *([inch] * len(walks))]
    drawn = Figure(figsize=(columns * inch + 1.4, sum(heights) + 0.25 * len(walks) + 0.6), layout="constrained")
    axes = drawn.subplots(1 + len(walks), 1, height_ratios=heights, squeeze=False)[:, 0]
    axes[0].imshow(sheet, interpolation="nearest")
    axes[0].set_anchor("W")
    axes[0].set_title(
        f"{dataset.name}: {len(dataset):,} images of {'×'.join(map(str, dataset.shape))}", loc="left", fontsize=9
    )
    for axis, (name, index) in zip(axes[1:], walks, strict=True):
        images = dataset.pixels(index)
        axis.imshow(mosaic(images, len(images)), interpolation="nearest")
        axis.set_anchor("W")
        axis.set_ylabel(name.replace("_", " "), rotation=0, ha="right", va="center", fontsize=8)
    for axis in axes:
        axis.set_xticks([])
        axis.set_yticks([])
        axis.spines[:].set_visible(False)
    return disable_mathtext(drawn)


def _scatter(dataset: Dataset) -> Figure:
    """The first two columns of vectors, coloured by the first factor."""
    from matplotlib.figure import Figure

    from unbraid.figures.drawing import disable_mathtext

    points = dataset.pixels(np.arange(min(len(dataset), 5000)))[:, :, 0, 0]
    labels = dataset.labels(np.arange(len(points)))
    drawn = Figure(figsize=(4.2, 4), layout="constrained")
    axis = drawn.subplots()
    second = points[:, 1] if points.shape[1] > 1 else np.zeros(len(points))
    if labels is None:
        axis.scatter(points[:, 0], second, s=6, linewidths=0)
    else:
        discrete = dataset.factors is not None and dataset.factors.items[0].kind != "continuous"
        known = np.isfinite(labels[:, 0]) & ((labels[:, 0] >= 0) | (not discrete))
        axis.scatter(points[~known, 0], second[~known], s=6, color="0.8", linewidths=0)  # a missing label has no colour
        axis.scatter(points[known, 0], second[known], s=6, c=labels[known, 0], cmap="viridis", linewidths=0)
    axis.set_title(f"{dataset.name}: {len(dataset):,} rows of {dataset.shape[0]}", loc="left", fontsize=9)
    axis.set_aspect("equal")
    return disable_mathtext(drawn)


def save_png(figure: Figure, path: str | Path, dpi: int = 100) -> Path:
    """Write a figure as PNG, whole or not at all."""
    path = Path(path)
    with atomic_write(path) as f:
        figure.savefig(f, format="png", dpi=dpi)
    return path
