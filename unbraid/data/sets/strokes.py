"""Strokes: digits drawn by a formula, with known thickness, slant, width and class.

The digit and zero-shot experiments of HFVAE (Esmaeili et al. 2018, Figs. 7 and 9) need the ground truth of every image,
which MNIST does not have.
"""

from __future__ import annotations

import numpy as np

from unbraid.core.errors import expect
from unbraid.core.progress import Advance
from unbraid.data.cache import array_cache
from unbraid.data.dataset import Dataset, Pixels, Source
from unbraid.data.factors import Factor, Factors

CITE = "after LeCun et al. 1998 and Esmaeili et al. 2018, Fig. 9"
THICKNESS = np.linspace(1.2, 4.8, 10)  # pixels of a 28×28 image
SLANTS = np.linspace(-25, 25, 10)  # degrees
WIDTHS = np.linspace(0.5, 1.1, 10)  # relative to the height


def load(*, size: int = 32, hands: int = 1, seed: int = 0) -> Dataset:
    """Class 10 × thickness 10 × slant 10 × width 10: 10,000 grey images per writer (10 MB per writer at 32×32).

    Args:
        size: side of the images in pixels: 28, 32 or 64.
        hands: number of writers, each of whom bends the strokes a little; with several, the first factor is the writer.
        seed: seed of the writers.

    >>> load().factors.names
    ('class', 'thickness', 'slant', 'width')
    """
    expect(size in (28, 32, 64), "strokes must have one of these sizes", found=size, allowed=(28, 32, 64))
    expect(1 <= hands <= 100, "strokes needs 1 to 100 writers (hands)", found=hands)

    def fill(array: np.ndarray, advance: Advance) -> None:
        blocks = array.reshape(hands, 10, 10, 10, 10, size, size)
        for h in range(hands):
            for digit in range(10):
                lines = _distort(STROKES[digit], h, digit, seed)
                for j, slant in enumerate(SLANTS):
                    for k, width in enumerate(WIDTHS):
                        away = _distance(lines, slant, width, size)
                        ink = 0.5 + THICKNESS[:, None, None] * (size / 28) / 2 - away
                        blocks[h, digit, :, j, k] = np.rint(255 * np.clip(ink, 0, 1))
                advance()

    items = [
        Factor("class", 10, "class", tuple("0123456789")),
        Factor("thickness", 10, "ordinal", tuple(THICKNESS.tolist())),
        Factor("slant", 10, "ordinal", tuple(SLANTS.tolist())),
        Factor("width", 10, "ordinal", tuple(WIDTHS.tolist())),
    ]
    factors = Factors(tuple([Factor("hand", hands, "class"), *items] if hands > 1 else items))
    name = f"strokes-1-{size}-{hands}-{seed if hands > 1 else 0}"  # a single writer does not depend on the seed
    array = array_cache.load_or_generate(name, (factors.count, 1, size, size), np.uint8, fill, hands * 10)
    return Dataset("strokes", Pixels(array), factors, cite=CITE)


def _line(*points: tuple[float, float]) -> np.ndarray:
    return np.array(points)


def _arc(x: float, y: float, rx: float, ry: float, start: float, end: float) -> np.ndarray:
    """Points on an ellipse between two angles in degrees, clockwise from the right (y points down)."""
    angle = np.radians(np.linspace(start, end, 25))
    return np.stack([x + rx * np.cos(angle), y + ry * np.sin(angle)], axis=1)


def _quadratic_curve(a: tuple[float, float], b: tuple[float, float], c: tuple[float, float]) -> np.ndarray:
    """Quadratic Bézier curve from a to c with control point b."""
    t = np.linspace(0, 1, 20)[:, None]
    return (1 - t) ** 2 * np.array(a) + 2 * t * (1 - t) * np.array(b) + t**2 * np.array(c)


STROKES: tuple[tuple[np.ndarray, ...], ...] = (  # in a box of 1×1, y points down
    (_arc(0.5, 0.5, 0.4, 0.5, 0, 360),),
    (_line((0.28, 0.2), (0.54, 0), (0.54, 1)),),
    (_arc(0.5, 0.28, 0.36, 0.28, 185, 375), _line((0.85, 0.36), (0.1, 1), (0.92, 1))),
    (_arc(0.46, 0.26, 0.34, 0.26, 205, 450), _arc(0.46, 0.75, 0.4, 0.25, 270, 520)),
    (_line((0.6, 0), (0.06, 0.66), (0.95, 0.66)), _line((0.7, 0.34), (0.7, 1))),
    (_line((0.85, 0), (0.24, 0), (0.18, 0.46)), _arc(0.47, 0.68, 0.4, 0.32, 222, 500)),
    (_quadratic_curve((0.74, 0), (0.12, 0.2), (0.13, 0.7)), _arc(0.5, 0.7, 0.37, 0.3, 0, 360)),
    (_line((0.08, 0), (0.92, 0), (0.38, 1)),),
    (_arc(0.5, 0.25, 0.31, 0.25, 0, 360), _arc(0.5, 0.75, 0.38, 0.25, 0, 360)),
    (_arc(0.48, 0.3, 0.37, 0.3, 0, 360), _quadratic_curve((0.85, 0.3), (0.88, 0.75), (0.5, 1))),
)


def _distort(lines: tuple[np.ndarray, ...], hand: int, digit: int, seed: int) -> tuple[np.ndarray, ...]:
    """Strokes of one writer: a smooth deformation of the plane, none for writer 0."""
    if hand == 0:
        return lines
    rng = np.random.Generator(np.random.Philox(key=[seed, hand * 16 + digit]))
    wave, phase, size = rng.uniform(2, 5, (2, 2)), rng.uniform(0, 6.28, 2), rng.normal(0, 0.05, 2)
    return tuple(line + size * np.sin(line @ wave + phase) for line in lines)


def _distance(lines: tuple[np.ndarray, ...], slant: float, width: float, size: int) -> np.ndarray:
    """Distance of each pixel from the nearest stroke, in pixels, after widening and slanting."""
    from scipy.spatial import cKDTree

    centre, high = size / 2, 20 * size / 28
    points = np.concatenate([_resample(line) for line in lines]) - 0.5
    x, y = points[:, 0] * width, points[:, 1]
    pen = centre + high * np.stack([x - np.tan(np.radians(slant)) * y, y], axis=1)
    ticks = np.arange(size) + 0.5
    at = np.stack(np.meshgrid(ticks, ticks), axis=-1).reshape(-1, 2)
    return cKDTree(pen).query(at)[0].reshape(size, size)


def _resample(line: np.ndarray, step: float = 0.005) -> np.ndarray:
    """Points along a line, a tenth of a pixel apart."""
    length = np.r_[0, np.cumsum(np.linalg.norm(np.diff(line, axis=0), axis=1))]
    at = np.linspace(0, length[-1], int(length[-1] / step) + 2)
    return np.stack([np.interp(at, length, line[:, k]) for k in range(2)], axis=1)


SOURCE = Source(
    name="strokes",
    about="digits drawn by a formula, with known ground truth",
    load=load,
    cite=CITE,
    size="10,000 × 1×32×32 per writer (10 MB)",
    factors="(hand,) class 10, thickness 10, slant 10, width 10",
    status=lambda: array_cache.generated_status("strokes-1-32-1-0"),
    how_to_get="generated on first use in seconds: unbraid data make strokes",
)
