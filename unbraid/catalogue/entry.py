"""Entries of the catalogue: description, formula, options, usage and papers of one name."""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, is_dataclass
from typing import Any, get_args, get_origin

from unbraid.catalogue.common_options import COMMON_OPTIONS
from unbraid.catalogue.docstrings import ParsedDocstring, capitalise, parse_docstring
from unbraid.core import options as validator
from unbraid.core.papers import PAPERS, papers_in

REQUIRED = inspect.Parameter.empty
EXAMPLE_VALUES = {  # examples for options without a default
    "path": '"photos/"',
    "prices": '{kl = 1.0, "tc:root" = 4.0}',
    "parents": '{beard = "sex"}',
}


@dataclass(frozen=True)
class Option:
    """An option of a part.

    Args:
        name: its name.
        default: its default; `REQUIRED` when there is none.
        takes: the type, in words.
        about: what it does.

    >>> Option("beta", 4.0, "a number", "price of the KL.").description
    'price of the KL. A number.'
    """

    name: str
    default: Any
    takes: str = ""
    about: str = ""

    @property
    def description(self) -> str:
        """What the option does, then its type."""
        kind = f"{capitalise(self.takes)}." if self.takes else ""
        return " ".join(part for part in (self.about, kind) if part)

    @property
    def default_text(self) -> str:
        """The default as TOML writes it."""
        return "needed" if self.default is REQUIRED else to_toml(self.default)


@dataclass(frozen=True)
class Entry:
    """A named part of one kind.

    Args:
        kind: the kind, in the singular.
        name: the name.
        doc: its parsed docstring.
        options: its options.
        cite: its papers.
        facts: further lines, by head.
        table: the table of a recipe that names it.

    >>> from unbraid.catalogue import find_entry
    >>> find_entry("objective", "beta_vae").toml.splitlines()
    ['[objective]', 'name = "beta_vae"', 'beta = 4.0']
    """

    kind: str
    name: str
    doc: ParsedDocstring
    options: tuple[Option, ...] = ()
    cite: str = ""
    facts: Mapping[str, str] = field(default_factory=dict)
    table: str = ""

    @property
    def papers(self) -> tuple[str, ...]:
        """Keys into `PAPERS`."""
        return papers_in(self.cite)

    @property
    def paper_lines(self) -> list[str]:
        """The papers in full."""
        return [PAPERS[key].reference for key in self.papers]

    @property
    def toml(self) -> str:
        """Its table in a recipe, with the defaults that TOML can express; "" where recipes do not name it."""
        if not self.table:
            return ""
        head, _, key = self.table.partition(" ")
        plain = [o for o in self.options if isinstance(o.default, bool | int | float | str) and o.default != ""]
        lines = [f"{o.name} = {EXAMPLE_VALUES[o.name]}  # yours" for o in self.options if o.default is REQUIRED]
        lines += [f"{o.name} = {o.default_text}" for o in plain]
        return "\n".join([f"[{head}]", f'{key or "name"} = "{self.name}"', *lines])


def explain(
    kind: str,
    name: str,
    factory: Any,
    *,
    cite: str = "",
    skip: Iterable[str] = (),
    common_options: Mapping[str, str] | None = None,
    extra: Iterable[Option] = (),
    facts: Mapping[str, str] | None = None,
    table: str = "",
    doc: str | None = None,
) -> Entry:
    """Make an entry from a function or class: options from the signature, the rest from the docstring.

    Args:
        kind: the kind, in the singular.
        name: the name.
        factory: the function or class.
        cite: its papers; by default those that the docstring names, or this library.
        skip: parameters that are not options.
        common_options: descriptions for options that the docstring does not describe; by default those of the kind.
        extra: further options, where the signature does not have them.
        facts: further lines, by head.
        table: the table of a recipe that names it.
        doc: a text instead of the docstring.
    """
    from unbraid.runs.recipe_fields import READINGS

    # a new recipe that leaves one of these out has the new reading, a stored run the function's default
    readings = {each.key: each.new for each in READINGS if each.table == table}
    parameters = {p: readings.get(p, default) for p, default in _parameters(factory, set(skip)).items()}
    doc = factory.__doc__ if doc is None else doc
    parsed, hints = parse_docstring(doc, parameters), _hints(factory)
    about = {**(COMMON_OPTIONS.get(kind, {}) if common_options is None else common_options), **parsed.options}
    found = [Option(p, d, describe_annotation(hints.get(p, Any)), about.get(p, "")) for p, d in parameters.items()]
    found += [option for option in extra if option.name not in parameters]
    return Entry(kind, name, parsed, tuple(found), cite or papers_or_library(doc), dict(facts or {}), table)


def papers_or_library(doc: str | None) -> str:
    """The papers that a docstring names, or this library.

    Args:
        doc: the docstring.
    """
    return "; ".join(papers_in(doc)) or "this library"


def describe_annotation(hint: Any) -> str:
    """Describe an annotation in words; "" for one without information.

    Args:
        hint: the annotation.

    >>> describe_annotation(float | list[float]), describe_annotation(bool)
    ('a number or a list of numbers', 'true or false')
    """
    choices = get_args(hint) if get_origin(hint) in (typing.Union, types.UnionType) else (hint,)
    named = [c for c in choices if c is not type(None) and c is not Any]
    words = ["a schedule" if hasattr(c, "read_option") else validator.describe_type(c) for c in named]
    return " or ".join(dict.fromkeys(words))


def to_toml(value: Any) -> str:
    """Format a value as TOML; "–" for None.

    Args:
        value: the value.

    >>> to_toml(True), to_toml("mss"), to_toml((0.5, 0.9)), to_toml(None), to_toml(100_000)
    ('true', '"mss"', '[0.5, 0.9]', '–', '100000')
    """
    if value is None:
        return "–"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(to_toml, value))}]"
    if is_dataclass(value) and not isinstance(value, type):
        return f"{{{', '.join(f'{k} = {to_toml(v)}' for k, v in vars(value).items())}}}"
    return f"{value:.4g}" if isinstance(value, float) and len(repr(value)) > 12 else str(value)


def _parameters(factory: Callable[..., Any], skip: set[str]) -> dict[str, Any]:
    """The options of a function, class or record, with their defaults."""
    try:
        parameters = inspect.signature(factory).parameters.values()
    except (TypeError, ValueError):
        return {}
    named = [p for p in parameters if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD) and p.name not in skip]
    return {p.name: p.default for p in named}


def _hints(factory: Any) -> dict[str, Any]:
    try:
        return validator.type_hints(factory)
    except (TypeError, NameError, AttributeError):
        return {}
