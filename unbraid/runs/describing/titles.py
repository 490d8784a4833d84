"""Titles and descriptions of runs; the description of a named recipe is dropped once data or objective were changed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from unbraid.runs.recipe import Recipe
from unbraid.runs.recipes import RECIPES
from unbraid.runs.run import Run


def matches_named_recipe(recipe: Recipe) -> bool:
    """Return whether a recipe has the data and the objective of the named recipe that it comes from.

    Args:
        recipe: the recipe.

    >>> one = Recipe.load("beta_tcvae_colour_sprites")
    >>> matches_named_recipe(one.set("seed=3")), matches_named_recipe(one.set("data.name=images", "data.path=mine"))
    (True, False)
    """
    if recipe.name not in RECIPES:
        return True
    named = Recipe.load(recipe.name)
    return (recipe.data, recipe.objective.get("name")) == (named.data, named.objective.get("name"))


def description(recipe: Recipe) -> str:
    """Return the description of a recipe; "" once data or objective were changed.

    Args:
        recipe: the recipe.
    """
    return recipe.about if matches_named_recipe(recipe) else ""


def display_name(run: Run) -> str:
    """Return the name of a run for figures: that of its recipe, or of its folder once data or objective were changed.

    Args:
        run: the run.
    """
    return run.recipe.name if matches_named_recipe(run.recipe) else run.path.name


def runs_title(runs: Sequence[Run]) -> str:
    """Return a heading for runs: their number or name, objectives and data.

    Args:
        runs: the runs.

    >>> from unbraid import pretrained
    >>> runs_title([pretrained("beta_tcvae_colour_sprites")])
    'beta_tcvae_colour_sprites: beta_tcvae on colour_sprites'
    """
    first, rows = runs[0], dict.fromkeys(str(r.recipe.objective.get("name", "?")) for r in runs)
    sets = dict.fromkeys(_data_name(r.recipe) for r in runs)
    what = f"{' and '.join(rows) if len(rows) < 3 else f'{len(rows)} objectives'} on {' and '.join(sets)}"
    return f"{first.path.name if len(runs) == 1 else f'{len(runs)} runs'}: {what}"


def _data_name(recipe: Recipe) -> str:
    """The name of a data set, with the folder or file of the user's own data."""
    name, path = str(recipe.data.get("name", "?")), recipe.data.get("path")
    return f"{name} of {Path(str(path)).name}" if path else name
