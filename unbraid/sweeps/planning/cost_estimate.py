"""What a sweep will cost, before it is begun: every recipe is built, a few steps are timed, files are counted in bytes."""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from unbraid.core.errors import UnbraidError
from unbraid.sweeps.engine.job_results import JobResult
from unbraid.sweeps.engine.job_runner import job_dataset
from unbraid.sweeps.planning.plan import Job, Plan

TRIAL_SECONDS = 0.5  # seconds of steps that are timed for each kind of recipe
MAX_TRIALS = 12  # kinds that are timed at most; the others are taken to cost as much as these do on average
WORKER_START_SECONDS = 6.0  # seconds until a worker has torch loaded


@dataclass(frozen=True)
class CostEstimate:
    """Seconds of one core, bytes on disk, and the recipes that cannot be built with the reason."""

    seconds: float
    disk_bytes: int
    unbuildable: dict[str, str]
    measured: bool


def estimate_cost(plan: Plan, results: Mapping[str, JobResult | None], advance: Callable[..., None]) -> CostEstimate:
    """Build every recipe of a plan and reckon what is left to do.

    Seconds a step are those of finished runs of the same kind where there are some, else of a short trial here.
    """
    open_jobs = [job for job in plan.jobs if not ((found := results.get(job.name)) and found.done)]
    speeds = _measured_speeds(plan, results)
    seconds, size, broken, guessed, rates = 0.0, 0, {}, [], []
    for job in open_jobs:
        try:
            parts = build_parts(job)
            size += _disk_bytes(parts, job)
            kind = _cost_key(job)
            if kind not in speeds and len(speeds) < MAX_TRIALS:
                speeds[kind] = measure_step_seconds(parts)
            if kind in speeds:
                rates.append(speeds[kind])
                seconds += speeds[kind] * job.recipe.budget.steps
            else:
                guessed.append(job.recipe.budget.steps)
        except UnbraidError as error:
            broken[job.name] = str(error)
        advance(note=job.name)
    seconds += sum(guessed) * (statistics.mean(rates) if rates else 0.0)
    return CostEstimate(seconds, size, broken, bool(rates))


def build_parts(job: Job) -> Any:
    """The parts of a job's run, as training would assemble them."""
    from unbraid.runs.building.builders import build_parts

    return build_parts(job.recipe, job_dataset(job))


def _cost_key(job: Job) -> str:
    """Jobs that cost alike: the same data, nets, latents, batch and objective, whatever its numbers."""
    r = job.recipe
    return json.dumps([r.data, r.nets, r.latent, r.prior.get("name"), r.budget.batch, r.objective.get("name")])


def _measured_speeds(plan: Plan, results: Mapping[str, JobResult | None]) -> dict[str, float]:
    found: dict[str, list[float]] = {}
    for job in plan.jobs:
        outcome = results.get(job.name)
        if outcome is not None and outcome.done and outcome.seconds.get("train"):
            found.setdefault(_cost_key(job), []).append(sum(outcome.seconds.values()) / job.recipe.budget.steps)
    return {kind: statistics.median(values) for kind, values in found.items()}


def measure_step_seconds(parts: Any) -> float:
    """Seconds a step, with one thread unless the recipe says otherwise."""
    import torch

    from unbraid.core.hardware import use_threads
    from unbraid.runs.building.builders import build_trainer, default_float32

    with use_threads(parts.recipe.budget.threads or 1), torch.random.fork_rng(), default_float32():
        trainer = build_trainer(parts)
        for number in range(2):
            trainer.step(number)
        began, number = time.perf_counter(), 2
        while number < 4 or time.perf_counter() - began < TRIAL_SECONDS:
            trainer.step(number)
            number += 1
        return (time.perf_counter() - began) / (number - 2)


def _disk_bytes(parts: Any, job: Job) -> int:
    """Model, checkpoint (weights and two moments of each), codes with scales and labels, ledger."""
    state = sum(t.numel() * t.element_size() for t in parts.modules.state_dict().values())
    moments = 2 * sum(p.numel() * p.element_size() for p in parts.modules.parameters())
    model = sum(t.numel() * t.element_size() for t in parts.model.state_dict().values())
    factors = len(parts.dataset.factors.items) if parts.dataset.factors is not None else 0
    codes = len(parts.dataset) * (2 * 4 * parts.tree.width + factors)
    ledger = 250 * (job.recipe.budget.steps // job.recipe.budget.log_every + 1)
    return int(model + state + moments + codes + ledger)
