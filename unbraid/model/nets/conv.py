"""The convolutional nets: the papers' form, one that adapts to the image, and Mathieu et al.'s."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import nn

from unbraid.core.errors import expect
from unbraid.latent import Latent
from unbraid.model.nets.dense import Dense
from unbraid.model.nets.layers import (
    MAX_DEPTH,
    NORMS,
    ActivationFactory,
    Pair,
    Shape,
    activation,
    check_count,
    check_norm,
    encoder_head,
    parse_widths,
    relu,
)
from unbraid.model.nets.upconv import Upconv


@dataclass(frozen=True)
class Conv:
    """Convolutions of 4×4 and stride 2, one fully connected layer of `hidden`, and the mirror of it.

    `up` are the encoder's channels, `down` the decoder's from the innermost outwards (the first is the depth of
    the innermost map); the last upconvolution to the image is added. `bare` leaves out the ReLU after the
    encoder's fully connected layer (Kim & Mnih print none there; ours has one). `odd` lets sizes be odd: a row that
    halving drops is put back on the way up.
    """

    up: tuple[int, ...]
    down: tuple[int, ...]
    hidden: int
    norm: str = "none"
    split: bool = False
    bare: bool = False
    inner_act: ActivationFactory = relu
    act: ActivationFactory = relu
    odd: bool = False

    def __call__(self, shape: Shape, tree: Latent, params: int, outputs: int) -> Pair:
        """Build encoder and decoder for one image shape."""
        maps = self.map_sizes(shape)
        flat = maps[-1][0] * maps[-1][1]
        up: list[nn.Module] = []
        for a, b in zip((shape[0], *self.up[:-1]), self.up, strict=True):
            up += [nn.Conv2d(a, b, 4, 2, 1), *NORMS[self.norm](b, True), self.act()]
        full: list[nn.Module] = [
            nn.Flatten(),
            Dense(self.up[-1] * flat, self.hidden),
            *([] if self.bare else [self.act()]),
        ]
        encoder = nn.Sequential(*up, *full, encoder_head(self.hidden, tree, params, self.split))
        wide = self.hidden // 2 if self.split else self.hidden
        down: list[nn.Module] = [
            Dense(tree.width, wide),
            self.act(),
            Dense(wide, self.down[0] * flat),
            self.inner_act(),
            nn.Unflatten(1, (self.down[0], *maps[-1])),
        ]
        back = [(h % 2, w % 2) for h, w in maps[-2::-1]]
        for a, b, dropped in zip(self.down[:-1], self.down[1:], back[:-1], strict=True):
            down += [Upconv(a, b, 4, 2, 1, dropped), *NORMS[self.norm](b, True), self.act()]
        return encoder, nn.Sequential(*down, Upconv(self.down[-1], outputs, 4, 2, 1, back[-1]))

    def map_sizes(self, shape: Shape) -> list[tuple[int, int]]:
        """Height and width of the image and after each halving.

        Args:
            shape: channels, height and width of the images.
        """
        times = len(self.up)
        factor = 2**times
        expect(
            (shape[1] % factor == 0 and shape[2] % factor == 0) or self.odd,
            f"this net halves the image {times} times",
            found=f"images of {shape[1]}×{shape[2]}",
            allowed=f"height and width divisible by {factor}",
            do="Choose nets 'conv' or 'mlp', or resize the images.",
        )
        expect(
            min(shape[1:]) >= factor,
            f"this net halves the image {times} times",
            found=f"images of {shape[1]}×{shape[2]}",
            allowed=f"at least {factor}×{factor}",
            do="Give fewer channels or a smaller nets.depth, or choose nets 'mlp'.",
        )
        return [(shape[1] >> i, shape[2] >> i) for i in range(times + 1)]


def conv(
    shape: Shape,
    tree: Latent,
    params: int,
    outputs: int,
    *,
    channels: Any = None,
    depth: Any = None,
    hidden: Any = None,
    act: str = "relu",
    norm: str = "none",
) -> Pair:
    """Adapts to the image: halves it while it stays even and above 4 pixels (at most four times).

    `channels` (a list, or one number and a `depth`) asks for one halving each, `hidden` for another fully
    connected layer. Odd sizes are taken too.
    """
    expect(
        min(shape[1:]) >= 2,
        "net 'conv' needs images it can halve",
        found=f"images of {shape[1]}×{shape[2]}",
        allowed="2×2 or more",
        do="Choose nets 'mlp'.",
    )
    times = _halvings(shape) if depth is None else check_count(depth, "depth", MAX_DEPTH)
    ours = (32, 32, 64, 64)[-times:] if times <= 4 else (32, 32, *(64,) * (times - 2))
    up = ours if channels is None else parse_widths(channels, "channels", depth)
    wide = (128 if len(up) < 3 else 256) if hidden is None else check_count(hidden, "hidden")
    made = activation(act)
    net = Conv(up, (up[-1], *up[::-1][1:]), wide, check_norm(norm), inner_act=made, act=made, odd=True)
    return net(shape, tree, params, outputs)


def _halvings(shape: Shape) -> int:
    """How often 'conv' halves an image: while even and above 4 pixels; an odd image while above 4 pixels."""
    times = 0
    _, h, w = shape
    even = h % 2 == 0 and w % 2 == 0
    while times < 4 and min(h, w) > 4 and (not even or (h % 2 == 0 and w % 2 == 0)):
        h, w, times = h // 2, w // 2, times + 1
    return max(times, 1)


def dcgan(shape: Shape, tree: Latent, params: int, outputs: int) -> Pair:
    """Mathieu et al. 2019, Table 1c: strided convolutions with batch norm down to 1×1, for 64×64 images."""
    c, h, w = shape
    expect(
        (h, w) == (64, 64),
        "net decomposition_table1c is for 64×64 images",
        found=f"{h}×{w}",
        do="Resize them, or choose nets 'conv'.",
    )
    up: list[nn.Module] = []
    for a, b in zip((c, 32, 64, 128), (32, 64, 128, 256), strict=True):
        up += [nn.Conv2d(a, b, 4, 2, 1), nn.BatchNorm2d(b), nn.LeakyReLU(0.2, inplace=True)]
    down: list[nn.Module] = [
        nn.Unflatten(1, (tree.width, 1, 1)),
        Upconv(tree.width, 256, 4, 1, 0),
        nn.BatchNorm2d(256),
        relu(),
    ]
    for a, b in zip((256, 128, 64), (128, 64, 32), strict=True):
        down += [Upconv(a, b, 4, 2, 1), nn.BatchNorm2d(b), relu()]
    return nn.Sequential(*up, nn.Conv2d(256, params, 4, 1, 0), nn.Flatten()), nn.Sequential(
        *down, Upconv(32, outputs, 4, 2, 1)
    )
