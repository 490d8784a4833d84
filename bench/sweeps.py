"""Sweeps: the overhead of a run in a warm worker, and two workers compared with one. `python -m bench sweeps`"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.core import Row
from unbraid.runs.recipe import Recipe
from unbraid.sweeps.engine.scheduler import Scheduler, WorkerPool
from unbraid.sweeps.engine.worker_pool import LocalWorkerPool
from unbraid.sweeps.planning.plan import Plan, build_jobs

PINWHEEL = Recipe.load("decomposition_pinwheel").set("budget.threads=1", "budget.log_every=1000")
SHORT_RUNS = 12  # runs of one step
LONG_RUNS, STEPS = 8, 300  # runs, steps of each


@contextmanager
def warm_workers(count: int) -> Iterator[LocalWorkerPool]:
    """Start a number of warm workers."""
    workers = LocalWorkerPool(count)
    try:
        workers.idle_workers(count)
        while not all(w.ready for w in workers.alive):
            workers.poll(1)
        yield workers
    finally:
        workers.stop()


def time_sweep(workers: WorkerPool, folder: Path, runs: int, steps: int) -> float:
    """Seconds in which workers finish some runs.

    Args:
        workers: the workers.
        folder: the folder of the runs.
        runs: how many.
        steps: steps of each.
    """
    recipes = [PINWHEEL.set(f"budget.steps={steps}", f"seed={seed}") for seed in range(runs)]
    state = Scheduler(Plan(folder, build_jobs(folder, recipes, [f"s{r.seed}" for r in recipes])), workers)
    began = time.perf_counter()
    while not state.is_done:
        state.run_once()
    assert all(o.done for o in state.results.values())
    return time.perf_counter() - began


def time_cold_run(folder: Path) -> float:
    """Seconds of a run of one step by `unbraid train` in a separate process, in a folder."""
    command = [sys.executable, "-m", "unbraid", "train", "decomposition_pinwheel", "--quiet", "--out", str(folder)]
    command += ["--set", "budget.steps=1", "--set", "budget.threads=1"]
    began = time.perf_counter()
    subprocess.run(command, check=True, capture_output=True, env=os.environ | {"OMP_NUM_THREADS": "1"})
    return time.perf_counter() - began


def validation_row(rounds: int = 3) -> Row:
    """CPU seconds of `fit` with validation and ten snapshots, and without, in some rounds of alternation."""
    import torch

    from unbraid import fit

    torch.set_num_threads(1)
    plain = Recipe.load("vae_sprites32").set("budget.steps=2000", "budget.threads=1", "data.split=train")
    looked = plain.set("budget.validate_every=1000", "budget.snapshots=10")
    spent: dict[str, list[float]] = {"plain": [], "looked": []}
    with tempfile.TemporaryDirectory() as place:
        for turn in range(rounds):
            for name, recipe in (("plain", plain), ("looked", looked)):
                began = time.process_time()
                fit(recipe, Path(place) / f"{name}{turn}", quiet=True)
                spent[name].append(time.process_time() - began)
    ours, bare = statistics.median(spent["looked"]), statistics.median(spent["plain"])
    ratio = statistics.median(a / b for a, b in zip(spent["looked"], spent["plain"], strict=True))
    note = "vae_sprites32, 2,000 steps, validate_every = 1000, snapshots = 10; processor time"
    return {"name": "fit with validation and snapshots against without", "ours": ours, "baseline": bare,
            "ratio": ratio, "limit": 1.02, "note": note}  # fmt: skip


def rows(rounds: int = 3) -> list[Row]:
    """All rows, measured in some rounds of alternation."""
    warm, fresh, ratios, ones, twos = [], [], [], [], []
    with tempfile.TemporaryDirectory() as place, warm_workers(1) as one, warm_workers(2) as two:
        folder = Path(place)
        for workers in (one, two):
            time_sweep(workers, folder / f"first{id(workers)}", 2, 2)  # the first run is not counted
        for turn in range(rounds):
            warm.append(time_sweep(one, folder / f"warm{turn}", SHORT_RUNS, 1) / SHORT_RUNS)
            fresh.append(time_cold_run(folder / f"cold{turn}"))
            ones.append(time_sweep(one, folder / f"one{turn}", LONG_RUNS, STEPS))
            twos.append(time_sweep(two, folder / f"two{turn}", LONG_RUNS, STEPS))
            ratios.append(ones[-1] / twos[-1])
    each, alone, gain = statistics.median(warm), statistics.median(fresh), statistics.median(ratios)
    return [
        {"name": "a run of one step in a warm worker against unbraid train", "ours": each, "baseline": alone,
         "ratio": each / alone, "limit": "0.5 s", "ok": each <= 0.5, "note": f"all that is not training, {SHORT_RUNS} runs"},
        {"name": "two workers against one", "ours": statistics.median(twos), "baseline": statistics.median(ones),
         "ratio": gain, "limit": "> 1.9", "ok": gain >= 1.9,
         "note": f"times faster, {LONG_RUNS} runs of {STEPS} steps, in turns; needs two idle cores"},
        validation_row(),
    ]  # fmt: skip
