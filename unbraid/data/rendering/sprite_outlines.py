"""Rasterisation of the sprites of dSprites and its smaller variants: outlines at every position, in exact arithmetic.

Vertices lie on a grid of 1/256 pixel, so whether the centre of a pixel is inside is decided in integers, with the
same result on every machine. A row of pixels is one 64-bit word; each crossing of the outline flips the bits to its
right, so rendering an outline at a thousand positions takes milliseconds.
"""

from __future__ import annotations

import numpy as np

from unbraid.core.progress import Advance

SHAPES = ("square", "ellipse", "heart")
SUBPIXELS = 256  # vertices are rounded to 1/256 pixel


def outline(shape: str) -> np.ndarray:
    """Vertices "v 2" (x right, y down) of a `shape` at scale 1 and angle 0, in pixels of a 64×64 image.

    Args:
        shape: the name of the shape.

    >>> outline("square").tolist()
    [[-9.6, -9.6], [9.6, -9.6], [9.6, 9.6], [-9.6, 9.6]]
    """
    if shape == "square":
        return 9.6 * np.array([[-1, -1], [1, -1], [1, 1], [-1, 1]])
    if shape == "ellipse":
        t = np.arange(100) * (2 * np.pi / 100)
        return np.stack([9.6 * 1.33 * np.cos(t), 9.6 / 1.33 * np.sin(t)], axis=1)
    t = np.arange(150) * (2 * np.pi / 150)
    up = 19.2 / 29 * (13 * np.cos(t) - 5 * np.cos(2 * t) - 2 * np.cos(3 * t) - np.cos(4 * t)) + 1.44
    return np.stack([9.6 * np.sin(t) ** 3, -up], axis=1)


def rotate_2d(points: np.ndarray, angle: float) -> np.ndarray:
    """Rotate points counter-clockwise on the screen (y down): x' = c·x + s·y, y' = −s·x + c·y.

    Args:
        points: coordinates "n 2".
        angle: angle in radians.
    """
    c, s = np.cos(angle), np.sin(angle)
    x, y = points.T
    return np.stack([c * x + s * y, c * y - s * x], axis=1)


def rasterise_outline(points: np.ndarray, xs: np.ndarray, ys: np.ndarray, size: int) -> np.ndarray:
    """Fill an outline at every centre (x, y): "len(xs) len(ys) size size/8", eight pixels to a byte.

    A pixel is on if its centre lies inside (even-odd rule); a centre on the outline belongs to its right.

    Args:
        points: vertices of the outline.
        xs: x coordinates of the centres.
        ys: y coordinates of the centres.
        size: side of the images in pixels.
    """
    x = _snap_to_grid(xs[:, None] + points[:, 0])  # "xs v"
    y = _snap_to_grid(ys[:, None] + points[:, 1])  # "ys v"
    x1, y1 = np.roll(x, -1, axis=1), np.roll(y, -1, axis=1)
    rows = np.arange(size) * SUBPIXELS + SUBPIXELS // 2
    above = y[:, None, :] < rows[:, None]
    iy, row, edge = np.nonzero(above != (y1[:, None, :] < rows[:, None]))  # sorted by (iy, row)
    depth, height = rows[row] - y[iy, edge], y1[iy, edge] - y[iy, edge]
    # the quotient of two integers is exact when it is an integer, so ties are decided exactly
    crossing = x[:, edge] + depth * (x1 - x)[:, edge] / height  # "xs crossings"
    column = np.clip(np.ceil((crossing - SUBPIXELS // 2) / SUBPIXELS), 0, size).astype(np.intp)
    right = np.append(np.uint64(2**64 - 1) >> np.arange(64, dtype=np.uint64), np.uint64(0))
    words = np.zeros((len(xs), len(ys) * size), np.uint64)
    line = iy * size + row
    starts = np.flatnonzero(np.r_[True, line[1:] != line[:-1]])
    words[:, line[starts]] = np.bitwise_xor.reduceat(right[column], starts, axis=1)
    packed = words.astype(">u8").view(np.uint8).reshape(len(xs), len(ys), size, 8)
    return packed[..., : size // 8]


def render_sprites(
    array: np.ndarray, advance: Advance, *, scales: np.ndarray, angles: np.ndarray, positions: np.ndarray, size: int
) -> None:
    """Render every shape at every scale, angle, x and y, in this order of the factors, eight pixels to a byte.

    Args:
        array: bytes of all images; it is overwritten.
        advance: called once per shape, angle and scale.
        scales: the scales.
        angles: the angles in radians.
        positions: coordinates of the centres, for x and for y.
        size: side of the images in pixels.
    """
    n = len(positions)
    blocks = array.reshape(len(SHAPES), len(scales), len(angles), n, n, size, size // 8)
    for s, shape in enumerate(SHAPES):
        for k, angle in enumerate(angles):
            points = rotate_2d(outline(shape), angle) * (size / 64)
            for i, scale in enumerate(scales):
                blocks[s, i, k] = rasterise_outline(points * scale, positions, positions, size)
                advance()


def _snap_to_grid(coordinate: np.ndarray) -> np.ndarray:
    """Round coordinates to 1/256 pixel, halves up, after the cast to float32 of the original."""
    return np.floor(SUBPIXELS * coordinate.astype(np.float32).astype(np.float64) + 0.5)
