"""GANs: the parts of a recipe, the trainer and one training step. `vae_parts` and `fitting.trainer` do this for VAEs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import softplus

from unbraid import objectives
from unbraid.core import distributed
from unbraid.core.errors import UnbraidError, choose, expect
from unbraid.data.batches import Batches
from unbraid.data.dataset import Dataset
from unbraid.latent import Latent
from unbraid.model.infogan import GAN_NETS, InfoGan
from unbraid.objectives.gan import Game
from unbraid.objectives.ledger import Ledger
from unbraid.prices import value_at
from unbraid.runs.building.custom_parts import NO_CUSTOM_PARTS, CustomParts
from unbraid.runs.building.vae_parts import check_pixels, load_data
from unbraid.runs.fitting.seeding import default_float32, step_seed
from unbraid.runs.fitting.trainer import NonFiniteLossError, choose_device
from unbraid.runs.recipe import Recipe
from unbraid.terms.critics import Critic

LossAndTerms = tuple[Tensor, dict[str, Tensor]]  # a loss, and the terms that the ledger records


@dataclass(frozen=True)
class GameParts:
    """The parts of a recipe whose objective is a GAN; see `unbraid.runs.fitting.protocols.Parts`."""

    recipe: Recipe
    dataset: Dataset
    tree: Latent
    model: InfoGan
    objective: Game
    critics: dict[str, Critic] = field(default_factory=dict)  # none: the discriminator belongs to the model
    supervision: None = None

    @property
    def modules(self) -> nn.ModuleDict:
        """The model, for checkpoints."""
        return nn.ModuleDict({"model": self.model})


@dataclass
class GameTrainer:
    """A GAN on its device with the optimisers of generator and discriminator; see `protocols.Trainer`."""

    parts: GameParts
    device: torch.device
    batches: Batches
    generator_optimiser: torch.optim.Optimizer
    critic_optimiser: torch.optim.Optimizer
    logged_terms: tuple[str, ...] = ()
    device_moves: list[str] = field(default_factory=list)

    @property
    def optimisers(self) -> dict[str, torch.optim.Optimizer]:
        """The optimisers by name."""
        return {"model": self.generator_optimiser, "critic": self.critic_optimiser}

    def step(self, number: int, extra_terms: tuple[str, ...] = ()) -> Ledger:
        """See `step`."""
        return step(self, number)

    def extra_log_fields(self) -> dict[str, Any]:
        """See `Trainer.extra_log_fields`: none."""
        return {}

    def validate(self, dataset: Dataset, number: int) -> dict[str, Any]:
        """See `Trainer.validate`: `check_supported` refuses a budget that asks for it."""
        raise UnbraidError("a GAN has no validation loss. Set budget.validate_every = 0.")


def build_parts(
    recipe: Recipe, objective: Game, dataset: Dataset | None = None, custom: CustomParts = NO_CUSTOM_PARTS
) -> GameParts:
    """Build and check the parts; initial weights are a function of the recipe's seed.

    Args:
        recipe: a recipe whose objective is a GAN.
        objective: that objective.
        dataset: data that replace those of the recipe.
        custom: parts passed as objects; a GAN accepts only a data set.
    """
    check_supported(recipe, custom)
    dataset = load_data(recipe, dataset)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(step_seed(recipe.seed, -1))
        model = build_model(recipe, dataset.shape, custom, objective)
    check_pixels(dataset, *model.pixel_range, "an InfoGAN generates pixels", "Scale the images to that range.")
    return GameParts(recipe, dataset, recipe.tree, model, objective)


def check_supported(recipe: Recipe, custom: CustomParts = NO_CUSTOM_PARTS) -> None:
    """Refuse options that GAN training does not have.

    Args:
        recipe: a recipe whose objective is a GAN.
        custom: parts passed as objects.
    """
    name = getattr(custom.objective, "name", "")
    expect(
        custom.objective is None,
        "a GAN must be named in the recipe, not passed as an object",
        found=name,
        do=f"Add its function to OBJECTIVES and use objective = {{name = {name!r}}}.",
    )
    fields = ("amsgrad", "optimiser", "weight_decay", "clip", "accumulate", "validate_every", "precision", "compile")
    unknown = [key for key in fields if getattr(recipe.budget, key) != type(recipe.budget).model_fields[key].default]
    unknown += ["a schedule of lr"] if isinstance(recipe.budget.lr, dict) else []
    expect(
        not unknown,
        "a GAN is trained by Adam at a constant learning rate",
        found=", ".join(unknown),
        do="Remove these options from [budget].",
    )
    expect(
        distributed.torchrun_rank_info().size == 1,
        "a GAN cannot be trained over several ranks",
        do="Train it in one process (without torchrun).",
    )


@default_float32()
def build_model(
    recipe: Recipe, shape: tuple[int, int, int], custom: CustomParts = NO_CUSTOM_PARTS, objective: Game | None = None
) -> InfoGan:
    """Build the InfoGAN of a recipe with initial weights.

    Args:
        recipe: a recipe whose objective is a GAN; its nets are those of Kim & Mnih's Tables 4–6 or info_gan_small.
        shape: channels, height and width of the images.
        custom: parts passed as objects; nets and prior are refused.
        objective: the objective, by default that of the recipe.
    """
    expect(
        custom.nets is None and custom.prior is None,
        "the nets and the prior of a GAN cannot be passed as objects",
        do="Name one of its nets: " + ", ".join(GAN_NETS) + ".",
    )
    expect(
        recipe.family == "diagonal",
        "Q(c|x) of a GAN is of the diagonal family",
        found=repr(recipe.family),
        do="Remove posterior.family from the recipe.",
    )
    game = objectives.build(recipe.objective) if objective is None else objective
    game.check()
    name = recipe.nets.get("name", "")
    default = {28: "info_gan_table4", 64: "info_gan_table5"}.get(shape[1], "info_gan_small")
    net = choose(default if name == "conv" else name, GAN_NETS, "net of a GAN")
    return net(shape, recipe.tree, game.noise, game.penalty > 0).float()


def build_trainer(parts: GameParts) -> GameTrainer:
    """Move the model to its device and make its optimisers; Adam of the critic updates trunk, D and Q at its own rate.

    Args:
        parts: the parts of a GAN.
    """
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
    """Do one step: `critic_steps` updates of critic and Q on new batches, then one update of the generator.

    Args:
        trainer: the GAN's trainer.
        number: the step, counted from 0.
    """
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
    loss, generator_terms = generator_loss(model, gan, codes, noise)
    trainer.generator_optimiser.zero_grad(set_to_none=True)
    loss.backward()
    trainer.generator_optimiser.step()
    model.requires_grad_(True)
    nats |= generator_terms
    if not all(bool(t.isfinite()) for t in nats.values()):
        raise NonFiniteLossError(
            f"the loss is no longer finite at step {number}: {', '.join(nats)}. Lower budget.lr or objective.critic_lr."
        )
    return Ledger({key: t.detach() for key, t in nats.items()}, dict(gan.prices), loss.detach())


def critic_loss(model: InfoGan, gan: Game, real: Tensor, fake: Tensor, codes: Tensor) -> LossAndTerms:
    """The loss of trunk, D and Q: −V − λ·information. V subtracts the gradient penalty, so the loss adds it.

    Args:
        model: the InfoGAN.
        gan: its objective.
        real: images of the data.
        fake: generated images, detached.
        codes: the codes of those images.
    """
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
    """E(‖∇D(x̂)‖ − 1)² at x̂ = π x + (1−π) G(z), one π ~ U[0, 1] per image. Gulrajani et al. 2017.

    Args:
        model: the InfoGAN.
        real: images x of the data.
        fake: generated images G(z).
    """
    share = torch.rand(len(real), 1, 1, 1, device=real.device, dtype=real.dtype)
    between = torch.lerp(fake.detach(), real, share).requires_grad_(True)
    (gradient,) = torch.autograd.grad(model.critic_score(between).sum(), between, create_graph=True)
    return (gradient.flatten(1).norm(dim=1) - 1).square().mean()


def generator_loss(model: InfoGan, gan: Game, codes: Tensor, noise: Tensor) -> LossAndTerms:
    """The loss of G: −D(G(z)) or the non-saturating −log D(G(z)), minus λ·information.

    Args:
        model: the InfoGAN.
        gan: its objective.
        codes: codes drawn from their prior.
        noise: noise of the generator.
    """
    hidden = model.trunk(model.generate(codes, noise))
    score = model.critic(hidden).squeeze(1)
    information = model.information_bound(model.posterior_from_hidden(hidden), codes).mean()
    game = -score.mean() if gan.penalty else softplus(-score).mean()
    return game - gan.lam * information, {"generator": game, "information": information}
