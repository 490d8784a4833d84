"""Form of a new training, without its page: fields, their help, and the recipe that they describe."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, get_args

from unbraid import objectives
from unbraid.catalogue import find_entry
from unbraid.catalogue.docstrings import capitalise
from unbraid.catalogue.entry import Entry
from unbraid.catalogue.rendering import one_sentence
from unbraid.core.errors import UnbraidError, choose, expect
from unbraid.data import DATASETS
from unbraid.model import LIKELIHOODS, NETS
from unbraid.model.infogan import GAN_NETS
from unbraid.objectives import OBJECTIVES
from unbraid.prices import price_to_toml
from unbraid.priors import PRIORS
from unbraid.runs.recipe import BOOLEAN_FIELDS, Budget, Recipe

FIELD_CHOICES: dict[str, dict[str, Any]] = {
    "data.name": DATASETS,
    "objective.name": OBJECTIVES,
    "nets.name": {**NETS, **GAN_NETS},
    "prior.name": PRIORS,
    "likelihood.name": LIKELIHOODS,
}
CATALOGUE_KINDS = {"nets": "net"}  # where the section of a recipe and the kind of its parts have different names
OWN_IMAGES = "images"  # the data set that reads a folder of the user
OWN_IMAGE_FIELDS = {"path": "", "size": 0, "grey": False}  # its options with their defaults
BASIC_FIELDS = ("seed", "latent", "budget.steps", "budget.batch", "budget.lr")
BOUNDS = {"minimum": "≥ {:,}", "exclusiveMinimum": "> {:,}", "maximum": "≤ {:,}", "exclusiveMaximum": "< {:,}"}
ERRORS = (UnbraidError, ValueError, OverflowError)


@dataclass(frozen=True)
class FormField:
    """One field of the form.

    Args:
        key: the field of the recipe, such as "budget.steps".
        value: its value as TOML.
        help: what it does, in a sentence.
        choices: the allowed values; empty for free text.
        switch: whether it is true or false.
        basic: whether it is among the first fields.
    """

    key: str
    value: str
    help: str
    choices: tuple[str, ...] = ()
    switch: bool = False
    basic: bool = False


def form_fields(recipe: Recipe) -> dict[str, str]:
    """Return the fields of the form with their values as TOML.

    Args:
        recipe: the recipe to edit.
    """
    plain = recipe.as_dict()
    shown = {"data.name": str(recipe.data.get("name", ""))}
    if shown["data.name"] == OWN_IMAGES:
        shown |= {f"data.{name}": _to_toml(recipe.data.get(name, value)) for name, value in OWN_IMAGE_FIELDS.items()}
    shown["objective.name"] = str(recipe.objective.get("name", ""))
    shown |= {f"objective.{name}": value for name, value in objective_options(recipe.objective).items()}
    shown |= {"latent": _to_toml(plain["latent"]), "seed": str(recipe.seed)}
    shown |= {key: str(plain.get(key.split(".")[0], {}).get("name", "")) for key in FIELD_CHOICES if key not in shown}
    shown |= {f"budget.{name}": _to_toml(plain["budget"].get(name)) for name in Budget.model_fields}
    return shown


def describe_fields(recipe: Recipe) -> list[FormField]:
    """Return the fields of the form with their help and their kind, basic ones first.

    Args:
        recipe: the recipe to edit.
    """
    found = []
    for key, value in form_fields(recipe).items():
        section = key.split(".")[0]
        basic = key in BASIC_FIELDS or section in ("data", "objective")
        choices = tuple(sorted({*FIELD_CHOICES[key], value})) if key in FIELD_CHOICES else _literal_choices(key)
        found.append(FormField(key, value, field_help(key, recipe), choices, _is_switch(key, value), basic))
    return sorted(found, key=lambda field: not field.basic)


def _literal_choices(key: str) -> tuple[str, ...]:
    """Values of a field of the budget that has a few names."""
    info = Budget.model_fields.get(key.removeprefix("budget."))
    values = get_args(info.annotation) if info is not None and key.startswith("budget.") else ()
    return tuple(values) if values and all(isinstance(value, str) for value in values) else ()


def _is_switch(key: str, value: str) -> bool:
    section, _, name = key.partition(".")
    if section == "budget":
        return name in BOOLEAN_FIELDS
    return section in ("objective", "data") and value in ("true", "false")


def field_help(key: str, recipe: Recipe) -> str:
    """Return what a field does, from the docstrings: of the part that is chosen, else of the field.

    Args:
        key: the field, such as "budget.steps".
        recipe: the recipe to edit.
    """
    section, _, name = key.partition(".")
    if section in ("objective", "data") and name != "name":
        part = _find_entry(section, str(getattr(recipe, section).get("name", "")))
        text = next((option.about for option in part.options if option.name == name), "") if part else ""
        return _as_sentence(text)
    if key in FIELD_CHOICES:
        part = _find_entry(CATALOGUE_KINDS.get(section, section), str(getattr(recipe, section).get("name", "")))
        return _as_sentence(one_sentence(part)) if part else ""
    entry = _find_entry("field", key)
    limits = []
    if section == "budget":
        schema = Budget.model_json_schema()["properties"].get(name, {})
        limits = [text.format(schema[bound]) for bound, text in BOUNDS.items() if bound in schema]
    return " ".join([_as_sentence(entry.doc.summary if entry else ""), *([f"({', '.join(limits)})"] if limits else [])])


def _as_sentence(text: str) -> str:
    return f"{capitalise(text).replace('`', '').rstrip('.')}." if text else ""


@cache
def _find_entry(kind: str, name: str) -> Entry | None:
    """Entry of the catalogue, or None for a part that it does not list."""
    try:
        return find_entry(kind, name)
    except UnbraidError:
        return None


def objective_options(table: dict[str, Any]) -> dict[str, str]:
    """Return the options of an objective that fit a text field: those of the recipe, else the defaults.

    Args:
        table: the recipe's objective table.
    """
    make = OBJECTIVES.get(str(table.get("name", "")))
    if make is None or not callable(make):
        return {}
    found = {}
    for name, parameter in inspect.signature(make).parameters.items():
        value = table.get(name, table.get("lambda") if name == "lam" else None)
        value = parameter.default if value is None and parameter.default is not parameter.empty else value
        value = price_to_toml(value) if not isinstance(value, str | bool | dict) and value is not None else value
        if isinstance(value, int | float | str | bool):
            found[name] = _to_toml(value)
    return found


def _to_toml(value: Any) -> str:
    """Format a value as one line of TOML; strings stay without quotes, as in --set."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key} = {_toml_literal(part)}" for key, part in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_toml_literal(part) for part in value) + "]"
    return value if isinstance(value, str) else _toml_literal(value)


def _toml_literal(value: Any) -> str:
    import tomli_w

    compound = isinstance(value, dict | list | tuple)
    return _to_toml(value) if compound else tomli_w.dumps({"v": value}).removeprefix("v = ").strip()


def parse_form(base: Recipe, form_values: Mapping[str, str]) -> tuple[Recipe | None, dict[str, str]]:
    """Return the edited recipe, or None and the errors by field.

    Args:
        base: the recipe that the form started from.
        form_values: the text of every field.
    """
    before = form_fields(base)
    # a new name clears the old options, so names come first
    pending = sorted((k for k, v in form_values.items() if v != before.get(k)), key=lambda k: not k.endswith(".name"))
    recipe, wrong = base, dict[str, str]()
    while pending:  # fields may depend on each other: what failed is tried again after the rest
        wrong = {}
        for key in pending:
            try:
                recipe = recipe.set(f"{key}={form_values[key]}")
            except ERRORS as error:
                wrong[key] = str(error)
        if len(wrong) == len(pending):
            break
        pending = list(wrong)
    checks = (("objective.name", _check_objective), ("latent", lambda r: r.tree), ("data.name", _check_data))
    for key, check in checks:
        if not wrong:
            try:
                check(recipe)
            except ERRORS as error:
                wrong[_field_of_error(key, str(error), form_values)] = str(error)
    return (None if wrong else recipe), wrong


def _field_of_error(key: str, text: str, form_values: Mapping[str, str]) -> str:
    """The field that an error of a part names, else the field of the part."""
    section = key.split(".")[0]
    named = (k for k in form_values if k.startswith(f"{section}.") and f"{k.split('.')[1]!r}" in text)
    return next(named, key) if key != "latent" else key


def _check_objective(recipe: Recipe) -> None:
    objectives.build(recipe.objective)


def _check_data(recipe: Recipe) -> None:
    choose(str(recipe.data.get("name", "")), DATASETS, "data set")
    if recipe.data["name"] == OWN_IMAGES:
        path = str(recipe.data.get("path", ""))
        expect(path != "", "'path' is empty", do="Give the folder of your pictures, or an array file.")
        expect(Path(path).expanduser().exists(), "'path': there is no such folder or file", found=path[:200])


def estimate_seconds(recipe: Recipe) -> float:
    """Return the seconds per step on this machine, from a short trial.

    Args:
        recipe: the recipe.
    """
    from unbraid.runs.building.builders import build_parts
    from unbraid.sweeps.planning.cost_estimate import measure_step_seconds

    return measure_step_seconds(build_parts(recipe))


def cost_fields(form_values: Mapping[str, str]) -> dict[str, str]:
    """Return the fields on which the seconds per step depend: all but seed, steps and logging.

    Args:
        form_values: the text of every field.
    """
    budget = ("budget.batch", "budget.accumulate", "budget.precision", "budget.threads", "budget.optimiser")
    return {k: v for k, v in form_values.items() if k != "seed" and (not k.startswith("budget.") or k in budget)}
