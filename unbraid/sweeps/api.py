"""`unbraid.sweep`: many recipes, or a sweep's file, on this machine or on a Ray cluster."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from unbraid.core.errors import UnbraidError, choose, expect
from unbraid.runs.recipe import Recipe
from unbraid.runs.run import Run
from unbraid.sweeps.clusters.ray_driver import RayWorkerPool
from unbraid.sweeps.display.live_display import LiveDisplay
from unbraid.sweeps.engine.job_results import LOG
from unbraid.sweeps.engine.scheduler import run_plan
from unbraid.sweeps.planning.plan import Plan, build_jobs, build_plan
from unbraid.sweeps.planning.scoring import Scoring
from unbraid.sweeps.planning.sweep_file import Sweep


def sweep(
    recipes: Sequence[Recipe] | Sweep | str | Path,
    out: str | Path,
    workers: int = 0,
    quiet: bool = False,
    *,
    score: Scoring | None = None,
    retries: int = 0,
    engine: str = "local",
    address: str = "",
    gpus: float = 0.0,
) -> list[Run]:
    """Train every recipe (or what a SWEEP.toml asks for) into `out`, each into a directory named by what it is.

    Returns the runs in the order of the recipes; equal recipes are one run. Finished runs are kept, interrupted ones go on
    where they were. `workers` run at once, one thread each (default: one per core). Ctrl-C stops all of them at a
    checkpoint. engine 'ray' has a Ray cluster do the runs: the one at `address`, or one started here; `gpus` for each
    (docs/cluster.md). When runs fail the others still go on to their end; then an error names the failed ones.

    >>> from unbraid.runs.recipe import Recipe
    >>> recipe = Recipe(data={"name": "sprites32", "subsample": 64}, latent=2, nets="mlp", budget={"steps": 2, "batch": 8})
    >>> runs = sweep([recipe.set(f"seed={seed}") for seed in (0, 1)], tmp / "runs", workers=1, quiet=True)
    >>> [run.recipe.seed for run in runs]
    [0, 1]
    """
    asked, order = _plan_and_order(recipes, Path(out), score, retries)
    choose(engine, {"local": 0, "ray": 0}, "engine")
    with LiveDisplay(quiet) as board:
        ended = run_plan(asked, RayWorkerPool(asked, address, gpus, workers) if engine == "ray" else workers, board)
    failed = [(name, o) for name, o in ended.items() if not o.done]
    if failed:
        name, outcome = failed[0]
        more = f" {len(failed) - 1} more of {len(ended)} failed too." if len(failed) > 1 else ""
        raise UnbraidError(
            f"run {name} failed: {outcome.reason} (all it said: {asked.folder / name / LOG}).{more} The others are done."
        )
    return [Run.load(asked.folder / name) for name in order]


def _plan_and_order(
    recipes: Sequence[Recipe] | Sweep | str | Path, out: Path, score: Scoring | None, retries: int
) -> tuple[Plan, list[str]]:
    if isinstance(recipes, str | Path):
        recipes = Sweep.load(recipes)
    if isinstance(recipes, Sweep):
        asked = build_plan(recipes, out)
        return asked, [job.name for job in asked.jobs]
    expect(recipes, "a sweep needs a recipe", found="none")
    found = build_jobs(out, recipes, [f"{r.name}-s{r.seed}" for r in recipes])
    names = {job.hash: job.name for job in found}
    return Plan(out, found, score, retries), [names[r.hash] for r in recipes]
