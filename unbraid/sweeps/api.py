"""`unbraid.sweep`: train many recipes, or the runs of a sweep file, on this machine or on a Ray cluster."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from unbraid.core.errors import UnbraidError, choose, expect
from unbraid.runs import Recipe, Run
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
    """Train every recipe, or every run of a SWEEP.toml, each in its own directory under `out`.

    Equal recipes are one run. Finished runs are kept, and interrupted runs continue from their checkpoints. Ctrl-C stops
    every worker at a checkpoint. When runs fail, the others still finish; then an error names the failed runs.

    Args:
        recipes: recipes, a `Sweep`, or the path of a SWEEP.toml.
        out: directory of the sweep; each run has a subdirectory named after its settings.
        workers: number of runs at once, one thread each; 0 means one per core.
        quiet: show no live display.
        score: what to measure of each run; a SWEEP.toml has its own setting.
        retries: number of retries of a failed run; a SWEEP.toml has its own setting.
        engine: 'local' for processes on this machine, 'ray' for a Ray cluster (docs/cluster.md).
        address: address of the Ray cluster; by default one is started on this machine.
        gpus: GPUs of each run on a Ray cluster; runs can share one GPU, such as 0.25.

    Returns:
        The runs, in the order of the recipes.

    >>> from unbraid.runs.recipe import Recipe
    >>> recipe = Recipe(data={"name": "sprites32", "subsample": 64}, latent=2, nets="mlp", budget={"steps": 2, "batch": 8})
    >>> runs = sweep([recipe.set(f"seed={seed}") for seed in (0, 1)], tmp / "runs", workers=1, quiet=True)
    >>> [run.recipe.seed for run in runs]
    [0, 1]
    """
    plan, order = _plan_and_order(recipes, Path(out), score, retries)
    choose(engine, {"local": 0, "ray": 0}, "engine")
    with LiveDisplay(quiet) as display:
        results = run_plan(plan, RayWorkerPool(plan, address, gpus, workers) if engine == "ray" else workers, display)
    failed = [(name, result) for name, result in results.items() if not result.done]
    if failed:
        name, result = failed[0]
        more = f" {len(failed) - 1} more of {len(results)} failed too." if len(failed) > 1 else ""
        raise UnbraidError(
            f"run {name} failed: {result.reason} (log: {plan.folder / name / LOG}).{more} The other runs are done."
        )
    return [Run.load(plan.folder / name) for name in order]


def _plan_and_order(
    recipes: Sequence[Recipe] | Sweep | str | Path, out: Path, score: Scoring | None, retries: int
) -> tuple[Plan, list[str]]:
    """Return the plan, and the run name of each recipe in the caller's order."""
    if isinstance(recipes, str | Path):
        recipes = Sweep.load(recipes)
    if isinstance(recipes, Sweep):
        plan = build_plan(recipes, out)
        return plan, [job.name for job in plan.jobs]
    expect(recipes, "a sweep needs a recipe", found="none")
    jobs = build_jobs(out, recipes, [f"{r.name}-s{r.seed}" for r in recipes])
    names = {job.hash: job.name for job in jobs}
    return Plan(out, jobs, score, retries), [names[r.hash] for r in recipes]
