"""Building blocks of nets: activations, norms, stacks of layers, the encoder's last layer, and the checks of options."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import nn

from unbraid.core.errors import choose, expect
from unbraid.core.shapes import Float, Tensor
from unbraid.latent import Latent
from unbraid.model.nets.dense import Dense

Shape = tuple[int, int, int]
Pair = tuple[nn.Module, nn.Module]
ActivationFactory = Callable[[], nn.Module]
MAX_WIDTH, MAX_DEPTH = 16_384, 64

# in place: the layer before does not need its output, and a copy costs memory traffic
relu = partial(nn.ReLU, inplace=True)

ACTIVATIONS: dict[str, ActivationFactory] = {
    "relu": relu,
    "leaky_relu": partial(nn.LeakyReLU, 0.2, inplace=True),
    "elu": nn.ELU,
    "gelu": nn.GELU,
    "silu": nn.SiLU,
    "softplus": nn.Softplus,
    "tanh": nn.Tanh,
}
NORMS: dict[str, Callable[[int, bool], list[nn.Module]]] = {  # (channels, over images) -> layers
    "none": lambda n, images: [],
    "batch": lambda n, images: [nn.BatchNorm2d(n) if images else nn.BatchNorm1d(n)],
    "layer": lambda n, images: [nn.GroupNorm(1, n) if images else nn.LayerNorm(n)],
}


class SplitHead(nn.Module):
    """The last layer of HFVAE's encoders: one half of the hidden layer for the discrete leaves, one for the real ones.

    "FC. 2×200" of Esmaeili et al. 2018, Tables 3–5, read as one hidden layer split in two halves.
    """

    order: Tensor

    def __init__(self, hidden: int, tree: Latent, params: int):
        super().__init__()
        discrete = sorted(tree.columns_of_kind("onehot") + tree.columns_of_kind("binary"))
        self.middle = hidden // 2
        self.discrete = Dense(self.middle, len(discrete))
        self.real = Dense(hidden - self.middle, params - len(discrete))
        rest = [i for i in range(params) if i not in set(discrete)]
        self.register_buffer("order", torch.tensor(discrete + rest).argsort(), persistent=False)

    def forward(self, h: Float[Tensor, "b hidden"]) -> Float[Tensor, "b p"]:
        """Both halves, in the order `Posterior.from_params` reads."""
        return torch.cat([self.discrete(h[:, : self.middle]), self.real(h[:, self.middle :])], 1)[:, self.order]


def encoder_head(hidden: int, tree: Latent, params: int, split: bool = False) -> nn.Module:
    """The encoder's last layer: plain, or split between discrete and real leaves.

    Args:
        hidden: width of the last hidden layer.
        tree: the latent tree.
        params: how many numbers the posterior needs.
        split: separate layers for discrete and real leaves.
    """
    return SplitHead(hidden, tree, params) if split and not tree.all_real else Dense(hidden, params)


def linear_layers(sizes: Sequence[int], act: ActivationFactory, norm: str = "none") -> list[nn.Module]:
    """Fully connected layers from one size to the next, each followed by its norm and activation.

    Args:
        sizes: the input width and that of each layer.
        act: makes an activation.
        norm: name of the norm.
    """
    return [
        layer
        for a, b in zip(sizes[:-1], sizes[1:], strict=True)
        for layer in (Dense(a, b), *NORMS[norm](b, False), act())
    ]


def activation(name: Any) -> ActivationFactory:
    """An activation by its name in TOML.

    Args:
        name: the name.
    """
    return choose(name, ACTIVATIONS, "activation")


def check_norm(name: Any) -> str:
    """The name of a norm, checked.

    Args:
        name: the name.
    """
    choose(name, NORMS, "norm")
    return str(name)


def parse_widths(value: Any, name: str, depth: Any = None) -> tuple[int, ...]:
    """Layer widths from TOML: a list, or one width for `depth` layers.

    Args:
        value: the value in TOML.
        name: the option, for errors.
        depth: the number of layers, if one width is given.

    >>> parse_widths([32, 64], "channels"), parse_widths(100, "width", 3)
    ((32, 64), (100, 100, 100))
    """
    listed = [value] * (1 if depth is None else check_count(depth, "depth", MAX_DEPTH)) if _is_whole(value) else value
    expect(
        isinstance(listed, list | tuple) and 1 <= len(listed) <= MAX_DEPTH and all(_is_whole(v) for v in listed),
        f"nets.{name} is a whole number or a list of them",
        found=repr(value),
        allowed=f"1 to {MAX_DEPTH} layers",
        do=f"For example {name} = [32, 64].",
    )
    expect(
        depth is None or len(listed) == depth,
        f"nets.depth must agree with the list nets.{name}",
        found=f"depth {depth}, {len(listed)} layers",
        do="Give one width with a depth, or a list alone.",
    )
    return tuple(check_count(v, name) for v in listed)


def check_count(value: Any, name: str, maximum: int = MAX_WIDTH) -> int:
    """A whole number from 1 to `maximum`.

    Args:
        value: the value.
        name: the option, for errors.
        maximum: the largest number allowed.
    """
    expect(
        _is_whole(value) and 1 <= value <= maximum,
        f"nets.{name} is out of range",
        found=value,
        allowed=f"1 to {maximum:,}",
    )
    return int(value)


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
