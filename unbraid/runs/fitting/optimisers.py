"""OPTIMISERS by name, learning rate schedules and gradient clipping, in plain torch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.optim import SGD, Adam, AdamW, Optimizer, RAdam

from unbraid.prices import Schedule, value_at
from unbraid.priors.base import Prior
from unbraid.runs.recipe import Budget

OPTIMISERS: dict[str, Callable[[list, Budget, float], Optimizer]] = {
    "adam": lambda groups, b, lr: Adam(
        groups, lr=lr, betas=b.betas, amsgrad=b.amsgrad, weight_decay=b.weight_decay, fused=True
    ),
    "adamw": lambda groups, b, lr: AdamW(
        groups, lr=lr, betas=b.betas, amsgrad=b.amsgrad, weight_decay=b.weight_decay, fused=True
    ),
    "radam": lambda groups, b, lr: RAdam(groups, lr=lr, betas=b.betas, weight_decay=b.weight_decay),
    "sgd": lambda groups, b, lr: SGD(groups, lr=lr, momentum=b.betas[0], weight_decay=b.weight_decay, fused=True),
}


def build_optimiser(model: torch.nn.Module, budget: Budget) -> Optimizer:
    """Build the optimiser of a model.

    Args:
        model: the model.
        budget: the budget, which names the optimiser and its options.
    """
    lr = value_at(budget.rate, 0)
    return OPTIMISERS[budget.optimiser](_parameter_groups(model, lr), budget, lr)


def build_critic_adam(parameters: list, lr: float, betas: tuple[float, float]) -> Adam:
    """Build the Adam optimiser of a critic.

    Args:
        parameters: the parameters of the critic.
        lr: its learning rate.
        betas: Adam's β₁ and β₂.
    """
    return Adam(parameters, lr=lr, betas=betas, fused=True)


def set_learning_rate(optimiser: Optimizer, rate: Any, number: int) -> None:
    """Set a scheduled learning rate for a step; priors with their own rate keep it.

    Args:
        optimiser: the optimiser of the model.
        rate: a number or a schedule.
        number: the step, counted from 0.
    """
    if isinstance(rate, Schedule):
        optimiser.param_groups[0]["lr"] = rate.value_at(number)


def clip_gradient(optimiser: Optimizer, max_norm: float) -> float:
    """Scale the gradient down to a norm of at most `max_norm` and return its norm before.

    Args:
        optimiser: the optimiser whose parameters have the gradient.
        max_norm: the largest norm.
    """
    return float(torch.nn.utils.clip_grad_norm_(parameters_of(optimiser), max_norm))


def parameters_of(optimiser: Optimizer) -> list[torch.Tensor]:
    """Return the parameters of an optimiser.

    Args:
        optimiser: the optimiser.
    """
    return [p for group in optimiser.param_groups for p in group["params"]]


def zero_grad(optimiser: Optimizer) -> None:
    """Set gradients to None; faster than `Optimizer.zero_grad`, which enters a profiler hook (0.2 ms).

    Args:
        optimiser: the optimiser.
    """
    for group in optimiser.param_groups:
        for parameter in group["params"]:
            parameter.grad = None


def _parameter_groups(model: torch.nn.Module, lr: float) -> list[dict[str, Any]]:
    """Parameter groups of a model: one for each prior with its own rate (such as ISA-VAE's exponents), one for the rest."""
    groups, apart = [], set()
    for prior in model.modules():
        if isinstance(prior, Prior) and prior.lr is not None and (own := list(prior.parameters())):
            groups.append({"params": own, "lr": prior.lr, "weight_decay": 0.0})
            apart |= {id(p) for p in own}
    return [{"params": [p for p in model.parameters() if id(p) not in apart], "lr": lr}, *groups]
