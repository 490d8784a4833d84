"""Reading the options of a recipe's table by the annotations of the function they go to."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from typing import Any, TypeVar, get_type_hints

from unbraid.ground.errors import UnbraidError, expect, listing, nearest
from unbraid.ground.schedule import read

T = TypeVar("T")
ALIASES = {"lambda": "lam"}  # a letter of the papers that Python keeps for itself


def call(make: Callable[..., T], options: dict[str, Any], what: str) -> T:
    """Call a function with plain TOML values; an unknown, missing or unreadable option is a named error.

    >>> def row(beta: float = 4.0): return beta
    >>> call(row, {"beta": 8}, "objective 'row'")
    8.0
    """
    given = {ALIASES.get(key, key): plain for key, plain in options.items()}
    hints = get_type_hints(make)
    parameters = inspect.signature(make).parameters
    for key in given:
        if key not in parameters:
            raise UnbraidError(
                f"{what} takes no option {key!r}.{nearest(key, parameters)} Options: {listing(parameters) or 'none'}."
            )
        given[key] = _option(given[key], hints[key], f"{key!r} of {what}")
    missing = [p.name for p in parameters.values() if p.default is p.empty and p.name not in given]
    expect(not missing, f"{what} needs {listing(missing)}")
    return make(**given)


def _option(plain: Any, hint: Any, what: str) -> Any:
    """Read one option by its annotation: a number, a price, a record, a string, a table."""
    if isinstance(hint, type) and is_dataclass(hint):
        return plain if isinstance(plain, hint) else _record(hint, plain, what)
    if hint is float or hint is int:
        number = isinstance(plain, int | float) and not isinstance(plain, bool) and math.isfinite(plain)
        expect(
            number and (hint is float or plain == int(plain)),
            f"{what} must be {'a whole number' if hint is int else 'a number'}",
            found=repr(plain),
        )
        return hint(plain)
    if hint is str or hint is dict or hint is bool:
        expect(isinstance(plain, hint), f"{what} must be a {hint.__name__}", found=repr(plain))
        return plain
    return read(plain, what)


def _record(hint: Any, plain: Any, what: str) -> Any:
    expect(isinstance(plain, dict), f"{what} must be a table", found=repr(plain))
    known = {f.name: f for f in fields(hint)}
    for key in plain:
        expect(key in known, f"{what} takes no {key!r}.{nearest(key, known)}", allowed=known)
    return hint(**{key: tuple(v) if isinstance(v, list) else v for key, v in plain.items()})
