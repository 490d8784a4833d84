"""`unbraid study`: list the studies, or run one."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from unbraid.ground.errors import choose, expect

Name = Annotated[
    str, typer.Argument(metavar="[NAME]", help="A study; all are listed when left out.", show_default=False)
]
Out = Annotated[Path | None, typer.Option(help="Folder for the pictures and NAME.json.", show_default=False)]
AsJson = Annotated[bool, typer.Option("--json", help="Print the numbers as JSON, and nothing else there.")]


def register(app: typer.Typer) -> None:
    """Add the verb `study` to a typer app."""
    app.command("study")(study)


def study(name: Name = "", out: Out = None, as_json: AsJson = False) -> None:
    """Figures and tables of the papers, made anew: pictures, a JSON of the numbers, a table here."""
    from unbraid import studies

    if not name:
        width = max(map(len, studies.STUDIES)) + 2
        for each, known in studies.STUDIES.items():
            typer.echo(f"{each:<{width}}{known.about}\n{'':<{width}}{known.cite}")
        typer.echo("\nunbraid study NAME --out DIR   run one")
        return
    known = choose(name, studies.STUDIES, "study")
    expect(out is not None, "a study writes pictures", do=f"Say where: unbraid study {name} --out {name}.")
    assert out is not None
    from unbraid.ground.progress import bar

    with bar(name, known.steps, quiet=as_json) as advance:
        found = studies.run(name, out, advance)
    if as_json:
        import json

        typer.echo(json.dumps(found.numbers, allow_nan=False, ensure_ascii=False))
        return
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    shown = Table(box=SIMPLE_HEAD, pad_edge=False)
    for head, cells in zip(found.head, zip(*found.rows)):
        shown.add_column(head, justify="right" if all(map(_is_number, cells)) else "left", overflow="fold")
    for row in found.rows:
        shown.add_row(*map(Text, row))  # as it is: [q(z)] is no markup
    console = Console()
    console.print(shown)
    console.print(known.cite, highlight=False)
    written = [out / picture for picture in found.pictures] + [out / f"{name}.json"]
    console.print("written: " + ", ".join(map(str, written)), soft_wrap=True)


def _is_number(cell: str) -> bool:
    try:
        float(cell.rstrip("°") or 0)
        return True
    except ValueError:
        return False
