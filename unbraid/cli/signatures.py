"""Options that are added to the signature of a command: the fields of option records, and `--import` of every command."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from dataclasses import fields, is_dataclass
from functools import wraps
from typing import Annotated, Any, get_type_hints

import typer


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

    return _with_parameters(run, parameters)


def _with_parameters(command: Callable[..., Any], parameters: Iterable[inspect.Parameter]) -> Callable[..., Any]:
    """Declare the parameters that Typer reads."""
    signature = inspect.Signature(list(parameters))
    command.__signature__ = signature  # type: ignore[attr-defined]
    command.__annotations__ = {name: p.annotation for name, p in signature.parameters.items()}
    return command


def _import_modules(names: list[str]) -> list[str]:
    if names:
        from unbraid.runs.building.custom_parts import import_modules, move_cwd_last

        move_cwd_last()
        import_modules(names)
    return names


Imports = Annotated[
    list[str],
    typer.Option(
        "--import",
        metavar="MODULE",
        help="Import a module of your own that adds parts (docs/extending.md); may be repeated.",
        callback=_import_modules,
        is_eager=True,  # its names exist when other options are parsed
    ),
]


def add_import_option(app: typer.Typer) -> None:
    """Add the option `--import` to every command of an app and of its groups.

    Args:
        app: the app.
    """
    for command in app.registered_commands:
        if command.callback is not None:
            command.callback = _with_import(command.callback)
    for group in app.registered_groups:
        if group.typer_instance is not None:
            add_import_option(group.typer_instance)


def _with_import(command: Callable[..., Any]) -> Callable[..., Any]:
    parameters = inspect.signature(command, eval_str=True).parameters
    if "imports" in parameters:
        return command

    @wraps(command)
    def run(*arguments: Any, imports: list[str], **options: Any) -> Any:
        return command(*arguments, **options)

    option = inspect.Parameter("imports", inspect.Parameter.KEYWORD_ONLY, default=[], annotation=Imports)
    return _with_parameters(run, [*parameters.values(), option])
