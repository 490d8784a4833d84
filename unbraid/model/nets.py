"""Encoders and decoders: presets named by paper and table, a small one for 32×32, and two that adapt.

A net is a function `(shape, tree, params, channels) -> (encoder, decoder)`: image shape (c, h, w), the latent
tree, how many posterior parameters the encoder gives, and how many channels the decoder gives.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import torch
from torch import nn

from unbraid.ground.errors import expect
from unbraid.ground.shapes import Float, Tensor
from unbraid.latent import Latent

relu = partial(
    nn.ReLU, inplace=True
)  # the layer before keeps no use of its output, so a copy would only cost memory traffic
Shape = tuple[int, int, int]
Pair = tuple[nn.Module, nn.Module]


class SplitHead(nn.Module):
    """The last layer of HFVAE's encoders: one half of the hidden layer for the discrete leaves, one for the real ones.

    "FC. 2×200" of Esmaeili et al. 2018, Tables 3–5, read as one hidden layer split in two halves.
    """

    order: Tensor

    def __init__(self, hidden: int, tree: Latent, params: int):
        super().__init__()
        discrete = sorted(tree.columns_of("onehot") + tree.columns_of("binary"))
        self.middle = hidden // 2
        self.discrete = nn.Linear(self.middle, len(discrete))
        self.real = nn.Linear(hidden - self.middle, params - len(discrete))
        rest = [i for i in range(params) if i not in set(discrete)]
        self.register_buffer("order", torch.tensor(discrete + rest).argsort(), persistent=False)

    def forward(self, h: Float[Tensor, "b hidden"]) -> Float[Tensor, "b p"]:
        """Both halves, in the order `Posterior.of` reads."""
        return torch.cat([self.discrete(h[:, : self.middle]), self.real(h[:, self.middle :])], 1)[:, self.order]


def _head(hidden: int, tree: Latent, params: int, split: bool) -> nn.Module:
    return SplitHead(hidden, tree, params) if split and not tree.all_real else nn.Linear(hidden, params)


def _stack(sizes: Sequence[int], act: Callable[[], nn.Module]) -> list[nn.Module]:
    return [layer for a, b in zip(sizes[:-1], sizes[1:]) for layer in (nn.Linear(a, b), act())]


@dataclass(frozen=True)
class Mlp:
    """Fully connected: `up` widths to the code, `down` widths back to the image."""

    up: tuple[int, ...]
    down: tuple[int, ...]
    up_act: Callable[[], nn.Module] = relu
    down_act: Callable[[], nn.Module] = relu
    split: bool = False

    def __call__(self, shape: Shape, tree: Latent, params: int, channels: int) -> Pair:
        """Build encoder and decoder for one image shape."""
        pixels = math.prod(shape)
        encoder = nn.Sequential(
            nn.Flatten(), *_stack((pixels, *self.up), self.up_act), _head(self.up[-1], tree, params, self.split)
        )
        decoder = nn.Sequential(
            *_stack((tree.width, *self.down), self.down_act),
            nn.Linear(self.down[-1], channels * shape[1] * shape[2]),
            nn.Unflatten(1, (channels, *shape[1:])),
        )
        return encoder, decoder


@dataclass(frozen=True)
class Conv:
    """Convolutions of 4×4 and stride 2, one fully connected layer of `hidden`, and the mirror of it.

    `up` are the encoder's channels, `down` the decoder's from the innermost outwards (the first is the depth of
    the innermost map); the last upconvolution to the image is added. `bare` leaves out the ReLU after the
    encoder's fully connected layer (Kim & Mnih print none there; ours has one).
    """

    up: tuple[int, ...]
    down: tuple[int, ...]
    hidden: int
    norm: bool = False
    split: bool = False
    bare: bool = False
    inner_act: Callable[[], nn.Module] = relu

    def __call__(self, shape: Shape, tree: Latent, params: int, channels: int) -> Pair:
        """Build encoder and decoder for one image shape."""
        c, h, w = shape
        factor = 2 ** len(self.up)
        expect(
            h % factor == 0 and w % factor == 0,
            f"this net halves the image {len(self.up)} times",
            found=f"images of {h}×{w}",
            allowed=f"height and width divisible by {factor}",
            do="Choose nets 'conv' or 'mlp', or resize the images.",
        )
        inner = (h // factor, w // factor)
        flat = inner[0] * inner[1]
        up: list[nn.Module] = []
        for a, b in zip((c, *self.up[:-1]), self.up):
            up += [nn.Conv2d(a, b, 4, 2, 1), *([nn.BatchNorm2d(b)] if self.norm else []), relu()]
        full: list[nn.Module] = [
            nn.Flatten(),
            nn.Linear(self.up[-1] * flat, self.hidden),
            *([] if self.bare else [relu()]),
        ]
        encoder = nn.Sequential(*up, *full, _head(self.hidden, tree, params, self.split))
        wide = self.hidden // 2 if self.split else self.hidden
        down: list[nn.Module] = [
            nn.Linear(tree.width, wide),
            relu(),
            nn.Linear(wide, self.down[0] * flat),
            self.inner_act(),
            nn.Unflatten(1, (self.down[0], *inner)),
        ]
        for a, b in zip(self.down[:-1], self.down[1:]):
            down += [nn.ConvTranspose2d(a, b, 4, 2, 1), *([nn.BatchNorm2d(b)] if self.norm else []), relu()]
        return encoder, nn.Sequential(*down, nn.ConvTranspose2d(self.down[-1], channels, 4, 2, 1))


def dcgan(shape: Shape, tree: Latent, params: int, channels: int) -> Pair:
    """Mathieu et al. 2019, Table 1c: strided convolutions with batch norm down to 1×1, for 64×64 images."""
    c, h, w = shape
    expect(
        (h, w) == (64, 64),
        "net decomposition_table1c is for 64×64 images",
        found=f"{h}×{w}",
        do="Resize them, or choose nets 'conv'.",
    )
    up: list[nn.Module] = []
    for a, b in zip((c, 32, 64, 128), (32, 64, 128, 256)):
        up += [nn.Conv2d(a, b, 4, 2, 1), nn.BatchNorm2d(b), nn.LeakyReLU(0.2, inplace=True)]
    down: list[nn.Module] = [
        nn.Unflatten(1, (tree.width, 1, 1)),
        nn.ConvTranspose2d(tree.width, 256, 4, 1, 0),
        nn.BatchNorm2d(256),
        relu(),
    ]
    for a, b in zip((256, 128, 64), (128, 64, 32)):
        down += [nn.ConvTranspose2d(a, b, 4, 2, 1), nn.BatchNorm2d(b), relu()]
    return nn.Sequential(*up, nn.Conv2d(256, params, 4, 1, 0), nn.Flatten()), nn.Sequential(
        *down, nn.ConvTranspose2d(32, channels, 4, 2, 1)
    )


def conv(shape: Shape, tree: Latent, params: int, channels: int) -> Pair:
    """Adapts to the image: halves it while it stays even and above 4 pixels (at most four times)."""
    _, h, w = shape
    times = 0
    while times < 4 and h % 2 == 0 and w % 2 == 0 and min(h, w) > 4:
        h, w, times = h // 2, w // 2, times + 1
    expect(
        times >= 1,
        "net 'conv' needs images it can halve",
        found=f"images of {shape[1]}×{shape[2]}",
        allowed="even sizes of 6 or more",
        do="Choose nets 'mlp', or resize the images.",
    )
    widths = (32, 32, 64, 64)[4 - times :]
    return Conv(widths, (widths[-1], *widths[::-1][1:]), 128 if times < 3 else 256)(shape, tree, params, channels)


NETS: dict[str, Callable[..., Pair]] = {
    "conv": conv,
    "mlp": Mlp((400, 200), (200, 400)),
    "small32": Conv((16, 32, 32), (32, 32, 16), 128),
    "factor_vae_table1": Conv((32, 32, 64, 64), (64, 64, 32, 32), 128),
    "factor_vae_table1_bare": Conv((32, 32, 64, 64), (64, 64, 32, 32), 128, bare=True),
    "factor_vae_table2": Conv((32, 32, 64, 64), (64, 64, 32, 32), 256),
    "factor_vae_table3": Conv((32, 32, 64, 64), (64, 64, 32, 32), 256),
    "hfvae_table3": Mlp((400, 400), (200, 400), split=True),
    "hfvae_table4": Mlp((1200, 1200, 800), (400, 1200, 1200), down_act=nn.Tanh, split=True),
    "hfvae_table5": Conv((32, 32, 64, 64), (64, 64, 32, 32), 512, norm=True, split=True, inner_act=nn.Tanh),
    "decomposition_table1a": Conv((32, 32, 64, 64), (64, 64, 64, 32), 128),
    "decomposition_table1b": Mlp((100,), (100,)),
    "decomposition_table1c": dcgan,
    "isa_vae_a4": Mlp((1200, 1200), (1200, 1200, 1200), down_act=nn.Tanh),
}
