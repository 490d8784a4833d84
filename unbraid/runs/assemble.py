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
from unbraid.data.dataset import Dataset
from unbraid.ground.errors import expect
from unbraid.latent import Latent
from unbraid.objectives import Game, Objective
from unbraid.runs import game, row, trainer
from unbraid.runs.own import NONE, OWN, Own
from unbraid.runs.recipe import Recipe
from unbraid.runs.row import Parts, sample_images
from unbraid.runs.seeding import mix, single


@dataclass(frozen=True)
class Kind:
    """How one kind of objective is assembled, opened and trained."""

    assemble: Callable[..., Any]
    build_model: Callable[..., Any]
    prepare: Callable[..., Any]


KINDS: dict[type, Kind] = {
    Objective: Kind(row.assemble, row.build_model, trainer.prepare),
    Game: Kind(game.assemble, game.build_model, game.prepare),
}


def assemble(recipe: Recipe, dataset: Dataset | None = None, own: Own = NONE) -> Any:
    """Build and check everything; weights are a function of the recipe's seed, those of nets given as objects their own."""
    given = own.objective is not None or recipe.objective.get("name") == OWN
    objective = own.objective if given else objectives.build(recipe.objective)
    expect(
        not isinstance(own.objective, Game),
        "a game is named in the recipe, not given as an object",
        found=getattr(own.objective, "name", ""),
        do=f"Put its function into OBJECTIVES and use objective = {{name = {getattr(own.objective, 'name', '')!r}}}.",
    )
    return KINDS[Objective if given else type(objective)].assemble(recipe, objective, dataset, own)


def build_model(recipe: Recipe, shape: tuple[int, int, int], tree: Latent | None = None, own: Own = NONE) -> Any:
    """The model of a recipe for one image shape, with fresh weights."""
    known = recipe.objective.get("name", "vae") in objectives.OBJECTIVES
    kind = type(objectives.build(recipe.objective)) if known else Objective  # one of your own is a row
    return KINDS[kind].build_model(recipe, shape, tree, own)


def prepare(parts: Any) -> Any:
    """Move the parts to the device and make their optimisers: a trainer."""
    return KINDS[type(parts.objective)].prepare(parts)


__all__ = ["KINDS", "Kind", "Parts", "assemble", "build_model", "mix", "prepare", "sample_images", "single"]
