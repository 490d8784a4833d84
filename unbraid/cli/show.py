"""`unbraid list`, `show`, `table`, `recipes` and `cite`."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Annotated

import typer

from unbraid.core.errors import choose

recipes_app = typer.Typer(
    help="Named recipes of papers, as TOML to edit.", invoke_without_command=True, rich_markup_mode=None
)
OTHER_KINDS = {  # named too, but not parts of a recipe
    "recipes": "named recipes of papers and pages; 'unbraid train NAME'",
    "studies": "claims of papers to reproduce; 'unbraid study NAME'",
}


def list_kind(
    kind: Annotated[
        str,
        typer.Argument(
            metavar="[KIND]", help="objectives, priors, metrics, figures, exports …; without it, all kinds."
        ),
    ] = "",
) -> None:
    """List the names of a kind with one line each; 'unbraid show KIND NAME' explains one."""
    from unbraid.catalogue import KINDS
    from unbraid.catalogue.prepared import kind_texts
    from unbraid.catalogue.rendering import render_names

    if not kind:
        for name, about in {**{name: known.about for name, known in KINDS.items()}, **OTHER_KINDS}.items():
            typer.echo(f"{name:<14}{about}")
        typer.echo("\nunbraid list KIND        every name of a kind\nunbraid show KIND NAME   one of them explained")
    elif kind in ("recipes", "recipe"):
        _print_recipes()
    elif kind in ("studies", "study"):
        from unbraid.cli.study import print_studies

        print_studies()
    else:
        kinds = {name: name for name in KINDS} | {known.singular: name for name, known in KINDS.items()}
        choose(kind, {**kinds, **OTHER_KINDS}, "kind of part")
        names = render_names({name: line for name, (line, _) in kind_texts(kinds[kind]).items()})
        typer.echo(f"{names}\n\nunbraid show {KINDS[kinds[kind]].singular} NAME   explains one")


def show_name(
    kind: Annotated[
        str, typer.Argument(metavar="[KIND]", help="objective, prior, net, metric, recipe …; may be left out.")
    ],
    name: Annotated[str, typer.Argument(metavar="NAME", help="A name of that kind, such as hfvae.")] = "",
) -> None:
    """Explain one name: description, formula, options with defaults, when to use it, its paper.

    The kind is needed only where several kinds have that name.
    """
    from unbraid.catalogue.kinds import KINDS, find_kind
    from unbraid.catalogue.prepared import kind_texts
    from unbraid.runs import RECIPES

    if (name and kind in ("recipe", "recipes")) or (not name and kind in RECIPES):
        show_recipe(name or kind)
    elif name:
        known = {known.singular: plural for plural, known in KINDS.items()} | {plural: plural for plural in KINDS}
        texts = kind_texts(choose(kind, known, "kind of part"))
        typer.echo(choose(name, texts, KINDS[known[kind]].singular)[1])
    else:
        every = {plural: kind_texts(plural) for plural in KINDS}
        typer.echo(every[find_kind(kind, every)][kind][1])


def table(markdown: Annotated[bool, typer.Option("--markdown", help="Print Markdown.")] = False) -> None:
    """Print the table of objectives with effective prices, computed from the code."""
    from unbraid.catalogue.prepared import objective_table_texts

    texts = objective_table_texts()
    if markdown:
        typer.echo(texts["markdown"])
        return
    from rich.console import Console
    from rich.table import Table

    shown = Table(box=None, pad_edge=False, header_style="bold")
    for head in ("objective", "prices", "mi", "tc between", "tc within", "dw"):
        shown.add_column(head, justify="left" if head in ("objective", "prices") else "right")
    for row in texts["rows"]:
        needs = f"; needs {row['supervision']}" if row["supervision"] else ""
        shown.add_row(row["objective"], row["prices"] + needs, *(row[c] for c in texts["columns"]))
    Console().print(shown)
    about = "Prices per nat; an effective price is the sum along kl → {mi, agg}, agg → {tc, dw}. "
    for text in (f"{about}'unbraid cite' names the papers.", texts["footnote"]):
        typer.echo(textwrap.fill(text, 80))


@recipes_app.callback()
def recipes(context: typer.Context) -> None:
    """List recipes; 'unbraid recipes show NAME > mine.toml' writes one to edit."""
    if context.invoked_subcommand is None:
        _print_recipes()


def _print_recipes() -> None:
    """Print one line or more for each recipe."""
    from unbraid.runs import RECIPES, Recipe

    width = max(len(name) for name in RECIPES) + 2
    for name in RECIPES:
        first, *rest = textwrap.wrap(Recipe.load(name).about, 80 - width) or [""]
        typer.echo("\n".join([f"{name:<{width}}{first}", *(" " * width + line for line in rest)]))
    typer.echo("\nunbraid train NAME          train one\nunbraid recipes show NAME   print it as TOML to edit")


@recipes_app.command("show")
def show_recipe(name: Annotated[str, typer.Argument(help="A recipe's name.")]) -> None:
    """Print one recipe as TOML."""
    from unbraid.runs import Recipe

    typer.echo(Recipe.load(name).toml(), nl=False)


def cite(
    name: Annotated[
        str,
        typer.Argument(
            metavar="[NAME|RUN]",
            help="An objective, metric, data set, prior, net, recipe …, or a run directory; all papers when left out.",
        ),
    ] = "",
    bibtex: Annotated[bool, typer.Option("--bibtex", help="Print BibTeX entries.")] = False,
) -> None:
    """List the papers to cite for a name; for a run, print a .bib file of all parts it uses."""
    from unbraid.core.papers import PAPERS
    from unbraid.runs.describing import citations

    if name and (Path(name) / "recipe.toml").is_file():
        from unbraid.runs import Run

        typer.echo(citations.bibliography(citations.run_citations(Run.load(name))))
        return
    found = citations.citations(name) if name else {}
    keys = citations.paper_keys(found) if name else tuple(PAPERS)
    if bibtex:
        typer.echo("\n".join(PAPERS[key].bibtex(key) for key in keys))
        return
    for kind, line in found.items():
        typer.echo(f"{kind} {name}: {line}")
    for key in keys:
        typer.echo(f"  {PAPERS[key].reference}")
