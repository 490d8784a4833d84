"""The settings of a sweep: grid, zipped, listed and random values of recipe fields, expanded to one list."""

from __future__ import annotations

import hashlib
import itertools
import json
import math
import random
from typing import Any

from unbraid.core.errors import expect
from unbraid.runs import Recipe

Setting = dict[str, Any]  # field of a recipe → its value: {"objective.beta": 4}
MAX_RUNS = 100_000  # runs of one sweep
DRAW_OPTIONS = ("low", "high", "log", "whole", "choices")


def expand_settings(grid: dict, zipped: dict, listed: Any, drawn: dict) -> list[Setting]:
    """Combine the four sections of a sweep file; without any, the result is one empty setting.

    Args:
        grid: field → values; every combination is a setting.
        zipped: field → values, all of one length; the i-th values form a setting.
        listed: tables of fields, one setting each; or field → values, varied one field at a time.
        drawn: field → range or choices of random values, with `count` and `seed`.

    >>> expand_settings({"objective.beta": [1, 4]}, {}, {}, {})
    [{'objective.beta': 1}, {'objective.beta': 4}]
    >>> drawn = {"count": 5, "e": {"low": 0, "high": 1}}
    >>> len(expand_settings({"a": [1, 2], "b": [1, 2, 3]}, {"c": [1, 2], "d": [3, 4]}, {}, drawn))
    60
    """
    axes = [_expand_grid(grid), _expand_zip(zipped), _expand_list(listed), _expand_random(drawn)]
    check_run_count(math.prod(map(len, axes)))
    return [{k: v for part in parts for k, v in part.items()} for parts in itertools.product(*axes)]


def check_run_count(count: int) -> None:
    """Raise an error when the number of runs exceeds `MAX_RUNS`.

    Args:
        count: number of runs.
    """
    expect(count <= MAX_RUNS, "a sweep has too many runs", found=f"{count:.3g}", allowed=f"at most {MAX_RUNS:,}",
           do="Use fewer values or seeds, or several sweeps.")  # fmt: skip


def apply_setting(recipe: Recipe, setting: Setting) -> Recipe:
    """Set some fields of a recipe, names first: a new name clears the options of the previous one.

    Args:
        recipe: the recipe.
        setting: field → value.

    >>> apply_setting(Recipe.load("vae_sprites32"), {"objective.beta": 4, "objective.name": "beta_vae"}).objective
    {'name': 'beta_vae', 'beta': 4}
    """
    fields = sorted(setting, key=lambda field: not field.endswith(".name"))
    return recipe.set(*(f"{f}={setting[f] if f.endswith('.name') else to_inline_toml(setting[f])}" for f in fields))


def to_inline_toml(value: Any) -> str:
    """Format a value as TOML on one line.

    Args:
        value: a string, number, bool, list or table.
    """
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(k)} = {to_inline_toml(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(to_inline_toml, value)) + "]"
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str | bool) else repr(value)


def flatten_settings(table: dict[str, Any], prefix: str = "") -> Setting:
    """Flatten nested tables to dotted fields, so that `objective.beta = 1` works with and without quotes.

    Args:
        table: fields or nested tables; the range of a random value, {low, high, …}, stays a table.
        prefix: dotted path of the table.

    >>> flatten_settings({"objective": {"beta": [1, 2]}, "budget.steps": 5})
    {'objective.beta': [1, 2], 'budget.steps': 5}
    """
    fields: Setting = {}
    for key, value in table.items():
        nested = isinstance(value, dict) and not (set(value) <= set(DRAW_OPTIONS) and value)
        fields |= flatten_settings(value, f"{prefix}{key}.") if nested else {prefix + key: value}
    return fields


def _expand_grid(table: dict) -> list[Setting]:
    fields = flatten_settings(table)
    for field, values in fields.items():
        _check_values(field, values, "grid")
    check_run_count(math.prod(map(len, fields.values())))
    return [dict(zip(fields, row, strict=True)) for row in itertools.product(*fields.values())]


def _expand_zip(table: dict) -> list[Setting]:
    fields = flatten_settings(table)
    lengths = {field: len(_check_values(field, values, "zip")) for field, values in fields.items()}
    expect(len(set(lengths.values())) <= 1, "the lists of [zip] must be of one length", found=lengths)
    return [dict(zip(fields, row, strict=True)) for row in zip(*fields.values(), strict=True)] if fields else [{}]


def _expand_list(section: Any) -> list[Setting]:
    """Expand [[list]], where each table is one setting, or [list], where each value of each field is one."""
    if isinstance(section, list):
        expect(all(isinstance(t, dict) for t in section), "[[list]] takes tables of fields", found=section)
        return [flatten_settings(table) for table in section] or [{}]
    return [{f: v} for f, values in flatten_settings(section).items() for v in _check_values(f, values, "list")] or [{}]


def _check_values(field: str, values: Any, section: str) -> list[Any]:
    expect(isinstance(values, list) and values, f"{field!r} in [{section}] takes a list of values", found=repr(values),
           do=f'For example "{field}" = [1, 2, 4].')  # fmt: skip
    return list(values)


def _expand_random(table: dict) -> list[Setting]:
    """Draw `count` settings. Draw i depends only on seed, i and field, so a larger count keeps the earlier draws."""
    count, seed = table.get("count", 10), table.get("seed", 0)
    fields = flatten_settings({key: value for key, value in table.items() if key not in ("count", "seed")})
    if not fields:
        return [{}]
    valid = all(isinstance(n, int) and not isinstance(n, bool) for n in (count, seed)) and count >= 1
    rule = "count and seed of [random] are integers, count at least 1"
    expect(valid, rule, found=f"count {count}, seed {seed}")
    check_run_count(count)
    return [
        {field: _draw_value(field, spec, f"{seed}/{i}/{field}") for field, spec in fields.items()} for i in range(count)
    ]


def _draw_value(field: str, spec: Any, seed_text: str) -> Any:
    rng = random.Random(hashlib.sha256(seed_text.encode()).digest())
    spec = {"choices": spec} if isinstance(spec, list) else spec
    sample = f'"{field}" = {{low = 1, high = 10, log = true}}, or a list to choose from'
    known = isinstance(spec, dict) and set(spec) <= set(DRAW_OPTIONS)
    expect(known, f"{field!r} in [random] is not a range or a list of choices", found=repr(spec), allowed=sample)
    if "choices" in spec:
        return rng.choice(_check_values(field, spec["choices"], "random"))
    low, high, log = spec.get("low"), spec.get("high"), spec.get("log", False)
    numbers = all(isinstance(x, int | float) and math.isfinite(x) for x in (low, high))
    expect(numbers and low < high and (low > 0 or not log), f"{field!r} in [random] needs low < high, above 0 for log",
           found=repr(spec), allowed=sample)  # fmt: skip
    whole = spec.get("whole", False)
    if whole and not log:
        return rng.randint(int(low), int(high))
    value = math.exp(rng.uniform(math.log(low), math.log(high))) if log else rng.uniform(low, high)
    return round(value) if whole else float(f"{value:.6g}")  # the digits that run names and tables show
