"""Images and curves as HTML without files, for notebooks: PNG in a data address, SVG for a curve."""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from html import escape

import numpy as np

MIN_TILE = 48  # pixels per side of an image on the page; smaller ones are enlarged


def image_grid_html(rows: Sequence[np.ndarray], alt: str, tile: int = MIN_TILE) -> str:
    """Return rows of images as one <img>.

    Args:
        rows: arrays "n c h w" with values from 0 to 1, all of one shape; one or three channels.
        alt: the text for those who do not see the image.
        tile: the least number of pixels per side of one image.

    >>> image_grid_html([np.zeros((2, 1, 4, 4))], "two images")[:21]
    '<img alt="two images"'
    """
    from PIL import Image

    pixels = np.concatenate([np.concatenate([_with_border(image) for image in row], axis=1) for row in rows], axis=0)
    bytes_ = (np.clip(pixels, 0, 1) * 255).round().astype(np.uint8)
    image = Image.fromarray(bytes_)
    out = io.BytesIO()
    image.save(out, format="PNG")
    scale = max(1, -(-tile // rows[0].shape[-1]))
    data = base64.b64encode(out.getvalue()).decode()
    size = f"width:{image.width * scale}px;max-width:100%;image-rendering:pixelated"
    return f'<img alt="{escape(alt)}" style="{size}" src="data:image/png;base64,{data}">'


def _with_border(image: np.ndarray) -> np.ndarray:
    """One image "c h w" as "h w 3" with a white border of one pixel."""
    colour = np.repeat(image, 3, 0) if len(image) != 3 else image
    return np.pad(np.moveaxis(colour, 0, -1), ((1, 1), (1, 1), (0, 0)), constant_values=1.0)


def curve_html(x: Sequence[float], y: Sequence[float], label: str, width: int = 360, height: int = 90) -> str:
    """Return a curve as SVG; the vertical axis leaves out the highest tenth, so that the first steps do not flatten it.

    Args:
        x: the horizontal values, in order.
        y: the vertical values.
        label: the text above the curve.
        width: of the curve, in pixels.
        height: of the curve, in pixels.

    >>> curve_html([0, 1, 2], [3.0, 2.0, 1.0], "loss")[:4]
    '<svg'
    """
    values = np.asarray(y, float)
    low, high = float(values.min()), float(np.quantile(values, 0.9))
    span, length = (high - low) or 1.0, (x[-1] - x[0]) or 1.0
    across = [(step - x[0]) / length * (width - 8) + 4 for step in x]
    points = " ".join(
        f"{a:.1f},{18 + (1 - (min(v, high) - low) / span) * (height - 22):.1f}"
        for a, v in zip(across, values, strict=True)
    )
    return (
        f'<svg width="{width}" height="{height}" role="img" aria-label="{escape(label)}" '
        f'style="display:block;font:12px system-ui,sans-serif"><text x="4" y="12" fill="currentColor">{escape(label)}: '
        f"{values[0]:.4g} → {values[-1]:.4g}</text>"
        f'<polyline points="{points}" fill="none" stroke="#2b6cb0" stroke-width="1.5"/></svg>'
    )
