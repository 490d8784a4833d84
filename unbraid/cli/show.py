"""Verbs that show what the library knows: table, recipes, cite."""

from __future__ import annotations

from typing import Annotated

import typer

recipes_app = typer.Typer(
    help="Recipes by name: what each paper's experiment needs, as TOML to edit.",
    invoke_without_command=True,
    rich_markup_mode=None,
)


def table(markdown: Annotated[bool, typer.Option("--markdown", help="Print Markdown.")] = False) -> None:
    """The objective table with effective prices, worked out from the code."""
    from unbraid.objectives import printed as objective_table

    if markdown:
        typer.echo(objective_table.markdown())
        return
    from rich.console import Console
    from rich.table import Table

    shown = Table(box=None, pad_edge=False, header_style="bold")
    for head, align in (
        ("objective", "left"),
        ("prices", "left"),
        ("mi", "right"),
        ("tc between", "right"),
        ("tc within", "right"),
        ("dw", "right"),
    ):
        shown.add_column(head, justify=align)  # type: ignore[arg-type]
    for row in objective_table.rows():
        shown.add_row(row["objective"], row["prices"], *(row[c] for c in objective_table.COLUMNS))
    Console().print(shown)
    typer.echo(
        "Prices per nat; an effective price is the sum along kl → {mi, agg}, agg → {tc, dw}. 'unbraid cite' names the papers."
    )


@recipes_app.callback()
def recipes(context: typer.Context) -> None:
    """List the recipes; 'unbraid recipes show NAME > mine.toml' gives one to edit."""
    if context.invoked_subcommand is not None:
        return
    from unbraid.runs.recipe import Recipe
    from unbraid.runs.recipes import RECIPES

    width = max(len(name) for name in RECIPES) + 2
    for name in RECIPES:
        recipe = Recipe.load(name)
        typer.echo(f"{name:<{width}}{recipe.about}")
    typer.echo("\nunbraid train NAME          train one\nunbraid recipes show NAME   print it as TOML to edit")


@recipes_app.command("show")
def show_recipe(name: Annotated[str, typer.Argument(help="A recipe's name.")]) -> None:
    """Print one recipe as TOML."""
    from unbraid.runs.recipe import Recipe

    typer.echo(Recipe.load(name).toml(), nl=False)


def cite(
    name: Annotated[
        str,
        typer.Argument(metavar="[NAME]", help="An objective, metric, data set or recipe; all papers when left out."),
    ] = "",
    bibtex: Annotated[bool, typer.Option("--bibtex", help="Print BibTeX entries.")] = False,
) -> None:
    """Which paper to cite for what you used."""
    from unbraid.runs.citing import PAPERS, citations, papers_in

    if name:
        found = citations(name)
        for kind, line in found.items():
            typer.echo(f"{kind} {name}: {line}")
        keys = papers_in(" ".join(found.values()))
    else:
        keys = list(PAPERS)
    for key in keys:
        typer.echo(PAPERS[key].bibtex(key) if bibtex else f"  {PAPERS[key].line}")


def register(app: typer.Typer) -> None:
    """Add the verbs to the app."""
    app.command()(table)
    app.add_typer(recipes_app, name="recipes")
    app.command()(cite)
