"""`unbraid data`: list, make and show data sets."""

from __future__ import annotations

import inspect
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from unbraid.core.errors import UnbraidError, choose, expect
from unbraid.core.progress import wrap_text

data_app = typer.Typer(help="List, make, fetch and show data sets.", no_args_is_help=True, rich_markup_mode=None)
Name = Annotated[str, typer.Argument(help="A data set; 'unbraid data list' names them.", show_default=False)]
Options = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="OPTION=VALUE",
        show_default=False,
        help="An option of the set, as under [data] in a recipe, such as orientation=true or path=mnist/. Repeatable.",
    ),
]


@data_app.command("list")
def list_sets(name: Annotated[str, typer.Argument(help="Only this one, with its options.")] = "") -> None:
    """List data sets with status, size and factors, and how to get each."""
    from unbraid.data import DATASETS, STRUCTURE

    if name:
        from unbraid.catalogue import find_entry, render_entry

        typer.echo(render_entry(find_entry("data", name)))
        typer.echo("\n" + wrap_text(f"Options of every set: {', '.join(STRUCTURE)}."))
        return
    from rich.console import Console
    from rich.table import Table

    shown = Table(box=None, pad_edge=False, header_style="bold")
    for head in ("name", "status"):
        shown.add_column(head, no_wrap=True)
    for head in ("size", "factors"):
        shown.add_column(head, overflow="fold")
    for source in DATASETS.values():
        shown.add_row(source.name, source.status().partition(":")[0], source.size, source.factors)
    Console().print(shown)
    typer.echo("\nHow to get those that need a file:")
    for source in DATASETS.values():
        if source.status().startswith("needs"):
            typer.echo(wrap_text(f"  {source.name + ':':<15}{source.how_to_get}", 17))
    typer.echo("\n'unbraid data list NAME' describes a set and its options.")


@data_app.command("make")
def make(name: Name, options: Options = None) -> None:
    """Make, fetch or import a data set into the cache."""
    from unbraid.data import DATASETS, load
    from unbraid.data.cache import array_cache

    source, chosen, start = choose(name, DATASETS, "data set"), parse_options(options), time.monotonic()
    if source.fetch is not None and not chosen.get("path"):
        takes = inspect.signature(source.fetch).parameters
        source.fetch(**{option: value for option, value in chosen.items() if option in takes})
    dataset = load(name, **chosen)
    typer.echo(
        f"{name}: {len(dataset):,} of {'×'.join(map(str, dataset.shape))} ready in "
        f"{time.monotonic() - start:.1f} s (cache: {array_cache.cache_dir()})"
    )
    if chosen.get("path") and source.status() != "ready":
        advice = f"It is read from {chosen['path']} and was not copied: give that path in a recipe too"
        where = f", or put its files into {array_cache.cache_dir() / name}" if source.fetch is not None else ""
        typer.echo(wrap_text(f"{advice}{where}."))
    if bad := dataset.notes.get("damaged"):
        typer.echo(f"left out as damaged: {len(bad):,}, such as {bad[0]}")


@data_app.command("show")
def show(
    name: Name,
    options: Options = None,
    out: Annotated[Path | None, typer.Option("--out", help="The PNG file.", show_default="data_NAME.png")] = None,
    rows: Annotated[int, typer.Option(help="Rows of the contact sheet.", min=1, max=100)] = 6,
    columns: Annotated[int, typer.Option(help="Columns of the contact sheet.", min=1, max=100)] = 12,
    seed: Annotated[int, typer.Option(help="Seed of the random images.")] = 0,
) -> None:
    """Draw random images of a data set, and traversals of each factor."""
    from unbraid.data import load
    from unbraid.figures.dataset_figures import dataset_figure
    from unbraid.figures.drawing import save_figure

    path = out or Path(f"data_{name}.png")
    expect(path.suffix == ".png", "the figure is a PNG", found=path.name, do="End --out in .png.")
    dataset = load(name, **parse_options(options))
    save_figure(dataset_figure(dataset, rows, columns, seed), path, dpi=100)
    items = dataset.factors.items if dataset.factors else ()
    factors = ", ".join(f"{f.name} {f.size or '(continuous)'}" for f in items) or "none"
    typer.echo(f"{name}: {len(dataset):,} of {'×'.join(map(str, dataset.shape))}; factors: {factors}\nsee {path}")


def parse_options(options: list[str] | None) -> dict[str, Any]:
    """Parse options `a=1`, `b=true`, `c=[1, 2]`, `d={ min = 3 }` as TOML; other values are strings.

    >>> parse_options(["orientation=true", "size=32", "path=some/where", "hold_out.shape=heart"])
    {'orientation': True, 'size': 32, 'path': 'some/where', 'hold_out': {'shape': 'heart'}}
    """
    from unbraid.runs.recipe_fields import parse_toml_value

    chosen: dict[str, Any] = {}
    for option in options or []:
        name, sign, text = option.partition("=")
        expect(sign and name, "--set takes OPTION=VALUE", found=repr(option))
        value = parse_toml_value(text)
        *parents, last = name.strip().split(".")
        inner = chosen
        for parent in parents:
            inner = inner.setdefault(parent, {})
            if not isinstance(inner, dict):
                raise UnbraidError(f"--set {option}: {parent!r} already has a value that is not a table.")
        inner[last] = value
    return chosen
