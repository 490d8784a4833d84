"""What every picture is drawn with: colours, tiles of images, names taken literally, and files of every kind."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure
from matplotlib.text import Text

from unbraid.core.errors import expect
from unbraid.core.files import atomic_write

INK, BLUE, GREY = "#222222", "#2b6cb0", "#a0aec0"
LINE_COLOURS = ("#2b6cb0", "#c05621", "#2f855a", "#6b46c1", "#b83280", "#4a5568", "#d69e2e", "#319795")
PAGE_WIDTH = 9.0  # inches of a picture as wide as the report's column, so that all have words of one size
FORMATS = ("png", "svg", "pdf", "gif")


def tile_images(images: np.ndarray, gap: int = 1) -> np.ndarray:
    """Rows and columns of images "r s c h w" as one picture "H W 4" (red, green, blue, cover) with clear gaps.

    >>> tile_images(np.zeros((2, 3, 1, 8, 8))).shape
    (17, 26, 4)
    """
    r, s, c, h, w = images.shape
    expect(c in (1, 3), "a picture needs 1 or 3 channels", found=c)
    sheet = np.zeros((r * (h + gap) - gap, s * (w + gap) - gap, 4))
    for i in range(r):
        for j in range(s):
            cell = sheet[i * (h + gap) : i * (h + gap) + h, j * (w + gap) : j * (w + gap) + w]
            cell[..., :3], cell[..., 3] = np.moveaxis(images[i, j], 0, -1).clip(0, 1), 1
    return sheet


def draw_sheet(
    sheet: np.ndarray, rows: Sequence[str] = (), title: str = "", columns: Sequence[str] = (), scale: float = 1.0
) -> Figure:
    """One tiled picture with row and column labels."""
    h, w = sheet.shape[:2]
    label = 0.085 * max((len(r) for r in rows), default=0) + 0.1
    wide = min(PAGE_WIDTH - label, w / 18) * scale
    figure = Figure(
        figsize=(wide + label, wide * h / w + (0.4 if title else 0.1) + (0.25 if columns else 0)), layout="constrained"
    )
    axes = figure.subplots()
    axes.imshow(sheet, interpolation="none")
    axes.set_xticks([(j + 0.5) * w / len(columns) for j in range(len(columns))], columns, fontsize=7)
    axes.set_yticks([(i + 0.5) * h / len(rows) for i in range(len(rows))], rows, fontsize=8)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    axes.xaxis.tick_top()
    if title:
        axes.set_title(title, fontsize=10, color=INK, loc="left")
    return disable_mathtext(figure)


def disable_mathtext(figure: Figure) -> Figure:
    """The same figure with every word taken as it stands: a '$' in a name begins no formula."""
    for text in figure.findobj(Text):
        text.set_parse_math(False)
    return figure


def despine(axes: Any) -> None:
    """Axes without the box around them."""
    axes.spines[["top", "right"]].set_visible(False)


def render_figure(figure: Figure, kind: str, dpi: int = 150) -> bytes:
    """A figure as the bytes of a file: png, svg, pdf, or a gif of one frame; the same figure gives the same bytes."""
    expect(kind in FORMATS, "a picture is written in one of these formats", found=repr(kind), allowed=FORMATS)
    buffer = io.BytesIO()
    if kind == "gif":
        from PIL import Image

        with Image.open(io.BytesIO(render_figure(figure, "png", dpi))) as frame:
            frame.convert("RGB").save(buffer, "GIF")
        return buffer.getvalue()
    dated = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(kind)
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "unbraid"}):
        figure.savefig(buffer, format=kind, dpi=dpi, metadata=dated)
    return buffer.getvalue()


def save_figure(figure: Figure, path: str | Path, dpi: int = 150) -> Path:
    """Write a figure in the format that the file's name ends in, atomically."""
    path = Path(path)
    kind = path.suffix.lower().removeprefix(".")
    expect(
        kind in FORMATS,
        f"the format of {path.name} is not known",
        allowed=[f".{k}" for k in FORMATS],
        do="Give a file name with one of these endings.",
    )
    made = render_figure(figure, kind, dpi)
    with atomic_write(path) as f:
        f.write(made)
    return path
