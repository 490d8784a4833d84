"""The fully connected net: any image size, any number of channels, vectors too."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from torch import nn

from unbraid.latent import Latent
from unbraid.model.nets.branched import BranchedHead
from unbraid.model.nets.dense import Dense
from unbraid.model.nets.layers import (
    ActivationFactory,
    Pair,
    Shape,
    activation,
    check_norm,
    encoder_head,
    linear_layers,
    parse_widths,
    relu,
)


@dataclass(frozen=True)
class Mlp:
    """Fully connected: `up` widths to the code, `down` widths back to the image.

    With `style`, mean and deviation each have a branch with a hidden layer of that width (see `BranchedHead`), and
    `code_to_style` feeds the probabilities of the discrete leaves into these branches.
    """

    up: tuple[int, ...]
    down: tuple[int, ...]
    up_act: ActivationFactory = relu
    down_act: ActivationFactory = relu
    split: bool = False
    norm: str = "none"
    style: int = 0
    code_to_style: bool = False

    def __call__(self, shape: Shape, tree: Latent, params: int, outputs: int) -> Pair:
        """Build encoder and decoder for one image shape."""
        layers = linear_layers((math.prod(shape), *self.up), self.up_act, self.norm)
        if self.style:
            head: nn.Module = BranchedHead(self.up[-1], tree, params, self.style, self.code_to_style)
        else:
            head = encoder_head(self.up[-1], tree, params, self.split)
        encoder = nn.Sequential(nn.Flatten(), *layers, head)
        decoder = nn.Sequential(
            *linear_layers((tree.width, *self.down), self.down_act, self.norm),
            Dense(self.down[-1], outputs * shape[1] * shape[2]),
            nn.Unflatten(1, (outputs, *shape[1:])),
        )
        return encoder, decoder


def mlp(
    shape: Shape,
    tree: Latent,
    params: int,
    outputs: int,
    *,
    width: Any = (400, 200),
    depth: Any = None,
    act: str = "relu",
    norm: str = "none",
) -> Pair:
    """Layers of `width` (a list, or one number and a `depth`) to the code, and their mirror back to the image."""
    up = parse_widths(width, "width", depth)
    made = activation(act)
    return Mlp(up, up[::-1], made, made, norm=check_norm(norm))(shape, tree, params, outputs)
