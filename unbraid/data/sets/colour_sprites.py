"""Coloured sprites of 24×24 pixels: the data set of the demo, easy by design and generated in a second."""

from __future__ import annotations

import numpy as np

from unbraid.core.progress import Advance
from unbraid.data.cache import array_cache
from unbraid.data.dataset import Dataset, Pixels, Source
from unbraid.data.factors import Factor, Factors

SIZE, SUBSAMPLES = 24, 4  # pixels per side; subsamples per side of each pixel
ASPECT = 3.6  # length of a bar divided by its width
SHAPES = {  # half width and half height relative to the radius; all three have area π
    "tall bar": (np.sqrt(np.pi / 4 / ASPECT), np.sqrt(np.pi / 4 * ASPECT)),
    "disc": (1.0, 1.0),
    "wide bar": (np.sqrt(np.pi / 4 * ASPECT), np.sqrt(np.pi / 4 / ASPECT)),
}
RADII = (2.8, 3.2, 3.7, 4.2)  # pixels
X_POSITIONS = Y_POSITIONS = np.linspace(8, 16, 12)  # pixels
COLOURS = {  # the sum of channels is the same for all, so that colour does not change the total intensity
    "orange": (1, 1 / 2, 0),
    "sand": (2 / 3, 1 / 2, 1 / 3),
    "steel": (1 / 3, 1 / 2, 2 / 3),
    "blue": (0, 1 / 2, 1),
}
CACHE_NAME = "colour_sprites-4"  # the number changes with the rendering


def load() -> Dataset:
    """3 shapes × 4 scales × 4 colours × 12 × 12 positions: 6,912 images.

    >>> from unbraid.data import load
    >>> load("colour_sprites").shape, len(load("colour_sprites"))
    ((3, 24, 24), 6912)
    """
    factors = Factors(
        (
            Factor("shape", 3, "class", tuple(SHAPES)),
            Factor("scale", 4, "ordinal", RADII),
            Factor("colour", 4, "ordinal", tuple(COLOURS)),
            Factor("x", 12, "ordinal", tuple(X_POSITIONS.tolist())),
            Factor("y", 12, "ordinal", tuple(Y_POSITIONS.tolist())),
        )
    )

    def fill(array: np.ndarray, advance: Advance) -> None:
        blocks = array.reshape(3, 4, 4, 12, 12, 3, SIZE, SIZE)
        for s, shape in enumerate(SHAPES):
            for r, radius in enumerate(RADII):
                ink = sprite_coverage(shape, radius)
                for c, colour in enumerate(COLOURS.values()):
                    coloured = ink[:, :, None] * np.array(colour)[:, None, None]
                    blocks[s, r, c] = np.floor(255 * coloured + 0.5)
                advance()

    array = array_cache.load_or_generate(CACHE_NAME, (factors.count, 3, SIZE, SIZE), np.uint8, fill, 12)
    return Dataset("colour_sprites", Pixels(array), factors, cite="this library")


def sprite_coverage(shape: str, radius: float) -> np.ndarray:
    """Share of each pixel that a sprite covers, at every position: "x y row column" in [0, 1], by 4×4 subsamples.

    Args:
        shape: a key of `SHAPES`.
        radius: radius of the disc of equal area, in pixels.
    """
    wide, high = (radius * half for half in SHAPES[shape])
    ticks = (np.arange(SIZE * SUBSAMPLES) + 0.5) / SUBSAMPLES
    across = (ticks - X_POSITIONS[:, None])[:, None, None, :] / wide
    down = (ticks - Y_POSITIONS[:, None])[None, :, :, None] / high
    inside = across**2 + down**2 <= 1 if shape == "disc" else (abs(across) <= 1) & (abs(down) <= 1)
    return inside.reshape(len(X_POSITIONS), len(Y_POSITIONS), SIZE, SUBSAMPLES, SIZE, SUBSAMPLES).mean(axis=(3, 5))


SOURCE = Source(
    name="colour_sprites",
    about="small coloured bars and discs, easy by design: the data set of the demo",
    load=load,
    size="6,912 × 3×24×24 (12 MB)",
    factors="shape 3, scale 4, colour 4, x 12, y 12",
    status=lambda: array_cache.generated_status(CACHE_NAME),
    cite="this library",
    how_to_get="generated on first use in a second: unbraid data make colour_sprites",
)
