"""Read an exported page without a browser: its content, its numbers, and its decoder, evaluated in numpy."""

from __future__ import annotations

import base64
import json
import math
import re
from typing import Any

import numpy as np
import torch
from torch import nn

from unbraid.latent import Latent
from unbraid.model import LIKELIHOODS, NETS, Diagonal, Vae
from unbraid.model.nets.residual import ResidualBlock
from unbraid.priors import build

IMAGE_SHAPES = {
    "small32": (1, 32, 32),
    "decomposition_table1b": (2, 1, 1),
    "decomposition_table1c": (3, 64, 64),
    "residual": (3, 32, 32),
}
MIXED = {"kind": "onehot(3)", "flag": "binary(2)", "look": 3}


def randomise_weights(module: nn.Module, seed: int = 0) -> nn.Module:
    """Set weights and batch statistics so that images differ between codes.

    Args:
        module: the module.
        seed: the seed.
    """
    draw = torch.Generator().manual_seed(seed)
    for part in module.modules():
        if isinstance(part, nn.Linear | nn.Conv2d | nn.ConvTranspose2d):
            taps = 4 if isinstance(part, nn.ConvTranspose2d) else 1
            fan = part.weight[0].numel() if not isinstance(part, nn.ConvTranspose2d) else taps * part.weight.shape[0]
            part.weight.data.normal_(0, math.sqrt(2 / fan), generator=draw)
            if part.bias is not None:
                part.bias.data.normal_(0, 0.3, generator=draw)
        elif isinstance(part, nn.BatchNorm1d | nn.BatchNorm2d):
            for values, low, high in ((part.running_mean, -0.5, 0.5), (part.running_var, 0.5, 2.0),
                                      (part.weight.data, 0.5, 1.5), (part.bias.data, -0.3, 0.3)):  # fmt: skip
                values.uniform_(low, high, generator=draw)
    for block in (part for part in module.modules() if isinstance(part, ResidualBlock)):
        for part in block.body:
            if isinstance(part, nn.Conv2d):
                part.weight.data.mul_(0.5)  # branches that add up would run away
    return module


def random_model(
    name: str,
    likelihood: str = "bernoulli",
    shape: tuple[int, int, int] | None = None,
    nets: dict[str, Any] | None = None,
    **options: Any,
) -> Vae:
    """A model with random weights on a tree with real and discrete leaves.

    Args:
        name: the name of the nets.
        likelihood: the likelihood.
        shape: the shape of images.
        nets: options of the nets.
    """
    tree = Latent.of(MIXED)
    shape = IMAGE_SHAPES.get(name, (3, 32, 32)) if shape is None else shape
    made = LIKELIHOODS[likelihood](**options)
    pair = NETS[name](
        shape=shape, tree=tree, params=Diagonal.param_count(tree), outputs=shape[0] * made.maps, **(nets or {})
    )
    prior = build({"name": "gaussian"}, tree)
    return randomise_weights(Vae(tree, *pair, prior, made)).eval().requires_grad_(False)


def random_codes(tree: Latent, n: int, seed: int = 0) -> np.ndarray:
    """Random codes: normal numbers, one-hot classes, bits.

    Args:
        tree: the tree.
        n: how many.
        seed: the seed.
    """
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(n, tree.width))
    for leaf, s in zip(tree.leaves, tree.slices, strict=True):
        if leaf.kind == "onehot":
            z[:, s] = np.eye(leaf.width)[rng.integers(leaf.width, size=n)]
        elif leaf.kind == "binary":
            z[:, s] = rng.integers(2, size=(n, leaf.width))
    return z


def page_content(page: str) -> dict[str, Any]:
    """The data inside an exported page."""
    found = re.search(r'<script type="application/json" id="content">(.*?)</script>', page, re.S)
    assert found, "the page carries no content"
    return json.loads(found[1])


def unpack_layers(layers: list[dict[str, Any]], numbers: bytes) -> list[dict[str, Any]]:
    """Layers with their arrays from the half-precision numbers.

    Args:
        layers: the layers.
        numbers: the numbers.
    """
    flat = np.frombuffer(numbers, "<f2").astype(np.float64)
    read = []
    for layer in layers:
        entry = dict(layer)
        for name, value in layer.items():
            if isinstance(value, dict):
                size = math.prod(value["shape"])
                entry[name] = flat[value["at"] : value["at"] + size].reshape(value["shape"]) * 2.0 ** value["power"]
        if "inner" in layer:
            entry["inner"] = unpack_layers(layer["inner"], numbers)
        read.append(entry)
    return read


def page_layers(page: str) -> list[dict[str, Any]]:
    """The decoder inside an exported page."""
    found = page_content(page)
    return unpack_layers(found["layers"], base64.b64decode(found["numbers"]))


def decode(layers: list[dict[str, Any]], codes: np.ndarray) -> np.ndarray:
    """Images "n c h w" of codes "n d", layer by layer.

    Args:
        layers: the layers.
        codes: the codes.
    """
    a = codes[:, :, None, None]
    for layer in layers:
        a = OPERATIONS[layer["op"]](layer, a)
    return a


def _conv(layer: dict[str, Any], a: np.ndarray) -> np.ndarray:
    """A convolution by its definition: a sum of matrix products over the kernel."""
    kernel, stride, pad = layer["weight"], int(layer["stride"]), int(layer["pad"])
    ky, kx, out, _ = kernel.shape
    n, _, h, w = a.shape
    if layer["up"]:
        tall, wide = (
            (h - 1) * stride + ky + int(layer["output_pad_y"]),
            (w - 1) * stride + kx + int(layer["output_pad_x"]),
        )
        full = np.zeros((n, out, tall, wide))
        for y, x in np.ndindex(ky, kx):
            full[:, :, y : y + h * stride : stride, x : x + w * stride : stride][:, :, :h, :w] += np.einsum(
                "oi,nihw->nohw", kernel[y, x], a
            )
        result = full[:, :, pad : full.shape[2] - pad, pad : full.shape[3] - pad]
    else:
        padded = np.pad(a, ((0, 0), (0, 0), (pad, pad), (pad, pad)))
        rows, columns = (h + 2 * pad - ky) // stride + 1, (w + 2 * pad - kx) // stride + 1
        result = np.zeros((n, out, rows, columns))
        for y, x in np.ndindex(ky, kx):
            part = padded[:, :, y : y + rows * stride : stride, x : x + columns * stride : stride][
                :, :, :rows, :columns
            ]
            result += np.einsum("oi,nihw->nohw", kernel[y, x], part)
    return result + layer["bias"][:, None, None]


def _add_coordinates(layer: dict[str, Any], a: np.ndarray) -> np.ndarray:
    y, x = np.meshgrid(np.linspace(-1, 1, int(layer["h"])), np.linspace(-1, 1, int(layer["w"])), indexing="ij")
    return a + np.einsum("ck,khw->chw", layer["weight"], np.stack([x, y]))


def _norm(layer: dict[str, Any], a: np.ndarray) -> np.ndarray:
    axes = (1, 2, 3)
    scaled = (a - a.mean(axes, keepdims=True)) / np.sqrt(a.var(axes, keepdims=True) + layer["eps"])
    return scaled * layer["scale"][:, None, None] + layer["shift"][:, None, None]


def _pad(layer: dict[str, Any], a: np.ndarray) -> np.ndarray:
    sides = ((int(layer["top"]), int(layer["bottom"])), (int(layer["left"]), int(layer["right"])))
    return np.pad(a, ((0, 0), (0, 0), *sides))


def _levels(layer: dict[str, Any], a: np.ndarray) -> np.ndarray:
    k = int(layer["levels"])
    p = np.exp(a.reshape(len(a), k, -1, *a.shape[2:]))
    return np.einsum("nkchw,k->nchw", p / p.sum(1, keepdims=True), np.linspace(0, 1, k))


def _continuous(layer: dict[str, Any], a: np.ndarray) -> np.ndarray:
    return np.where(
        np.abs(a) < 1e-3, 0.5 + a / 12, 1 / (1 - np.exp(-np.where(a == 0, 1, a))) - 1 / np.where(a == 0, 1, a)
    )


def _gelu(layer: dict[str, Any], a: np.ndarray) -> np.ndarray:
    from scipy.special import erf

    return (
        0.5 * a * (1 + (np.tanh(np.sqrt(2 / np.pi) * (a + 0.044715 * a**3)) if layer["tanh"] else erf(a / np.sqrt(2))))
    )


OPERATIONS = {
    "conv": _conv,
    "coordinates": _add_coordinates,
    "pad": _pad,
    "levels": _levels,
    "continuous_bernoulli": _continuous,
    "gelu": _gelu,
    "reshape": lambda layer, a: a.reshape(len(a), int(layer["c"]), int(layer["h"]), int(layer["w"])),
    "flatten": lambda layer, a: a.reshape(len(a), -1, 1, 1),
    "half": lambda layer, a: a[:, : a.shape[1] // 2],
    "affine": lambda layer, a: a * layer["scale"][:, None, None] + layer["shift"][:, None, None],
    "relu": lambda layer, a: np.maximum(a, 0),
    "leaky": lambda layer, a: np.where(a > 0, a, layer["slope"] * a),
    "tanh": lambda layer, a: np.tanh(a),
    "sigmoid": lambda layer, a: 1 / (1 + np.exp(-a)),
    "elu": lambda layer, a: np.where(a > 0, a, layer["alpha"] * np.expm1(np.minimum(a, 0))),
    "silu": lambda layer, a: a / (1 + np.exp(-a)),
    "softplus": lambda layer, a: np.logaddexp(0, layer["beta"] * a) / layer["beta"],
    "skip": lambda layer, a: a + decode_inner(layer["inner"], a),
    "nearest": lambda layer, a: a[:, :, np.arange(layer["h"]) * a.shape[2] // layer["h"]][
        :, :, :, np.arange(layer["w"]) * a.shape[3] // layer["w"]
    ],
    "norm": _norm,
}


def decode_inner(layers: list[dict[str, Any]], a: np.ndarray) -> np.ndarray:
    """Evaluate the layers inside a skip connection."""
    for layer in layers:
        a = OPERATIONS[layer["op"]](layer, a)
    return a
