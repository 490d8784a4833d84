"""The trainer of VAEs and one training step, in plain torch.

All randomness (batches, noise, permutations) is a function of seed and step, so a checkpoint holds no random state.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import torch

from unbraid.core import distributed
from unbraid.core.errors import UnbraidError, expect
from unbraid.data.batches import Batches, fetch_batch
from unbraid.data.dataset import Dataset
from unbraid.model.draw import Draw
from unbraid.objectives.ledger import Ledger
from unbraid.prices import Price, Schedule, value_at
from unbraid.runs.building.vae_parts import VaeParts
from unbraid.runs.fitting import precision
from unbraid.runs.fitting.optimisers import build_optimiser, parameters_of, zero_grad
from unbraid.runs.fitting.seeding import step_seed
from unbraid.runs.fitting.validation import validate
from unbraid.terms.critic_kernels import can_share


class NonFiniteLossError(UnbraidError):
    """The loss is NaN or infinite."""


@dataclass
class VaeTrainer:
    """A VAE on its device with the optimisers of model and critics; see `unbraid.runs.fitting.protocols.Trainer`."""

    parts: VaeParts
    device: torch.device
    prices: dict[str, Price]
    batches: Batches
    critic_batches: list[Batches]
    optimiser: torch.optim.Optimizer
    critic_optimisers: dict[str, torch.optim.Optimizer] = field(default_factory=dict)
    rate: Price = 0.0
    gradient_norm: float = 0.0  # of the last step, before clipping
    device_moves: list[str] = field(default_factory=list)
    precision: str = "float32"  # what budget.precision chose

    @property
    def optimisers(self) -> dict[str, torch.optim.Optimizer]:
        """The optimisers by name."""
        return {"model": self.optimiser, **self.critic_optimisers}

    @property
    def logged_terms(self) -> tuple[str, ...]:
        """Terms without a price that the ledger records: the KL, if it is finite."""
        return () if "kl" in self.prices or self.parts.model.prior.bounded else ("kl",)

    def step(self, number: int, extra_terms: tuple[str, ...] = ()) -> Ledger:
        """See `step`."""
        return step(self, number, extra_terms)

    def extra_log_fields(self) -> dict[str, Any]:
        """See `Trainer.extra_log_fields`: a scheduled learning rate, the gradient norm, the critics' accuracy."""
        accuracies = {f"accuracy:{name}": self.parts.critics[name].last_accuracy() for name in self.critic_optimisers}
        nats = {key: share for key, share in accuracies.items() if share is not None}
        rate = {"lr": self.optimiser.param_groups[0]["lr"]} if isinstance(self.rate, Schedule) else {}
        norm = {"gradient": round(self.gradient_norm, 6)} if self.parts.recipe.budget.clip else {}
        return {**({"nats": nats} if nats else {}), **rate, **norm}

    def validate(self, dataset: Dataset, number: int) -> dict[str, Any]:
        """See `validation.validate`."""
        return validate(self, dataset, number)


def build_trainer(parts: VaeParts, stored_precision: str = "") -> VaeTrainer:
    """Move the parts to their device and make their optimisers.

    Args:
        parts: the parts of a VAE.
        stored_precision: what "auto" chose when the run began.
    """
    recipe, budget = parts.recipe, parts.recipe.budget
    device = choose_device(budget.device)
    parts.modules.to(device)
    if device.type == "cpu":
        # convolutions are faster in this layout; docs/benchmarks.md has the numbers
        parts.model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    batches = Batches(parts.dataset.images, budget.batch, recipe.seed, device)
    chosen = stored_precision or budget.precision
    if chosen == "auto":
        chosen = precision.choose_precision(parts.model, lambda: _rank_images(batches, 0), device)
    precision.configure_precision(parts.model, chosen, budget.compile, device)
    joint = [c for c in parts.critics.values() if c.trained_by_model]
    trained = {
        name: c for name, c in parts.critics.items() if c not in joint and any(p.requires_grad for p in c.parameters())
    }
    steps = max((c.spec.steps for c in trained.values()), default=0)
    others = [Batches(parts.dataset.images, budget.batch, recipe.seed, device, stream=1 + i) for i in range(steps)]
    optimiser = build_optimiser(torch.nn.ModuleList([parts.model, *joint]) if joint else parts.model, budget)
    critic_optimisers: dict[str, torch.optim.Optimizer] = {
        name: torch.optim.Adam(c.parameters(), lr=c.spec.lr, betas=c.spec.betas, fused=True)
        for name, c in trained.items()
    }
    rows = parts.objective.expand_prices(parts.tree, parts.model.prior)
    return VaeTrainer(parts, device, rows, batches, others, optimiser, critic_optimisers, budget.rate, precision=chosen)


def step(trainer: VaeTrainer, number: int, extra_terms: tuple[str, ...] = ()) -> Ledger:
    """Do one step: draw a batch, evaluate the objective, update the model; then train each critic on an independent batch.

    Args:
        trainer: the trainer.
        number: the step, counted from 0.
        extra_terms: terms without a price to evaluate for the ledger.
    """
    parts = trainer.parts
    model, budget = parts.model, parts.recipe.budget
    seed_step(trainer.device, parts.recipe.seed, number)
    model.temperature = value_at(parts.temperature, number)
    for name in trainer.critic_optimisers:
        # the model's update must not change critics; those that reuse their forward pass ensure that themselves
        parts.critics[name].requires_grad_(parts.critics[name].reuses_forward_pass and can_share())
    if isinstance(trainer.rate, Schedule):  # priors with a rate of their own keep it
        trainer.optimiser.param_groups[0]["lr"] = trainer.rate.value_at(number)
    charged = [_backward(trainer, number, turn, extra_terms) for turn in range(budget.accumulate)]
    draw, ledger = charged[-1]
    moved = parameters_of(trainer.optimiser)
    distributed.average_gradients(moved)
    if budget.clip:
        trainer.gradient_norm = float(torch.nn.utils.clip_grad_norm_(moved, budget.clip))
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


def _backward(trainer: VaeTrainer, number: int, turn: int, extra_terms: tuple[str, ...]) -> tuple[Draw, Ledger]:
    """Evaluate the objective on one of the batches of a step and add its share of the gradient."""
    parts, turns = trainer.parts, trainer.parts.recipe.budget.accumulate
    draw = draw_batch(trainer, number * turns + turn)
    ledger = parts.objective(draw, number, parts.critics, trainer.prices, extra_terms)
    if turn == 0:
        zero_grad(trainer.optimiser)
    (ledger.loss if turns == 1 else ledger.loss / turns).backward()
    if not math.isfinite(ledger.loss.item()):
        _raise_non_finite(ledger, number)
    return draw, ledger


def draw_batch(trainer: VaeTrainer, batch: int) -> Draw:
    """The draw of one batch of training; with supervision it carries partners, labelled rows or states.

    Args:
        trainer: the trainer.
        batch: the number of the batch, counted from 0.
    """
    parts = trainer.parts
    estimator = parts.objective.select_estimator(parts.critics)
    if parts.supervision is None:
        return parts.model.draw(_rank_images(trainer.batches, batch), len(parts.dataset), estimator)
    index = trainer.batches.indices(batch)
    return parts.supervision.draw(parts.model, parts.dataset, batch, index, trainer.device, estimator)


def _rank_images(batches: Batches, step: int) -> torch.Tensor:
    """A batch; in a distributed run only the rows of this rank."""
    return fetch_batch(batches.images, distributed.local_rows(batches.indices(step)), batches.device)


def _mean_ledger(ledgers: list[Ledger]) -> Ledger:
    """The mean of the ledgers of a step over several batches."""
    nats = {key: torch.stack([each.nats[key] for each in ledgers]).mean() for key in ledgers[0].nats}
    loss = torch.stack([each.loss.detach() for each in ledgers]).mean()
    return Ledger(nats, ledgers[0].prices, loss, ledgers[0].methods)


def seed_step(device: torch.device, seed: int, number: int) -> None:
    """Seed torch for one step. On the CPU only its own generator is seeded: torch.manual_seed costs 0.3 ms.

    Args:
        device: the device of the run.
        seed: the seed of the run.
        number: the step, counted from 0.
    """
    if device.type == "cpu":
        torch.default_generator.manual_seed(step_seed(seed, number))
    else:
        torch.manual_seed(step_seed(seed, number))


def _critic_codes(trainer: VaeTrainer, number: int) -> list[torch.Tensor]:
    """Codes of independent batches for the critics, by the encoder after the model's update. Kim & Mnih 2018, Alg. 2.

    Encoding them before the update was tried too; a few seeds did not show which is better (docs/demo.md).
    """
    if not any(trainer.parts.critics[name].paired for name in trainer.critic_optimisers):
        return []
    with torch.no_grad():
        return [trainer.parts.model.draw(_rank_images(each, number)).values for each in trainer.critic_batches]


def choose_device(name: str) -> torch.device:
    """Return a device by name, and refuse one that this machine does not have.

    Args:
        name: 'auto' for an accelerator if there is one, else a name such as 'cpu' or 'cuda:1'.
    """
    found = torch.accelerator.current_accelerator(check_available=True)
    if name == "auto":
        return torch.device("cpu") if found is None else distributed.rank_device(found)
    usable_types = ["cpu"] if found is None else ["cpu", found.type]
    try:
        device = torch.device(name)
        usable = device.type in usable_types
        torch.empty(0, device=device if usable else "cpu")
    except (AssertionError, RuntimeError, NotImplementedError):
        usable = False
    reason = "" if usable else _unusable_reason(name)
    expect(usable, f"device {name!r} cannot be used here{reason}", allowed=["auto", *usable_types])
    return distributed.rank_device(device)


def _unusable_reason(name: str) -> str:
    """Why torch cannot use a device: the build of torch, the driver, or the number of devices."""
    kind = name.partition(":")[0]
    if kind == "mps":
        built = torch.backends.mps.is_built()
        return f", because {'macOS offers no GPU' if built else 'torch was built without MPS, which is for macOS'}"
    if kind != "cuda":
        return ", because torch knows no such device"
    if torch.version.cuda is None and torch.version.hip is None:
        return f", because torch {torch.__version__} is a CPU build; install a CUDA build (docs/install.md)"
    try:
        torch.cuda.init()
    except (AssertionError, RuntimeError) as error:  # such as: Found no NVIDIA driver on your system
        return f", because CUDA does not start ({str(error).splitlines()[0].rstrip('. ')})"
    count = torch.cuda.device_count()
    return f", because this machine has {f'the devices cuda:0 … cuda:{count - 1}' if count else 'no CUDA device'}"


def _raise_non_finite(ledger: Ledger, number: int) -> None:
    bad = [key for key, n in ledger.nats.items() if not torch.isfinite(n)]
    raise NonFiniteLossError(
        f"the loss is no longer finite at step {number}: {', '.join(bad) or 'the sum of its terms'} diverged."
    )
