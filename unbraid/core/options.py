"""Validation of options: plain TOML values are converted by the annotations of the function or record that takes them."""

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
OPTION_ALIASES = {"lambda": "lam"}  # λ in papers; `lambda` is a keyword of Python
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
    """Call a function, class or record with plain options; raise `UnbraidError` for an unknown, missing or wrong one.

    Args:
        factory: what is called.
        options: the options by name, as TOML gives them.
        what: what is built, for errors.
        extra: names of further options that the caller reads itself, for errors.
        **fixed: arguments that are not options.

    >>> def row(beta: float = 4.0): return beta
    >>> call_with_options(row, {"beta": 8}, "objective 'row'")
    8.0
    >>> call_with_options(row, {"bata": 8}, "objective 'row'")
    Traceback (most recent call last):
        ...
    unbraid.core.errors.UnbraidError: objective 'row' takes no option 'bata'. Did you mean 'beta'? Options: beta.
    """
    hints, parameters = type_hints(factory), inspect.signature(factory).parameters
    named = [name for name, p in parameters.items() if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    allowed = [name for name in named if name not in fixed]
    values = {OPTION_ALIASES.get(key, key): plain for key, plain in options.items()}
    for key in values:
        reject_unknown(key, allowed, what, extra)
        values[key] = parse_value(values[key], hints.get(key, Any), f"{key!r} of {what}")
    missing = [p for p in allowed if parameters[p].default is inspect.Parameter.empty and p not in values]
    expect(not missing, f"{what} needs {join_names(missing)}")
    try:
        return factory(**fixed, **values)
    except UnbraidError:
        raise
    except (TypeError, RuntimeError, OverflowError) as error:
        raise UnbraidError(f"{what} cannot be built from {dict(options)}: {error}.") from error


def reject_unknown(key: str, allowed: Iterable[str], what: str, extra: Iterable[str] = ()) -> None:
    """Raise an error for an unknown option, with the nearest name and the whole list.

    Args:
        key: the option.
        allowed: the options that exist.
        what: what takes the options, for the error.
        extra: further options that exist.
    """
    names = [*allowed, *extra]
    if key not in names:
        raise UnbraidError(
            f"{what} takes no option {key!r}.{did_you_mean(key, names)} Options: {join_names(names) or 'none'}."
        )


def parse_value(plain: Any, hint: Any, what: str) -> Any:
    """Convert one value by its annotation; a class with a method `read_option(plain, what)` converts its own values.

    Args:
        plain: the value, as TOML gives it.
        hint: the annotation.
        what: what the value is, for the error.

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
    types = " or ".join(dict.fromkeys(map(describe_type, choices)))
    raise UnbraidError(error_message(f"{what} must be {types}", found=repr(plain)))


def build_record(record_type: type[T], plain: Any, what: str) -> T:
    """Build a frozen record from a table; its fields are converted by their annotations.

    Args:
        record_type: the dataclass.
        plain: the table.
        what: what is built, for errors.
    """
    expect(isinstance(plain, dict), f"{what} must be a table", found=repr(plain))
    return call_with_options(record_type, plain, what)


def _choices(hint: Any) -> list[Any]:
    """The members of a union, or the annotation itself."""
    return list(get_args(hint)) if get_origin(hint) in (typing.Union, types.UnionType) else [hint]


def _try_parse(plain: Any, hint: Any, what: str) -> tuple[bool, Any]:
    """Whether a value fits one annotation, and the converted value."""
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
        free = len(inside) < 2
        return isinstance(plain, Mapping) and (
            free or all(_fits_any(v, inside[1], what) for v in plain.values())
        ), plain
    if origin in (list, Sequence, tuple):
        fits = isinstance(plain, list | tuple) and (not inside or all(_fits_any(v, inside[0], what) for v in plain))
        return fits, tuple(plain) if fits and origin is tuple else plain
    return True, plain  # an annotation that does not restrict plain values


def _fits_any(plain: Any, hint: Any, what: str) -> bool:
    return any(_try_parse(plain, choice, what)[0] for choice in _choices(hint))


def describe_type(hint: Any, plural: bool = False) -> str:
    """Describe an annotation in words.

    Args:
        hint: the annotation.
        plural: use the plural.
    """
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
    """The annotations of a function, of the constructor of a class, or of a callable record.

    Args:
        factory: the function, class or record.
    """
    if isinstance(factory, type):
        return get_type_hints(factory if is_dataclass(factory) else factory.__init__)
    return get_type_hints(factory if inspect.isroutine(factory) else type(factory).__call__)
