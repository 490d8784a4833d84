"""One step of a row of prices: what changes during a run, and how it moves. In plain torch.

Chance is a function of seed and step (batches, noise, permutations), so a run needs no random state on disk.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import torch

from unbraid.core import distributed
from unbraid.core.errors import UnbraidError, expect
from unbraid.data.batches import Batches, fetch_batch
from unbraid.model.draw import Draw
from unbraid.objectives.ledger import Ledger
from unbraid.prices import Price, Schedule, value_at
from unbraid.runs.building.vae_parts import VaeParts
from unbraid.runs.fitting import precision
from unbraid.runs.fitting.optimisers import (
    build_critic_adam,
    build_optimiser,
    clip_gradient,
    parameters_of,
    set_learning_rate,
    zero_grad,
)
from unbraid.runs.fitting.seeding import step_seed
from unbraid.terms.critic_kernels import can_share


class NonFiniteLossError(UnbraidError):
    """A loss that is no longer finite."""


@dataclass
class Trainer:
    """Everything that changes during a run, and what it reads from."""

    parts: VaeParts
    device: torch.device
    prices: dict[str, Price]
    batches: Batches
    critic_batches: list[Batches]
    optimiser: torch.optim.Optimizer
    critic_optimisers: dict[str, torch.optim.Optimizer] = field(default_factory=dict)
    rate: Price = 0.0
    gradient_norm: float = 0.0  # its norm before clipping, at the last step
    device_moves: list[str] = field(default_factory=list)  # from device to device, on the way

    @property
    def optimisers(self) -> dict[str, torch.optim.Optimizer]:
        """Every optimiser, by name."""
        return {"model": self.optimiser, **self.critic_optimisers}

    @property
    def logged_terms(self) -> tuple[str, ...]:
        """Terms that the ledger shows without a price: the KL, where it is finite."""
        return () if "kl" in self.prices or self.parts.model.prior.bounded else ("kl",)

    def step(self, number: int, extra_terms: tuple[str, ...] = ()) -> Ledger:
        """See `step`."""
        return step(self, number, extra_terms)

    def extra_log_fields(self, number: int) -> dict[str, Any]:
        """What a row of the ledger says beside the terms: a moving rate, a clipped gradient, the critics' accuracy."""
        right = {f"accuracy:{name}": self.parts.critics[name].last_accuracy() for name in self.critic_optimisers}
        nats = {key: share for key, share in right.items() if share is not None}
        moving = {"lr": self.optimiser.param_groups[0]["lr"]} if isinstance(self.rate, Schedule) else {}
        norm = {"gradient": round(self.gradient_norm, 6)} if self.parts.recipe.budget.clip else {}
        return {**({"nats": nats} if nats else {}), **moving, **norm}


def build_trainer(parts: VaeParts) -> Trainer:
    """Move the parts to the device and make their optimisers."""
    recipe, budget = parts.recipe, parts.recipe.budget
    device = choose_device(budget.device)
    parts.modules.to(device)
    if device.type == "cpu":
        # convolutions run faster; docs/benchmarks.md has the numbers
        parts.model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    precision.configure_precision(parts.model, budget, device)
    batches = Batches(parts.dataset.images, budget.batch, recipe.seed, device)
    trained = {name: c for name, c in parts.critics.items() if any(p.requires_grad for p in c.parameters())}
    steps = max((c.spec.steps for c in trained.values()), default=0)
    others = [Batches(parts.dataset.images, budget.batch, recipe.seed, device, stream=1 + i) for i in range(steps)]
    optimiser = build_optimiser(parts.model, budget)
    critic_optimisers: dict[str, torch.optim.Optimizer] = {
        name: build_critic_adam(list(c.parameters()), c.spec.lr, c.spec.betas) for name, c in trained.items()
    }
    rows = parts.objective.expand_prices(parts.tree, parts.model.prior)
    return Trainer(parts, device, rows, batches, others, optimiser, critic_optimisers, budget.rate)


def step(trainer: Trainer, number: int, extra_terms: tuple[str, ...] = ()) -> Ledger:
    """One step: draw a batch, charge the row, move the model; then let each critic learn from an independent batch."""
    parts = trainer.parts
    model, budget = parts.model, parts.recipe.budget
    seed_step(trainer.device, parts.recipe.seed, number)
    model.temperature = value_at(parts.temperature, number)
    for name in trainer.critic_optimisers:
        # the model's step reads critics, it does not move them; those that share their pass see to that themselves
        parts.critics[name].requires_grad_(parts.critics[name].reuses_forward_pass and can_share())
    set_learning_rate(trainer.optimiser, trainer.rate, number)
    charged = [_backward(trainer, number, turn, extra_terms) for turn in range(budget.accumulate)]
    draw, ledger = charged[-1]
    distributed.average_gradients(parameters_of(trainer.optimiser))
    if budget.clip:
        trainer.gradient_norm = clip_gradient(trainer.optimiser, budget.clip)
    trainer.optimiser.step()
    others = _critic_codes(trainer, number)
    for name, optimiser in trainer.critic_optimisers.items():
        critic = parts.critics[name].requires_grad_(True)
        for turn in range(critic.spec.steps):
            loss = critic.loss(draw.values, others[turn] if critic.paired else draw.values)
            zero_grad(optimiser)
            loss.backward()  # type: ignore[union-attr]
            distributed.average_gradients(parameters_of(optimiser))
            optimiser.step()
    return ledger if len(charged) == 1 else _mean_ledger([each for _, each in charged])


def _backward(trainer: Trainer, number: int, turn: int, extra_terms: tuple[str, ...]) -> tuple[Draw, Ledger]:
    """Charge the row for one batch, of which a step may have several, and add its share of the gradient."""
    parts, turns = trainer.parts, trainer.parts.recipe.budget.accumulate
    batch = _rank_images(trainer.batches, number * turns + turn)
    draw = parts.model.draw(batch, len(parts.dataset), parts.objective.select_estimator(parts.critics))
    ledger = parts.objective(draw, number, parts.critics, trainer.prices, extra_terms)
    if turn == 0:
        zero_grad(trainer.optimiser)
    (ledger.loss if turns == 1 else ledger.loss / turns).backward()
    if not math.isfinite(ledger.loss.item()):
        _raise_non_finite(ledger, number)
    return draw, ledger


def _rank_images(batches: Batches, step: int) -> torch.Tensor:
    """A batch; in a run over several ranks this rank's rows of it."""
    return fetch_batch(batches.images, distributed.local_rows(batches.indices(step)), batches.device)


def _mean_ledger(ledgers: list[Ledger]) -> Ledger:
    """The ledger of a step over several batches."""
    nats = {key: torch.stack([each.nats[key] for each in ledgers]).mean() for key in ledgers[0].nats}
    loss = torch.stack([each.loss.detach() for each in ledgers]).mean()
    return Ledger(nats, ledgers[0].prices, loss, ledgers[0].methods)


def seed_step(device: torch.device, seed: int, number: int) -> None:
    """Make chance a function of seed and step. On the CPU only its own generator: asking after every backend costs 0.3 ms."""
    if device.type == "cpu":
        torch.default_generator.manual_seed(step_seed(seed, number))
    else:
        torch.manual_seed(step_seed(seed, number))


def _critic_codes(trainer: Trainer, number: int) -> list[torch.Tensor]:
    """Codes of independent batches for the critics, by the encoder as it is after the model's step. Kim & Mnih 2018, Alg. 2.

    Encoding them before the step was tried too; a few seeds did not show which is better (docs/demo.md).
    """
    paired = any(trainer.parts.critics[name].paired for name in trainer.critic_optimisers)
    with torch.no_grad():
        return (
            [trainer.parts.model.draw(_rank_images(each, number)).values for each in trainer.critic_batches]
            if paired
            else []
        )


def choose_device(name: str) -> torch.device:
    """'auto' takes an accelerator when there is one; a device that is not here is refused."""
    found = torch.accelerator.current_accelerator(check_available=True)
    if name == "auto":
        return torch.device("cpu") if found is None else distributed.rank_device(found)
    here = ["cpu"] if found is None else ["cpu", found.type]
    try:
        device = torch.device(name)
        usable = device.type in here
        torch.empty(0, device=device if usable else "cpu")
    except (AssertionError, RuntimeError, NotImplementedError):
        usable = False
    expect(usable, f"device {name!r} cannot be used here", allowed=["auto", *here])
    return distributed.rank_device(device)


def _raise_non_finite(ledger: Ledger, number: int) -> None:
    bad = [key for key, n in ledger.nats.items() if not torch.isfinite(n)]
    raise NonFiniteLossError(
        f"the loss is no longer finite at step {number}: {', '.join(bad) or 'the sum of its terms'} broke."
    )
