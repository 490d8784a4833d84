"""Write the reference of the command line from the program: docs/reference/commands.md, before each build of the site."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import typer

from unbraid.catalogue.rendering import escape_markdown
from unbraid.core.files import write_text

GUIDES = {  # the guide of each command
    "demo": "demo", "data": "data", "train": "training", "encode": "training", "audit": "training", "report": "report", "sweep": "sweeps",
    "score": "metrics", "compare": "comparing", "list": "reference/index", "show": "reference/index", "table": "objectives",
    "recipes": "recipes", "cite": "tools", "study": "studies", "export": "studio", "figure": "gallery", "ledger": "training", "studio": "studio",
}  # fmt: skip
COMMAND_ORDER = ("train", "encode", "score", "audit", "report", "figure", "ledger", "compare", "sweep", "study", "studio", "export", "demo")


def find_commands() -> dict[str, Any]:
    """Every command by name, those of a group as 'data show'; in the order of the flow, then by name."""
    from unbraid.cli import app

    top: Any = typer.main.get_command(app)
    found: dict[str, Any] = {}
    for name in [*COMMAND_ORDER, *sorted(set(top.commands) - set(COMMAND_ORDER))]:
        command = top.commands[name]
        under = getattr(command, "commands", {})
        if not under or command.invoke_without_command:
            found[name] = command
        found |= {f"{name} {inner}": each for inner, each in under.items()}
    return found


def commands_page() -> str:
    """All commands on one page."""
    parts = [
        "# Command line",
        "Each command reads one file and writes the next, so every stage can be rerun alone: "
        "recipe.toml → `train` → model.safetensors → `encode` → codes.npz → `score` → scores.json → `report` → report.html. "
        "`unbraid COMMAND --help` prints the same text. A mistake prints one line on standard error and exits with code 2, Ctrl-C with 130, a "
        "sweep with failed runs with 1.",
        "Every command also takes `--import MODULE`, which registers [your own parts](../extending.md), and `--help`.",
        ", ".join(f"[{name}](#command-{name.replace(' ', '-')})" for name in find_commands()),
    ]
    return "\n\n".join([*parts, *(describe_command(name, command) for name, command in find_commands().items())]) + "\n"


def describe_command(name: str, command: Any) -> str:
    """Describe one command: usage, help, arguments and options.

    Args:
        name: its name.
        command: the command.
    """
    help_text = inspect.cleandoc(command.help or "").replace("\b", "")
    arguments = [p for p in command.params if p.param_type_name == "argument"]
    line = " ".join(["unbraid", name, *map(_argument_usage, arguments), "[OPTIONS]"])
    parts = [f"(command-{name.replace(' ', '-')})=\n## {name}", f"```text\n{line}\n```", *(escape_markdown(p) for p in help_text.split("\n\n"))]
    if guide := GUIDES.get(name.split()[0]):
        parts.append(f"Guide: [{guide.rsplit('/', 1)[-1] if guide != 'reference/index' else 'names and options'}](../{guide}.md)")
    rows = [_parameter_row(command, p) for p in command.params if p.name not in ("help", "imports") and not getattr(p, "hidden", False)]
    parts += ["\n".join(["| | default | |", "|---|---|---|", *rows])] if rows else []
    return "\n\n".join(parts)


def _argument_usage(p: Any) -> str:
    """An argument as in the usage line."""
    return p.metavar or (p.name.upper() if p.required else f"[{p.name.upper()}]")


def _value_kind(command: Any, name: str) -> str:
    """The type of an option from its annotation, independent of the version of typer."""
    hint = str(inspect.signature(command.callback, eval_str=True).parameters[name].annotation)
    return next(word for plain, word in (("Path", "PATH"), ("int", "N"), ("float", "X"), ("str", "TEXT")) if plain in hint.split(", typer")[0])


def _parameter_row(command: Any, p: Any) -> str:
    if p.param_type_name == "argument":
        shown = f"`{_argument_usage(p)}`"
    else:
        shown = ", ".join(f"`{o}`" for o in (*p.opts, *p.secondary_opts))
        kind = p.metavar or ("" if p.is_flag else _value_kind(command, p.name))
        shown += f" {escape_markdown(kind)}" if kind else ""
    stated = getattr(p, "show_default", False)
    default = stated if isinstance(stated, str) else "" if p.default in (None, "", [], ()) or p.is_eager or callable(p.default) else p.default
    default = "" if getattr(p, "is_flag", False) else default
    needed = "needed" if p.required else ""
    return f"| {shown} | {f'`{default}`' if default != '' else needed} | {escape_markdown(p.help or '')} |"


def write_page(folder: Path) -> None:
    """Write the page into a folder if it has changed."""
    path, text = folder / "commands.md", commands_page()
    if not path.is_file() or path.read_text() != text:
        write_text(path, text)
