"""What every entry of NETS promises: images of the size it was built for, gradients everywhere, options by name."""

from __future__ import annotations

import inspect

import pytest
import torch

from unbraid.core.errors import UnbraidError
from unbraid.latent import Latent
from unbraid.model import NETS, Diagonal
from unbraid.model.nets import PRESETS
from unbraid.runs.building.builders import build_model, build_parts
from unbraid.runs.recipe import Recipe

NON_PRESETS = [name for name in NETS if name not in PRESETS]
SIZES = [(1, 1), (2, 2), (5, 5), (7, 12), (24, 24), (28, 28), (32, 32), (33, 31), (64, 64)]
TREES = {"flat": 3, "mixed": {"c": "onehot(3)", "b": "binary(2)", "n": 2}}
ANY_SIZE = {"mlp", "broadcast", "residual"}


def supports_size(name: str, size: tuple[int, int]) -> bool:
    """Whether a net promises to take images of this size."""
    if name in ANY_SIZE or NETS[name].__class__.__name__ == "Mlp":
        return True
    if name == "conv":
        return min(size) >= 2
    if name == "decomposition_table1c":
        return size == (64, 64)
    factor = 2 ** len(NETS[name].up)  # type: ignore[attr-defined]
    return size[0] % factor == 0 and size[1] % factor == 0


CASES = [(name, size, channels) for name in NON_PRESETS for size in SIZES for channels in (1, 2, 3, 5)] + [
    (name, size, channels) for name in PRESETS for size, channels in (((28, 28), 3), ((32, 32), 1), ((64, 64), 3))
]


@pytest.mark.parametrize(("name", "size", "channels"), CASES, ids=lambda v: str(v).replace(", ", "x"))
def test_every_net_takes_every_size_and_channel_count_it_promises(name, size, channels):
    tree = Latent.of(TREES["mixed" if channels % 2 else "flat"])
    params, outputs, shape = Diagonal.param_count(tree), 2 * channels, (channels, *size)
    if not supports_size(name, size):
        with pytest.raises(UnbraidError, match="images|64×64"):
            NETS[name](shape, tree, params, outputs)
        return
    encoder, decoder = NETS[name](shape, tree, params, outputs)
    encoder.eval()
    decoder.eval()
    with torch.no_grad():
        assert encoder(torch.rand(2, *shape)).shape == (2, params)
        assert decoder(torch.rand(2, tree.width)).shape == (2, outputs, *size)


@pytest.mark.parametrize("name", NON_PRESETS)
def test_the_gradient_reaches_every_weight(name):
    tree = Latent.of(4)
    encoder, decoder = NETS[name]((1, 8, 8), tree, 8, 1)
    torch.manual_seed(0)
    for module in (encoder, decoder):
        for block in module.modules():
            if (
                block.__class__.__name__ == "ResidualBlock"
            ):  # its last convolution starts at 0, which hides those before it
                torch.nn.init.normal_(block.body[-1].weight)
    decoder(encoder(torch.rand(16, 1, 8, 8))[:, :4]).square().sum().backward()
    for part in (encoder, decoder):
        for key, weight in part.named_parameters():
            assert weight.grad is not None, key
            assert weight.grad.abs().sum() > 0, key


OPTIONS = {
    "mlp": {"width": 50, "depth": 3, "act": "elu", "norm": "layer"},
    "conv": {"channels": [8, 16], "hidden": 40, "act": "elu", "norm": "batch"},
    "broadcast": {"width": [40, 20], "hidden": 16, "pixel": [8], "act": "silu", "norm": "batch", "spread": 2.0},
    "residual": {"channels": [8, 12], "blocks": 2, "hidden": 20, "act": "gelu", "norm": "none"},
}


@pytest.mark.parametrize("name", NON_PRESETS)
def test_options_come_from_the_recipe_and_change_the_net(name):
    plain = Recipe(data="digits", nets=name)
    changed = Recipe(data="digits", nets={"name": name, **OPTIONS[name]})
    shape = (1, 16, 16)
    before, after = build_model(plain, shape), build_model(changed, shape)
    assert [p.shape for p in before.parameters()] != [p.shape for p in after.parameters()]
    named = {"relu": "ReLU", "elu": "ELU", "silu": "SiLU", "gelu": "GELU"}[OPTIONS[name]["act"]]
    assert named in {m.__class__.__name__ for m in after.modules()}
    assert "ReLU" not in {m.__class__.__name__ for m in after.modules()}
    assert Recipe.from_dict(__import__("tomllib").loads(changed.toml())) == changed


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"name": "mlp", "width": 0}, "nets.width is out of range"),
        ({"name": "mlp", "width": True}, "nets.width is a whole number or a list"),
        ({"name": "mlp", "width": [10, 20], "depth": 3}, "nets.depth must agree"),
        ({"name": "mlp", "width": [10] * 65}, "1 to 64 layers"),
        ({"name": "mlp", "width": 10**9}, "nets.width is out of range"),
        ({"name": "mlp", "widht": 10}, "Did you mean 'width'"),
        ({"name": "conv", "act": "rleu"}, "Did you mean 'relu'"),
        ({"name": "conv", "norm": "bach"}, "Did you mean 'batch'"),
        ({"name": "conv", "channels": "32"}, "nets.channels is a whole number or a list"),
        ({"name": "conv", "channels": [4] * 6}, "at least 64×64"),
        ({"name": "residual", "channels": [4] * 9}, "levels at most"),
        ({"name": "broadcast", "spread": -1}, "nets.spread is out of range"),
        ({"name": "broadcast", "channels": [8] * 7}, "halves the image 7 times.*Give fewer channels"),
        ({"name": "broadcast", "spread": float("nan")}, "numbers must be finite"),
        ({"name": "small32", "channels": [4]}, "takes no option 'channels'"),
    ],
)
def test_a_wrong_option_is_named_before_work_starts(options, said):
    with pytest.raises(UnbraidError, match=said):
        build_parts(Recipe(data="digits", nets=options))


def test_presets_take_no_options():
    for name, net in PRESETS.items():
        assert list(inspect.signature(net).parameters) == ["shape", "tree", "params", "outputs"], name


@pytest.mark.parametrize("size", [(16, 16), (17, 23)])
def test_convolutions_before_the_broadcast_nets_encoder(size):
    tree = Latent.of(3)
    encoder, decoder = NETS["broadcast"]((2, *size), tree, 6, 2, channels=[4, 8], width=[10], norm="batch")
    assert sum(isinstance(layer, torch.nn.Conv2d) for layer in encoder.modules()) == 2
    assert encoder(torch.rand(3, 2, *size)).shape == (3, 6)
    assert decoder(torch.rand(3, 3)).shape == (3, 2, *size)
