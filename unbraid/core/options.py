"""The one validator of options: plain TOML values, read by the annotations of the function or record they go to."""

from __future__ import annotations

import inspect
import sys
import types
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import is_dataclass
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from unbraid.core.errors import UnbraidError, did_you_mean, error_message, expect, join_names

T = TypeVar("T")
OPTION_ALIASES = {"lambda": "lam"}  # a letter of the papers that Python keeps for itself
TYPE_NAMES = {
    float: "a number",
    int: "a whole number",
    bool: "true or false",
    str: "a string",
    dict: "a table",
    type(None): "none",
}


def call_with_options(
    factory: Callable[..., T], options: Mapping[str, Any], what: str, *, extra: Iterable[str] = (), **fixed: Any
) -> T:
    """Call a function, class or record with plain options; an unknown, missing or unreadable one is a named error.

    `fixed` are arguments that are no options; `also` names options that the caller reads itself.

    >>> def row(beta: float = 4.0): return beta
    >>> call_with_options(row, {"beta": 8}, "objective 'row'")
    8.0
    >>> call_with_options(row, {"bata": 8}, "objective 'row'")
    Traceback (most recent call last):
        ...
    unbraid.core.errors.UnbraidError: objective 'row' takes no option 'bata'. Did you mean 'beta'? Options: beta.
    """
    read_by, parameters = type_hints(factory), inspect.signature(factory).parameters
    allowed = [
        name for name, p in parameters.items() if name not in fixed and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)
    ]
    given = {OPTION_ALIASES.get(key, key): plain for key, plain in options.items()}
    for key in given:
        reject_unknown(key, allowed, what, extra)
        given[key] = parse_value(given[key], read_by.get(key, Any), f"{key!r} of {what}")
    missing = [p for p in allowed if parameters[p].default is inspect.Parameter.empty and p not in given]
    expect(not missing, f"{what} needs {join_names(missing)}")
    try:
        return factory(**fixed, **given)
    except UnbraidError:
        raise
    except (TypeError, RuntimeError, OverflowError) as error:
        raise UnbraidError(f"{what} cannot be built from {dict(options)}: {error}.") from error


def reject_unknown(key: str, allowed: Iterable[str], what: str, extra: Iterable[str] = ()) -> None:
    """Refuse an option nobody reads, with the nearest one and the whole list."""
    names = [*allowed, *extra]
    if key not in names:
        raise UnbraidError(
            f"{what} takes no option {key!r}.{did_you_mean(key, names)} Options: {join_names(names) or 'none'}."
        )


def parse_value(plain: Any, hint: Any, what: str) -> Any:
    """One value by its annotation. A class with a `read_option(plain, what)` of its own reads itself.

    >>> parse_value(3, float | None, "'nu' of prior 'student_t'")
    3.0
    >>> parse_value("x", float | list[float], "'nu' of prior 'student_t'")
    Traceback (most recent call last):
        ...
    unbraid.core.errors.UnbraidError: 'nu' of prior 'student_t' must be a number or a list of numbers: found 'x'.
    """
    choices = _choices(hint)
    own = [choice for choice in choices if hasattr(choice, "read_option")]
    if own:
        return None if plain is None and type(None) in choices else own[0].read_option(plain, what)
    for choice in choices:
        fits, value = _try_parse(plain, choice, what)
        if fits:
            return value
    raise UnbraidError(
        error_message(f"{what} must be {' or '.join(dict.fromkeys(map(describe_type, choices)))}", found=repr(plain))
    )


def build_record(record_type: type[T], plain: Any, what: str) -> T:
    """A frozen record from a table, its fields read by their annotations."""
    expect(isinstance(plain, dict), f"{what} must be a table", found=repr(plain))
    return call_with_options(record_type, plain, what)


def _choices(hint: Any) -> list[Any]:
    """What a union allows; numbers first a whole one, then any."""
    return list(get_args(hint)) if get_origin(hint) in (typing.Union, types.UnionType) else [hint]


def _try_parse(plain: Any, hint: Any, what: str) -> tuple[bool, Any]:
    """Whether a value is of one plain kind, and the value read."""
    origin, inside = get_origin(hint) or hint, get_args(hint)
    if origin in (float, int):
        number = isinstance(plain, int | float) and not isinstance(plain, bool) and abs(plain) <= sys.float_info.max
        fits = number and (origin is float or plain == int(plain))
        return fits, origin(plain) if fits else None
    if origin in (bool, str, type(None)):
        return isinstance(plain, origin), plain
    if is_dataclass(hint) and isinstance(hint, type):
        return True, plain if isinstance(plain, hint) else build_record(hint, plain, what)
    if origin is typing.Literal:
        return plain in inside, plain
    if origin in (dict, Mapping):
        fits = isinstance(plain, Mapping) and (
            len(inside) < 2 or all(_fits_any(v, inside[1], what) for v in plain.values())
        )
        return fits, plain
    if origin in (list, Sequence, tuple):
        fits = isinstance(plain, list | tuple) and (not inside or all(_fits_any(v, inside[0], what) for v in plain))
        return fits, tuple(plain) if fits and origin is tuple else plain
    return True, plain  # an annotation that says nothing about plain values


def _fits_any(plain: Any, hint: Any, what: str) -> bool:
    return any(_try_parse(plain, choice, what)[0] for choice in _choices(hint))


def describe_type(hint: Any, plural: bool = False) -> str:
    """An annotation in words."""
    origin, inside = get_origin(hint) or hint, get_args(hint)
    if origin in (list, Sequence, tuple):
        return f"{'lists' if plural else 'a list'} of {describe_type(inside[0], True) if inside else 'values'}"
    if origin in (dict, Mapping):
        return "a table" + (f" of {describe_type(inside[1], True)}" if len(inside) > 1 and inside[1] is not Any else "")
    if origin is typing.Literal:
        return join_names(map(repr, inside))
    if origin in (typing.Union, types.UnionType):
        return " or ".join(describe_type(choice, plural) for choice in inside)
    word = TYPE_NAMES.get(origin, "a table")
    return f"{word.removeprefix('a ')}s" if plural and word.startswith("a ") else word


def type_hints(factory: Any) -> dict[str, Any]:
    """Annotations of a class's constructor, of a function, or of a record that can be called."""
    if isinstance(factory, type):
        return get_type_hints(factory if is_dataclass(factory) else factory.__init__)
    return get_type_hints(factory if inspect.isroutine(factory) else type(factory).__call__)
