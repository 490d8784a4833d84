"""A decoder as a list of plain layers, which a page without torch can evaluate.

A layer is a name, some numbers and some arrays. Vectors are 1×1 images, so a fully connected layer is a 1×1 convolution.
Batch norm is folded into the previous layer.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn

from unbraid.core.errors import expect
from unbraid.model.likelihood import Bernoulli, Categorical, ContinuousBernoulli, Gaussian, Laplace
from unbraid.model.nets.broadcast import Broadcast
from unbraid.model.nets.dense import Dense
from unbraid.model.nets.residual import ResidualBlock
from unbraid.model.nets.upconv import Upconv

if TYPE_CHECKING:
    from unbraid.model.infogan import InfoGan
    from unbraid.model.vae import Vae


@dataclass(frozen=True)
class Layer:
    """One layer of a decoder.

    Args:
        op: name of the operation, as in decoder.js.
        settings: numbers of the operation.
        arrays: arrays of the operation; a "conv" has weights "ky kx out in" and a bias "out".
        inner: the layers inside a "skip".
    """

    op: str
    settings: dict[str, float] = field(default_factory=dict)
    arrays: dict[str, np.ndarray] = field(default_factory=dict)
    inner: tuple[Layer, ...] = ()


def decoder_layers(model: Vae | InfoGan, run_label: str = "this run") -> list[Layer]:
    """Convert the decoder and the mean of the likelihood to layers: codes in, mean images out.

    Args:
        model: the model of a run.
        run_label: the run, for errors.

    >>> from unbraid.model import NETS, LIKELIHOODS, Vae
    >>> from unbraid.latent import Latent
    >>> from unbraid.priors import build
    >>> tree = Latent.of(3)
    >>> nets = NETS["decomposition_table1b"](shape=(1, 4, 4), tree=tree, params=6, outputs=1)
    >>> model = Vae(tree, *nets, build({"name": "gaussian"}, tree), LIKELIHOODS["bernoulli"]())
    >>> [layer.op for layer in decoder_layers(model)]
    ['conv', 'relu', 'conv', 'reshape', 'sigmoid']
    """
    net, constants, likelihood = model.decoding_parts
    first, *rest = _fold_batch_norms(net, run_label)
    if constants is not None:  # constant inputs become a bias
        weight, d = first.arrays["weight"], model.tree.width
        bias = first.arrays["bias"] + weight[0, 0, :, d:] @ _to_numpy(constants)
        first = replace(first, arrays={"weight": weight[..., :d], "bias": bias})
    return [first, *rest, *([] if likelihood is None else _likelihood_mean(likelihood, run_label))]


def _fold_batch_norms(module: nn.Module, what: str) -> list[Layer]:
    """The layers of a module, with batch norms folded into the layers before them."""
    layers: list[Layer] = []
    for layer in _read_module(module, what):
        if layer.op == "affine" and layers and layers[-1].op == "conv":
            scale, shift = layer.arrays["scale"], layer.arrays["shift"]
            before = layers[-1].arrays
            arrays = {"weight": before["weight"] * scale[:, None], "bias": before["bias"] * scale + shift}
            layers[-1] = replace(layers[-1], arrays=arrays)
        else:
            layers.append(layer)
    return layers


def _read_module(module: nn.Module, what: str) -> list[Layer]:
    """The layers of a module, by its exact class; an error for other classes."""
    expect(
        type(module) in LAYER_READERS,
        f"{what} decodes with {type(module).__name__}, which the decoder of the page does not support",
        allowed=sorted(kind.__name__ for kind in LAYER_READERS),
        do="Use one of the named nets.",
    )
    return LAYER_READERS[type(module)](module, what)


def _sequence(module: nn.Module, what: str) -> list[Layer]:
    return [layer for part in module.children() for layer in _read_module(part, what)]


def _to_numpy(values: Any) -> np.ndarray:
    return values.detach().cpu().double().numpy()


def _linear(module: Any, what: str) -> list[Layer]:
    weight = _to_numpy(module.weight)
    bias = np.zeros(len(weight)) if module.bias is None else _to_numpy(module.bias)
    return [Layer("conv", {"stride": 1, "pad": 0, "up": 0}, {"weight": weight[None, None], "bias": bias})]


def _conv(module: Any, what: str) -> list[Layer]:
    up = isinstance(module, nn.ConvTranspose2d)
    square = len(set(module.stride)) == len(set(module.padding)) == 1
    expect(
        square and module.groups == 1 and set(module.dilation) == {1} and module.padding_mode == "zeros",
        f"{what} decodes with a {type(module).__name__} that the decoder of the page does not support",
        found=f"stride {module.stride}, padding {module.padding}, groups {module.groups}, dilation {module.dilation}",
        allowed="one stride and padding for both directions, no groups, no dilation",
    )
    weight = _to_numpy(module.weight).transpose((2, 3, 1, 0) if up else (2, 3, 0, 1))
    bias = np.zeros(weight.shape[2]) if module.bias is None else _to_numpy(module.bias)
    settings = {"stride": module.stride[0], "pad": module.padding[0], "up": int(up)}
    settings |= dict(zip(("output_pad_y", "output_pad_x"), module.output_padding, strict=True)) if up else {}
    return [Layer("conv", settings, {"weight": weight, "bias": bias})]


def _batch_norm(module: Any, what: str) -> list[Layer]:
    """Batch norm at evaluation: (x − mean)/√(var + ε) · weight + bias."""
    expect(module.running_var is not None, f"{what} decodes with batch norm without running statistics")
    scale = 1 / np.sqrt(_to_numpy(module.running_var) + module.eps)
    scale = scale if module.weight is None else scale * _to_numpy(module.weight)
    shift = -_to_numpy(module.running_mean) * scale
    shift = shift if module.bias is None else shift + _to_numpy(module.bias)
    return [Layer("affine", {}, {"scale": scale, "shift": shift})]


def _layer_norm(module: Any, what: str) -> list[Layer]:
    """(x − mean)/√(var + ε) over all channels and pixels of one example, then a weight and a bias per channel."""
    expect(getattr(module, "num_groups", 1) == 1, f"{what} decodes with group norm", allowed="one group")
    channels = int(getattr(module, "num_channels", 0)) or int(np.prod(module.normalized_shape))
    scale = np.ones(channels) if module.weight is None else _to_numpy(module.weight)
    shift = np.zeros(channels) if module.bias is None else _to_numpy(module.bias)
    return [Layer("norm", {"eps": module.eps}, {"scale": scale, "shift": shift})]


def _upsample(module: Any, what: str) -> list[Layer]:
    size = module.size if isinstance(module.size, tuple) else (module.size, module.size)
    fixed = module.mode == "nearest" and None not in size
    expect(fixed, f"{what} resizes by {module.mode}", allowed="nearest, to a size")
    return [Layer("nearest", dict(zip("hw", size, strict=True)))]


def _broadcast(module: Broadcast, what: str) -> list[Layer]:
    """The layers of the code, then the addition of pixel coordinates, then the layers of the pixels."""
    weight = {"weight": _to_numpy(module.place.weight)}
    coordinates = Layer("coordinates", {"h": module.height, "w": module.width}, weight)
    before = _sequence(module.code, what) + _linear(module.first, what)
    return [*before, coordinates, *_sequence(nn.Sequential(module.act), what), *_sequence(module.rest, what)]


def _unflatten(module: Any, what: str) -> list[Layer]:
    sizes = tuple(int(s) for s in module.unflattened_size)
    expect(len(sizes) == 3 and module.dim == 1, f"{what} unflattens to {sizes}", allowed="channels, height, width")
    return [Layer("reshape", dict(zip("chw", sizes, strict=True)))]


def _pad(module: Any, what: str) -> list[Layer]:
    return [Layer("pad", dict(zip(("left", "right", "top", "bottom"), module.padding, strict=True)))]


def _activation(op: str, **names: str) -> Callable[[Any, str], list[Layer]]:
    """Return the reader of an activation; `names` maps settings of the layer to attributes of the module."""
    return lambda module, what: [Layer(op, {key: float(getattr(module, name)) for key, name in names.items()})]


def _likelihood_mean(likelihood: Any, what: str) -> list[Layer]:
    """The mean of a likelihood, given the decoder's output."""
    if type(likelihood) is Gaussian:
        return [Layer("half")] if likelihood.pixel else []
    if type(likelihood) is Categorical:
        return [Layer("levels", {"levels": likelihood.maps})]
    plain = {Bernoulli: [Layer("sigmoid")], Laplace: [], ContinuousBernoulli: [Layer("continuous_bernoulli")]}
    why = f"{what} has likelihood {type(likelihood).__name__}, whose mean the decoder of the page does not support"
    expect(type(likelihood) in plain, why)
    return plain[type(likelihood)]


LAYER_READERS: dict[type[nn.Module], Callable[[Any, str], list[Layer]]] = {
    nn.Sequential: _sequence,
    nn.Linear: _linear,
    Dense: _linear,
    nn.Conv2d: _conv,
    nn.ConvTranspose2d: _conv,
    Upconv: _conv,
    nn.BatchNorm1d: _batch_norm,
    nn.BatchNorm2d: _batch_norm,
    nn.GroupNorm: _layer_norm,
    nn.LayerNorm: _layer_norm,
    nn.Upsample: _upsample,
    ResidualBlock: lambda module, what: [Layer("skip", inner=tuple(_fold_batch_norms(module.body, what)))],
    Broadcast: _broadcast,
    nn.Unflatten: _unflatten,
    nn.Flatten: lambda module, what: [Layer("flatten")],
    nn.ZeroPad2d: _pad,
    nn.ReLU: _activation("relu"),
    nn.LeakyReLU: _activation("leaky", slope="negative_slope"),
    nn.Tanh: _activation("tanh"),
    nn.Sigmoid: _activation("sigmoid"),
    nn.ELU: _activation("elu", alpha="alpha"),
    nn.SiLU: _activation("silu"),
    nn.Softplus: _activation("softplus", beta="beta"),
    nn.GELU: lambda module, what: [Layer("gelu", {"tanh": float(module.approximate == "tanh")})],
    nn.Identity: lambda module, what: [],
    nn.Dropout: lambda module, what: [],
}


@torch.no_grad()
def pack_half_precision(layers: list[Layer]) -> tuple[list[dict[str, Any]], bytes]:
    """Convert layers to JSON, and their arrays to one block of little-endian half-precision numbers.

    Each array is scaled by a power of two so that its largest number lies in [1, 2): half precision is exact to eleven bits
    only from 6e-5 to 65504.

    Args:
        layers: the layers.
    """
    chunks: list[bytes] = []
    return _pack_layers(layers, chunks), b"".join(chunks)


def _pack_layers(layers: list[Layer] | tuple[Layer, ...], chunks: list[bytes]) -> list[dict[str, Any]]:
    plain = []
    for layer in layers:
        entry: dict[str, Any] = {"op": layer.op, **layer.settings}
        for name, array in layer.arrays.items():
            expect(np.isfinite(array).all(), f"the {layer.op} layer of the decoder has NaN or infinite weights")
            most = float(np.abs(array).max()) if array.size else 0.0
            power = int(np.floor(np.log2(most))) if most > 0 else 0
            half = (array * 2.0**-power).astype("<f2")
            entry[name] = {"at": sum(len(p) for p in chunks) // 2, "shape": list(array.shape), "power": power}
            chunks.append(half.tobytes())
        if layer.inner:
            entry["inner"] = _pack_layers(layer.inner, chunks)
        plain.append(entry)
    return plain
