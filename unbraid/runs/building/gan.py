"""A game in place of a row of prices: its parts, its trainer and one step, as `row` and `trainer` have them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import softplus

from unbraid import objectives
from unbraid.core.errors import choose, expect
from unbraid.data.batches import Batches
from unbraid.data.dataset import Dataset, Pixels
from unbraid.latent import Latent
from unbraid.model.infogan import GAN_NETS, InfoGan
from unbraid.objectives.gan import Game
from unbraid.objectives.ledger import Ledger
from unbraid.prices import value_at
from unbraid.runs.building.custom_parts import NO_CUSTOM_PARTS, CustomParts
from unbraid.runs.building.vae_parts import load_data
from unbraid.runs.fitting.seeding import default_float32, step_seed
from unbraid.runs.fitting.trainer import NonFiniteLossError, choose_device
from unbraid.runs.recipe import Recipe

LossAndTerms = tuple[Tensor, dict[str, Tensor]]  # a loss, and what to write in the ledger


@dataclass(frozen=True)
class GameParts:
    """What a recipe with a game means: the objects that train."""

    recipe: Recipe
    dataset: Dataset
    tree: Latent
    model: InfoGan
    objective: Game

    @property
    def modules(self) -> nn.ModuleDict:
        """The model, for its state."""
        return nn.ModuleDict({"model": self.model})


@dataclass
class GameTrainer:
    """Everything that changes during a run: the two players and their optimisers."""

    parts: GameParts
    device: torch.device
    batches: Batches
    generator_optimiser: torch.optim.Optimizer
    critic_optimiser: torch.optim.Optimizer
    logged_terms: tuple[str, ...] = ()
    device_moves: list[str] = field(default_factory=list)

    @property
    def optimisers(self) -> dict[str, torch.optim.Optimizer]:
        """Every optimiser, by name."""
        return {"model": self.generator_optimiser, "critic": self.critic_optimiser}

    def step(self, number: int, extra_terms: tuple[str, ...] = ()) -> Ledger:
        """See `step`."""
        return step(self, number)

    def extra_log_fields(self, number: int) -> dict[str, Any]:
        """See `Trainer.beside`: nothing."""
        return {}


def build_parts(
    recipe: Recipe, objective: Game, dataset: Dataset | None = None, custom: CustomParts = NO_CUSTOM_PARTS
) -> GameParts:
    """Build and check everything; weights are a function of the recipe's seed."""
    check_budget(recipe)
    dataset = load_data(recipe, dataset)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(step_seed(recipe.seed, -1))
        model = build_model(recipe, dataset.shape, recipe.tree, custom, objective)
    images = dataset.images
    if isinstance(images, Pixels) and images.array.dtype.kind == "f":
        low, high = float(images.array.min()), float(images.array.max())
        expect(
            low >= 0 and high <= 1,
            "an InfoGAN draws pixels in [0, 1]",
            found=f"values from {low:g} to {high:g}",
            do="Scale the images to that range.",
        )
    return GameParts(recipe, dataset, recipe.tree, model, objective)


def check_budget(recipe: Recipe) -> None:
    """A game is two players with plain Adams: what else a budget can ask for is refused."""
    fields = ("amsgrad", "optimiser", "weight_decay", "clip", "accumulate", "validate_every", "precision", "compile")
    unknown = [key for key in fields if getattr(recipe.budget, key) != type(recipe.budget).model_fields[key].default]
    unknown += ["a schedule of lr"] if isinstance(recipe.budget.lr, dict) else []
    expect(not unknown, "a game is trained by Adam at one rate", found=", ".join(unknown), do="Leave that out.")


@default_float32()
def build_model(
    recipe: Recipe,
    shape: tuple[int, int, int],
    tree: Latent | None = None,
    custom: CustomParts = NO_CUSTOM_PARTS,
    objective: Game | None = None,
) -> InfoGan:
    """The InfoGAN of a recipe, with fresh weights. `nets` is one of Kim & Mnih's Tables 4–6 or info_gan_small."""
    expect(
        custom.nets is None and custom.prior is None,
        "the nets and codes of a game cannot be given as objects",
        do="Name one of its nets: " + ", ".join(GAN_NETS) + ".",
    )
    expect(
        recipe.family == "diagonal",
        "Q(c|x) of a game is the diagonal family",
        found=repr(recipe.family),
        do="Leave posterior.family out.",
    )
    game = objectives.build(recipe.objective) if objective is None else objective
    game.check()
    name = recipe.nets.get("name", "")
    default = {28: "info_gan_table4", 64: "info_gan_table5"}.get(shape[1], "info_gan_small")
    net = choose(default if name == "conv" else name, GAN_NETS, "net of a game")
    return net(shape, recipe.tree if tree is None else tree, game.noise, game.penalty > 0).float()


def build_trainer(parts: GameParts) -> GameTrainer:
    """Move the model to the device; the critic's Adam has its own rate and moves trunk, D and Q."""
    budget, model = parts.recipe.budget, parts.model
    device = choose_device(budget.device)
    model.to(device)
    batches = Batches(parts.dataset.images, budget.batch, parts.recipe.seed, device)
    players = [*model.trunk.parameters(), *model.critic.parameters(), *model.encoder.parameters()]
    generator = torch.optim.Adam(
        list(model.generator.parameters()), lr=value_at(budget.rate, 0), betas=budget.betas, fused=True
    )
    critic = torch.optim.Adam(players, lr=parts.objective.critic_lr, betas=budget.betas, fused=True)
    return GameTrainer(parts, device, batches, generator, critic)


def step(trainer: GameTrainer, number: int) -> Ledger:
    """One step: the critic (with Q) plays `critic_steps` times on fresh batches, then the generator once."""
    parts, gan, model = trainer.parts, trainer.parts.objective, trainer.parts.model
    torch.manual_seed(step_seed(parts.recipe.seed, number))
    b = trainer.batches.batch_size
    nats: dict[str, Tensor] = {}
    for play in range(gan.critic_steps):
        real = trainer.batches(number * gan.critic_steps + play)
        codes, noise = model.sample_inputs(b)
        with torch.no_grad():
            fake = model.generate(codes, noise)
        loss, nats = critic_loss(model, gan, real, fake, codes)
        trainer.critic_optimiser.zero_grad(set_to_none=True)
        loss.backward()
        trainer.critic_optimiser.step()
    model.requires_grad_(False)
    model.generator.requires_grad_(True)
    codes, noise = model.sample_inputs(b)
    loss, told = generator_loss(model, gan, codes, noise)
    trainer.generator_optimiser.zero_grad(set_to_none=True)
    loss.backward()
    trainer.generator_optimiser.step()
    model.requires_grad_(True)
    nats |= told
    if not all(bool(t.isfinite()) for t in nats.values()):
        raise NonFiniteLossError(
            f"the game is no longer finite at step {number}: {', '.join(nats)}. Lower budget.lr or objective.critic_lr."
        )
    return Ledger({key: t.detach() for key, t in nats.items()}, dict(gan.prices), loss.detach())


def critic_loss(model: InfoGan, gan: Game, real: Tensor, fake: Tensor, codes: Tensor) -> LossAndTerms:
    """What trunk, D and Q minimise: −V − λ information; V holds the penalty subtracted, so here it is added."""
    hidden = model.trunk(fake)
    on_real, on_fake = model.critic_score(real), model.critic(hidden).squeeze(1)
    information = model.information_bound(model.posterior_from_hidden(hidden), codes).mean()
    if gan.penalty:
        distance = on_real.mean() - on_fake.mean()
        slope = gradient_penalty(model, real, fake)
        return gan.penalty * slope - distance - gan.lam * information, {"distance": distance, "penalty": slope}
    loss = softplus(-on_real).mean() + softplus(on_fake).mean()
    accuracy = torch.cat([on_real > 0, on_fake <= 0]).float().mean()
    return loss - gan.lam * information, {"critic": loss, "accuracy": accuracy}


def gradient_penalty(model: InfoGan, real: Tensor, fake: Tensor) -> Tensor:
    """E(‖∇D(x̂)‖ − 1)² at x̂ = π x + (1−π) G(z), one π ~ U[0, 1] an image. Gulrajani et al. 2017."""
    share = torch.rand(len(real), 1, 1, 1, device=real.device, dtype=real.dtype)
    between = torch.lerp(fake.detach(), real, share).requires_grad_(True)
    (gradient,) = torch.autograd.grad(model.critic_score(between).sum(), between, create_graph=True)
    return (gradient.flatten(1).norm(dim=1) - 1).square().mean()


def generator_loss(model: InfoGan, gan: Game, codes: Tensor, noise: Tensor) -> LossAndTerms:
    """What G minimises: −D(G(z)), or −log D(G(z)) which does not saturate, − λ information."""
    hidden = model.trunk(model.generate(codes, noise))
    score = model.critic(hidden).squeeze(1)
    information = model.information_bound(model.posterior_from_hidden(hidden), codes).mean()
    game = -score.mean() if gan.penalty else softplus(-score).mean()
    return game - gan.lam * information, {"generator": game, "information": information}
