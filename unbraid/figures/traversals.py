"""Traversals: each row moves one leaf and holds the others; rows are labelled with the factor that the leaf follows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from unbraid.codes import Codes
from unbraid.core.errors import choose, expect
from unbraid.figures.drawing import GREY, INK, PAGE_WIDTH, disable_mathtext, tile_images
from unbraid.runs import Run
from unbraid.runs.describing.titles import display_name
from unbraid.runs.evaluation.leaf_summary import LeafSummary, median_row, summarise_leaves

TRAVERSAL_LIMIT = 2.2  # only 3% of a standard normal lie beyond, so the decoder has hardly seen such codes
TRAVERSAL_STEPS = 9


@dataclass(frozen=True)
class TraversalRow:
    """One row of a traversal.

    Args:
        name: label of the row.
        images: decoded images "s c h w".
        cells: label of each image.
        dead: whether the leaf is dead.
    """

    name: str
    images: np.ndarray
    cells: tuple[str, ...]
    dead: bool


def traversals(
    run: Run,
    codes: Codes | None = None,
    *,
    max_rows: int = 24,
    title: str | None = None,
    **options: Any,
) -> Figure:
    """Draw one row for each live leaf, the most informative first.

    Real columns move from `low` to `high`, discrete leaves through all their values.
    Kim & Mnih 2018, Fig. 6; Esmaeili et al. 2018, Figs. 5 and 11.

    Args:
        run: the run.
        codes: its codes, which rank and label the leaves.
        max_rows: maximum number of rows.
        title: title of the figure; by default the name of the run.
        options: the other arguments of `traversal_rows`.
    """
    rows = traversal_rows(run, codes, **options)[:max_rows]
    return draw_traversal_rows(rows, f"{display_name(run)}: traversals" if title is None else title)


def traversal_rows(
    run: Run,
    codes: Codes | None,
    image: int | None = None,
    leaves: Sequence[str] = (),
    low: float = -TRAVERSAL_LIMIT,
    high: float = TRAVERSAL_LIMIT,
    steps: int = TRAVERSAL_STEPS,
    dead: bool = False,
    dataset: Any = None,
    zero: bool = False,
) -> list[TraversalRow]:
    """Decode the rows of a traversal; every column of a wide real leaf has its own row.

    Args:
        run: the run.
        codes: its codes, which rank and label the leaves.
        image: number of the image to start from; by default the one in the middle of all factors.
        leaves: names of leaves to draw; by default the live ones.
        low: first value.
        high: last value.
        steps: number of values.
        dead: whether to draw leaves with less than 0.05 nats too.
        dataset: the data; by default the run's own.
        zero: whether to start from code 0, with discrete leaves at their first class.
    """
    expect(low < high and 2 <= steps <= 100, "a traversal goes from low to high, low < high, in 2 to 100 steps",
           found=f"{low:g} to {high:g} in {steps}")  # fmt: skip
    expect(not (zero and image is not None), "a traversal starts from an image or from code 0", found=f"image {image} and zero",
           do="Leave one out.")  # fmt: skip
    dataset = run.dataset() if dataset is None else dataset
    if zero:
        start = origin_code(run)
    else:
        start = run.encode(dataset.pixels(middle_image_index(dataset, codes) if image is None else image))[0]
    notes = summarise_leaves(run, codes)
    by_name = {note.name: note for note in notes}
    chosen = [choose(name, by_name, "leaf") for name in leaves] or [n for n in notes if dead or not n.dead] or notes
    return [row for note in chosen for row in _leaf_rows(run, start, note, np.linspace(low, high, steps))]


def _leaf_rows(run: Run, start: np.ndarray, note: LeafSummary, values: np.ndarray) -> list[TraversalRow]:
    """The rows of a leaf: one for all classes of a one-hot leaf, one per column of any other leaf."""
    nats = "" if note.nats is None else f"  {note.nats:.2f}"
    name = f"{note.title}  ({note.name})" if note.title else note.name
    if note.kind == "onehot":
        cells = tuple(str(k) for k in range(note.width))
        return [TraversalRow(name + nats, run.traverse(start, note.name), cells, note.dead)]
    settings = values if note.kind == "real" else np.array([0.0, 1.0])
    cells = tuple(f"{v:+.1f}" if note.kind == "real" else f"{v:.0f}" for v in settings)
    names = [name + nats] if note.width == 1 else [f"{name}[{k}]{nats}" for k in range(note.width)]
    return [
        TraversalRow(each, run.traverse(start, note.start + k, settings), cells, note.dead)
        for k, each in enumerate(names)
    ]


def origin_code(run: Run) -> np.ndarray:
    """Return code 0, with one-hot leaves at their first class.

    Args:
        run: the run.

    >>> from unbraid import Recipe, fit
    >>> recipe = Recipe(data={"name": "sprites32", "subsample": 64}, latent={"s": "onehot(3)", "r": 2}, nets="mlp",
    ...                 objective="beta_svae", budget={"steps": 1, "batch": 8})
    >>> origin_code(fit(recipe, tmp / "run", quiet=True)).tolist()
    [1.0, 0.0, 0.0, 0.0, 0.0]
    """
    tree = run.model.tree
    start = np.zeros(tree.width, np.float32)
    for leaf in tree.leaves:
        if leaf.kind == "onehot":
            start[tree.columns(leaf.name)[0]] = 1.0
    return start


def middle_image_index(dataset: Any, codes: Codes | None = None) -> int:
    """Find the image in the middle of all factors; without labels, the one whose code is nearest to the median.

    Args:
        dataset: the data.
        codes: the codes of the data.
    """
    factors = dataset.factors
    if factors is not None and factors.grid and dataset.table is None:
        return int(factors.index([f.size // 2 for f in factors.items]))
    labels = dataset.labels()
    if labels is not None and len(labels):
        with np.errstate(all="ignore"):
            ranks = np.argsort(np.argsort(labels, axis=0, kind="stable"), axis=0) / len(labels)
        return int(abs(ranks - 0.5).sum(1).argmin())
    if codes is not None and len(codes):
        row = median_row(codes)
        return int(codes.index[row]) if codes.index is not None else row
    return len(dataset) // 2


def draw_traversal_rows(rows: Sequence[TraversalRow], title: str = "") -> Figure:
    """Draw rows of any length, with cell labels where they differ from those of the row above.

    Args:
        rows: the rows.
        title: title of the figure.
    """
    expect(len(rows) > 0, "there is no leaf to traverse")
    width, height = _figure_size(rows, title, PAGE_WIDTH)
    figure = Figure(figsize=(width, height))
    _draw_rows_at(figure, rows, title, 0, PAGE_WIDTH)
    return disable_mathtext(figure)


def side_by_side(
    entries: Sequence[tuple[str, Run, Codes | None]], dataset: Any = None, steps: int = 7, **options: Any
) -> Figure:
    """Draw the traversals of several runs side by side, from the same image.

    Args:
        entries: (title, run, codes) of each run.
        dataset: the data; by default those of the first run.
        steps: number of values.
        options: `image`, `leaves`, `low`, `high`, `dead` and `zero` of `traversals`.
    """
    dataset = entries[0][1].dataset() if dataset is None else dataset
    shapes = {title: "×".join(map(str, run.state["shape"])) for title, run, _ in entries}
    expect(len(set(shapes.values())) == 1, "runs side by side start from the same image, so they need images of one shape",
           found=", ".join(f"{title} {shape}" for title, shape in shapes.items()))  # fmt: skip
    width, options = 1.35 * PAGE_WIDTH / len(entries), {**options, "steps": steps, "dataset": dataset}
    panels = [(title, traversal_rows(run, codes, **options)) for title, run, codes in entries]
    height = max(_figure_size(rows, title, width)[1] for title, rows in panels)
    figure = Figure(figsize=(width * len(entries), height))
    for k, (title, rows) in enumerate(panels):
        _draw_rows_at(figure, rows, title, k * width, width)
    return disable_mathtext(figure)


ROW_GAP, HEADER_HEIGHT, TITLE_HEIGHT = 0.06, 0.17, 0.34  # inches: between rows, of cell labels, of a title


def _column_widths(rows: Sequence[TraversalRow], max_width: float) -> tuple[float, float]:
    """Inches of the label column and of one cell when the rows may take `max_width`."""
    label = 0.075 * max(len(r.name) for r in rows) + 0.15
    return label, min(0.8, (max_width - label - 0.05) / max(len(r.cells) for r in rows) - 0.03)


def _header_flags(rows: Sequence[TraversalRow]) -> list[bool]:
    return [i == 0 or rows[i].cells != rows[i - 1].cells for i in range(len(rows))]


def _figure_size(rows: Sequence[TraversalRow], title: str, max_width: float) -> tuple[float, float]:
    """Width and height of some rows, in inches."""
    label, cell = _column_widths(rows, max_width)
    h, w = rows[0].images.shape[2:]
    height = sum(h / w * cell + ROW_GAP + HEADER_HEIGHT * first for first in _header_flags(rows))
    height += TITLE_HEIGHT if title else 0.05
    return label + max(len(r.cells) for r in rows) * (cell + 0.03) + 0.05, height


def _draw_rows_at(figure: Figure, rows: Sequence[TraversalRow], title: str, left: float, max_width: float) -> None:
    """Draw rows from the top of a figure, `left` inches from its edge."""
    width, height = figure.get_size_inches()
    label, cell = _column_widths(rows, max_width)
    h, w = rows[0].images.shape[2:]
    tall, top = h / w * cell, height - (TITLE_HEIGHT if title else 0.05)
    if title:
        figure.text((left + 0.05) / width, 1 - 0.1 / height, title, fontsize=10, color=INK, va="top")
    for row, first in zip(rows, _header_flags(rows), strict=True):
        top -= HEADER_HEIGHT * first
        for j, text in enumerate(row.cells if first else ()):
            x = left + label + j * (cell + 0.03) + cell / 2
            figure.text(x / width, (top + 0.03) / height, text, fontsize=6.5, color="#667788", ha="center")
        span = len(row.cells) * (cell + 0.03) - 0.03
        axes = figure.add_axes(((left + label) / width, (top - tall) / height, span / width, tall / height))
        axes.imshow(tile_images(row.images[None], max(1, round(0.03 / cell * w))), interpolation="none", aspect="auto")
        axes.axis("off")
        ink = GREY if row.dead else INK
        at = ((left + label - 0.1) / width, (top - tall / 2) / height)
        figure.text(*at, row.name, fontsize=8, color=ink, ha="right", va="center")
        top -= tall + ROW_GAP


def traversal_gif(rows: Sequence[TraversalRow], scale: int = 0) -> bytes:
    """Animate rows as a GIF: all leaves side by side, each moving through its values and back.

    Args:
        rows: the rows.
        scale: pixels of the GIF per pixel of an image; 0 chooses a scale.
    """
    import io

    from PIL import Image, ImageDraw

    expect(len(rows) > 0, "there is no leaf to traverse")
    h, w = rows[0].images.shape[2:]
    scale = scale or max(1, 96 // w)
    frames = []
    longest = max(len(r.cells) for r in rows)
    for t in [*range(longest), *range(longest - 2, 0, -1)]:
        frame = Image.new("RGB", (len(rows) * (w * scale + 6) + 6, h * scale + 26), "white")
        for k, row in enumerate(rows):
            step = round(t / max(1, longest - 1) * (len(row.cells) - 1))
            pixels = (tile_images(row.images[None, step : step + 1])[..., :3] * 255).round().astype(np.uint8)
            image = Image.fromarray(pixels).resize((w * scale, h * scale), Image.Resampling.NEAREST)
            left, name = 6 + k * (w * scale + 6), row.name.split("  ")[0].encode("ascii", "replace").decode()
            frame.paste(image, (left, 20))
            ImageDraw.Draw(frame).text((left, 4), name, fill="black")
        frames.append(frame)
    buffer = io.BytesIO()
    frames[0].save(buffer, "GIF", save_all=True, append_images=frames[1:], duration=140, loop=0)
    return buffer.getvalue()
