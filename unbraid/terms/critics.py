"""Critics: terms with a memory. They train parameters of their own, or keep statistics."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn.functional import softplus

from unbraid.errors import expect
from unbraid.latent import Latent
from unbraid.model.draw import Draw
from unbraid.shapes import Float, Tensor


class Critic(nn.Module):
    """`forward(draw)` gives nats by key; `loss(values, other)` is what the critic itself minimises, or None."""

    @abstractmethod
    def forward(self, draw: Draw) -> dict[str, Tensor]:
        """The terms this critic estimates, for the model's step."""

    def loss(self, values: Float[Tensor, "b d"], other: Float[Tensor, "b d"]) -> Tensor | None:
        """The critic's own loss on detached codes, `other` from an independent batch; None if it has nothing to train."""
        return None


@dataclass(frozen=True)
class RatioSpec:
    """A density-ratio critic: width, depth (hidden layers) and its own Adam. Kim & Mnih 2018, App. A."""

    width: int = 1000
    depth: int = 6
    lr: float = 1e-4
    betas: tuple[float, float] = (0.5, 0.9)
    steps: int = 1

    def __post_init__(self) -> None:
        for name, low in (("width", 1), ("depth", 1), ("steps", 1)):
            number = getattr(self, name)
            expect(isinstance(number, int) and number >= low, f"critic {name} must be a whole number, {low} or more", found=repr(number))
        expect(isinstance(self.lr, int | float) and 0 < self.lr < 10, "critic lr must be a positive number", found=repr(self.lr))
        ok = len(self.betas) == 2 and all(isinstance(b, int | float) and 0 <= b < 1 for b in self.betas)
        expect(ok, "critic betas must be two numbers in [0, 1)", found=self.betas)

    @property
    def keys(self) -> tuple[str, ...]:
        """The terms the critic gives."""
        return ("tc_q@ratio",)

    def build(self, tree: Latent, prior: Any) -> Ratio:
        """The critic's net for one tree."""
        return Ratio(tree, self)


class Ratio(Critic):
    """log q(z)/Π_l q(z_l) by a classifier that tells codes from codes permuted leaf by leaf.

    TC ≈ E_q(z)[log D(z)/(1−D(z))] (Kim & Mnih 2018, Eq. 3). With 2 logits (a, b) as printed, log D/(1−D) = a − b.
    """

    def __init__(self, tree: Latent, spec: RatioSpec):
        super().__init__()
        self.tree, self.spec = tree, spec
        sizes = [tree.width] + [spec.width] * spec.depth
        layers: list[nn.Module] = []
        for a, b in zip(sizes[:-1], sizes[1:]):
            layers += [nn.Linear(a, b), nn.LeakyReLU(0.2)]
        self.net = nn.Sequential(*layers, nn.Linear(sizes[-1], 2))

    def log_ratio(self, values: Float[Tensor, "b d"]) -> Float[Tensor, "b"]:
        """log D/(1−D): how much likelier the code is a real one than a permuted one."""
        logits = self.net(values)
        return logits[:, 0] - logits[:, 1]

    def forward(self, draw: Draw) -> dict[str, Tensor]:
        """See `Critic.forward`."""
        return {"tc_q@ratio": self.log_ratio(draw.values)}

    def loss(self, values: Float[Tensor, "b d"], other: Float[Tensor, "b d"]) -> Tensor:
        """½ E[−log D(z)] + ½ E[−log(1−D(perm z'))], z' from an independent batch. Kim & Mnih 2018, Algorithm 2."""
        real = self.log_ratio(values.detach())
        permuted = self.log_ratio(permute_leaves(self.tree, other.detach()))
        return 0.5 * (softplus(-real).mean() + softplus(permuted).mean())

    @torch.no_grad()
    def accuracy(self, values: Float[Tensor, "b d"], other: Float[Tensor, "b d"]) -> float:
        """The share of codes told apart rightly; ½ is chance. Kim & Mnih 2018, Fig. 37."""
        real = self.log_ratio(values) > 0
        permuted = self.log_ratio(permute_leaves(self.tree, other)) <= 0
        return float(torch.cat([real, permuted]).double().mean())


def permute_leaves(tree: Latent, values: Float[Tensor, "b d"]) -> Float[Tensor, "b d"]:
    """Each leaf permuted over the batch on its own, all its columns together. Kim & Mnih 2018, Algorithm 1."""
    b = len(values)
    order = torch.rand(b, len(tree.leaves), device=values.device).argsort(0)
    if tree.width != len(tree.leaves):
        widths = torch.tensor([leaf.width for leaf in tree.leaves], device=values.device)
        order = order.repeat_interleave(widths, 1)
    return values.gather(0, order)
