"""What a run is called, and what is said of it: a recipe's own words only where they still fit."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from unbraid.runs.recipe import Recipe
from unbraid.runs.recipes import RECIPES
from unbraid.runs.run import Run


def matches_named_recipe(recipe: Recipe) -> bool:
    """Whether a recipe still has the data and the objective of the named one it began as, so that its words are true.

    >>> one = Recipe.load("beta_tcvae_colour_sprites")
    >>> matches_named_recipe(one.set("seed=3")), matches_named_recipe(one.set("data.name=images", "data.path=mine"))
    (True, False)
    """
    if recipe.name not in RECIPES:
        return True
    named = Recipe.load(recipe.name)
    return (recipe.data, recipe.objective.get("name")) == (named.data, named.objective.get("name"))


def description(recipe: Recipe) -> str:
    """What a recipe says of itself; nothing once it was changed into something else."""
    return recipe.about if matches_named_recipe(recipe) else ""


def display_name(run: Run) -> str:
    """A run's name above its pictures: its recipe's, or its folder's once the recipe was changed into something else."""
    return run.recipe.name if matches_named_recipe(run.recipe) else run.path.name


def runs_title(runs: Sequence[Run]) -> str:
    """A heading: which runs, of what, on what.

    >>> from unbraid import pretrained
    >>> runs_title([pretrained("beta_tcvae_colour_sprites")])
    'beta_tcvae_colour_sprites: beta_tcvae on colour_sprites'
    """
    first, rows = runs[0], dict.fromkeys(str(r.recipe.objective.get("name", "?")) for r in runs)
    sets = dict.fromkeys(_data_name(r.recipe) for r in runs)
    what = f"{' and '.join(rows) if len(rows) < 3 else f'{len(rows)} objectives'} on {' and '.join(sets)}"
    return f"{first.path.name if len(runs) == 1 else f'{len(runs)} runs'}: {what}"


def _data_name(recipe: Recipe) -> str:
    """A data set in a word or two: your own by the folder or file it lies in."""
    name, path = str(recipe.data.get("name", "?")), recipe.data.get("path")
    return f"{name} of {Path(str(path)).name}" if path else name
