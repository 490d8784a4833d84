"""Variants of binary images with colour, noise or a background; each image is a pure function of its index.

The three variants of dSprites in Locatello et al. 2019: `color` (the sprite in a random colour), `noisy` (random pixels
behind it), `scream` (a patch of a painting behind it, inverted on the sprite). The paper uses Munch's painting; here a
formula generates a background in similar colours.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from unbraid.core.errors import expect
from unbraid.data.dataset import Images

if TYPE_CHECKING:
    from torch import Tensor

VARIANTS = ("color", "noisy", "scream")


@dataclass(frozen=True)
class SpriteVariant:
    """Images of one channel, converted to a variant of three channels.

    Args:
        images: the binary images.
        kind: color, noisy or scream.
        seed: seed of the variant.
    """

    images: Images
    kind: str
    seed: int = 0

    def __post_init__(self) -> None:
        expect(self.kind in VARIANTS, "unknown variant", found=repr(self.kind), allowed=VARIANTS)

    @property
    def shape(self) -> tuple[int, int, int]:
        """Channels, height and width of one image."""
        return 3, *self.images.shape[1:]

    def __len__(self) -> int:
        return len(self.images)

    def take(self, index: np.ndarray) -> np.ndarray:
        """Gather the stored bytes at `index`, and eight more that hold the index; see `Images.take`."""
        number = np.ascontiguousarray(index, np.int64).view(np.uint8).reshape(len(index), 8)
        return np.concatenate([self.images.take(index), number], axis=1)

    def unpack(self, rows: Tensor) -> Tensor:
        """Convert `rows` to images; see `Images.unpack`."""
        import torch

        index = rows[:, -8:].contiguous().view(torch.int64)[:, 0]
        sprite = self.images.unpack(rows[:, :-8].contiguous())
        b, (_, h, w) = len(rows), self.shape
        if self.kind == "color":
            return sprite * (0.5 + 0.5 * self._random(index, 3)).view(b, 3, 1, 1)
        if self.kind == "noisy":
            return torch.maximum(sprite, self._random(index, 3 * h * w).view(b, 3, h, w))
        background = torch.from_numpy(painted_background()).to(rows.device)
        corner = (self._random(index, 2) * (background.shape[1] - torch.tensor([h, w], device=rows.device))).long()
        y = (corner[:, 0, None] + torch.arange(h, device=rows.device))[:, :, None]
        x = (corner[:, 1, None] + torch.arange(w, device=rows.device))[:, None, :]
        patch = background[:, y, x].transpose(0, 1)
        return torch.where(sprite > 0.5, 1 - patch, patch)

    def _random(self, index: Tensor, count: int) -> Tensor:
        """Uniform numbers "b count" from a hash of (seed, index, position), the same on every device."""
        import torch

        at = torch.arange(count, device=index.device)
        word = index[:, None] * 1000003 + at + (self.seed + 1) * 7919
        for shift, factor in ((33, 0x7FB5D329728EA185), (29, 0x1B873593CC9E2D51), (32, 0)):
            word = word ^ ((word >> shift) & (2 ** (64 - shift) - 1))  # logical shift
            word = word * factor if factor else word
        return (word & 0xFFFFFF).float() / 2**24


@lru_cache(maxsize=1)
def painted_background(size: int = 256) -> np.ndarray:
    """Background "3 size size" with `size` pixels per side: flowing bands of orange sky over dark blue water.

    Args:
        size: pixels per side.
    """
    y, x = np.mgrid[:size, :size] / size
    bend = 0.08 * np.sin(7 * x + 4 * y) + 0.05 * np.sin(17 * x - 9 * y + 1)
    band = 0.5 + 0.5 * np.sin(40 * (y + bend) + 6 * np.sin(3 * x + 5 * bend))
    mix = 1 / (1 + np.exp(12 * (y + 2 * bend - 0.5)))
    sky = np.stack([0.75 + 0.25 * band, 0.3 + 0.35 * band, 0.15 + 0.1 * band])
    sea = np.stack([0.1 + 0.2 * band, 0.15 + 0.25 * band, 0.25 + 0.3 * band])
    return (mix * sky + (1 - mix) * sea).clip(0, 1).astype(np.float32)
