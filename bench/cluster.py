"""Ray compared with local workers, and two ranks with one process at the same batch. `python -m bench cluster`

Both sides of a ratio are measured in alternation in one run, so that other load on the machine affects both.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from bench.core import Row, random_images
from bench.sweeps import time_sweep, warm_workers
from unbraid.core import distributed
from unbraid.runs.building.builders import build_parts, build_trainer
from unbraid.runs.fitting.seeding import default_float32
from unbraid.runs.folder.file_names import CHECKPOINT_FILE
from unbraid.runs.recipe import Recipe
from unbraid.sweeps.engine.job_results import DONE, JobResult
from unbraid.sweeps.planning.plan import Plan

RUNS, STEPS = 40, 5  # short runs, because the engine is measured
TASKS, CHECKPOINT_BYTES = 300, 6_000_000  # empty tasks; size of a checkpoint of the conv net
CASES = {
    "vae, B = 64": ("vae", 64),
    "factor_vae, B = 64": ("factor_vae", 64),
    "beta_tcvae, B = 256": ("beta_tcvae", 256),
}
SETUPS = {"one process, 1 thread": (False, 1), "one process, 2 threads": (False, 2), "two ranks": (True, 1)}


def ray_rows(rounds: int = 2) -> list[Row]:
    """Time 40 short runs on two local workers and on a local Ray cluster of two cores, and the start-up of each.

    Args:
        rounds: number of alternations.
    """
    from unbraid.sweeps.clusters.ray_driver import RayWorkerPool

    local, ray, ratios = [], [], []
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        began = time.perf_counter()
        with warm_workers(2) as workers:
            warm = time.perf_counter() - began
            began = time.perf_counter()
            cluster = RayWorkerPool(Plan(folder, ()), "local", workers=2)
            try:
                joined = time.perf_counter() - began
                began = time.perf_counter()
                time_sweep(cluster, folder / "first", 2, 1)  # its processes load torch
                first = time.perf_counter() - began
                time_sweep(workers, folder / "warm", 2, 1)
                for turn in range(rounds):
                    local.append(time_sweep(workers, folder / f"local{turn}", RUNS, STEPS))
                    ray.append(time_sweep(cluster, folder / f"ray{turn}", RUNS, STEPS))
                    ratios.append(ray[-1] / local[-1])
                alone = driver_rows(cluster, folder)
            finally:
                cluster.stop()
    name = f"{RUNS} runs of {STEPS} steps, Ray against local"
    return [
        {"name": name, "ours": statistics.median(ray), "baseline": statistics.median(local),
         "ratio": statistics.median(ratios), "note": "two at a time, both warm, in alternation; without start-up"},
        {"name": "start-up: Ray against local workers", "ours": joined + first, "baseline": warm,
         "ratio": (joined + first) / warm, "note": f"{joined:.1f} s for the cluster, {first:.1f} s for its first two runs"},
        *alone,
    ]  # fmt: skip


def driver_rows(cluster: Any, folder: Path) -> list[Row]:
    """Time the work of the driver: empty tasks, and checkpoints uploaded to the run store.

    Args:
        cluster: the `RayWorkerPool`.
        folder: a folder for the runs.
    """
    identity = cluster.ray.remote(lambda message: message)
    cluster.start_task = lambda request, _: identity.remote(
        {"outcome": asdict(JobResult(DONE, hash=request["job"]["hash"]))}
    )
    each = time_sweep(cluster, folder / "empty", TASKS, 1) / TASKS
    del cluster.start_task
    files = {CHECKPOINT_FILE: bytes(CHECKPOINT_BYTES)}
    began = time.perf_counter()
    for _ in range(20):
        cluster.ray.get(cluster.run_store.write_files.remote("uploaded", files, list(files)))
    speed = 20 * CHECKPOINT_BYTES / 1e6 / (time.perf_counter() - began)
    bare: Row = {"baseline": None, "ratio": None}
    return [
        {"name": "an empty task, by Ray's driver", "ours": each, **bare,
         "note": f"claimed, started, collected; {TASKS} of them, two at a time"},
        {"name": "checkpoints uploaded to the run store", "ours": speed, "unit": "MB/s", **bare,
         "note": f"20 of {CHECKPOINT_BYTES / 1e6:.0f} MB, one after the other, on one machine"},
    ]  # fmt: skip


def seconds_per_step(trainer: object, start: int, all_ranks: bool, threads: int, count: int = 3) -> float:
    """Time steps of training, in seconds per step.

    Args:
        trainer: the trainer.
        start: number of the first step.
        all_ranks: whether all ranks take part.
        threads: number of threads.
        count: number of steps.
    """
    torch.set_num_threads(threads)
    began = time.perf_counter()
    for number in range(start, start + count):
        if all_ranks:
            with distributed.collective_scope():
                trainer.step(number)  # type: ignore[attr-defined]
        else:
            trainer.step(number)  # type: ignore[attr-defined]
    return (time.perf_counter() - began) / count


def time_rank(out: str, rounds: int = 3) -> None:
    """The process that torchrun starts twice: rank 0 alone with one and two threads, then both ranks, in alternation.

    Args:
        out: file for the seconds, written by rank 0.
        rounds: number of alternations.
    """
    seconds: dict[str, dict[str, list[float]]] = {}
    with distributed.process_group(torch.device("cpu")) as world, default_float32():
        for case, (name, batch) in CASES.items():
            recipe = Recipe(data="random", latent=10, nets="factor_vae_table1", objective=name, budget={"batch": batch})
            trainers = {way: build_trainer(build_parts(recipe, random_images(4000))) for way in SETUPS}
            seconds[case] = {way: [] for way in SETUPS}
            for turn in range(rounds + 1):  # the first warms up
                for way, (together, threads) in SETUPS.items():
                    distributed.all_reduce_max(distributed.CONTINUE)
                    if together or world.rank == 0:
                        spent = seconds_per_step(trainers[way], 3 * turn, together, threads)
                        seconds[case][way] += [spent] if turn else []
            if world.rank == 0:
                Path(out).write_text(json.dumps(seconds))


def rank_rows() -> list[Row]:
    """Two ranks compared with one process at an equal batch, for each case."""
    with tempfile.TemporaryDirectory() as place:
        out = Path(place) / "seconds.json"
        command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
        subprocess.run([*command, "-m", "bench.cluster", str(out)], check=True)
        seconds = json.loads(out.read_text())
    rows: list[Row] = []
    for case, ways in seconds.items():
        for way in list(SETUPS)[:2]:
            ratio = statistics.median(a / b for a, b in zip(ways["two ranks"], ways[way], strict=True))
            rows.append(
                {
                    "name": f"two ranks against {way}: {case}",
                    "ours": statistics.median(ways["two ranks"]),
                    "baseline": statistics.median(ways[way]),
                    "ratio": ratio,
                    "note": "a step of the conv net 64×64, equal global batch, in alternation",
                }
            )
    return rows


def rows() -> list[Row]:
    """All rows."""
    return rank_rows() + ray_rows()


if __name__ == "__main__":
    time_rank(sys.argv[1])
