"""`unbraid demo`: the whole walk in minutes. Trains a VAE and a FactorVAE, encodes, scores, reports."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

SEEDS = (0, 1, 2)  # the settings below were chosen on other seeds; docs/demo.md says what was tried


def demo(
    out: Annotated[Path, typer.Option("--out", "-o", help="Where runs and report go.")] = Path("demo"),
    seeds: Annotated[str, typer.Option(help="Seeds to train, with commas.")] = ",".join(map(str, SEEDS)),
    steps: Annotated[int, typer.Option(min=0, help="Steps per run (0: the recipe's).")] = 0,
    workers: Annotated[int, typer.Option(min=0, help="Runs at once, one thread each (0: one per core).")] = 0,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress bars.")] = False,
) -> None:
    """Train a VAE and a FactorVAE on 32×32 sprites, score them, and write one HTML report: about 5 minutes on two cores."""
    from unbraid.ground.errors import expect
    from unbraid.runs.recipe import Recipe

    wanted = [s.strip() for s in seeds.split(",")]
    expect(
        all(s.isdigit() for s in wanted),
        "seeds are whole numbers with commas between",
        found=repr(seeds),
        do="For example --seeds 0,1,2.",
    )
    changes = [f"budget.steps={steps}"] if steps else []
    recipes = [
        Recipe.load(name).set(f"seed={seed}", *changes)
        for seed in wanted
        for name in ("vae_sprites32", "factor_vae_sprites32")
    ]
    typer.echo(
        f"training {len(recipes)} runs of {recipes[0].budget.steps:,} steps into {out}/ "
        "(Ctrl-C loses nothing: the same command goes on)"
    )

    from unbraid import data
    from unbraid.sweeps.local import sweep

    data.load("sprites32")  # made once, before the runs ask for it together
    runs = sweep(recipes, out, workers, quiet)
    rows = [_score(run, quiet) for run in runs]
    _table(rows)
    _finish(runs, rows, out)


def _score(run: object, quiet: bool) -> dict[str, object]:
    """Encode, audit and score one run; both models get the same pruning."""
    from unbraid.runs.auditing import audit
    from unbraid.runs.encoding import encode
    from unbraid.runs.run import Run
    from unbraid.runs.scoring import score

    assert isinstance(run, Run)
    encode(run, quiet=True)
    audited = audit(run, rows=1024, quiet=quiet)["nats"]
    scores = score(run, metrics="factor_vae@dlib,mig,dci", quiet=True)
    return {
        "run": run.path.name,
        "objective": run.recipe.objective["name"],
        "seed": run.recipe.seed,
        "recon": audited["reconstruction"],
        "kl": audited["kl"],
        "tc": audited["tc_q:root"],
        **{name.partition("@")[0]: s.value for name, s in scores.items()},
    }


def _table(rows: list[dict[str, object]]) -> None:
    heads = (("run", 24), ("factor_vae", 11), ("mig", 7), ("dci", 7), ("recon", 8), ("kl", 7), ("tc", 7))
    typer.echo("\n" + "".join(f"{head:<{w}}" if head == "run" else f"{head:>{w}}" for head, w in heads))
    for row in rows:
        cells = [f"{row['run']!s:<24}"] + [
            f"{row[head]:>{w}.3f}" if head in ("factor_vae", "mig", "dci") else f"{row[head]:>{w}.1f}"
            for head, w in heads[1:]
        ]
        typer.echo("".join(cells))
    typer.echo(
        "FactorVAE metric, MIG, DCI: higher is better. Reconstruction, KL, total correlation: nats per image, exact q(z)."
    )


def _finish(runs: list, rows: list[dict], out: Path) -> None:
    from unbraid.figures.report import report
    from unbraid.figures.traversals import traversals

    seeds = sorted({row["seed"] for row in rows})
    by = {(row["objective"], row["seed"]): row["factor_vae"] for row in rows}
    above = sum(by["factor_vae", s] > by["vae", s] for s in seeds)
    said = f"FactorVAE scores above the VAE on the FactorVAE metric in {above} of {len(seeds)} seeds."
    typer.echo(f"\n{said}")
    best = next(r for r in runs if r.recipe.objective["name"] == "factor_vae")
    figure = traversals(best, best.codes())
    picture = out / "traversal.png"
    figure.savefig(picture, dpi=150)
    page = report(
        runs,
        out / "report.html",
        "unbraid demo: VAE and FactorVAE on sprites",
        f"{len(runs)} runs of {runs[0].recipe.budget.steps:,} steps. {said}",
        detail=runs[:2],
    )
    typer.echo(f"picture: {picture}\nreport:  {page}")


def register(app: typer.Typer) -> None:
    """Add the verb to the app."""
    app.command()(demo)
