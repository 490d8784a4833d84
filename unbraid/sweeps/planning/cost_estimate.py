"""Estimate the cost of a sweep before it starts: check every recipe, time a few steps, and add up the file sizes."""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from unbraid.core.errors import UnbraidError
from unbraid.sweeps.engine.job_results import JobResult
from unbraid.sweeps.engine.job_runner import job_dataset
from unbraid.sweeps.planning.plan import Job, Plan

if TYPE_CHECKING:
    from unbraid.runs.fitting.protocols import Parts

TRIAL_SECONDS = 0.5  # how long steps are timed for each kind of recipe
MAX_TRIALS = 12  # kinds of recipes that are timed; further kinds are assumed to cost the average
MAX_BUILT = 32  # models in memory
WORKER_START_SECONDS = 6.0  # until a worker has loaded torch


@dataclass(frozen=True)
class CostEstimate:
    """The estimated cost of a sweep.

    Args:
        seconds: seconds on one core.
        disk_bytes: size of the run directories.
        unbuildable: recipes that cannot be built, as run name → reason.
        measured: whether any recipe was timed.
    """

    seconds: float
    disk_bytes: int
    unbuildable: dict[str, str]
    measured: bool


def estimate_cost(plan: Plan, results: Mapping[str, JobResult | None], advance: Callable[..., None]) -> CostEstimate:
    """Check every unfinished recipe of a plan and estimate the remaining cost.

    Recipes that differ only in the seed, the numbers of the objective or the budget share one build. The seconds per
    step come from finished runs of the same kind, or from a short trial on this machine.

    Args:
        plan: the plan.
        results: results so far, by run name.
        advance: called after each recipe with `note=`, the run name.
    """
    built: dict[str, Parts] = {}
    speeds = _measured_speeds(plan, results)
    seconds, size, unbuildable, untimed_steps, rates = 0.0, 0, {}, 0, []
    for job in plan.jobs:
        if (result := results.get(job.name)) is not None and result.done:
            continue
        try:
            parts = _build_or_check(job, built)
            size += _disk_bytes(parts, job)
            kind = _cost_key(job)
            if kind not in speeds and len(speeds) < MAX_TRIALS:
                speeds[kind] = measure_step_seconds(parts)
            if kind in speeds:
                rates.append(speeds[kind])
                seconds += speeds[kind] * job.recipe.budget.steps
            else:
                untimed_steps += job.recipe.budget.steps
        except UnbraidError as error:
            unbuildable[job.name] = str(error)
        advance(note=job.name)
    seconds += untimed_steps * (statistics.mean(rates) if rates else 0.0)
    return CostEstimate(seconds, size, unbuildable, bool(rates))


def _build_or_check(job: Job, built: dict[str, Parts]) -> Parts:
    """The parts of a job, or those of an earlier job with the same parts, after a check of the objective."""
    from unbraid import objectives
    from unbraid.runs.building.builders import build_parts

    recipe = job.recipe
    objective = objectives.build(recipe.objective)
    plain = recipe.as_dict()
    names = ("data", "latent", "prior", "likelihood", "posterior", "nets")
    key = json.dumps([*(plain.get(name) for name in names), recipe.budget.batch, objective.part_options], default=repr)
    if key not in built:
        if len(built) >= MAX_BUILT:
            built.clear()
        built[key] = build_parts(recipe, job_dataset(job))
    else:
        objective.check(built[key].model.tree, built[key].model.prior)
    return built[key]


def _cost_key(job: Job) -> str:
    """Key of jobs with equal cost: the same data, nets, latents, batch and objective, whatever its numbers."""
    r = job.recipe
    return json.dumps([r.data, r.nets, r.latent, r.prior.get("name"), r.budget.batch, r.objective.get("name")])


def _measured_speeds(plan: Plan, results: Mapping[str, JobResult | None]) -> dict[str, float]:
    """Seconds per step of finished runs, by cost key."""
    speeds: dict[str, list[float]] = {}
    for job in plan.jobs:
        result = results.get(job.name)
        if result is not None and result.done and result.seconds.get("train"):
            speeds.setdefault(_cost_key(job), []).append(sum(result.seconds.values()) / job.recipe.budget.steps)
    return {kind: statistics.median(values) for kind, values in speeds.items()}


def measure_step_seconds(parts: Parts) -> float:
    """Time training steps, in seconds per step, with one thread unless the recipe sets another number.

    Args:
        parts: the parts of a run, as `build_parts` returns them.
    """
    import torch

    from unbraid.core.hardware import use_threads
    from unbraid.runs.building.builders import build_trainer
    from unbraid.runs.fitting.seeding import default_float32

    with use_threads(parts.recipe.budget.threads or 1), torch.random.fork_rng(), default_float32():
        trainer = build_trainer(parts)
        for number in range(2):
            trainer.step(number)
        start, number = time.perf_counter(), 2
        while number < 4 or time.perf_counter() - start < TRIAL_SECONDS:
            trainer.step(number)
            number += 1
        return (time.perf_counter() - start) / (number - 2)


def _disk_bytes(parts: Parts, job: Job) -> int:
    """Size of model, checkpoint (weights and two moments of each), codes with scales and labels, and ledger."""
    state = sum(t.numel() * t.element_size() for t in parts.modules.state_dict().values())
    moments = 2 * sum(p.numel() * p.element_size() for p in parts.modules.parameters())
    model = sum(t.numel() * t.element_size() for t in parts.model.state_dict().values())
    factors = len(parts.dataset.factors.items) if parts.dataset.factors is not None else 0
    codes = len(parts.dataset) * (2 * 4 * parts.model.tree.width + factors)
    ledger = 250 * (job.recipe.budget.steps // job.recipe.budget.log_every + 1)
    return int(model + state + moments + codes + ledger)
