"""The codes of an InfoGAN: uniform, and drawn hard."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import nn

from unbraid.core.shapes import Float, Tensor
from unbraid.priors.base import Prior

LOG_2 = math.log(2)


class HardCodes(Prior):
    """p(c): U[−1, 1], uniform classes, fair bits, drawn hard. Kim & Mnih 2018, App. G."""

    kinds = ("real", "onehot", "binary")

    def log_prob(self, z: Float[Tensor, "*s d"], temperature: float = 1.0) -> Float[Tensor, "*s v"]:
        """See `Prior.log_prob`: log ½ a real column, log 1/K a class, log ½ a bit, wherever z is."""
        leaves = torch.tensor([-self.leaf_entropy(leaf) for leaf in self.tree.leaves], dtype=z.dtype, device=z.device)
        return self.sum_to_nodes(leaves).expand(*z.shape[:-1], -1)

    @staticmethod
    def leaf_entropy(leaf: Any) -> float:
        """H(c_l) in nats.

        Args:
            leaf: the leaf.
        """
        return math.log(leaf.width) if leaf.kind == "onehot" else leaf.width * LOG_2

    def sample(self, n: int, temperature: float = 1.0) -> Float[Tensor, "n d"]:
        """See `Prior.sample`; hard one-hots are log 0 and log 1."""
        pieces = []
        for leaf in self.tree.leaves:
            if leaf.kind == "real":
                pieces.append(2 * torch.rand(n, leaf.width) - 1)
            elif leaf.kind == "onehot":
                pieces.append(nn.functional.one_hot(torch.randint(leaf.width, (n,)), leaf.width).float().log())
            else:
                pieces.append(torch.randint(2, (n, leaf.width)).float().logit())
        return torch.cat(pieces, -1)
