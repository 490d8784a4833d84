"""From a recipe to the parts of a run and to its trainer, whatever kind of objective it names.

Each kind of objective has three functions: `assemble` (recipe and data to parts, checked before any work starts),
`build_model` (the model alone, for a run that is opened) and `prepare` (parts to a trainer). Parts have a recipe,
dataset, model, objective and modules; a trainer has parts, device, optimisers, `logged` terms and `step`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from unbraid import objectives
from unbraid.core.errors import expect
from unbraid.data.dataset import Dataset
from unbraid.latent import Latent
from unbraid.objectives import Game, Objective
from unbraid.runs.building import gan, vae_parts
from unbraid.runs.building.custom_parts import CUSTOM_NAME, NO_CUSTOM_PARTS, CustomParts
from unbraid.runs.building.vae_parts import VaeParts, sample_images
from unbraid.runs.fitting import trainer
from unbraid.runs.fitting.seeding import default_float32, step_seed
from unbraid.runs.recipe import Recipe


@dataclass(frozen=True)
class ObjectiveKind:
    """How one kind of objective is assembled, opened and trained."""

    build_parts: Callable[..., Any]
    build_model: Callable[..., Any]
    build_trainer: Callable[..., Any]


OBJECTIVE_KINDS: dict[type, ObjectiveKind] = {
    Objective: ObjectiveKind(vae_parts.build_parts, vae_parts.build_model, trainer.build_trainer),
    Game: ObjectiveKind(gan.build_parts, gan.build_model, gan.build_trainer),
}


def build_parts(recipe: Recipe, dataset: Dataset | None = None, custom: CustomParts = NO_CUSTOM_PARTS) -> Any:
    """Build and check everything; weights are a function of the recipe's seed, those of nets given as objects their own."""
    given = custom.objective is not None or recipe.objective.get("name") == CUSTOM_NAME
    objective = custom.objective if given else objectives.build(recipe.objective)
    expect(
        not isinstance(custom.objective, Game),
        "a game is named in the recipe, not given as an object",
        found=getattr(custom.objective, "name", ""),
        do=f"Put its function into OBJECTIVES and use objective = {{name = {getattr(custom.objective, 'name', '')!r}}}.",
    )
    return OBJECTIVE_KINDS[Objective if given else type(objective)].build_parts(recipe, objective, dataset, custom)


def build_model(
    recipe: Recipe, shape: tuple[int, int, int], tree: Latent | None = None, custom: CustomParts = NO_CUSTOM_PARTS
) -> Any:
    """The model of a recipe for one image shape, with fresh weights."""
    known = recipe.objective.get("name", "vae") in objectives.OBJECTIVES
    kind = type(objectives.build(recipe.objective)) if known else Objective  # one of your own is a row
    return OBJECTIVE_KINDS[kind].build_model(recipe, shape, tree, custom)


def build_trainer(parts: Any) -> Any:
    """Move the parts to the device and make their optimisers: a trainer."""
    return OBJECTIVE_KINDS[type(parts.objective)].build_trainer(parts)


__all__ = [
    "OBJECTIVE_KINDS",
    "ObjectiveKind",
    "VaeParts",
    "build_model",
    "build_parts",
    "build_trainer",
    "default_float32",
    "sample_images",
    "step_seed",
]
