"""Attributes measured on images of handwriting: thickness, slant, width and height of the ink (Castro et al. 2019)."""

from __future__ import annotations

import hashlib
from collections.abc import Callable

import numpy as np

from unbraid.core.errors import choose, expect
from unbraid.core.progress import Advance
from unbraid.data.cache import array_cache
from unbraid.data.dataset import Dataset

VERSION = 1  # change it together with the measures, so that cached values are measured again


def thickness(image: np.ndarray) -> float:
    """Mean stroke width of a grey `image` in pixels: twice the distance to the background, averaged over the ridge.

    Args:
        image: the image "h w", ink bright.
    """
    from scipy.ndimage import distance_transform_edt, maximum_filter

    wide = np.kron(image, np.ones((4, 4))) > 0.5  # finer than the pixels: otherwise all thin strokes measure the same
    depth = distance_transform_edt(np.pad(wide, 1))[1:-1, 1:-1]
    ridge = (depth > 0) & (depth >= maximum_filter(depth, 5))
    return float(2 * depth[ridge].mean() / 4) if ridge.any() else 0.0


def slant(image: np.ndarray) -> float:
    """Angle of the ink in a grey `image` in degrees, positive to the right: the shear that makes it upright.

    Args:
        image: the image "h w", ink bright.
    """
    (x, y), total = _coordinates(image), image.sum()
    if total <= 0:
        return 0.0
    cx, cy = (image * x).sum() / total, (image * y).sum() / total
    tall = (image * (y - cy) ** 2).sum()
    return float(np.degrees(np.arctan(-(image * (x - cx) * (y - cy)).sum() / tall))) if tall > 0 else 0.0


def width(image: np.ndarray) -> float:
    """Width of the ink in a grey `image` in pixels, after the slant is removed.

    Args:
        image: the image "h w", ink bright.
    """
    inked = image > 0.5
    if not inked.any():
        return 0.0
    x, y = _coordinates(image)
    upright = (x + np.tan(np.radians(slant(image))) * (y - image.shape[0] / 2))[inked]
    return float(upright.max() - upright.min() + 1)


def height(image: np.ndarray) -> float:
    """Height of the ink in a grey `image` in pixels.

    Args:
        image: the image "h w", ink bright.
    """
    rows = np.flatnonzero((image > 0.5).any(axis=1))
    return float(rows[-1] - rows[0] + 1) if len(rows) else 0.0


def ink(image: np.ndarray) -> float:
    """Share of a grey `image` that is ink.

    Args:
        image: the image "h w", ink bright.
    """
    return float(image.mean())


def _coordinates(image: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    y, x = np.mgrid[: image.shape[0], : image.shape[1]]
    return x.astype(float), y.astype(float)


ATTRIBUTES: dict[str, Callable[[np.ndarray], float]] = {
    "thickness": thickness,
    "slant": slant,
    "width": width,
    "height": height,
    "ink": ink,
}


def measure_attribute(dataset: Dataset, name: str, index: np.ndarray | None = None) -> np.ndarray:
    """Measure one attribute "n" of images and cache the result; colours are averaged.

    The cache key is a hash of the pixels, which takes far less time than measuring.

    Args:
        dataset: data set of images.
        name: a key of `ATTRIBUTES`.
        index: positions of the images; all by default.
    """
    measure = choose(name, ATTRIBUTES, "measured attribute")
    expect(min(dataset.shape[1:]) > 1, f"{dataset.name} has no images to measure", found=dataset.shape)
    index = np.arange(len(dataset)) if index is None else index
    pieces = [index[start : start + 1024] for start in range(0, len(index), 1024)]

    def fill(array: np.ndarray, advance: Advance) -> None:
        start = 0
        for piece in pieces:
            array[start : start + len(piece)] = [measure(image) for image in dataset.pixels(piece).mean(axis=1)]
            start += len(piece)
            advance(len(piece))

    digest = hashlib.blake2b(repr((len(index), dataset.shape)).encode(), digest_size=16)
    for piece in pieces:
        digest.update(np.ascontiguousarray(dataset.pixels(piece)).data)
    key = f"measured-{VERSION}-{name}-{digest.hexdigest()}"
    return np.array(array_cache.load_or_generate(key, (len(index),), np.float64, fill, len(index)))
