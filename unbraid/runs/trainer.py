"""One step of a row of prices: what changes during a run, and how it moves. In plain torch.

Chance is a function of seed and step (batches, noise, permutations), so a run needs no random state on disk.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import torch

from unbraid.data.batches import Batches
from unbraid.ground.errors import UnbraidError, expect
from unbraid.ground.schedule import Price, value
from unbraid.objectives.ledger import Ledger
from unbraid.priors.base import Prior
from unbraid.runs.row import Parts
from unbraid.runs.seeding import mix


class Broken(UnbraidError):
    """A loss that is no longer finite."""


@dataclass
class Trainer:
    """Everything that changes during a run, and what it reads from."""

    parts: Parts
    device: torch.device
    rows: dict[str, Price]
    batches: Batches
    others: list[Batches]
    optimiser: torch.optim.Optimizer
    critic_optimisers: dict[str, torch.optim.Optimizer] = field(default_factory=dict)

    @property
    def optimisers(self) -> dict[str, torch.optim.Optimizer]:
        """Every optimiser, by name."""
        return {"model": self.optimiser, **self.critic_optimisers}

    @property
    def logged(self) -> tuple[str, ...]:
        """Terms that the ledger shows without a price: the KL, where it is finite."""
        return () if "kl" in self.rows or self.parts.model.prior.bounded else ("kl",)

    def step(self, number: int, also: tuple[str, ...] = ()) -> Ledger:
        """See `step`."""
        return step(self, number, also)


def prepare(parts: Parts) -> Trainer:
    """Move the parts to the device and make their optimisers."""
    recipe, budget = parts.recipe, parts.recipe.budget
    device = choose_device(budget.device)
    parts.modules.to(device)
    if device.type == "cpu":
        # convolutions run faster; docs/benchmarks.md has the numbers
        parts.model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    batches = Batches(parts.dataset.images, budget.batch, recipe.seed, device)
    trained = {name: c for name, c in parts.critics.items() if any(p.requires_grad for p in c.parameters())}
    steps = max((c.spec.steps for c in trained.values()), default=0)
    others = [Batches(parts.dataset.images, budget.batch, recipe.seed, device, stream=1 + i) for i in range(steps)]
    optimiser = _adam(_groups(parts.model, budget.lr), budget.lr, budget.betas, budget.amsgrad)
    critic_optimisers: dict[str, torch.optim.Optimizer] = {
        name: _adam(list(c.parameters()), c.spec.lr, c.spec.betas) for name, c in trained.items()
    }
    rows = parts.objective.rows(parts.tree, parts.model.prior)
    return Trainer(parts, device, rows, batches, others, optimiser, critic_optimisers)


def step(trainer: Trainer, number: int, also: tuple[str, ...] = ()) -> Ledger:
    """One step: draw a batch, charge the row, move the model; then let each critic learn from an independent batch."""
    parts = trainer.parts
    model, objective = parts.model, parts.objective
    seed_step(trainer.device, parts.recipe.seed, number)
    model.temperature = value(parts.temperature, number)
    for name in trainer.critic_optimisers:
        parts.critics[name].requires_grad_(False)  # the model's step reads critics, it does not move them
    draw = model.draw(trainer.batches(number), len(parts.dataset), objective.mixture(parts.critics))
    ledger = objective(draw, number, parts.critics, trainer.rows, also)
    forget(trainer.optimiser)
    ledger.loss.backward()
    if not math.isfinite(ledger.loss.item()):
        _broken(ledger, number)
    trainer.optimiser.step()
    others = _others(trainer, number)
    for name, optimiser in trainer.critic_optimisers.items():
        critic = parts.critics[name].requires_grad_(True)
        for turn in range(critic.spec.steps):
            loss = critic.loss(draw.values, others[turn] if critic.paired else draw.values)
            forget(optimiser)
            loss.backward()  # type: ignore[union-attr]
            optimiser.step()
    return ledger


def forget(optimiser: torch.optim.Optimizer) -> None:
    """Drop the gradients of the step before. `zero_grad` does the same and costs 0.2 ms, mostly for its profiler hook."""
    for group in optimiser.param_groups:
        for parameter in group["params"]:
            parameter.grad = None


def seed_step(device: torch.device, seed: int, number: int) -> None:
    """Make chance a function of seed and step. On the CPU only its own generator: asking after every backend costs 0.3 ms."""
    if device.type == "cpu":
        torch.default_generator.manual_seed(mix(seed, number))
    else:
        torch.manual_seed(mix(seed, number))


def _others(trainer: Trainer, number: int) -> list[torch.Tensor]:
    """Codes of independent batches for the critics, by the encoder as it is after the model's step. Kim & Mnih 2018, Alg. 2.

    Encoding them before the step was tried too; a few seeds did not show which is better (docs/demo.md).
    """
    paired = any(trainer.parts.critics[name].paired for name in trainer.critic_optimisers)
    with torch.no_grad():
        return [trainer.parts.model.draw(batches(number)).values for batches in trainer.others] if paired else []


def choose_device(name: str) -> torch.device:
    """'auto' takes an accelerator when there is one; a device that is not here is refused."""
    found = torch.accelerator.current_accelerator(check_available=True)
    if name == "auto":
        return torch.device("cpu") if found is None else found
    here = ["cpu"] if found is None else ["cpu", found.type]
    try:
        device = torch.device(name)
        usable = device.type in here
        torch.empty(0, device=device if usable else "cpu")
    except (AssertionError, RuntimeError, NotImplementedError):
        usable = False
    expect(usable, f"device {name!r} cannot be used here", allowed=["auto", *here])
    return device


def _adam(parameters: list, lr: float, betas: tuple[float, float], amsgrad: bool = False) -> torch.optim.Adam:
    return torch.optim.Adam(parameters, lr=lr, betas=betas, amsgrad=amsgrad, fused=True)


def _groups(model: torch.nn.Module, lr: float) -> list[dict[str, Any]]:
    """The model's parameters, those of a prior with a rate of its own (ISA-VAE's exponents, say) in groups of their own."""
    groups, apart = [], set()
    for prior in model.modules():
        if isinstance(prior, Prior) and prior.lr is not None and (own := list(prior.parameters())):
            groups.append({"params": own, "lr": prior.lr})
            apart |= {id(p) for p in own}
    return [{"params": [p for p in model.parameters() if id(p) not in apart], "lr": lr}, *groups]


def _broken(ledger: Ledger, number: int) -> None:
    bad = [key for key, n in ledger.nats.items() if not torch.isfinite(n)]
    raise Broken(f"the loss is no longer finite at step {number}: {', '.join(bad) or 'the sum of its terms'} broke.")
