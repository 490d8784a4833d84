"""The residual net: blocks of two convolutions around a shortcut. He et al. 2016; any size, any channels."""

from __future__ import annotations

from typing import Any

from torch import nn

from unbraid.core.errors import expect
from unbraid.core.shapes import Float, Tensor
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
)


class ResidualBlock(nn.Module):
    """x + F(x), F = norm, activation, 3×3, twice; the last convolution starts at 0, so a block starts as the identity."""

    def __init__(self, channels: int, act: ActivationFactory, norm: str):
        super().__init__()
        layers: list[nn.Module] = []
        for _ in range(2):
            layers += [*NORMS[norm](channels, True), act(), nn.Conv2d(channels, channels, 3, 1, 1)]
        nn.init.zeros_(layers[-1].weight)  # type: ignore[arg-type]
        # in place, the first activation would change x, which the shortcut still needs
        self.body = nn.Sequential(*layers)

    def forward(self, x: Float[Tensor, "b c h w"]) -> Float[Tensor, "b c h w"]:
        """The shortcut and the branch."""
        return x + self.body(x.clone())


def residual(
    shape: Shape,
    tree: Latent,
    params: int,
    outputs: int,
    *,
    channels: Any = None,
    depth: Any = None,
    blocks: Any = 1,
    hidden: Any = 256,
    act: str = "silu",
    norm: str = "layer",
) -> Pair:
    """`blocks` residual blocks at each of `channels`, halving the image between them, and the mirror back.

    Sizes are rounded up on the way down and met exactly on the way up. He et al. 2016, Sec. 3 (pre-activation form).
    """
    most = 1 + _halvings(shape)
    levels = min(most, 3) if depth is None else check_count(depth, "depth", MAX_DEPTH)
    wide = (
        tuple(min(32 * 2**i, 128) for i in range(levels))
        if channels is None
        else parse_widths(channels, "channels", depth)
    )
    expect(
        len(wide) <= most,
        f"net 'residual' halves the image {len(wide) - 1} times",
        found=f"images of {shape[1]}×{shape[2]}",
        allowed=f"{most} levels at most",
        do="Give fewer channels.",
    )
    made, named, count = activation(act), check_norm(norm), check_count(blocks, "blocks", MAX_DEPTH)
    middle = check_count(hidden, "hidden")
    maps = [(-(-shape[1] // 2**i), -(-shape[2] // 2**i)) for i in range(len(wide))]
    up: list[nn.Module] = [nn.Conv2d(shape[0], wide[0], 3, 1, 1)]
    for level, width in enumerate(wide):
        up += [nn.Conv2d(wide[level - 1], width, 3, 2, 1)] if level else []
        up += [ResidualBlock(width, made, named) for _ in range(count)]
    flat = wide[-1] * maps[-1][0] * maps[-1][1]
    encoder = nn.Sequential(*up, nn.Flatten(), Dense(flat, middle), made(), encoder_head(middle, tree, params))
    down: list[nn.Module] = [Dense(tree.width, middle), made(), Dense(middle, flat), made()]
    down += [nn.Unflatten(1, (wide[-1], *maps[-1]))]
    for level in reversed(range(len(wide))):
        down += [ResidualBlock(wide[level], made, named) for _ in range(count)]
        if level:
            down += [nn.Upsample(maps[level - 1], mode="nearest"), nn.Conv2d(wide[level], wide[level - 1], 3, 1, 1)]
    return encoder, nn.Sequential(*down, made(), nn.Conv2d(wide[0], outputs, 3, 1, 1))


def _halvings(shape: Shape) -> int:
    """How often an image can be halved, rounding up, before a side is 1."""
    return max(0, (min(shape[1:]) - 1).bit_length())
