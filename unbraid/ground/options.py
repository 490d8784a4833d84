"""The one validator of options: plain TOML values, read by the annotations of the function or record they go to."""

from __future__ import annotations

import inspect
import sys
import types
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import is_dataclass
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from unbraid.ground.errors import UnbraidError, expect, listing, message, nearest

T = TypeVar("T")
ALIASES = {"lambda": "lam"}  # a letter of the papers that Python keeps for itself
WORDS = {
    float: "a number",
    int: "a whole number",
    bool: "true or false",
    str: "a string",
    dict: "a table",
    type(None): "none",
}


def call(make: Callable[..., T], options: Mapping[str, Any], what: str, *, also: Iterable[str] = (), **fixed: Any) -> T:
    """Call a function, class or record with plain options; an unknown, missing or unreadable one is a named error.

    `fixed` are arguments that are no options; `also` names options that the caller reads itself.

    >>> def row(beta: float = 4.0): return beta
    >>> call(row, {"beta": 8}, "objective 'row'")
    8.0
    >>> call(row, {"bata": 8}, "objective 'row'")
    Traceback (most recent call last):
        ...
    unbraid.ground.errors.UnbraidError: objective 'row' takes no option 'bata'. Did you mean 'beta'? Options: beta.
    """
    read_by, parameters = hints(make), inspect.signature(make).parameters
    allowed = [
        name for name, p in parameters.items() if name not in fixed and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)
    ]
    given = {ALIASES.get(key, key): plain for key, plain in options.items()}
    for key in given:
        known(key, allowed, what, also)
        given[key] = read(given[key], read_by.get(key, Any), f"{key!r} of {what}")
    missing = [p for p in allowed if parameters[p].default is inspect.Parameter.empty and p not in given]
    expect(not missing, f"{what} needs {listing(missing)}")
    try:
        return make(**fixed, **given)
    except UnbraidError:
        raise
    except (TypeError, RuntimeError, OverflowError) as error:
        raise UnbraidError(f"{what} cannot be built from {dict(options)}: {error}.") from error


def known(key: str, allowed: Iterable[str], what: str, also: Iterable[str] = ()) -> None:
    """Refuse an option nobody reads, with the nearest one and the whole list."""
    names = [*allowed, *also]
    if key not in names:
        raise UnbraidError(f"{what} takes no option {key!r}.{nearest(key, names)} Options: {listing(names) or 'none'}.")


def read(plain: Any, hint: Any, what: str) -> Any:
    """One value by its annotation. A class with a `read_option(plain, what)` of its own reads itself.

    >>> read(3, float | None, "'nu' of prior 'student_t'")
    3.0
    >>> read("x", float | list[float], "'nu' of prior 'student_t'")
    Traceback (most recent call last):
        ...
    unbraid.ground.errors.UnbraidError: 'nu' of prior 'student_t' must be a number or a list of numbers: found 'x'.
    """
    choices = _choices(hint)
    own = [choice for choice in choices if hasattr(choice, "read_option")]
    if own:
        return None if plain is None and type(None) in choices else own[0].read_option(plain, what)
    for choice in choices:
        fits, value = _fit(plain, choice, what)
        if fits:
            return value
    raise UnbraidError(message(f"{what} must be {' or '.join(dict.fromkeys(map(words, choices)))}", found=repr(plain)))


def record(made: type[T], plain: Any, what: str) -> T:
    """A frozen record from a table, its fields read by their annotations."""
    expect(isinstance(plain, dict), f"{what} must be a table", found=repr(plain))
    return call(made, plain, what)


def _choices(hint: Any) -> list[Any]:
    """What a union allows; numbers first a whole one, then any."""
    return list(get_args(hint)) if get_origin(hint) in (typing.Union, types.UnionType) else [hint]


def _fit(plain: Any, hint: Any, what: str) -> tuple[bool, Any]:
    """Whether a value is of one plain kind, and the value read."""
    origin, inside = get_origin(hint) or hint, get_args(hint)
    if origin in (float, int):
        number = isinstance(plain, int | float) and not isinstance(plain, bool) and abs(plain) <= sys.float_info.max
        fits = number and (origin is float or plain == int(plain))
        return fits, origin(plain) if fits else None
    if origin in (bool, str, type(None)):
        return isinstance(plain, origin), plain
    if is_dataclass(hint) and isinstance(hint, type):
        return True, plain if isinstance(plain, hint) else record(hint, plain, what)
    if origin is typing.Literal:
        return plain in inside, plain
    if origin in (dict, Mapping):
        fits = isinstance(plain, Mapping) and (len(inside) < 2 or all(_any(v, inside[1], what) for v in plain.values()))
        return fits, plain
    if origin in (list, Sequence, tuple):
        fits = isinstance(plain, list | tuple) and (not inside or all(_any(v, inside[0], what) for v in plain))
        return fits, tuple(plain) if fits and origin is tuple else plain
    return True, plain  # an annotation that says nothing about plain values


def _any(plain: Any, hint: Any, what: str) -> bool:
    return any(_fit(plain, choice, what)[0] for choice in _choices(hint))


def words(hint: Any, several: bool = False) -> str:
    """An annotation in words."""
    origin, inside = get_origin(hint) or hint, get_args(hint)
    if origin in (list, Sequence, tuple):
        return f"{'lists' if several else 'a list'} of {words(inside[0], True) if inside else 'values'}"
    if origin in (dict, Mapping):
        return "a table" + (f" of {words(inside[1], True)}" if len(inside) > 1 and inside[1] is not Any else "")
    if origin is typing.Literal:
        return listing(map(repr, inside))
    if origin in (typing.Union, types.UnionType):
        return " or ".join(words(choice, several) for choice in inside)
    word = WORDS.get(origin, "a table")
    return f"{word.removeprefix('a ')}s" if several and word.startswith("a ") else word


def hints(make: Any) -> dict[str, Any]:
    """Annotations of a class's constructor, of a function, or of a record that can be called."""
    if isinstance(make, type):
        return get_type_hints(make if is_dataclass(make) else make.__init__)
    return get_type_hints(make if inspect.isroutine(make) else type(make).__call__)
