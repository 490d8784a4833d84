"""One name explained: what it is, its formula, options, when to use it, its papers."""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, is_dataclass
from typing import Any, get_args, get_origin

from unbraid.catalogue.reading import Doc, read
from unbraid.ground import options as validator
from unbraid.ground.papers import PAPERS, papers_in

NEEDED = inspect.Parameter.empty
EXAMPLES = {  # what stands in a recipe for options that have no default
    "path": '"photos/"',
    "prices": '{kl = 1.0, "tc:root" = 4.0}',
    "parents": '{beard = "sex"}',
}


@dataclass(frozen=True)
class Option:
    """What an option takes, what it is unless said, and what it does; `default` is `NEEDED` when there is none.

    >>> Option("beta", 4.0, "a number", "price of the KL.").said
    'price of the KL. A number.'
    """

    name: str
    default: Any
    takes: str = ""
    about: str = ""

    @property
    def said(self) -> str:
        """What it does, then what it takes."""
        kind = f"{self.takes[:1].upper()}{self.takes[1:]}." if self.takes else ""
        return " ".join(part for part in (self.about, kind) if part)

    @property
    def shown(self) -> str:
        """The default as TOML writes it."""
        return "needed" if self.default is NEEDED else toml(self.default)


@dataclass(frozen=True)
class Entry:
    """One name of one kind; `facts` are lines by head, `table` is the place in a recipe where it is named.

    >>> from unbraid.catalogue import find
    >>> find("objective", "beta_vae").toml.splitlines()
    ['[objective]', 'name = "beta_vae"', 'beta = 4.0']
    """

    kind: str
    name: str
    doc: Doc
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
        return [PAPERS[key].line for key in self.papers]

    @property
    def toml(self) -> str:
        """It in a recipe, with the defaults that TOML can write; "" where a recipe does not name it."""
        if not self.table:
            return ""
        head, _, key = self.table.partition(" ")
        plain = [o for o in self.options if isinstance(o.default, bool | int | float | str) and o.default != ""]
        lines = [f"{o.name} = {EXAMPLES[o.name]}  # yours" for o in self.options if o.default is NEEDED]
        lines += [f"{o.name} = {o.shown}" for o in plain]
        return "\n".join([f"[{head}]", f'{key or "name"} = "{self.name}"', *lines])


def explain(
    kind: str,
    name: str,
    make: Any,
    *,
    cite: str,
    skip: Iterable[str] = (),
    shared: Mapping[str, str] | None = None,
    facts: Mapping[str, str] | None = None,
    table: str = "",
    doc: str | None = None,
) -> Entry:
    """An entry from a function or class: its options from the signature, the rest from the docstring."""
    parameters = _parameters(make, set(skip))
    said = read(doc if doc is not None else make.__doc__, parameters)
    hints = _hints(make)
    found = tuple(
        Option(p, default, takes(hints.get(p, Any)), said.options.get(p, (shared or {}).get(p, "")))
        for p, default in parameters.items()
    )
    return Entry(kind, name, said, found, cite, dict(facts or {}), table)


def takes(hint: Any) -> str:
    """An annotation in words; "" for one that says nothing.

    >>> takes(float | list[float]), takes(bool)
    ('a number or a list of numbers', 'true or false')
    """
    choices = get_args(hint) if get_origin(hint) in (typing.Union, types.UnionType) else (hint,)
    named = [c for c in choices if c is not type(None) and c is not Any]
    words = ["a schedule" if hasattr(c, "read_option") else validator.words(c) for c in named]
    return " or ".join(dict.fromkeys(words))


def toml(value: Any) -> str:
    """A value as TOML writes it; "–" for none.

    >>> toml(True), toml("mss"), toml((0.5, 0.9)), toml(None), toml(100_000)
    ('true', '"mss"', '[0.5, 0.9]', '–', '100000')
    """
    if value is None:
        return "–"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(toml, value))}]"
    if is_dataclass(value) and not isinstance(value, type):
        return f"{{{', '.join(f'{k} = {toml(v)}' for k, v in vars(value).items())}}}"
    return f"{value:.4g}" if isinstance(value, float) and len(repr(value)) > 12 else str(value)


def _parameters(make: Callable[..., Any], skip: set[str]) -> dict[str, Any]:
    """The options of a function, class or record, with their defaults."""
    try:
        parameters = inspect.signature(make).parameters.values()
    except (TypeError, ValueError):
        return {}
    named = [p for p in parameters if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD) and p.name not in skip]
    return {p.name: p.default for p in named}


def _hints(make: Any) -> dict[str, Any]:
    try:
        return validator.hints(make)
    except (TypeError, NameError, AttributeError):
        return {}
