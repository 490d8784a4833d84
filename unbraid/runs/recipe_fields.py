"""Fields of a recipe as plain tables: changes by assignment, normal forms, and readings that older versions differ in."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Callable, Iterable, Mapping
from copy import deepcopy
from typing import Annotated, Any, NamedTuple

from pydantic import AfterValidator, BaseModel, BeforeValidator, ValidationError

from unbraid.core.errors import UnbraidError, did_you_mean, expect
from unbraid.latent import Latent

NOT_A_RECIPE = "the recipe must be a Recipe, the name of a shipped one or a TOML file"
FIELD_HINTS = {  # for fields that other libraries have
    "data": " Name a data set ('unbraid data list'); for fit(recipe, dataset=...) write data=\"images\".",
    "budget.epochs": " Training is counted in steps: budget.steps = epochs × images / budget.batch.",
    "budget.iterations": " Did you mean 'budget.steps'?",
    "budget.learning_rate": " Did you mean 'budget.lr'?",
    "budget.batch_size": " Did you mean 'budget.batch'?",
    "budget.optimizer": " Did you mean 'budget.optimiser'?",
    "epochs": " Training is counted in steps: budget.steps = epochs × images / budget.batch.",
    "dataset": " Did you mean 'data'?",
    "model": " Did you mean 'nets'?",
    "latent_dim": " Did you mean 'latent'?",
    "loss": " Did you mean 'objective'?",
    "learning_rate": " Did you mean 'budget.lr'?",
    "batch_size": " Did you mean 'budget.batch'?",
    "iterations": " Did you mean 'budget.steps'?",
    "optimizer": " Did you mean 'budget.optimiser'?",
    "beta": ' It is an option of an objective, such as objective = {name = "beta_vae", beta = 4}.',
    "gamma": ' It is an option of an objective, such as objective = {name = "factor_vae", gamma = 35}.',
}
PART_TABLES = ("data", "prior", "likelihood", "nets", "objective")  # parts with a name and options


def has_discrete_leaves(fields: dict[str, Any]) -> bool:
    """Return whether the layout has discrete leaves; an invalid layout has none here, and is refused by `Recipe.tree`.

    Args:
        fields: the plain tables of a recipe.
    """
    try:
        return not Latent.of(fields.get("latent", 10)).all_real
    except (UnbraidError, TypeError, ValueError, RecursionError):
        return False


def _check_layout_type(latent: Any) -> Any:
    whole = hasattr(latent, "__index__") or (isinstance(latent, float) and latent.is_integer())
    expect(
        whole or isinstance(latent, str | dict),
        'latent must be a whole number, a layout such as "5x4", or a table of named branches',
        found=f"{latent!r:.80}",
        do='For example 10, or {"digit": "onehot(10)", "style": 10}.',
    )
    return latent


def _check_layout(latent: Any) -> Any:
    Latent.of(latent)  # raises an error that names the layouts
    return latent


Layout = Annotated[int | str | dict[str, Any], BeforeValidator(_check_layout_type), AfterValidator(_check_layout)]


def explain_invalid_fields(
    error: ValidationError, tables: Mapping[str, Iterable[str]], hints: Mapping[str, str] | None = None
) -> str:
    """Explain every invalid field of a record, with the nearest name of an unknown one.

    Args:
        error: the error of pydantic.
        tables: the known fields by the prefix of their table, the longest prefix first.
        hints: sentences for some unknown or missing fields.
    """

    def explain(error: Any) -> str:
        place = ".".join(str(p) for p in error["loc"])
        if error["type"] == "extra_forbidden":
            fields = next(list(names) for prefix, names in tables.items() if place.startswith(prefix))
            deeper = next((f"{table}{place}" for table, names in tables.items() if table and place in names), "")
            nearest = f" Did you mean {deeper!r}?" if deeper else did_you_mean(place.split(".")[-1], fields)
            hint = (hints or {}).get(place, nearest)
            return f"there is no field {place!r}.{hint} Fields: {', '.join(fields)}"
        if error["type"] == "missing":
            return f"{place!r} is missing.{(hints or {}).get(place, '')}".rstrip(".")
        if error["type"] == "value_error":  # raised by a validator of this library
            return f"{place!r}: {error['msg'].removeprefix('Value error, ').rstrip('.')}"
        return f"{place!r}: {error['msg'].lower()} (found {error['input']!r:.80})"

    return "; ".join(map(explain, error.errors()))


def describe_value(value: Any) -> str:
    """Describe a value by type and shape, without its contents.

    Args:
        value: any value.

    >>> describe_value({"a": 1}), describe_value(None)
    ('a dict with keys a', 'None')
    """
    if value is None:
        return "None"
    shape = getattr(value, "shape", None)
    if isinstance(value, dict):
        return f"a dict with keys {', '.join(map(str, list(value)[:8]))}"
    return f"a {type(value).__name__}" + (f" of shape {tuple(shape)}" if shape is not None else "")


def recipe_hint(value: Any) -> str:
    """Say what to pass instead of a value that is no recipe.

    Args:
        value: what was passed in place of a recipe.
    """
    if isinstance(value, dict) and not any(hasattr(part, "shape") for part in value.values()):
        return "Write Recipe(**fields), or Recipe.from_dict(fields)."
    if value is None:
        return 'For example fit("factor_vae_sprites32").'
    return (
        'To train on images of your own, pass them as the data: fit(Recipe(data="images", nets="mlp", '
        'objective="beta_tcvae"), dataset=images).'
    )


def apply_changes(fields: dict[str, Any], *assignments: str) -> dict[str, Any]:
    """Return plain tables with some fields changed.

    Args:
        fields: the tables of a recipe.
        assignments: changes as `section.key=value`.
    """
    fields = deepcopy(fields)
    for key in PART_TABLES:
        if isinstance(fields.get(key), str):
            fields[key] = {"name": fields[key]}  # a bare name stands for a table with that name
    for assignment in assignments:
        path, sign, raw = assignment.partition("=")
        keys = path.strip().split(".")
        expect(
            sign and all(keys),
            "a change must have the form section.key=value",
            found=repr(assignment),
            do="For example budget.steps=100.",
        )
        table = fields
        for key in keys[:-1]:
            table = table.setdefault(key, {})
            expect(isinstance(table, dict), f"{key!r} in {path!r} is not a table", do="Set that one instead.")
        if keys[-1] == "name" and len(keys) == 2 and table.get("name") != raw.strip():
            table.clear()  # the options belong to the previous objective or prior
        table[keys[-1]] = parse_toml_value(raw.strip())
    return fields


def non_default_fields(model: BaseModel, excluded: set[str]) -> dict[str, Any]:
    """Return the fields of a model that are not at their defaults, as plain values.

    Args:
        model: a recipe or a budget.
        excluded: fields to leave out.
    """
    fields = {key: field for key, field in type(model).model_fields.items() if key not in excluded}
    found = {key: normalise(getattr(model, key)) for key in fields}
    return {
        key: value
        for key, value in found.items()
        if fields[key].is_required() or value != normalise(fields[key].default)
    }


def normalise(value: Any) -> Any:
    """Return a value in normal form: 1 for 1.0, and lists for tuples.

    Args:
        value: plain tables, lists and numbers.
    """
    if isinstance(value, dict):
        return {str(key): normalise(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [normalise(inner) for inner in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def as_pairs(value: Any) -> Any:
    """Return tables as lists of pairs, whose order counts in a comparison.

    Args:
        value: plain tables and values.
    """
    return [[key, as_pairs(inner)] for key, inner in value.items()] if isinstance(value, dict) else value


def reject_bool(value: Any) -> Any:
    """Refuse true and false where a number belongs; Python would treat them as 1 and 0.

    Args:
        value: the value of a field.
    """
    if isinstance(value, bool):
        raise ValueError("must be a number, not true or false")
    return value


def parse_toml_value(raw: str) -> Any:
    """Return a TOML value, or the text itself if it is not TOML.

    Args:
        raw: the text.
    """
    try:
        return tomllib.loads(f"v = {raw}")["v"]
    except tomllib.TOMLDecodeError:
        return raw
    except ValueError as error:  # Python refuses whole numbers of more than 4,300 digits
        raise UnbraidError(f"a value cannot be read: found {raw[:20]}… ({len(raw):,} characters).") from error
    except RecursionError as error:
        raise UnbraidError(f"a value is nested too deeply: found {raw[:20]}… Write it with fewer brackets.") from error


def flatten_table(table: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Flatten nested tables to dotted keys.

    Args:
        table: the nested tables.
        prefix: the text before each key.

    >>> flatten_table({"seed": 0, "budget": {"steps": 5}})
    {'seed': 0, 'budget.steps': 5}
    """
    flat: dict[str, Any] = {}
    for key, value in table.items():
        flat |= flatten_table(value, f"{prefix}{key}.") if isinstance(value, dict) else {prefix + key: value}
    return flat


def find_non_finite(value: Any, place: str = "") -> str:
    """Return the place and value of a number that is NaN or infinite, or "".

    Args:
        value: plain tables, lists and numbers.
        place: the dotted place of the value.
    """
    if isinstance(value, float) and not math.isfinite(value):
        return f"{place} = {value}" if place else str(value)
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list | tuple) else ()
    found = (find_non_finite(child, f"{place}.{key}" if place else str(key)) for key, child in items)
    return next((odd for odd in found if odd), "")


def runs_a_covariance(fields: dict[str, Any]) -> bool:
    """Return whether the objective keeps a running covariance, whose gradient has two readings.

    Args:
        fields: the tables of a recipe.
    """
    objective = fields.get("objective", {})
    rho = objective.get("rho", 1) if isinstance(objective, dict) else 1
    return isinstance(rho, int | float) and rho != 1


class Reading(NamedTuple):
    """A field that older versions did not store, and that has another value in new recipes.

    Args:
        table: the table.
        key: the field.
        old: what it means where it is not stored.
        new: its value in new recipes.
        meaning: the new value in words.
        applies: whether a recipe has a use for it.
    """

    table: str
    key: str
    old: str
    new: str
    meaning: str
    applies: Callable[[dict[str, Any]], bool]


_LITERAL = "the gradient of the running covariance is literal"
READINGS = (
    Reading("posterior", "discrete", "density", "mass", "discrete leaves are charged by mass", has_discrete_leaves),
    Reading("objective", "gradient", "full", "literal", _LITERAL, runs_a_covariance),
)
