"""OPTIMISERS: what moves the weights, by name; and the rate at each step. In plain torch."""

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
    """The optimiser that a budget names, over the model's parameters."""
    lr = value_at(budget.rate, 0)
    return OPTIMISERS[budget.optimiser](_parameter_groups(model, lr), budget, lr)


def build_critic_adam(parameters: list, lr: float, betas: tuple[float, float]) -> Adam:
    """The Adam of a critic."""
    return Adam(parameters, lr=lr, betas=betas, fused=True)


def set_learning_rate(optimiser: Optimizer, rate: Any, number: int) -> None:
    """The rate of a schedule at a step; priors with a rate of their own keep it."""
    if isinstance(rate, Schedule):
        optimiser.param_groups[0]["lr"] = rate.value_at(number)


def clip_gradient(optimiser: Optimizer, max_norm: float) -> float:
    """Scale the gradient down to a norm of `most`; returns the norm it had."""
    return float(torch.nn.utils.clip_grad_norm_(parameters_of(optimiser), max_norm))


def parameters_of(optimiser: Optimizer) -> list[torch.Tensor]:
    """The parameters that an optimiser moves."""
    return [p for group in optimiser.param_groups for p in group["params"]]


def zero_grad(optimiser: Optimizer) -> None:
    """Drop the gradients of the step before. `zero_grad` does the same and costs 0.2 ms, mostly for its profiler hook."""
    for group in optimiser.param_groups:
        for parameter in group["params"]:
            parameter.grad = None


def _parameter_groups(model: torch.nn.Module, lr: float) -> list[dict[str, Any]]:
    """The model's parameters, those of a prior with a rate of its own (ISA-VAE's exponents, say) in groups of their own."""
    groups, apart = [], set()
    for prior in model.modules():
        if isinstance(prior, Prior) and prior.lr is not None and (own := list(prior.parameters())):
            groups.append({"params": own, "lr": prior.lr, "weight_decay": 0.0})
            apart |= {id(p) for p in own}
    return [{"params": [p for p in model.parameters() if id(p) not in apart], "lr": lr}, *groups]
