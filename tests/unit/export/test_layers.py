"""The decoder as plain layers, compared with torch for every net and likelihood, in full and half precision."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from tests.exported_page import decode, random_codes, random_model, randomise_weights, unpack_layers
from unbraid.core.errors import UnbraidError
from unbraid.export.decoder_layers import Layer, decoder_layers, pack_half_precision
from unbraid.latent import Latent
from unbraid.model import NETS
from unbraid.model.infogan import GAN_NETS

HALF_PRECISION_ERROR = 5e-3  # of a pixel in 0 … 1, from weights of eleven bits through these nets


def full_precision_layers(layers) -> list[dict]:
    """Layers as in the page, but in full precision."""
    return [{"op": one.op, **one.settings, **one.arrays, "inner": full_precision_layers(one.inner)} for one in layers]


def assert_layers_agree(model, n: int = 4) -> None:
    """Full-precision layers agree with torch to rounding, packed ones to `HALF_PRECISION_ERROR`."""
    z = random_codes(model.tree, n)
    with torch.no_grad():
        expected = model.double().decode(torch.from_numpy(z)).numpy()
    layers = decoder_layers(model)
    found = decode(full_precision_layers(layers), z)
    assert found.shape == expected.shape
    assert np.abs(found - expected).max() < 1e-9
    assert np.ptp(expected, axis=0).max() > 0.05, "codes must matter, or nothing is compared"
    near = decode(unpack_layers(*pack_half_precision(layers)), z)
    assert np.abs(near - expected).max() < HALF_PRECISION_ERROR * max(1, np.abs(expected).max())


@pytest.mark.parametrize("name", sorted(NETS))
def test_every_net_decodes_as_in_torch(name):
    assert_layers_agree(random_model(name))


@pytest.mark.parametrize(
    ("name", "shape", "options"),
    [
        ("conv", (3, 25, 18), {"norm": "batch", "act": "elu"}),
        ("conv", (1, 24, 24), {"norm": "layer", "act": "leaky_relu"}),
        ("mlp", (3, 9, 7), {"norm": "layer", "act": "gelu", "width": [30, 20]}),
        ("mlp", (1, 8, 8), {"norm": "batch", "act": "softplus"}),
        ("residual", (3, 21, 30), {"norm": "batch", "blocks": 2}),
        ("residual", (1, 24, 24), {"norm": "none", "act": "tanh"}),
        ("broadcast", (3, 20, 31), {"pixel": [16, 24, 8], "act": "silu"}),
    ],
)
def test_nets_with_options_and_odd_sizes(name, shape, options):
    assert_layers_agree(random_model(name, shape=shape, nets=options))


@pytest.mark.parametrize("name", sorted(GAN_NETS))
def test_every_generator_decodes_as_in_torch(name):
    tree = Latent.of({"digit": "onehot(4)", "style": 2})
    size = 28 if name == "info_gan_table4" else 16
    model = GAN_NETS[name](shape=(1, size, size), tree=tree, noise=5, wasserstein=False)
    assert_layers_agree(randomise_weights(model).eval().requires_grad_(False))


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("gaussian", {}),
        ("gaussian", {"learned": "pixel"}),
        ("laplace", {}),
        ("continuous_bernoulli", {}),
        ("categorical", {"levels": 5}),
    ],
)
def test_the_mean_of_every_likelihood(name, options):
    assert_layers_agree(random_model("small32", name, **options))


def test_batch_norm_disappears_into_the_layer_before():
    ops = [layer.op for layer in decoder_layers(random_model("hfvae_table5"))]
    assert "affine" not in ops
    assert ops.count("conv") == 6


@pytest.mark.parametrize(
    "act",
    [
        nn.ReLU(),
        nn.LeakyReLU(0.3),
        nn.Tanh(),
        nn.Sigmoid(),
        nn.ELU(0.7),
        nn.SiLU(),
        nn.Softplus(2),
        nn.GELU(),
        nn.GELU("tanh"),
    ],
    ids=str,
)
def test_every_activation(act):
    model = random_model("mlp")
    model.decoder = nn.Sequential(act, *model.decoder)
    assert_layers_agree(model)


def test_a_net_of_another_kind_is_refused_by_name():
    class Swirl(nn.Module):
        pass

    model = random_model("mlp")
    model.decoder = nn.Sequential(*model.decoder, Swirl())
    with pytest.raises(UnbraidError, match="decodes with Swirl.*allowed: .*Linear"):
        decoder_layers(model, "runs/one")
    model.decoder = nn.Sequential(nn.Unflatten(1, (8, 1, 1)), nn.ConvTranspose2d(8, 8, 4, groups=2))
    with pytest.raises(UnbraidError, match="groups 2"):
        decoder_layers(model)


@pytest.mark.parametrize("size", [1e-30, 1e-5, 1.0, 1e20])
def test_halves_keep_eleven_bits_at_any_scale(size):
    weight = np.random.default_rng(0).normal(size=(1, 1, 7, 9)) * size
    plain, numbers = pack_half_precision([Layer("conv", {"stride": 1}, {"weight": weight, "bias": np.zeros(7)})])
    read = unpack_layers(plain, numbers)[0]
    assert np.abs(read["weight"] - weight).max() <= np.abs(weight).max() * 2**-11
    assert not read["bias"].any()


def test_weights_that_are_no_numbers_are_refused():
    with pytest.raises(UnbraidError, match="NaN"):
        pack_half_precision([Layer("affine", {}, {"scale": np.array([np.nan])})])
