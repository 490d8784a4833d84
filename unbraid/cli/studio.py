"""The command `unbraid studio`: the browser app over a directory of runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def studio(
    runs: Annotated[Path, typer.Argument(metavar="[RUNS_DIR]", help="Directory of runs, or one run.")] = Path("runs"),
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port on 127.0.0.1 (0: any free port).")] = 0,
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open a browser window.")] = True,
) -> None:
    """Explore, compare and train runs in the browser. The server accepts connections from this machine only."""
    from unbraid.studio.server import serve

    serve(runs, port, browser, typer.echo)
