"""Animated traversals as GIF files: one leaf, or all leaves at once."""

from __future__ import annotations

import io
from typing import Any

import numpy as np

from unbraid.core.errors import expect

FRAMES = 32  # of one real leaf
SCALE = 4  # magnification of one leaf
MIN_TILE, MAX_TILES = 96, 48  # pixels of a tile of the wall, and their number
LABEL_HEIGHT = 14


def leaf_gif(explorer: Any, start: np.ndarray, leaf: Any) -> bytes:
    """Animate the traversal of one leaf.

    Args:
        explorer: the open run.
        start: the code that the other columns keep.
        leaf: name of the leaf.
    """
    note = next((note for note in explorer.leaf_summaries if note.name == leaf), None)
    expect(note is not None, "the latent tree has no such leaf", found=repr(str(leaf)[:80]))
    assert note is not None
    _, values = explorer.traversal_values(note, 0, "image")
    if note.kind == "real":
        turn = np.sin(np.linspace(0, 2 * np.pi, FRAMES, endpoint=False))
        middle, reach = (note.low[0] + note.high[0]) / 2, (note.high[0] - note.low[0]) / 2
        values = (middle + reach * turn)[:, None].astype(np.float32)
    codes = np.repeat(start[None], len(values), 0)
    codes[:, note.start : note.start + values.shape[1]] = values
    frames = [_enlarge(image, SCALE) for image in explorer.decode(codes)]
    return _save(frames, 60 if note.kind == "real" else 500)


def wall_gif(explorer: Any, start: np.ndarray, mode: str) -> bytes:
    """Animate the traversals of all live leaves at once, one tile with its name for each.

    Args:
        explorer: the open run.
        start: the code that the other columns keep.
        mode: where the range comes from, one of `RANGE_MODES`.
    """
    from PIL import Image, ImageDraw

    rows = explorer.traversal_grid(start, mode)
    shown = [row for row in rows if not row["note"].dead][:MAX_TILES] or rows[:MAX_TILES]
    scale = max(1, MIN_TILE // shown[0]["images"].shape[2])
    names = [row["note"].title or row["note"].name for row in shown]
    width, height = _enlarge(shown[0]["images"][0], scale).size
    across = min(len(shown), max(1, 900 // (width + 6)))
    size = (across * (width + 6), -(-len(shown) // across) * (height + LABEL_HEIGHT + 6))
    longest = max(len(row["images"]) for row in shown)
    frames = []
    for step in [*range(longest), *range(longest - 2, 0, -1)]:
        frame = Image.new("RGB", size, "white")
        pen = ImageDraw.Draw(frame)
        for i, (row, name) in enumerate(zip(shown, names, strict=True)):
            left, top = (i % across) * (width + 6), (i // across) * (height + LABEL_HEIGHT + 6)
            at = round(step * (len(row["images"]) - 1) / max(1, longest - 1))
            pen.text((left + 2, top), name.encode("latin-1", "replace").decode("latin-1")[: width // 6], fill="#404854")
            frame.paste(_enlarge(row["images"][at], scale), (left, top + LABEL_HEIGHT))
        frames.append(frame)
    return _save(frames, 140)


def _enlarge(image: np.ndarray, scale: int) -> Any:
    """Convert pixels "h w c" to a Pillow image: grey, RGB, or other channels next to each other."""
    from PIL import Image

    panes = image if image.shape[2] == 3 else np.concatenate([image[..., i] for i in range(image.shape[2])], 1)
    made = Image.fromarray(np.ascontiguousarray(panes))
    return made.resize((made.width * scale, made.height * scale), Image.Resampling.NEAREST)


def _save(frames: list[Any], milliseconds: int) -> bytes:
    out = io.BytesIO()
    frames[0].save(out, "GIF", save_all=True, append_images=frames[1:], duration=milliseconds, loop=0)
    return out.getvalue()
