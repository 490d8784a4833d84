"""The spatial-broadcast net: every pixel gets the code and its coordinates. Watters et al. 2019."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import nn

from unbraid.core.errors import expect
from unbraid.core.shapes import Float, Tensor
from unbraid.latent import Latent
from unbraid.model.nets.dense import Dense
from unbraid.model.nets.layers import (
    NORMS,
    ActivationFactory,
    Pair,
    Shape,
    activation,
    check_count,
    check_norm,
    encoder_head,
    linear_layers,
    parse_widths,
)


class Broadcast(nn.Module):
    """One perceptron paints every pixel from (h(z), x, y): a shift of the image is a shift of two inputs.

    The first layer at the pixels is split, W (h, x, y) = W_h h + W_xy (x, y): once per code and once per pixel.
    """

    places: Tensor

    def __init__(
        self, code: int, hidden: int, pixel: tuple[int, ...], shape: Shape, act: ActivationFactory, spread: float
    ):
        super().__init__()
        channels, self.height, self.width = shape
        self.code = nn.Sequential(Dense(code, hidden), act())
        self.first = Dense(hidden, pixel[0])
        self.place = Dense(2, pixel[0], bias=False)
        bound = spread / math.sqrt(hidden + 2)  # as in one layer of hidden + 2 inputs, times the spread
        nn.init.uniform_(self.place.weight, -bound, bound)
        self.act = act()
        layers = [layer for a, b in zip(pixel[:-1], pixel[1:], strict=True) for layer in (nn.Conv2d(a, b, 1), act())]
        self.rest = nn.Sequential(*layers, nn.Conv2d(pixel[-1], channels, 1))
        y, x = torch.meshgrid(torch.linspace(-1, 1, self.height), torch.linspace(-1, 1, self.width), indexing="ij")
        self.register_buffer("places", torch.stack([x, y], -1).reshape(-1, 2), persistent=False)

    def forward(self, z: Float[Tensor, "b d"]) -> Float[Tensor, "b c h w"]:
        """Images, or the maps of a likelihood."""
        laid = self.act(self.first(self.code(z)).unsqueeze(1) + self.place(self.places))  # "b h·w pixel"
        return self.rest(laid.unflatten(1, (self.height, self.width)).permute(0, 3, 1, 2))


def halved_size(shape: Shape, channels: tuple[int, ...]) -> tuple[int, int]:
    """Height and width after one halving per entry of `channels`.

    Args:
        shape: channels, height and width of the images.
        channels: channels of the convolutions.
    """
    factor = 2 ** len(channels)
    expect(
        min(shape[1:]) >= factor,
        f"nets.channels halves the image {len(channels)} times",
        found=f"images of {shape[1]}×{shape[2]}",
        allowed=f"at least {factor}×{factor}",
        do="Give fewer channels.",
    )
    return shape[1] // factor, shape[2] // factor


def broadcast(
    shape: Shape,
    tree: Latent,
    params: int,
    outputs: int,
    *,
    channels: Any = None,
    width: Any = None,
    depth: Any = None,
    hidden: Any = 64,
    pixel: Any = (32, 32),
    act: str = "relu",
    norm: str = "none",
    spread: Any = 3.0,
) -> Pair:
    """A fully connected encoder of `width`, and a decoder that paints pixel by pixel: any size, any channels.

    `channels` puts convolutions before the encoder's fully connected layers, one halving each: for images of 64×64.
    `hidden` units see the code, `pixel` are the layers at each pixel, `spread` scales the first weights of the
    coordinates; `norm` is the encoder's. Watters et al. 2019, Fig. 1 (they paint by 3×3 convolutions, here 1×1).
    """
    good = isinstance(spread, int | float) and not isinstance(spread, bool) and 0 < spread <= 1000
    expect(good, "nets.spread is out of range", found=spread, allowed="above 0, 1000 at most")
    width = ((256, 128) if channels is None else (128,)) if width is None else width
    up, made = parse_widths(width, "width", depth), activation(act)
    maps = () if channels is None else parse_widths(channels, "channels")
    inner = halved_size(shape, maps)
    convolutions = (
        [
            layer
            for a, b in zip((shape[0], *maps[:-1]), maps, strict=True)
            for layer in (nn.Conv2d(a, b, 4, 2, 1), *NORMS[check_norm(norm)](b, True), made())
        ]
        if maps
        else []
    )
    flat = (maps[-1] if maps else shape[0]) * math.prod(inner)
    encoder = nn.Sequential(
        *convolutions,
        nn.Flatten(),
        *linear_layers((flat, *up), made, check_norm(norm)),
        encoder_head(up[-1], tree, params),
    )
    painted = (outputs, *shape[1:])
    return encoder, Broadcast(
        tree.width, check_count(hidden, "hidden"), parse_widths(pixel, "pixel"), painted, made, float(spread)
    )
