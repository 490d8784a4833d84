"""dSprites, regenerated from its published geometry (Matthey et al. 2017): 737,280 binary images of 64×64."""

from __future__ import annotations

import numpy as np

from unbraid.data import sprites, store
from unbraid.data.dataset import Bits, Dataset, Source
from unbraid.data.factors import Factor, Factors
from unbraid.progress import Advance

NAME = "dsprites-1"
CITE = "Matthey, Higgins, Hassabis, Lerchner 2017, dSprites: Disentanglement testing Sprites dataset"
SCALES = np.linspace(0.5, 1, 6)
ANGLES = np.linspace(0, 2 * np.pi, 40)
POSITIONS = 16 + 32 * np.arange(32) / 31
FACTORS = Factors((
    Factor("shape", 3, "class", sprites.SHAPES),
    Factor("scale", 6, "ordinal", tuple(SCALES.tolist())),
    Factor("orientation", 40, "circular", tuple(ANGLES.tolist())),
    Factor("x", 32, "ordinal", tuple(np.linspace(0, 1, 32).tolist())),
    Factor("y", 32, "ordinal", tuple(np.linspace(0, 1, 32).tolist())),
))


def load() -> Dataset:
    """All images in the original order (y varies fastest), bit-packed, mapped from the cache: 377 MB on disk.

    A pixel is on when its centre lies inside the outline; vertices are rounded to 1/256 pixel. Every frame that
    the authors publish is reproduced exactly; the total of on-pixels is 128,328,871 against the original's
    128,328,862, so this is the set regenerated, not the original file.
    """
    array = store.generated(NAME, (FACTORS.count, 512), np.uint8, _fill, 720)
    return Dataset("dsprites", Bits(array, (1, 64, 64)), FACTORS, cite=CITE, notes={"origin": "regenerated"})


def _fill(array: np.ndarray, advance: Advance) -> None:
    blocks = array.reshape(3, 6, 40, 32, 32, 64, 8)
    for s, shape in enumerate(sprites.SHAPES):
        for k, angle in enumerate(ANGLES):
            points = sprites.turned(sprites.outline(shape), angle)
            for i, scale in enumerate(SCALES):
                blocks[s, i, k] = sprites.drawn(points * scale, POSITIONS, POSITIONS, 64)
                advance()


def status() -> str:
    """See `Source`."""
    return "ready" if store.ready(NAME) else "can be generated"


SOURCE = Source(
    name="dsprites", about="binary sprites, the original order, regenerated from the published geometry", load=load,
    size="737,280 × 1×64×64 (377 MB)", factors="shape 3, scale 6, orientation 40, x 32, y 32", status=status,
    cite=CITE, get="made on first use in seconds: unbraid data make dsprites",
)
