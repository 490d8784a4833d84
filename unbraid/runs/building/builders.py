"""From a recipe to the parts of a run and to its trainer, for every kind of objective.

Each kind has three functions: `build_parts` (recipe and data to parts, checked before training starts), `build_model` (the
model alone, for a run that is opened) and `build_trainer` (parts to a trainer).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from unbraid import objectives
from unbraid.data.dataset import Dataset
from unbraid.model.infogan import InfoGan
from unbraid.model.vae import Vae
from unbraid.objectives import Game, Objective
from unbraid.runs.building import gan, vae_parts
from unbraid.runs.building.custom_parts import CUSTOM_NAME, NO_CUSTOM_PARTS, CustomParts
from unbraid.runs.fitting import trainer
from unbraid.runs.fitting.protocols import Parts, Trainer
from unbraid.runs.recipe import Recipe


@dataclass(frozen=True)
class ObjectiveKind:
    """The builders of one kind of objective."""

    build_parts: Callable[..., Parts]
    build_model: Callable[..., Vae | InfoGan]
    build_trainer: Callable[..., Trainer]


ROW_KIND = ObjectiveKind(vae_parts.build_parts, vae_parts.build_model, trainer.build_trainer)
OBJECTIVE_KINDS: dict[type, ObjectiveKind] = {
    Objective: ROW_KIND,
    Game: ObjectiveKind(gan.build_parts, gan.build_model, gan.build_trainer),
}


def build_parts(recipe: Recipe, dataset: Dataset | None = None, custom: CustomParts = NO_CUSTOM_PARTS) -> Parts:
    """Build and check all parts of a run; initial weights are a function of the recipe's seed.

    Args:
        recipe: the recipe.
        dataset: data that replace those of the recipe.
        custom: parts passed as objects; nets keep their own initial weights.
    """
    named = custom.objective is None and recipe.objective.get("name") != CUSTOM_NAME
    objective = objectives.build(recipe.objective) if named else custom.objective
    return _kind_of(objective).build_parts(recipe, objective, dataset, custom)


def build_model(recipe: Recipe, shape: tuple[int, int, int], custom: CustomParts = NO_CUSTOM_PARTS) -> Vae | InfoGan:
    """Build the model of a recipe with initial weights.

    Args:
        recipe: the recipe.
        shape: channels, height and width of the images.
        custom: parts passed as objects.
    """
    known = recipe.objective.get("name", "vae") in objectives.OBJECTIVES
    objective = objectives.build(recipe.objective) if known else None
    return _kind_of(objective).build_model(recipe, shape, custom)


def build_trainer(parts: Parts, stored_precision: str = "") -> Trainer:
    """Move the parts to their device and make their optimisers.

    Args:
        parts: the parts, as `build_parts` returns them.
        stored_precision: what budget.precision = "auto" chose when the run began; "" for a new run.
    """
    build = _kind_of(parts.objective).build_trainer
    return build(parts, stored_precision) if stored_precision else build(parts)  # only rows of prices have a choice


def _kind_of(objective: object) -> ObjectiveKind:
    """The builders of an objective; one passed as an object, or not known here, is a row of prices."""
    return OBJECTIVE_KINDS.get(type(objective), ROW_KIND)
