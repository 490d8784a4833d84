"""The command line as one page, from the program itself: docs/reference/commands.md, before each build of the site."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import typer

from unbraid.catalogue.rendering import escape_markdown
from unbraid.core.files import write_text

GUIDES = {  # where a verb is taught
    "demo": "demo", "data": "data", "train": "training", "encode": "training", "audit": "training", "report": "report", "sweep": "sweeps",
    "score": "metrics", "compare": "comparing", "list": "reference/index", "show": "reference/index", "table": "objectives",
    "recipes": "recipes", "cite": "tools", "study": "studies", "export": "studio", "figure": "gallery", "ledger": "training", "studio": "studio",
}  # fmt: skip
COMMAND_ORDER = ("train", "encode", "score", "audit", "report", "figure", "ledger", "compare", "sweep", "study", "studio", "export", "demo")


def find_commands() -> dict[str, Any]:
    """Every verb with its command, those of a group as 'data show'; in the order of the flow, then by name."""
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
    """All verbs on one page."""
    parts = [
        "# Command line",
        "Each verb reads the file before it and writes the next, so any stage can be run again alone: "
        "recipe.toml → `train` → model.safetensors → `encode` → codes.npz → `score` → scores.json → `report` → report.html. "
        "`unbraid VERB --help` prints what stands here. A mistake is one line on standard error and the exit code 2; Ctrl-C is 130; a sweep "
        "with failed runs ends with 1.",
        "Every verb also takes `--import MODULE`, which adds [parts of your own](../extending.md), and `--help`.",
        ", ".join(f"[{name}](#verb-{name.replace(' ', '-')})" for name in find_commands()),
    ]
    return "\n\n".join([*parts, *(describe_command(name, command) for name, command in find_commands().items())]) + "\n"


def describe_command(name: str, command: Any) -> str:
    """One verb: its line, what it does, arguments and options."""
    said = inspect.cleandoc(command.help or "").replace("\b", "")
    arguments = [p for p in command.params if p.param_type_name == "argument"]
    line = " ".join(["unbraid", name, *map(_argument_usage, arguments), "[OPTIONS]"])
    parts = [f"(verb-{name.replace(' ', '-')})=\n## {name}", f"```text\n{line}\n```", *(escape_markdown(p) for p in said.split("\n\n"))]
    if guide := GUIDES.get(name.split()[0]):
        parts.append(f"Guide: [{guide.rsplit('/', 1)[-1] if guide != 'reference/index' else 'names and options'}](../{guide}.md)")
    rows = [_parameter_row(command, p) for p in command.params if p.name not in ("help", "imports") and not getattr(p, "hidden", False)]
    parts += ["\n".join(["| | default | |", "|---|---|---|", *rows])] if rows else []
    return "\n\n".join(parts)


def _argument_usage(p: Any) -> str:
    """An argument as it stands in the line."""
    return p.metavar or (p.name.upper() if p.required else f"[{p.name.upper()}]")


def _value_kind(command: Any, name: str) -> str:
    """What an option takes, by its annotation: these do not depend on the version of typer."""
    hint = str(inspect.signature(command.callback, eval_str=True).parameters[name].annotation)
    return next(word for plain, word in (("Path", "PATH"), ("int", "N"), ("float", "X"), ("str", "TEXT")) if plain in hint.split(", typer")[0])


def _parameter_row(command: Any, p: Any) -> str:
    if p.param_type_name == "argument":
        shown = f"`{_argument_usage(p)}`"
    else:
        shown = ", ".join(f"`{o}`" for o in (*p.opts, *p.secondary_opts))
        kind = p.metavar or ("" if p.is_flag else _value_kind(command, p.name))
        shown += f" {escape_markdown(kind)}" if kind else ""
    told = getattr(p, "show_default", False)
    default = told if isinstance(told, str) else "" if p.default in (None, "", [], ()) or p.is_eager or callable(p.default) else p.default
    default = "" if getattr(p, "is_flag", False) else default
    needed = "needed" if p.required else ""
    return f"| {shown} | {f'`{default}`' if default != '' else needed} | {escape_markdown(p.help or '')} |"


def write_page(folder: Path) -> None:
    """Write the page if it has changed."""
    path, text = folder / "commands.md", commands_page()
    if not path.is_file() or path.read_text() != text:
        write_text(path, text)
