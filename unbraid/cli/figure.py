"""`unbraid figure`: any picture of the report as a file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from unbraid.cli.options import At, Best, Device, load_run


def figure(
    name: Annotated[str, typer.Argument(metavar="[NAME]", help="Which picture; all are listed when left out.")] = "",
    runs: Annotated[
        list[Path], typer.Argument(metavar="[RUN]...", help="A run directory; traversals take several, side by side.")
    ] = [],  # noqa: B006
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="A file ending in .pdf, .svg, .png or .gif; default NAME.png.")
    ] = None,
    images: Annotated[str, typer.Option(help="Images by number, with commas: where traversals start.")] = "",
    leaves: Annotated[
        str, typer.Option(help="Leaves by name, with commas (default: those that carry something).")
    ] = "",
    low: Annotated[float, typer.Option(help="Where a traversal of a real leaf begins.")] = -2.2,
    high: Annotated[float, typer.Option(help="Where it ends.")] = 2.2,
    steps: Annotated[int, typer.Option(min=2, max=100, help="In how many steps.")] = 9,
    dead: Annotated[bool, typer.Option("--dead", help="Also leaves that carry next to nothing.")] = False,
    zero: Annotated[
        bool,
        typer.Option("--zero", help="Start traversals from code 0 instead of an image, discrete leaves at class 0."),
    ] = False,
    best: Best = False,
    at: At = None,
    device: Device = "",
    dpi: Annotated[int, typer.Option(min=30, max=1200, help="Dots per inch of PNG and GIF.")] = 150,
) -> None:
    """Any picture of the report as a file: PDF, SVG, PNG or GIF (traversals move in a GIF)."""
    from unbraid.core.errors import expect
    from unbraid.core.files import ensure_writable_folder

    if not name:
        from unbraid.figures.registry import FIGURES

        for key, picture in FIGURES.items():
            typer.echo(f"{key:<17}{picture.title}")
        typer.echo(
            "\nunbraid figure NAME RUN --out FILE.pdf\nunbraid figure traversals RUN RUN --out FILE.pdf: side by side"
        )
        return
    expect(runs, "figure needs a run directory", do=f"For example: unbraid figure {name} runs/one --out a.pdf")
    expect(
        len(runs) == 1 or name == "traversals",
        "only traversals are drawn of several runs side by side",
        found=f"{len(runs)} runs for {name!r}",
        do="Give one run, or draw traversals; 'unbraid report RUN RUN' has all pictures of both.",
    )
    from unbraid.figures.registry import FigureOptions, write_figure, write_side_by_side

    path = out if out is not None else Path(f"{name}.png")
    ensure_writable_folder(path.parent)
    choice = FigureOptions(_parse_numbers(images), _split_commas(leaves), low, high, steps, dead, zero)
    shown = [load_run(run, device, best, at) for run in runs]
    made = (
        write_figure(name, shown[0], path, choice, dpi)
        if len(shown) == 1
        else write_side_by_side(shown, path, choice, dpi)
    )
    typer.echo(f"figure: {made}")


def _split_commas(text: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in text.split(",") if word.strip())


def _parse_numbers(text: str) -> tuple[int, ...]:
    from unbraid.core.errors import expect

    words = _split_commas(text)
    expect(all(w.isdecimal() for w in words), "images are whole numbers with commas between", found=repr(text))
    return tuple(int(word) for word in words)


def register(app: typer.Typer) -> None:
    """Add the verb to the app."""
    app.command()(figure)
