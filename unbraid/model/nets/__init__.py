"""Encoders and decoders: four that adapt to the image and take options, and the papers' presets, frozen by name.

A net is a function `(shape, tree, params, outputs, *, …) -> (encoder, decoder)`: image shape (c, h, w), the latent
tree, how many posterior parameters the encoder gives, and how many channels the decoder gives. What follows the
star are its options in TOML: `nets = {name = "conv", channels = [32, 64], hidden = 256, act = "elu"}`.
"""

from __future__ import annotations

from collections.abc import Callable

from unbraid.model.nets.broadcast import broadcast
from unbraid.model.nets.conv import conv
from unbraid.model.nets.layers import Pair
from unbraid.model.nets.mlp import mlp
from unbraid.model.nets.presets import PRESETS
from unbraid.model.nets.residual import residual

NETS: dict[str, Callable[..., Pair]] = {
    "conv": conv,
    "mlp": mlp,
    "broadcast": broadcast,
    "residual": residual,
    **PRESETS,
}

__all__ = ["NETS", "PRESETS", "Pair"]
