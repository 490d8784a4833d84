"""The papers' printed settings: the table of the docs agrees with the recipes, and every recipe builds.

`python -m tests.contracts.test_printed_settings --write` writes docs/printed_settings.md from docs/printed_settings.tsv.
"""

from __future__ import annotations

import csv
import sys
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from unbraid.core.files import write_text
from unbraid.core.papers import PAPERS
from unbraid.data import DATASETS, STRUCTURE
from unbraid.data.dataset import Dataset, Pixels
from unbraid.runs.building.builders import build_parts, build_trainer
from unbraid.runs.recipe import Recipe
from unbraid.runs.recipes import RECIPES
from unbraid.runs.recipes_printed import PRINTED

DOCS = Path(__file__).parents[2] / "docs"
TABLE, PAGE = DOCS / "printed_settings.tsv", DOCS / "printed_settings.md"
COLUMNS = ["paper", "place", "setting", "printed", "recipes", "field", "value", "reason"]
INTRODUCTION = """# Printed settings

Every setting that the five papers print, and the recipe that has it. Printed values are in the notation of recipes; "not
printed" marks values that are ours. The last column says why a recipe differs, or how to set another printed value.
`unbraid recipes show NAME` prints a recipe, `--set FIELD=VALUE` changes a field. A test compares this table,
`docs/printed_settings.tsv`, with the recipes.
"""
PAPER_NAMES = {
    "Esmaeili et al. 2018": "HFVAE",
    "Kim & Mnih 2018": "FactorVAE",
    "Mathieu et al. 2019": "Decomposition",
    "Kumar et al. 2017": "DIP-VAE",
    "Stühmer et al. 2019": "ISA-VAE",
}
GREY, COLOUR = (1, 64, 64), (3, 64, 64)
SHAPES = {
    "dsprites": GREY,
    "faces3d": GREY,
    "shapes3d": COLOUR,
    "chairs": COLOUR,
    "celeba": COLOUR,
    "cars3d": COLOUR,
    "mnist": (1, 28, 28),
    "fashion_mnist": (1, 28, 28),
}


def read_rows() -> list[dict[str, str]]:
    """The rows of the table."""
    with TABLE.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))


def format_value(value: Any) -> str:
    """A recipe's value as the table has it."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return f"{int(value):,}" if float(value).is_integer() else f"{value:g}".replace("e-0", "e-")
    if isinstance(value, list | tuple):
        return ", ".join(map(format_value, value))
    if isinstance(value, dict):
        return " ".join(f"{key} {format_value(inner)}" for key, inner in value.items())
    return str(value)


def recipe_value(name: str, field: str) -> str:
    """The value of a recipe's field, defaults of the recipe included."""
    value: Any = Recipe.load(name).model_dump(mode="json")
    for key in field.split("."):
        value = value[key]
    return format_value(value)


def render_page() -> str:
    """The page of the docs: one table for each paper."""
    parts = [INTRODUCTION]
    shown = COLUMNS[1:]
    for paper, rows in groupby(read_rows(), lambda row: row["paper"]):
        lines = [f"## {PAPER_NAMES[paper]} ({paper})", "", f"| {' | '.join(shown)} |", "|" + "---|" * len(shown)]
        for row in rows:
            names = " ".join(f"`{name}`" for name in row["recipes"].split())
            cells = {**row, "recipes": names, "field": f"`{row['field']}`"}
            lines.append(f"| {' | '.join(cells[column] for column in shown)} |")
        parts.append("\n".join(lines) + "\n")
    return "\n".join(parts)


ROWS = read_rows()
COMPARED = sorted({name for row in ROWS for name in row["recipes"].split()})


def test_the_table_has_its_columns_and_known_papers():
    assert list(ROWS[0]) == COLUMNS
    assert {row["paper"] for row in ROWS} == set(PAPER_NAMES) <= set(PAPERS)
    assert all(row[column] for row in ROWS for column in COLUMNS[:-1])
    assert len({tuple(row.values()) for row in ROWS}) == len(ROWS)


@pytest.mark.parametrize("paper", PAPER_NAMES)
def test_the_table_agrees_with_the_recipes(paper):
    for row in (row for row in ROWS if row["paper"] == paper):
        for name in row["recipes"].split():
            assert recipe_value(name, row["field"]) == row["value"], (name, row)


def test_a_difference_has_a_reason_and_agreement_has_none():
    for row in ROWS:
        assert (row["printed"] != row["value"]) == bool(row["reason"]), row


def test_every_recipe_of_a_paper_is_in_the_table():
    assert set(PRINTED) <= set(COMPARED) <= set(RECIPES)
    for row in ROWS:
        for name in set(row["recipes"].split()) & set(PRINTED):
            assert row["paper"] in PRINTED[name]["cite"], name


def test_the_page_shows_the_table():
    assert PAGE.read_text(encoding="utf-8") == render_page(), (
        "run python -m tests.contracts.test_printed_settings --write"
    )


def test_the_text_of_a_superseded_recipe_names_its_successor():
    successors = [name for name in PRINTED if name.endswith("_printed")]
    assert len(successors) > 5
    for name in successors:
        assert name in RECIPES[name.removesuffix("_printed")]["about"]
    assert "dip_vae_ii_2dshapes" in RECIPES["dip_vae_2dshapes"]["about"]


def fake_data(recipe: Recipe) -> Dataset | None:
    """Random images of the shape of the recipe's data set; None for a toy, which is generated."""
    name = recipe.data["name"]
    if name == "pinwheel":
        return None
    shape = GREY if recipe.data.get("masks") else SHAPES[name]
    pixels = np.random.default_rng(0).integers(0, 256, (8, *shape), dtype=np.uint8)
    return Dataset(name, Pixels(pixels))


@pytest.mark.parametrize("name", COMPARED)
def test_every_recipe_of_a_paper_builds(name):
    recipe = Recipe.load(name)
    assert set(recipe.data) <= {*DATASETS[recipe.data["name"]].options, *STRUCTURE, "name"}
    parts = build_parts(recipe.set("budget.batch=4"), fake_data(recipe))
    assert parts.tree == recipe.tree
    assert parts.model.prior.tree == recipe.tree
    for critic in parts.critics.values():
        wanted = recipe.objective.get("critic", {})
        assert {key: format_value(getattr(critic.spec, key)) for key in wanted} == {
            key: format_value(value) for key, value in wanted.items()
        }


@pytest.mark.parametrize(
    "name", {plain["objective"]["name"]: name for name, plain in reversed(PRINTED.items())}.values()
)
def test_a_recipe_of_every_objective_trains_a_step(name):
    recipe = Recipe.load(name)
    shorter = ["objective.critic_steps=1"] if "critic_steps" in recipe.objective else []
    parts = build_parts(recipe.set("budget.batch=4", *shorter), fake_data(recipe))
    assert bool(build_trainer(parts).step(0).loss.isfinite())


if __name__ == "__main__" and "--write" in sys.argv:
    write_text(PAGE, render_page())
