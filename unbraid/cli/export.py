"""`unbraid export`: write a run in a format that other tools open."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from unbraid.cli.options import At, Best, RunDir, load_run
from unbraid.core.errors import choose, expect


def export(
    run: RunDir,
    to: Annotated[
        str, typer.Option("--to", metavar="FORMAT", help="html, onnx or hub; 'unbraid list exports' describes them.")
    ] = "",
    html: Annotated[bool, typer.Option("--html", help="Same as --to html.")] = False,
    onnx: Annotated[bool, typer.Option("--onnx", help="Same as --to onnx.")] = False,
    hub: Annotated[bool, typer.Option("--hub", help="Same as --to hub.")] = False,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="File or folder; default inside the run.")] = None,
    best: Best = False,
    at: At = None,
) -> None:
    """Write a run in a format that other tools open: a web page, ONNX, or a folder for Hugging Face's hub."""
    from unbraid.export import EXPORTS
    from unbraid.sweeps.display.summary import format_bytes

    flags = {"html": html, "onnx": onnx, "hub": hub}
    formats = [*([to] if to else []), *(name for name, chosen in flags.items() if chosen)]
    expect(
        len(formats) == 1,
        "export writes one format",
        found=", ".join(formats) or "none",
        allowed=EXPORTS,
        do=f"For example: unbraid export {run} --to html",
    )
    write = choose(formats[0], EXPORTS, "export format")
    path = write(load_run(run, best=best, at=at), out)
    files = [path] if path.is_file() else [f for f in path.rglob("*") if f.is_file()]
    typer.echo(f"{formats[0]}: {path} ({format_bytes(sum(f.stat().st_size for f in files))})")
