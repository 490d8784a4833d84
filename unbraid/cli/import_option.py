"""The option `--import MODULE` of every command: the module registers its own parts before the command runs."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Annotated, Any

import typer


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
    signature = inspect.signature(command, eval_str=True)
    if "imports" in signature.parameters:
        return command

    @wraps(command)
    def run(*arguments: Any, imports: list[str], **options: Any) -> Any:
        return command(*arguments, **options)

    option = inspect.Parameter("imports", inspect.Parameter.KEYWORD_ONLY, default=[], annotation=Imports)
    parameters = [*signature.parameters.values(), option]
    run.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {p.name: p.annotation for p in parameters}
    return run
