"""Fields of a recipe as plain tables: changes by assignment, normal forms, and readings that older versions differ in."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Callable
from copy import deepcopy
from typing import Any

from pydantic import BaseModel

from unbraid.core.errors import UnbraidError, expect
from unbraid.latent import Latent

PART_TABLES = ("data", "prior", "likelihood", "nets", "objective")  # parts with a name and options


def has_discrete_leaves(latent: Any) -> bool:
    """Whether a layout has discrete leaves; one with mistakes has none, and is refused where it is read."""
    try:
        return not Latent.of(latent).all_real
    except (UnbraidError, TypeError, ValueError, RecursionError):
        return False


def apply_changes(fields: dict[str, Any], *assignments: str) -> dict[str, Any]:
    """Plain tables with some fields set, each change as `section.key=value`."""
    fields = deepcopy(fields)
    for key in PART_TABLES:
        if isinstance(fields.get(key), str):
            fields[key] = {"name": fields[key]}  # a bare name stands for a table with that name
    for assignment in assignments:
        path, sign, raw = assignment.partition("=")
        keys = path.strip().split(".")
        expect(
            sign and all(keys),
            "a change reads section.key=value",
            found=repr(assignment),
            do="For example --set budget.steps=100.",
        )
        table = fields
        for key in keys[:-1]:
            table = table.setdefault(key, {})
            expect(
                isinstance(table, dict),
                f"{path!r} leads through {key!r}, which is not a table",
                do="Set that one instead.",
            )
        if keys[-1] == "name" and len(keys) == 2 and table.get("name") != raw.strip():
            table.clear()  # the options of another objective or prior would not fit
        table[keys[-1]] = parse_value(raw.strip())
    return fields


def non_default_fields(model: BaseModel, excluded: set[str]) -> dict[str, Any]:
    """The fields of a model that are not at their defaults, as plain values."""
    fields = {key: field for key, field in type(model).model_fields.items() if key not in excluded}
    found = {key: normalise(getattr(model, key)) for key in fields}
    return {
        key: value
        for key, value in found.items()
        if fields[key].is_required() or value != normalise(fields[key].default)
    }


def normalise(value: Any) -> Any:
    """A value with one way of writing each number (1 for 1.0) and lists for tuples."""
    if isinstance(value, dict):
        return {str(key): normalise(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [normalise(inner) for inner in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def as_pairs(value: Any) -> Any:
    """Tables as lists of pairs, which keep their order."""
    return [[key, as_pairs(inner)] for key, inner in value.items()] if isinstance(value, dict) else value


def reject_bool(value: Any) -> Any:
    """Python counts True as 1; a recipe that says true where a number belongs is mistaken."""
    if isinstance(value, bool):
        raise ValueError("must be a number, not true or false")
    return value


def parse_value(raw: str) -> Any:
    try:
        return tomllib.loads(f"v = {raw}")["v"]
    except tomllib.TOMLDecodeError:
        return raw


def flatten(table: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in table.items():
        flat |= flatten(value, f"{prefix}{key}.") if isinstance(value, dict) else {prefix + key: value}
    return flat


def find_non_finite(value: Any, place: str = "") -> str:
    """Where in plain tables and lists a number is NaN or infinite, and which; or ''."""
    if isinstance(value, float) and not math.isfinite(value):
        return f"{place} = {value}" if place else str(value)
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list | tuple) else ()
    found = (find_non_finite(child, f"{place}.{key}" if place else str(key)) for key, child in items)
    return next((odd for odd in found if odd), "")


def runs_a_covariance(fields: dict[str, Any]) -> bool:
    """Whether the objective keeps a running covariance, whose gradient has two readings."""
    objective = fields.get("objective", {})
    rho = objective.get("rho", 1) if isinstance(objective, dict) else 1
    return isinstance(rho, int | float) and rho != 1


# table, key, what it means where it is not stored, what new recipes state, where it applies
READINGS: tuple[tuple[str, str, str, str, Callable[[dict[str, Any]], bool]], ...] = (
    ("posterior", "discrete", "density", "mass", lambda fields: has_discrete_leaves(fields.get("latent", 10))),
    ("objective", "gradient", "full", "literal", runs_a_covariance),
)
