"""One forward pass of a critic that serves two steps: the model's, which reads log D/(1−D) of its codes, and the critic's own.

The weights of the critic change only after both steps, so the result of the first pass is valid in the second. The gradients
are written by hand: a row has one ratio, so its gradient in any layer is a number times the same vector, and the gradient of a
weight over both classes is one product. Autograd would run two backward passes and add two products of half the rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import leaky_relu_

from unbraid.core import distributed
from unbraid.model.matrix_products import input_gradient, linear_output, weight_gradient


@dataclass(frozen=True)
class CriticPass:
    """The forward pass of a critic: the input of each layer, and the ratio."""

    weights: list[Tensor]
    inputs: list[Tensor]
    ratio: Tensor
    slope: float

    @cached_property
    def gradients(self) -> list[Tensor]:
        """The gradients of the ratio in the input of the first layer and in the output of each layer."""
        given = self.ratio.new_tensor([[1.0, -1.0]]).expand(len(self.ratio), 2)
        found = [given]
        for weight, read in zip(self.weights[:0:-1], self.inputs[:0:-1], strict=True):
            given = torch.ops.aten.leaky_relu_backward(input_gradient(given, weight), read, self.slope, True)
            found.append(given)
        return [input_gradient(given, self.weights[0]), *reversed(found)]


@torch.no_grad()
def forward_pass(net: nn.Sequential, values: Tensor) -> CriticPass:
    """Pass codes through fully connected layers with leaky ReLU between them, to two logits.

    Args:
        net: the layers.
        values: codes "b d".
    """
    layers: Any = [part for part in net if isinstance(part, nn.Linear)]
    slope = next(part.negative_slope for part in net if isinstance(part, nn.LeakyReLU))
    x, read = values.detach(), []
    for i, layer in enumerate(layers):
        x = leaky_relu_(x, slope) if i else x
        read.append(x)
        x = linear_output(x, layer.weight, layer.bias)
    return CriticPass([layer.weight.detach() for layer in layers], read, x[:, 0] - x[:, 1], slope)


class RatioOfCodes(torch.autograd.Function):
    """A ratio as a function of the model's codes alone."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, made: tuple[CriticPass]) -> Tensor:
        """See `CriticPass.ratio`; in a tuple, which autograd does not look into."""
        ctx.made = made[0]
        return ctx.made.ratio.clone()

    @staticmethod
    def backward(ctx: Any, *given: Tensor) -> tuple[Tensor, None]:
        """The gradient in the codes."""
        return ctx.made.gradients[0] * given[0][:, None], None


class RatioOfWeights(torch.autograd.Function):
    """The ratios of both classes as functions of the critic's weights and biases, in the order of the layers."""

    @staticmethod
    def forward(ctx: Any, made: tuple[CriticPass, CriticPass], *parameters: Tensor) -> tuple[Tensor, Tensor]:
        """See `CriticPass.ratio`."""
        ctx.made = made
        return made[0].ratio.clone(), made[1].ratio.clone()

    @staticmethod
    def backward(ctx: Any, *given: Tensor) -> tuple[Tensor | None, ...]:
        """The gradients of the weights: one product per layer over the rows of both classes."""
        price, found = torch.cat(given)[:, None], []
        columns = (ctx.made[0].weights, *(m.inputs for m in ctx.made), *(m.gradients[1:] for m in ctx.made))
        for weight, *read, real, false in zip(*columns, strict=True):
            back = torch.cat([real, false]) * price
            found += [weight_gradient(back, torch.cat(read), weight), back.sum(0)]
        return None, *found


def can_share() -> bool:
    """True when a pass can be shared: in one process, while gradients are computed."""
    return torch.is_grad_enabled() and distributed.group_rank_info().size == 1


def model_log_ratio(critic: Any, values: Tensor) -> Tensor:
    """`critic.log_ratio(values)` in the step of the model; the pass is stored if the critic is trained afterwards.

    Args:
        critic: the critic.
        values: codes "b d".
    """
    if not (can_share() and all(p.requires_grad for p in critic.parameters())):
        return critic.log_ratio(values)
    made = forward_pass(critic.net, values)
    critic.cached_pass = (values, _state(critic), made)
    return RatioOfCodes.apply(values, (made,))


def critic_log_ratios(critic: Any, values: Tensor, negatives: Tensor) -> tuple[Tensor, Tensor]:
    """`critic.log_ratio` of both classes in the step of the critic; a stored pass is used if codes and weights are unchanged.

    Args:
        critic: the critic.
        values: codes "b d".
        negatives: codes of the other class.
    """
    kept, critic.cached_pass = critic.cached_pass, None
    if not can_share():
        return critic.log_ratio(values.detach()), critic.log_ratio(negatives.detach())
    same = kept is not None and kept[0] is values and kept[1] == _state(critic)
    made = (kept[2] if same else forward_pass(critic.net, values), forward_pass(critic.net, negatives))
    return RatioOfWeights.apply(made, *critic.net.parameters())


def _state(critic: Any) -> tuple[int, ...]:
    """The version counters of the weights; fused optimisers, which run after both steps, do not raise them."""
    return tuple(p._version for p in critic.parameters())
