"""One pass of a critic for two, both ways: the model's step reads log D/(1−D) of its codes, and the critic's own step again.

Weights of the critic move only after both, so what the first worked out holds for the second. On the way back too: a row has
one ratio, so what its gradient is worth in any layer is a number times the same vector, and each weight's gradient over both
classes is one product. By hand, because autograd would go back twice and add two products of half the rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import leaky_relu_, linear

from unbraid.core import distributed


@dataclass(frozen=True)
class CriticPass:
    """A critic's way through its layers: what each of them read, and the ratio at the end."""

    weights: list[Tensor]
    inputs: list[Tensor]
    ratio: Tensor
    slope: float

    @cached_property
    def gradients(self) -> list[Tensor]:
        """∂ratio/∂ of what was read by the first layer, and of what each layer gave."""
        given = self.ratio.new_tensor([[1.0, -1.0]]).expand(len(self.ratio), 2)
        found = [given]
        for weight, read in zip(self.weights[:0:-1], self.inputs[:0:-1], strict=True):
            given = torch.ops.aten.leaky_relu_backward(given @ weight, read, self.slope, True)
            found.append(given)
        return [given @ self.weights[0], *reversed(found)]


@torch.no_grad()
def passed(net: nn.Sequential, values: Tensor) -> CriticPass:
    """The pass of codes through fully connected layers with leaky ReLU between them, and two logits."""
    layers: Any = [part for part in net if isinstance(part, nn.Linear)]
    slope = next(part.negative_slope for part in net if isinstance(part, nn.LeakyReLU))
    x, read = values.detach(), []
    for i, layer in enumerate(layers):
        x = leaky_relu_(x, slope) if i else x
        read.append(x)
        x = linear(x, layer.weight, layer.bias)
    return CriticPass([layer.weight.detach() for layer in layers], read, x[:, 0] - x[:, 1], slope)


class RatioOfCodes(torch.autograd.Function):
    """A ratio as a function of the model's codes alone."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, made: tuple[CriticPass]) -> Tensor:
        """See `Pass.ratio`; in a tuple, which autograd does not look into."""
        ctx.made = made[0]
        return ctx.made.ratio.clone()

    @staticmethod
    def backward(ctx: Any, *given: Tensor) -> tuple[Tensor, None]:
        """What the ratio's gradient is worth in the codes."""
        return ctx.made.gradients[0] * given[0][:, None], None


class RatioOfWeights(torch.autograd.Function):
    """The ratios of both classes as functions of the critic's weights and biases, in the order of the layers."""

    @staticmethod
    def forward(ctx: Any, made: tuple[CriticPass, CriticPass], *parameters: Tensor) -> tuple[Tensor, Tensor]:
        """See `Pass.ratio`."""
        ctx.made = made
        return made[0].ratio.clone(), made[1].ratio.clone()

    @staticmethod
    def backward(ctx: Any, *given: Tensor) -> tuple[Tensor | None, ...]:
        """One product for each layer: Σ over the rows of both classes."""
        price, found = torch.cat(given)[:, None], []
        for *read, real, false in zip(*(m.inputs for m in ctx.made), *(m.gradients[1:] for m in ctx.made), strict=True):
            back = torch.cat([real, false]) * price
            found += [back.T @ torch.cat(read), back.sum(0)]
        return None, *found


def can_share() -> bool:
    """Not across ranks, which spread the rows of a pass, and not where nothing is differentiated."""
    return torch.is_grad_enabled() and distributed.group_rank_info().size == 1


def model_log_ratio(critic: Any, values: Tensor) -> Tensor:
    """`critic.log_ratio(values)` in the model's step; kept for the critic's where its weights can learn."""
    if not (can_share() and all(p.requires_grad for p in critic.parameters())):
        return critic.log_ratio(values)
    made = passed(critic.net, values)
    critic.cached_pass = (values, _state(critic), made)
    return RatioOfCodes.apply(values, (made,))


def critic_log_ratios(critic: Any, values: Tensor, negatives: Tensor) -> tuple[Tensor, Tensor]:
    """`critic.log_ratio` of both classes in its own step, that of the codes as kept if codes and weights are still those."""
    kept, critic.cached_pass = critic.cached_pass, None
    if not can_share():
        return critic.log_ratio(values.detach()), critic.log_ratio(negatives.detach())
    same = kept is not None and kept[0] is values and kept[1] == _state(critic)
    made = (kept[2] if same else passed(critic.net, values), passed(critic.net, negatives))
    return RatioOfWeights.apply(made, *critic.net.parameters())


def _state(critic: Any) -> tuple[int, ...]:
    """A number for each weight that grows when it is written to; not by fused optimisers, which move it after both steps."""
    return tuple(p._version for p in critic.parameters())
