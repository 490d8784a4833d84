"""Drawing helpers shared by all figures: colours, tiled images, plain text labels, and figure files."""

from __future__ import annotations

import io
import math
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
PAGE_WIDTH = 9.0  # inches; figures as wide as the column of the report have equal font sizes
FORMATS = ("png", "svg", "pdf", "gif")


def tile_images(images: np.ndarray, gap: int = 1) -> np.ndarray:
    """Tile images "r s c h w" in r rows and s columns of one RGBA image "H W 4" with transparent gaps.

    Args:
        images: grey or colour images with values in [0, 1].
        gap: pixels between images.

    >>> tile_images(np.zeros((2, 3, 1, 8, 8))).shape
    (17, 26, 4)
    """
    r, s, c, h, w = images.shape
    expect(c in (1, 3), "images to draw have 1 or 3 channels", found=c)
    sheet = np.zeros((r * (h + gap) - gap, s * (w + gap) - gap, 4))
    for i in range(r):
        for j in range(s):
            cell = sheet[i * (h + gap) : i * (h + gap) + h, j * (w + gap) : j * (w + gap) + w]
            cell[..., :3], cell[..., 3] = np.moveaxis(images[i, j], 0, -1).clip(0, 1), 1
    return sheet


def draw_sheet(
    sheet: np.ndarray, rows: Sequence[str] = (), title: str = "", columns: Sequence[str] = (), scale: float = 1.0
) -> Figure:
    """Draw a tiled image with labels of its rows and columns.

    Args:
        sheet: an image from `tile_images`.
        rows: labels of the rows.
        title: title of the figure.
        columns: labels of the columns.
        scale: factor of the size.
    """
    h, w = sheet.shape[:2]
    label = 0.085 * max((len(r) for r in rows), default=0) + 0.1
    least = max(1.5, 0.5 * len(columns)) if columns else 0.0  # small images leave room for the labels
    width = min(PAGE_WIDTH - label, max(w / 18, least)) * scale
    height = width * h / w + (0.4 if title else 0.1) + (0.25 if columns else 0)
    figure = Figure(figsize=(width + label, height), layout="constrained")
    axes = figure.subplots()
    axes.imshow(sheet, interpolation="none")
    axes.set_anchor("E")  # spare width belongs to the labels of the rows
    axes.set_xticks([(j + 0.5) * w / len(columns) for j in range(len(columns))], columns, fontsize=7)
    axes.set_yticks([(i + 0.5) * h / len(rows) for i in range(len(rows))], rows, fontsize=8)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    axes.xaxis.tick_top()
    if title:
        axes.set_title(title, fontsize=10, color=INK, loc="left")
    return disable_mathtext(figure)


def panel_grid(
    count: int, columns: int, width: float, row_height: float, margin: float = 0.0
) -> tuple[Figure, np.ndarray]:
    """Make a figure of panels in rows; returns it with the axes of the panels. The rest of the last row is empty.

    Args:
        count: number of panels.
        columns: panels in a row.
        width: width of the figure in inches.
        row_height: height of a row in inches.
        margin: further height in inches, such as for a title.

    >>> len(panel_grid(5, 3, 6.0, 2.0)[1])
    5
    """
    rows = math.ceil(count / columns)
    figure = Figure(figsize=(width, row_height * rows + margin), layout="constrained")
    grid = figure.subplots(rows, columns, squeeze=False).ravel()
    for axes in grid[count:]:
        axes.set_visible(False)
    return figure, grid[:count]


def disable_mathtext(figure: Figure) -> Figure:
    """Show every text of a figure literally, so that a '$' in a name does not start a formula; returns the figure.

    Args:
        figure: the figure.
    """
    for text in figure.findobj(Text):
        text.set_parse_math(False)
    return figure


def despine(axes: Any) -> None:
    """Hide the top and right spines of axes.

    Args:
        axes: the axes.
    """
    axes.spines[["top", "right"]].set_visible(False)


def render_figure(figure: Figure, kind: str, dpi: int = 150) -> bytes:
    """Render a figure to the bytes of a file; equal figures give equal bytes.

    Args:
        figure: the figure.
        kind: 'png', 'svg', 'pdf', or 'gif' with one frame.
        dpi: dots per inch of PNG and GIF.
    """
    expect(kind in FORMATS, "unknown format of a figure", found=repr(kind), allowed=FORMATS)
    buffer = io.BytesIO()
    if kind == "gif":
        from PIL import Image

        with Image.open(io.BytesIO(render_figure(figure, "png", dpi)), formats=("PNG",)) as frame:
            frame.convert("RGB").save(buffer, "GIF")
        return buffer.getvalue()
    without_date = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(kind)
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "unbraid"}):
        figure.savefig(buffer, format=kind, dpi=dpi, metadata=without_date)
    return buffer.getvalue()


def figure_format(path: str | Path) -> str:
    """The format of a figure file, by its suffix.

    Args:
        path: a path ending in .png, .svg, .pdf or .gif.
    """
    kind = Path(path).suffix.lower().removeprefix(".")
    expect(
        kind in FORMATS,
        f"the format of {Path(path).name} is not known",
        allowed=[f".{k}" for k in FORMATS],
        do="Use one of these suffixes.",
    )
    return kind


def save_figure(figure: Figure, path: str | Path, dpi: int = 150) -> Path:
    """Write a figure to a file atomically, in the format of the suffix; returns the path.

    Args:
        figure: the figure.
        path: a path ending in .png, .svg, .pdf or .gif.
        dpi: dots per inch of PNG and GIF.
    """
    content = render_figure(figure, figure_format(path), dpi)
    with atomic_write(Path(path)) as f:
        f.write(content)
    return Path(path)
