"""One pass of a critic for two: the model's step reads log D/(1−D) of its codes, and the critic's own step reads it again.

Weights of the critic move only after both, so what the first worked out holds for the second, to the bit.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from unbraid.ground import ranks


class Through(torch.autograd.Function):
    """A ratio whose gradient goes through to the model's codes, while the critic's own graph is kept."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, made: tuple[Tensor, Tensor]) -> Tensor:
        """The ratio as a function of the codes alone; in a tuple autograd does not see what else it hangs on."""
        ctx.leaf, ctx.ratio = made
        return ctx.ratio.detach()

    @staticmethod
    def backward(ctx: Any, *given: Tensor) -> tuple[Tensor, None]:
        """What the ratio's gradient is worth in the codes."""
        (found,) = torch.autograd.grad(ctx.ratio, ctx.leaf, given[0], retain_graph=True)
        return found, None


def can_share() -> bool:
    """Not across ranks, which spread the rows of a pass, and not where nothing is differentiated."""
    return torch.is_grad_enabled() and ranks.linked().size == 1


def for_model(critic: Any, values: Tensor) -> Tensor:
    """`critic.log_ratio(values)` in the model's step; kept for the critic's where its weights can learn."""
    if not (can_share() and all(p.requires_grad for p in critic.parameters())):
        return critic.log_ratio(values)
    leaf = values.detach().requires_grad_()
    ratio = critic.log_ratio(leaf)
    critic.kept = (values, _state(critic), ratio)
    return Through.apply(values, (leaf, ratio))


def for_critic(critic: Any, values: Tensor) -> Tensor:
    """`critic.log_ratio(values)` in its own step: what was kept, if codes and weights are still those."""
    kept, critic.kept = critic.kept, None
    if kept is not None and kept[0] is values and kept[1] == _state(critic) and can_share():
        return kept[2]
    return critic.log_ratio(values.detach())


def _state(critic: Any) -> tuple[int, ...]:
    """A number for each weight that grows when it is written to; not by fused optimisers, which move it after both steps."""
    return tuple(p._version for p in critic.parameters())
