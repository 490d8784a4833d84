"""Traversals: one leaf moved, the others held; a row for each, named by the factor it follows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from unbraid.codes import Codes
from unbraid.core.errors import choose, expect
from unbraid.figures.drawing import GREY, INK, PAGE_WIDTH, disable_mathtext, tile_images
from unbraid.runs.describing.titles import display_name
from unbraid.runs.evaluation.leaf_summary import LeafSummary, median_row, summarise_leaves
from unbraid.runs.run import Run

TRAVERSAL_LIMIT, TRAVERSAL_STEPS = (
    2.2,
    9,
)  # further out a Gaussian leaf has 3% of its mass: the decoder was hardly asked there


@dataclass(frozen=True)
class TraversalRow:
    """One row of a traversal: images "s c h w", a word under each, and what the row is called."""

    name: str
    images: np.ndarray
    cells: tuple[str, ...]
    dead: bool


def traversals(
    run: Run,
    codes: Codes | None = None,
    *,
    image: int | None = None,
    leaves: Sequence[str] = (),
    low: float = -TRAVERSAL_LIMIT,
    high: float = TRAVERSAL_LIMIT,
    steps: int = TRAVERSAL_STEPS,
    max_rows: int = 24,
    dead: bool = False,
    zero: bool = False,
    dataset: Any = None,
    title: str | None = None,
) -> Figure:
    """One row per live leaf, the most informative first: real columns from `low` to `high`, discrete leaves through all values.

    Starts from the image in the middle of all factors, from `image`, or with `zero` from code 0 (discrete leaves at their
    first class). `leaves` picks rows, `dead` adds those under 0.05 nats. Kim & Mnih 2018, Fig. 6; Esmaeili et al. 2018,
    Figs. 5 and 11.
    """
    dataset = run.dataset() if dataset is None else dataset
    rows = traversal_rows(run, codes, image, leaves, low, high, steps, dead, dataset, zero)[:max_rows]
    return draw_traversal_rows(rows, f"{display_name(run)}: one leaf moved at a time" if title is None else title)


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
    """The rows of a traversal, decoded: every column of a wide real leaf has its own."""
    expect(low < high and 2 <= steps <= 100, "a traversal goes from low to high in 2 to 100 steps",
           found=f"{low:g} to {high:g} in {steps}")  # fmt: skip
    expect(not (zero and image is not None), "a traversal starts from an image or from code 0", found=f"image {image} and zero",
           do="Leave one out.")  # fmt: skip
    dataset = run.dataset() if dataset is None else dataset
    if zero:
        start = origin_code(run)
    else:
        start = run.encode(
            dataset.pixels(middle_image_index(dataset, codes) if image is None else check_image_index(image, dataset))
        )[0]
    notes = summarise_leaves(run, codes)
    by_name = {note.name: note for note in notes}
    chosen = [choose(name, by_name, "leaf") for name in leaves] or [n for n in notes if dead or not n.dead] or notes
    return [row for note in chosen for row in _leaf_rows(run, start, note, np.linspace(low, high, steps))]


def _leaf_rows(run: Run, start: np.ndarray, note: LeafSummary, values: np.ndarray) -> list[TraversalRow]:
    """A one-hot leaf is one row of its classes; any other leaf one row per column."""
    nats = "" if note.nats is None else f"  {note.nats:.2f}"
    name = f"{note.factor}  ({note.name})" if note.factor else note.name
    if note.kind == "onehot":
        cells = tuple(str(k) for k in range(note.width))
        return [TraversalRow(name + nats, run.traverse(start, note.name), cells, note.dead)]
    settings = values if note.kind == "real" else np.array([0.0, 1.0])
    cells = tuple(f"{v:+.1f}" if note.kind == "real" else f"{v:.0f}" for v in settings)
    return [
        TraversalRow(
            (name if note.width == 1 else f"{name}[{k}]") + nats,
            run.traverse(start, note.start + k, settings),
            cells,
            note.dead,
        )
        for k in range(note.width)
    ]


def origin_code(run: Run) -> np.ndarray:
    """Code 0; of a one-hot leaf its first class, since all zeros would be none.

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
    """The image in the middle of all factors; without labels, the one whose code is the most ordinary."""
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


def check_image_index(image: int, dataset: Any) -> int:
    """An image's number, checked."""
    expect(0 <= image < len(dataset), "there is no such image", found=image, allowed=f"0 to {len(dataset) - 1:,}")
    return image


def draw_traversal_rows(rows: Sequence[TraversalRow], title: str = "") -> Figure:
    """Rows of unequal length, each with words above its cells where they differ from the row above."""
    expect(len(rows) > 0, "there is no leaf to move")
    width, height = _figure_size(rows, title, PAGE_WIDTH)
    figure = Figure(figsize=(width, height))
    _draw_rows_at(figure, rows, title, 0, PAGE_WIDTH)
    return disable_mathtext(figure)


def side_by_side(
    entries: Sequence[tuple[str, Run, Codes | None]], dataset: Any = None, steps: int = 7, **options: Any
) -> Figure:
    """The live leaves of several runs side by side, all started from the same image: (title, run, codes) for each.

    how: `image`, `leaves`, `low`, `high`, `dead` and `zero` as `traversals` takes them.
    """
    dataset = entries[0][1].dataset() if dataset is None else dataset
    shapes = {title: "×".join(map(str, run.state["shape"])) for title, run, _ in entries}
    expect(len(set(shapes.values())) == 1, "runs beside each other start from the same image, so they need images of one shape",
           found=", ".join(f"{title} {shape}" for title, shape in shapes.items()))  # fmt: skip
    room = 1.35 * PAGE_WIDTH / len(entries)
    made = [
        (title, traversal_rows(run, codes, steps=steps, dataset=dataset, **options)) for title, run, codes in entries
    ]
    height = max(_figure_size(rows, title, room)[1] for title, rows in made)
    figure = Figure(figsize=(room * len(entries), height))
    for k, (title, rows) in enumerate(made):
        _draw_rows_at(figure, rows, title, k * room, room)
    return disable_mathtext(figure)


ROW_GAP, HEADER_HEIGHT, TITLE_HEIGHT = 0.06, 0.17, 0.34  # inches between rows, of the words above cells, of a title


def _column_widths(rows: Sequence[TraversalRow], max_width: float) -> tuple[float, float]:
    """Inches of the names' column and of one cell when the rows may take `room`."""
    label = 0.075 * max(len(r.name) for r in rows) + 0.15
    return label, min(0.8, (max_width - label - 0.05) / max(len(r.cells) for r in rows) - 0.03)


def _header_flags(rows: Sequence[TraversalRow]) -> list[bool]:
    return [i == 0 or rows[i].cells != rows[i - 1].cells for i in range(len(rows))]


def _figure_size(rows: Sequence[TraversalRow], title: str, max_width: float) -> tuple[float, float]:
    """Width and height in inches that some rows take."""
    label, cell = _column_widths(rows, max_width)
    h, w = rows[0].images.shape[2:]
    height = sum(h / w * cell + ROW_GAP + HEADER_HEIGHT * first for first in _header_flags(rows)) + (
        TITLE_HEIGHT if title else 0.05
    )
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
        for j, word in enumerate(row.cells if first else ()):
            x = left + label + j * (cell + 0.03) + cell / 2
            figure.text(x / width, (top + 0.03) / height, word, fontsize=6.5, color="#667788", ha="center")
        span = len(row.cells) * (cell + 0.03) - 0.03
        axes = figure.add_axes(((left + label) / width, (top - tall) / height, span / width, tall / height))
        axes.imshow(tile_images(row.images[None], max(1, round(0.03 / cell * w))), interpolation="none", aspect="auto")
        axes.axis("off")
        ink = GREY if row.dead else INK
        at = ((left + label - 0.1) / width, (top - tall / 2) / height)
        figure.text(*at, row.name, fontsize=8, color=ink, ha="right", va="center")
        top -= tall + ROW_GAP


def traversal_gif(rows: Sequence[TraversalRow], scale: int = 0) -> bytes:
    """The same rows as a moving picture: all leaves side by side, each going through its values and back."""
    import io

    from PIL import Image, ImageDraw

    expect(len(rows) > 0, "there is no leaf to move")
    h, w = rows[0].images.shape[2:]
    scale = scale or max(1, 96 // w)
    frames = []
    longest = max(len(r.cells) for r in rows)
    for t in [*range(longest), *range(longest - 2, 0, -1)]:
        page = Image.new("RGB", (len(rows) * (w * scale + 6) + 6, h * scale + 26), "white")
        for k, row in enumerate(rows):
            step = round(t / max(1, longest - 1) * (len(row.cells) - 1))
            pixels = (tile_images(row.images[None, step : step + 1])[..., :3] * 255).round().astype(np.uint8)
            page.paste(
                Image.fromarray(pixels).resize((w * scale, h * scale), Image.Resampling.NEAREST),
                (6 + k * (w * scale + 6), 20),
            )
            ImageDraw.Draw(page).text(
                (6 + k * (w * scale + 6), 4), row.name.split("  ")[0].encode("ascii", "replace").decode(), fill="black"
            )
        frames.append(page)
    buffer = io.BytesIO()
    frames[0].save(buffer, "GIF", save_all=True, append_images=frames[1:], duration=140, loop=0)
    return buffer.getvalue()
