"""The class grid: one row per class of a one-hot leaf, one group of columns per direction of the other leaves."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from unbraid.codes import Codes
from unbraid.core.errors import expect
from unbraid.figures.drawing import draw_sheet, tile_images
from unbraid.runs import Run
from unbraid.runs.describing.titles import display_name
from unbraid.runs.evaluation.leaf_summary import LeafSummary, summarise_leaves

VALUES = (-2.0, 2.0)
MAX_DIRECTIONS = 6


def class_grid(run: Run, codes: Codes | None = None) -> Figure:
    """Draw every class of the most informative one-hot leaf, alone and with each live real column moved.

    The first column has all other leaves at 0; then each live column takes `VALUES` while the others stay at 0.

    Args:
        run: the run.
        codes: its codes, which rank the leaves and label classes with the factor value they hold most.
    """
    summaries = summarise_leaves(run, codes)
    classes = [note for note in summaries if note.kind == "onehot"]
    expect(
        classes,
        "a class grid needs a one-hot leaf",
        found=run.model.tree,
        do="Train with a discrete leaf, such as latent.digit = onehot(10).",
    )
    chosen = classes[0]
    moved = [
        (f"{note.name}[{k}]" if note.width > 1 else note.label or note.name, note.start + k)
        for note in summaries
        if note.kind == "real" and not note.dead
        for k in range(note.width)
    ][:MAX_DIRECTIONS]
    z = np.zeros((chosen.width, 1 + len(moved) * len(VALUES), run.model.tree.width), np.float32)
    z[np.arange(chosen.width), :, chosen.start + np.arange(chosen.width)] = 1
    for i, (_, column) in enumerate(moved):
        for j, value in enumerate(VALUES):
            z[:, 1 + i * len(VALUES) + j, column] = value
    images = run.decode(z.reshape(-1, z.shape[-1]))
    heads = ["0", *(f"{name} {value:+g}" for name, _ in moved for value in VALUES)]
    sheet = tile_images(images.reshape(*z.shape[:2], *images.shape[1:]))
    title = f"{display_name(run)}: classes of {chosen.label or chosen.name}"
    return draw_sheet(sheet, class_labels(chosen, codes), title, heads)


def class_labels(leaf: LeafSummary, codes: Codes | None) -> list[str]:
    """Label each class with its share of the data and the factor value that is most frequent in it.

    Args:
        leaf: the one-hot leaf.
        codes: codes with labels; without them classes are numbered.
    """
    if codes is None:
        return [str(k) for k in range(leaf.width)]
    clusters = codes.mean[:, leaf.start : leaf.start + leaf.width].argmax(1)
    shares = [f"{k}  {(clusters == k).mean():.0%}" for k in range(leaf.width)]
    if codes.values is None or codes.factors is None or not leaf.factor:
        return shares
    values = codes.values[:, codes.factors.names.index(leaf.factor)]
    labels = []
    for k, share in enumerate(shares):
        inside = values[clusters == k]
        inside = inside[inside == inside]
        if len(inside):
            levels, counts = np.unique(inside, return_counts=True)
            share += f"  {leaf.factor} {levels[counts.argmax()]:g} ({counts.max() / len(inside):.0%})"
        labels.append(share)
    return labels
