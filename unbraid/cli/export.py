"""The verb export: a run as a file for the world outside."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def export(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run directory.")],
    html: Annotated[
        bool, typer.Option("--html", help="One page whose sliders decode in the browser, offline: explore.html.")
    ] = False,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Where to write; default inside the run.")] = None,
) -> None:
    """Write a run in a format that needs no unbraid to open."""
    from unbraid.export import EXPORTS
    from unbraid.ground.errors import expect
    from unbraid.runs.run import Run

    chosen = [name for name, asked in {"html": html}.items() if asked]
    expect(
        len(chosen) == 1,
        "export writes one format at a time",
        found=", ".join(f"--{name}" for name in chosen) or "none",
        allowed=", ".join(f"--{name}" for name in EXPORTS),
    )
    path = EXPORTS[chosen[0]](Run.load(run), out)
    typer.echo(f"{chosen[0]}: {path} ({path.stat().st_size / 1e6:.1f} MB)")


def register(app: typer.Typer) -> None:
    """Add the verb to the app."""
    app.command()(export)
