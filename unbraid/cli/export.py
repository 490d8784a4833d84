"""The verb export: a run as a file or folder for the world outside."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from unbraid.cli.options import At, Best, load_run


def export(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run directory.")],
    html: Annotated[
        bool, typer.Option("--html", help="One page whose sliders decode in the browser, offline: explore.html.")
    ] = False,
    onnx: Annotated[
        bool, typer.Option("--onnx", help="Encoder and decoder for any ONNX runtime, checked against torch: onnx/.")
    ] = False,
    hub: Annotated[
        bool, typer.Option("--hub", help="A folder for Hugging Face's hub, with a model card: hub/.")
    ] = False,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Where to write; default inside the run.")] = None,
    best: Best = False,
    at: At = None,
) -> None:
    """Write a run in a format that other tools open."""
    from unbraid.core.errors import expect
    from unbraid.export import EXPORTS

    chosen = [name for name, asked in {"html": html, "onnx": onnx, "hub": hub}.items() if asked]
    expect(
        len(chosen) == 1,
        "export writes one format at a time",
        found=", ".join(f"--{name}" for name in chosen) or "none",
        allowed=", ".join(f"--{name}" for name in EXPORTS),
    )
    path = EXPORTS[chosen[0]](load_run(run, best=best, at=at), out)
    files = [path] if path.is_file() else [f for f in path.rglob("*") if f.is_file()]
    typer.echo(f"{chosen[0]}: {path} ({_size(sum(f.stat().st_size for f in files))})")


def _size(count: int) -> str:
    """Bytes in words.

    >>> _size(43_210), _size(2_345_678)
    ('43 kB', '2.3 MB')
    """
    return f"{count / 1e6:.1f} MB" if count >= 1e6 else f"{max(1, round(count / 1e3))} kB"


def register(app: typer.Typer) -> None:
    """Add the verb to the app."""
    app.command()(export)
