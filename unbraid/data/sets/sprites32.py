"""Small sprites for work on a CPU: the shapes of dSprites at 32×32, with or without orientation."""

from __future__ import annotations

from functools import partial

import numpy as np

from unbraid.data.cache import array_cache
from unbraid.data.dataset import Bits, Dataset, Source
from unbraid.data.factors import Factor, Factors
from unbraid.data.rendering import sprite_outlines
from unbraid.data.sets.dsprites import CITE, SCALES

POSITIONS = 8 + 16 * np.arange(16) / 15
ANGLES = np.arange(20) * (2 * np.pi / 20)  # unlike dSprites, no angle occurs twice


def load(*, orientation: bool = False) -> Dataset:
    """3 shapes × 6 scales (× 20 orientations) × 16 × 16 positions: 4,608 images, or 92,160.

    Args:
        orientation: true adds 20 orientations.

    >>> from unbraid.data import load
    >>> load("sprites32").shape, len(load("sprites32"))
    ((1, 32, 32), 4608)
    """
    angles = ANGLES if orientation else ANGLES[:1]
    items = [Factor("shape", 3, "class", sprite_outlines.SHAPES), Factor("scale", 6, "ordinal", tuple(SCALES.tolist()))]
    if orientation:
        items.append(Factor("orientation", len(angles), "circular", tuple(angles.tolist())))
    items += [Factor(axis, 16, "ordinal", tuple((np.arange(16) / 15).tolist())) for axis in "xy"]
    factors = Factors(tuple(items))
    render = partial(sprite_outlines.render_sprites, scales=SCALES, angles=angles, positions=POSITIONS, size=32)
    name, total = _cache_name(orientation), 18 * len(angles)
    array = array_cache.load_or_generate(name, (factors.count, 128), np.uint8, render, total)
    return Dataset("sprites32", Bits(array, (1, 32, 32)), factors, cite=CITE)


def _cache_name(orientation: bool) -> str:
    return "sprites32-orientation-1" if orientation else "sprites32-1"


SOURCE = Source(
    name="sprites32",
    about="small binary sprites for work on a CPU; orientation = true adds 20 angles",
    load=load,
    size="4,608 or 92,160 × 1×32×32 (0.6 or 12 MB)",
    factors="shape 3, scale 6, (orientation 20,) x 16, y 16",
    status=lambda: array_cache.generated_status(_cache_name(False)),
    cite=CITE,
    how_to_get="generated on first use in a second: unbraid data make sprites32",
)
