"""`unbraid discover`, `unbraid name` and `unbraid transform`: factors of pictures without labels."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from shlex import quote
from typing import Annotated

import typer

from unbraid.cli.data import Options, parse_options
from unbraid.cli.options import QuietBar, Workers
from unbraid.cli.signatures import expand_records
from unbraid.core.errors import UnbraidError, expect


@dataclass(frozen=True)
class DiscoveryLimits:
    """Time, sizes and numbers of a discovery: the keyword arguments of `unbraid.discover`."""

    minutes: Annotated[float, typer.Option(min=0.05, help="Time for the whole command; the plan fits into it.")] = 10.0
    more: Annotated[float, typer.Option(min=0.0, help="Minutes to add to a finished discovery.")] = 0.0
    dry: Annotated[bool, typer.Option("--dry", help="Look at the data, print the plan, and stop.")] = False
    size: Annotated[int, typer.Option(min=0, max=256, help="Side of the pictures in training (0: 32 or less).")] = 0
    resize: Annotated[str, typer.Option(help="crop, pad or stretch: how pictures become squares.")] = "crop"
    max_pictures: Annotated[int, typer.Option(min=1, help="Largest number of pictures used; it bounds memory.")] = (
        20_000
    )
    latents: Annotated[int, typer.Option(min=0, max=64, help="Number of continuous leaves (0: at most 10).")] = 0
    batch: Annotated[int, typer.Option(min=0, help="Pictures per step (0: 64, or less for small sets).")] = 0
    seeds: Annotated[int, typer.Option(min=2, max=20, help="Seeds of every setting.")] = 3
    workers: Workers = 0


@expand_records
def discover(
    *,
    pictures: Annotated[
        str,
        typer.Argument(metavar="PICTURES", help="A folder of pictures, an array or table file, or a data set's name."),
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder of the result.")] = Path("discovery"),
    limits: DiscoveryLimits,
    options: Options = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print the result only.")] = False,
) -> None:
    """Find factors in pictures without labels: one command from a folder to a page, codes and a chosen model.

    Trains a grid of settings with several seeds within the time, drops bad ones early, chooses by agreement between
    seeds, and says of each factor how many seeds find it. Ctrl-C leaves a valid result; the same command continues.
    """
    from unbraid.discovery.discovery import discover as run_discovery
    from unbraid.discovery.discovery import print_wrapped

    found = run_discovery(pictures, out, **asdict(limits), options=parse_options(options), quiet=quiet)
    if limits.dry:
        return
    print_wrapped("\n".join(["", *found.lines(), ""]))
    files = {"page": found.page, "sliders": out / "explore.html", "codes": found.codes_table, "model": out / "best"}
    typer.echo("\n".join(f"{name + ':':<9}{file}" for name, file in files.items() if file.exists()))
    place = quote(str(out / "best"))
    given = {"size": limits.size, "resize": limits.resize, "max-pictures": limits.max_pictures}
    usual = {"size": 0, "resize": "crop", "max-pictures": 20_000}
    changed = [f"--{key} {value}" for key, value in given.items() if value != usual[key]]
    changed += [f"--set {quote(option)}" for option in options or []]  # they decide which data a folder belongs to
    more = " ".join(["unbraid discover", quote(pictures), "--out", quote(str(out)), *changed, "--more 20"])
    named = [f"unbraid name {place} {leaf} 'what you see'" for leaf in found.stable_factors[:1]]
    steps = [*named, f"unbraid transform {place} NEW_PICTURES --out new.csv"] if named else [more]
    typer.echo("next:    " + "\n         ".join(steps))


def name(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run directory, such as discovery/best.")],
    leaf: Annotated[
        str, typer.Argument(metavar="[LEAF]", help="A leaf, such as z3; without it, names are listed.")
    ] = "",
    text: Annotated[str | None, typer.Argument(metavar="[NAME]", help="Its name; '' removes it.")] = None,
) -> None:
    """Name a leaf of a run: figures, pages, tables and exports show the name. Without LEAF, list the names."""
    from unbraid.runs import Run
    from unbraid.runs.folder.leaf_names import name_leaf, read_leaf_names

    opened = Run.load(run)
    leaves = [leaf.name for leaf in opened.recipe.tree.leaves]
    if not leaf:
        names = read_leaf_names(opened.path)
        typer.echo("\n".join(f"{each:<10} {names.get(each, '')}".rstrip() for each in leaves))
        return
    expect(text is not None, "name needs a name", do=f"For example: unbraid name {run} {leaf} 'stroke width'")
    names = name_leaf(opened.path, leaves, leaf, str(text))
    typer.echo(f"{leaf}: {names[leaf]}" if leaf in names else f"{leaf}: no name")
    from unbraid.discovery.results import refresh_names

    try:
        for file in refresh_names(opened.path):  # the page and codes.csv, if the run is best/ of a discovery
            typer.echo(f"updated: {file}")
    except UnbraidError as error:
        typer.echo(f"note: the name is stored, but the pages of the discovery could not be updated: {error}", err=True)


def transform(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run directory, such as discovery/best.")],
    pictures: Annotated[
        str,
        typer.Argument(metavar="PICTURES", help="A folder, a picture, an array or table file, or a data set's name."),
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="The table to write.")] = Path("codes.csv"),
    resize: Annotated[str, typer.Option(help="crop, pad or stretch; default: as in the discovery.")] = "",
    batch: Annotated[int, typer.Option(min=1, help="Pictures per batch; it bounds memory.")] = 128,
    max_pictures: Annotated[int, typer.Option(min=0, help="Largest number of pictures (0: all).")] = 0,
    all_leaves: Annotated[bool, typer.Option("--all", help="All leaves, not only the stable factors.")] = False,
    options: Options = None,
    quiet: QuietBar = False,
) -> None:
    """Encode pictures that the run has never seen: a table with the factors and how unusual each picture is.

    The column elbo_percentile is the share of training pictures with a lower ELBO: near 0 is unusual.
    """
    from unbraid.discovery.new_pictures import transform as transform_pictures

    done = transform_pictures(
        run, pictures, out, resize=resize, batch=batch, max_pictures=max_pictures, all_leaves=all_leaves,
        options=parse_options(options), quiet=quiet,
    )  # fmt: skip
    for file, why in list(done.skipped.items())[:20]:
        typer.echo(f"left out: {file}: {why}", err=True)
    if len(done.skipped) > 20:
        typer.echo(f"left out: {len(done.skipped) - 20:,} more", err=True)
    typer.echo(f"{done.count:,} codes, {done.unusual:,} unusual (below 99% of the training data): {done.path}")
