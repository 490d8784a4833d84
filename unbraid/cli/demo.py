"""`unbraid demo`: train four objectives on coloured sprites, score them and write a report."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from unbraid.cli.options import Workers
from unbraid.core.errors import expect

if TYPE_CHECKING:
    from unbraid.runs import Recipe, Run

SEEDS = (0, 1, 2)  # settings were chosen on other seeds, see docs/demo.md
BASELINE, STRUCTURED = "vae_colour_sprites", "beta_tcvae_colour_sprites"  # trained with every seed
SINGLE_SEED = ("factor_vae_colour_sprites", "hfvae_colour_sprites")  # trained with the first seed
DISPLAY_NAMES = {
    BASELINE: "VAE",
    STRUCTURED: "β-TCVAE",
    "factor_vae_colour_sprites": "FactorVAE",
    "hfvae_colour_sprites": "HFVAE",
}
METRICS = ("mig", "dci", "factor_vae")
RESULT_FILE = "demo.json"


def demo(
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder of the runs and the report.")] = Path("demo"),
    seeds: Annotated[str, typer.Option(help="Seeds, separated by commas.")] = ",".join(map(str, SEEDS)),
    steps: Annotated[int, typer.Option(min=0, help="Steps per run (0: the recipe's).")] = 0,
    workers: Workers = 0,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress bars.")] = False,
) -> None:
    """Train a VAE, β-TCVAE, FactorVAE and HFVAE on coloured sprites, score them and write one page: 5 minutes on two cores."""
    from unbraid.core.files import read_json, write_json

    wanted = [s.strip() for s in seeds.split(",")]
    expect(
        all(s.isdigit() for s in wanted) and len(set(wanted)) == len(wanted),
        "seeds are different whole numbers, separated by commas",
        found=repr(seeds),
        do="For example --seeds 0,1,2.",
    )
    recipes = _recipes([int(s) for s in wanted], steps)
    hashes = [recipe.hash for recipe in recipes]
    if (out / RESULT_FILE).is_file() and (out / "report.html").is_file():
        found = read_json(out / RESULT_FILE, "demo result")
        if isinstance(found, dict) and found.get("recipes") == hashes:
            _print_result(found["rows"], out)
            return
    typer.echo(
        f"training {len(recipes)} runs of {recipes[0].budget.steps:,} steps into {out}/ "
        "(after Ctrl-C the same command continues)"
    )
    rows = _train_and_score(recipes, out, workers, quiet)
    write_json(out / RESULT_FILE, {"recipes": hashes, "rows": rows})
    _print_result(rows, out)


def _recipes(seeds: list[int], steps: int) -> list[Recipe]:
    from unbraid.runs import Recipe

    changes = [f"budget.steps={steps}"] if steps else []
    pairs = [(name, seed) for seed in seeds for name in (BASELINE, STRUCTURED)]
    pairs += [(name, seeds[0]) for name in SINGLE_SEED]
    return [Recipe.load(name).set(f"seed={seed}", *changes) for name, seed in pairs]


def _train_and_score(recipes: list[Recipe], out: Path, workers: int, quiet: bool) -> list[dict[str, Any]]:
    """Train and score missing runs, draw figure and report; return one row of numbers per run."""
    from unbraid import data
    from unbraid.figures.drawing import save_figure
    from unbraid.figures.report import report
    from unbraid.figures.traversals import side_by_side
    from unbraid.sweeps.api import sweep
    from unbraid.sweeps.planning.scoring import Scoring

    data.load("colour_sprites")  # made once, before several runs need it at the same time
    runs = sweep(recipes, out, workers, quiet, score=Scoring(metrics=list(METRICS), most=0, audit=1024))
    rows = [_row(run) for run in runs]
    pair = [next(r for r in runs if r.recipe.name == name) for name in (BASELINE, STRUCTURED)]
    seed = recipes[0].seed
    both = side_by_side([(f"{DISPLAY_NAMES[r.recipe.name]}, seed {seed}", r, r.codes()) for r in pair])
    save_figure(both, out / "traversals.png")
    shown = [*pair, *(r for r in runs if r.recipe.name in SINGLE_SEED)]
    intro = f"{verdict(rows)} {len(runs)} runs of {recipes[0].budget.steps:,} steps; the set is easy by design."
    title = "unbraid demo: four objectives on coloured sprites"
    report(runs, out / "report.html", title, intro, shown, names=DISPLAY_NAMES, picture=both)
    return rows


def _row(run: Run) -> dict[str, Any]:
    from unbraid.figures.report_tables import saved_scores

    scores, audited = saved_scores(run), run.saved_audit()
    found = {} if audited is None else audited["nats"]
    nats = {"recon": found.get("reconstruction"), "kl": found.get("kl"), "tc": found.get("tc_q:root")}
    values = {metric: scores[metric].value for metric in METRICS}
    return {"name": run.recipe.name, "seed": run.recipe.seed, **values, **nats}


def verdict(rows: list[dict[str, Any]]) -> str:
    """The result of the demo: the structured objective against the VAE, seed by seed, with the smallest gap.

    Args:
        rows: the numbers of each run.

    >>> verdict([{"name": BASELINE, "seed": 0, "mig": 0.2, "dci": 0.5}, {"name": STRUCTURED, "seed": 0, "mig": 0.8, "dci": 0.9}])
    'β-TCVAE is above the VAE in MIG in 1 of 1 seed (smallest gap 0.60) and in DCI in 1 of 1 (smallest gap 0.40).'
    """
    by = {(row["name"], row["seed"]): row for row in rows}
    seeds = [row["seed"] for row in rows if row["name"] == BASELINE]
    gaps = {m: [by[STRUCTURED, s][m] - by[BASELINE, s][m] for s in seeds] for m in ("mig", "dci")}
    above = {m: sum(gap > 0 for gap in found) for m, found in gaps.items()}
    many = "seed" if len(seeds) == 1 else "seeds"
    return (
        f"β-TCVAE is above the VAE in MIG in {above['mig']} of {len(seeds)} {many} (smallest gap {min(gaps['mig']):.2f})"
        f" and in DCI in {above['dci']} of {len(seeds)} (smallest gap {min(gaps['dci']):.2f})."
    )


def _print_result(rows: list[dict[str, Any]], out: Path) -> None:
    """Print the table, the verdict, the paths and the next commands."""
    typer.echo(f"\n{'':<20}{'MIG':>7}{'DCI':>7}{'FactorVAE':>11}{'recon':>9}{'KL':>8}{'TC':>8}")
    for row in sorted(rows, key=lambda r: (list(DISPLAY_NAMES).index(r["name"]), r["seed"])):
        cells = f"{row['mig']:>7.2f}{row['dci']:>7.2f}{row['factor_vae']:>11.2f}"
        values = [(row["recon"], 9), (row["kl"], 8), (row["tc"], 8)]
        nats = "".join(" " * width if value is None else f"{value:>{width}.1f}" for value, width in values)
        typer.echo(f"{DISPLAY_NAMES[row['name']] + ' seed ' + str(row['seed']):<20}{cells}{nats}")
    typer.echo(
        "MIG, DCI, FactorVAE metric: up to 1, higher is better (the last saturates: no\nclaim). "
        "Reconstruction, KL, total correlation: nats per image, exact q(z)."
    )
    text = textwrap.fill(verdict(rows), 80)
    typer.echo(f"\n{text}\n\npage:    {out / 'report.html'}\npicture: {out / 'traversals.png'}")
    typer.echo("\nnext, with a folder of your own images:\n  unbraid discover my/pictures --out mine")
