"""Option records: a command takes a frozen dataclass, and each field of it is an option on the command line."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from functools import wraps
from typing import Any, get_type_hints


def expand_records(command: Callable[..., None]) -> Callable[..., None]:
    """Replace each dataclass parameter of a command by one option for each field.

    Args:
        command: the command; the fields of its records are annotated with Typer options and have defaults.
    """
    hints = get_type_hints(command, include_extras=True)
    records: dict[str, Any] = {name: hint for name, hint in hints.items() if is_dataclass(hint)}
    parameters = []
    for name, parameter in inspect.signature(command).parameters.items():
        if name in records:
            types = get_type_hints(records[name], include_extras=True)
            parameters += [
                inspect.Parameter(f.name, parameter.KEYWORD_ONLY, default=f.default, annotation=types[f.name])
                for f in fields(records[name])
            ]
        else:
            parameters.append(parameter.replace(kind=parameter.KEYWORD_ONLY, annotation=hints[name]))

    @wraps(command)
    def run(**values: Any) -> None:
        built = {
            name: record(**{f.name: values.pop(f.name) for f in fields(record)}) for name, record in records.items()
        }
        command(**values, **built)

    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {p.name: p.annotation for p in parameters}
    return run
