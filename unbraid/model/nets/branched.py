"""HFVAE's encoders as printed: the discrete code from the shared features, mean and deviation of the style each by a branch.

Esmaeili et al. 2018, Tables 3–5, read "FC. 400 ReLU, FC. 2×200 ReLU, FC. 10 (z_c), FC. 2×10 (z_n)": the logits of z_c are
linear in the first hidden layer, and mean and deviation of z_n each have a hidden layer of their own. `hfvae_table3` to
`hfvae_table5` split one hidden layer into halves instead and stay as they are for old runs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import nn

from unbraid.core.shapes import Float, Tensor
from unbraid.latent import Latent
from unbraid.model.nets.conv import Conv
from unbraid.model.nets.dense import Dense
from unbraid.model.nets.layers import ActivationFactory, Pair, Shape, relu


class BranchedHead(nn.Module):
    """Logits of discrete leaves, means, and log-scales from shared features.

    With `code_to_style` the probabilities of the discrete leaves are inputs of the style branches too. (The authors' notebooks
    feed the sampled code, which makes q(style|x) a mixture over codes; its node densities are then not those of a Gaussian, so
    that form is not offered.)
    """

    order: Tensor

    def __init__(self, features: int, tree: Latent, params: int, width: int, code_to_style: bool = False):
        super().__init__()
        self.tree, self.code_to_style = tree, code_to_style and not tree.all_real
        discrete = sorted(tree.columns_of_kind("onehot") + tree.columns_of_kind("binary"))
        real = tree.columns_of_kind("real")
        into = features + (len(discrete) if self.code_to_style else 0)
        self.discrete = Dense(features, len(discrete)) if discrete else None
        self.mean = nn.Sequential(Dense(into, width), relu(), Dense(width, len(real)))
        self.deviation = nn.Sequential(Dense(into, width), relu(), Dense(width, params - tree.width))
        columns = [*discrete, *real, *range(tree.width, params)]
        self.register_buffer("order", torch.tensor(columns).argsort(), persistent=False)
        self.columns = discrete

    def forward(self, features: Float[Tensor, "b f"]) -> Float[Tensor, "b p"]:
        """The parameters of the posterior, in the order of `Posterior.from_params`."""
        if self.discrete is None:
            return torch.cat([self.mean(features), self.deviation(features)], 1)[:, self.order]
        logits = self.discrete(features)
        into = torch.cat([features, self._probabilities(logits)], 1) if self.code_to_style else features
        return torch.cat([logits, self.mean(into), self.deviation(into)], 1)[:, self.order]

    def _probabilities(self, logits: Tensor) -> Tensor:
        """Class probabilities and probabilities of bits, leaf by leaf."""
        pieces, start = [], 0
        for leaf in self.tree.leaves:
            if leaf.kind != "real":
                part = logits[:, start : start + leaf.width]
                pieces.append(part.softmax(-1) if leaf.kind == "onehot" else part.sigmoid())
                start += leaf.width
        return torch.cat(pieces, 1)


@dataclass(frozen=True)
class BranchedConv:
    """The convolutional form: the code is linear in the flattened maps, which also feed the style branches."""

    up: tuple[int, ...]
    down: tuple[int, ...]
    style: int
    norm: str = "none"
    inner_act: ActivationFactory = relu

    def __call__(self, shape: Shape, tree: Latent, params: int, outputs: int) -> Pair:
        """Build encoder and decoder for one image shape."""
        conv = Conv(self.up, self.down, self.style, self.norm, inner_act=self.inner_act)
        whole, decoder = conv(shape, tree, params, outputs)
        assert isinstance(whole, nn.Sequential)
        maps = whole[: [*map(type, whole)].index(nn.Flatten) + 1]
        features = self.up[-1] * math.prod(conv.map_sizes(shape)[-1])
        return nn.Sequential(*maps, BranchedHead(features, tree, params, self.style)), decoder
