"""`unbraid figure`: any figure of the report as a file."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import typer

from unbraid.cli.options import At, Best, Device, load_run
from unbraid.cli.signatures import expand_records
from unbraid.core.errors import expect


@dataclass(frozen=True)
class DrawingOptions:
    """What to draw: the fields of `FigureOptions`, with commas in place of lists."""

    images: Annotated[str, typer.Option(help="Image numbers, with commas: where traversals start.")] = ""
    leaves: Annotated[str, typer.Option(help="Names of leaves, with commas (default: the live ones).")] = ""
    low: Annotated[float, typer.Option(help="First value of a traversal of a real leaf.")] = -2.2
    high: Annotated[float, typer.Option(help="Last value.")] = 2.2
    steps: Annotated[int, typer.Option(min=2, max=100, help="Number of values.")] = 9
    dead: Annotated[bool, typer.Option("--dead", help="Also draw leaves with next to no information.")] = False
    zero: Annotated[
        bool,
        typer.Option("--zero", help="Start traversals from code 0 instead of an image, discrete leaves at class 0."),
    ] = False


@expand_records
def figure(
    *,
    name: Annotated[str, typer.Argument(metavar="[NAME]", help="The figure; without it, all are listed.")] = "",
    runs: Annotated[
        list[Path] | None,
        typer.Argument(metavar="[RUN]...", help="A run directory; traversals take several, side by side."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="A file ending in .pdf, .svg, .png or .gif; default NAME.png.")
    ] = None,
    drawing: DrawingOptions,
    best: Best = False,
    at: At = None,
    device: Device = "",
    dpi: Annotated[int, typer.Option(min=30, max=1200, help="Dots per inch of PNG and GIF.")] = 150,
) -> None:
    """Write any figure of the report as PDF, SVG, PNG or GIF (traversals move in a GIF)."""
    from unbraid.core.files import ensure_writable_folder
    from unbraid.figures.registry import FIGURES, FigureOptions, write_figure, write_side_by_side

    if not name:
        for key, spec in FIGURES.items():
            typer.echo(f"{key:<17}{spec.title}")
        typer.echo(
            "\nunbraid figure NAME RUN --out FILE.pdf\nunbraid figure traversals RUN RUN --out FILE.pdf: side by side"
        )
        return
    runs = runs or []
    expect(runs, "figure needs a run directory", do=f"For example: unbraid figure {name} runs/one --out a.pdf")
    expect(
        len(runs) == 1 or name == "traversals",
        "only traversals take several runs",
        found=f"{len(runs)} runs for {name!r}",
        do="Give one run, or draw traversals; 'unbraid report RUN RUN' has all figures of both.",
    )

    path = out or Path(f"{name}.png")
    ensure_writable_folder(path.parent)
    lists = {"images": _parse_numbers(drawing.images), "leaves": _split_commas(drawing.leaves)}
    options = FigureOptions(**(asdict(drawing) | lists))
    loaded = [load_run(run, device, best, at) for run in runs]
    if len(loaded) == 1:
        written = write_figure(name, loaded[0], path, options, dpi)
    else:
        written = write_side_by_side(loaded, path, options, dpi)
    typer.echo(f"figure: {written}")


def _split_commas(text: str) -> tuple[str, ...]:
    return tuple(item.strip() for item in text.split(",") if item.strip())


def _parse_numbers(text: str) -> tuple[int, ...]:
    items = _split_commas(text)
    expect(all(item.isdecimal() for item in items), "images are integers, separated by commas", found=repr(text))
    return tuple(int(item) for item in items)
