"""Figures of a data set: a contact sheet, and a traversal of every factor."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from unbraid.data.dataset import Dataset

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LIGHT = 0.85  # grey of the lines between images


def contact_sheet(dataset: Dataset, rows: int = 6, columns: int = 12, seed: int = 0) -> np.ndarray:
    """Tile distinct random images of a data set to one image "h w 3" in [0, 1].

    Args:
        dataset: the data set.
        rows: number of rows.
        columns: number of columns.
        seed: seed of the choice.

    >>> from unbraid.data import load
    >>> contact_sheet(load("sprites32"), 2, 3).shape
    (70, 104, 3)
    """
    rng = np.random.default_rng(seed)
    index = np.sort(rng.choice(len(dataset), min(len(dataset), rows * columns), replace=False))
    return mosaic(dataset.pixels(index), min(columns, len(index)))


def factor_traversal_indices(dataset: Dataset, steps: int = 10) -> list[tuple[str, np.ndarray]]:
    """Find images that vary one factor at a time; returns (factor, image indices) for each factor with several values.

    On a full grid the other factors stay in the middle. Otherwise the images agree in all other factors; if fewer than
    two do, the factor is shown by one image for each value. Images with a missing label (−1) are left out.

    Args:
        dataset: the data set.
        steps: maximum number of images for each factor.
    """
    factors = dataset.factors
    if factors is None:
        return []
    rows = []
    # distinct hues
    middle = np.array(
        [(f.size - 1) // 2 if f.kind != "circular" else 4 * k % f.size for k, f in enumerate(factors.items)]
    )
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
    known = np.flatnonzero(labels[:, column] >= 0)  # excludes NaN too
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
    """Tile images "b c h w" to an image "H W 3" with light lines between and around them.

    Args:
        images: grey or colour images with values in [0, 1].
        columns: number of columns.
        gap: width of the lines in pixels.
    """
    from unbraid.figures.drawing import tile_images

    rows = -(-len(images) // columns)
    cells = np.full((rows * columns, *images.shape[1:]), LIGHT)
    cells[: len(images)] = images
    sheet = tile_images(cells.reshape(rows, columns, *images.shape[1:]), gap)
    opaque = np.where(sheet[..., 3:] > 0, sheet[..., :3], LIGHT)
    return np.pad(opaque, ((gap, gap), (gap, gap), (0, 0)), constant_values=LIGHT)


def dataset_figure(dataset: Dataset, rows: int = 6, columns: int = 12, seed: int = 0) -> Figure:
    """Draw a data set: the contact sheet, and below it one row for each factor; vectors are drawn as points.

    Args:
        dataset: the data set.
        rows: rows of the contact sheet.
        columns: columns of the contact sheet.
        seed: seed of the choice of images.
    """
    from matplotlib.figure import Figure

    from unbraid.figures.drawing import disable_mathtext

    if dataset.shape[1:] == (1, 1):
        return _scatter(dataset)
    sheet, traversals = contact_sheet(dataset, rows, columns, seed), factor_traversal_indices(dataset)[:12]
    inch = 0.62
    rows = -(-min(len(dataset), rows * columns) // columns)
    heights = [rows * inch, *([inch] * len(traversals))]
    size = (columns * inch + 1.4, sum(heights) + 0.25 * len(traversals) + 0.6)
    figure = Figure(figsize=size, layout="constrained")
    axes = figure.subplots(1 + len(traversals), 1, height_ratios=heights, squeeze=False)[:, 0]
    axes[0].imshow(sheet, interpolation="nearest")
    axes[0].set_anchor("W")
    axes[0].set_title(
        f"{dataset.name}: {len(dataset):,} images of {'×'.join(map(str, dataset.shape))}", loc="left", fontsize=9
    )
    for axis, (name, index) in zip(axes[1:], traversals, strict=True):
        images = dataset.pixels(index)
        axis.imshow(mosaic(images, len(images)), interpolation="nearest")
        axis.set_anchor("W")
        axis.set_ylabel(name.replace("_", " "), rotation=0, ha="right", va="center", fontsize=8)
    for axis in axes:
        axis.set_xticks([])
        axis.set_yticks([])
        axis.spines[:].set_visible(False)
    return disable_mathtext(figure)


def _scatter(dataset: Dataset) -> Figure:
    """Draw the first two columns of vectors, coloured by the first factor."""
    from matplotlib.figure import Figure

    from unbraid.figures.drawing import disable_mathtext

    points = dataset.pixels(np.arange(min(len(dataset), 5000)))[:, :, 0, 0]
    labels = dataset.labels(np.arange(len(points)))
    figure = Figure(figsize=(4.2, 4), layout="constrained")
    axis = figure.subplots()
    second = points[:, 1] if points.shape[1] > 1 else np.zeros(len(points))
    if labels is None:
        axis.scatter(points[:, 0], second, s=6, linewidths=0)
    else:
        discrete = dataset.factors is not None and dataset.factors.items[0].kind != "continuous"
        known = np.isfinite(labels[:, 0]) & ((labels[:, 0] >= 0) | (not discrete))
        axis.scatter(points[~known, 0], second[~known], s=6, color="0.8", linewidths=0)  # grey for a missing label
        axis.scatter(points[known, 0], second[known], s=6, c=labels[known, 0], cmap="viridis", linewidths=0)
    axis.set_title(f"{dataset.name}: {len(dataset):,} rows of {dataset.shape[0]}", loc="left", fontsize=9)
    axis.set_aspect("equal")
    return disable_mathtext(figure)
