"""The papers' nets, frozen by paper and table, so that a run that names one can be repeated."""

from __future__ import annotations

from collections.abc import Callable

from torch import nn

from unbraid.model.nets.branched import BranchedConv
from unbraid.model.nets.conv import Conv, dcgan
from unbraid.model.nets.layers import Pair
from unbraid.model.nets.mlp import Mlp

PRESETS: dict[str, Callable[..., Pair]] = {
    "small32": Conv((16, 32, 32), (32, 32, 16), 128),
    "factor_vae_table1": Conv((32, 32, 64, 64), (64, 64, 32, 32), 128),
    "factor_vae_table1_bare": Conv((32, 32, 64, 64), (64, 64, 32, 32), 128, bare=True),
    "factor_vae_table2": Conv((32, 32, 64, 64), (64, 64, 32, 32), 256),
    "factor_vae_table3": Conv((32, 32, 64, 64), (64, 64, 32, 32), 256),
    "factor_vae_table2_bare": Conv((32, 32, 64, 64), (64, 64, 32, 32), 256, bare=True),
    "factor_vae_table3_bare": Conv((32, 32, 64, 64), (64, 64, 32, 32), 256, bare=True),
    "hfvae_table3": Mlp((400, 400), (200, 400), split=True),
    "hfvae_table4": Mlp((1200, 1200, 800), (400, 1200, 1200), down_act=nn.Tanh, split=True),
    "hfvae_table5": Conv((32, 32, 64, 64), (64, 64, 32, 32), 512, norm="batch", split=True, inner_act=nn.Tanh),
    "hfvae_table3_printed": Mlp((400,), (200, 400), style=200),
    "hfvae_table4_printed": Mlp((1200, 1200), (400, 1200, 1200), down_act=nn.Tanh, style=400),
    "hfvae_table5_printed": BranchedConv((32, 32, 64, 64), (64, 64, 32, 32), 256, norm="batch", inner_act=nn.Tanh),
    "hfvae_table3_code_to_style": Mlp((400,), (200, 400), style=200, code_to_style=True),
    "hfvae_table4_code_to_style": Mlp((1200, 1200), (400, 1200, 1200), down_act=nn.Tanh, style=400, code_to_style=True),
    "decomposition_table1a": Conv((32, 32, 64, 64), (64, 64, 64, 32), 128),
    "decomposition_table1a_bare": Conv((32, 32, 64, 64), (64, 64, 64, 32), 128, bare=True),
    "decomposition_table1b": Mlp((100,), (100,)),
    "decomposition_table1c": dcgan,
    "isa_vae_a4": Mlp((1200, 1200), (1200, 1200, 1200), down_act=nn.Tanh),
}
