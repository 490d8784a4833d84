"""Ray against local workers, and two ranks against one process of the same batch. `python -m bench cluster`

Both sides of a ratio are measured in turns in one run; what the machine does beside them disturbs both.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import time
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

RUNS, STEPS = 40, 5  # short runs: what is measured is the engine
TASKS, CHECKPOINT_BYTES = 300, 6_000_000  # tasks that do nothing; bytes of a checkpoint of the conv net
CASES = {
    "vae, B = 64": ("vae", 64),
    "factor_vae, B = 64": ("factor_vae", 64),
    "beta_tcvae, B = 256": ("beta_tcvae", 256),
}
SETUPS = {"one process, 1 thread": (False, 1), "one process, 2 threads": (False, 2), "two ranks": (True, 1)}


def ray_rows(rounds: int = 2) -> list[Row]:
    """40 short runs by two warm workers and by a local Ray cluster of two cores; the start of each is a row of its own."""
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
         "ratio": statistics.median(ratios), "note": "two at a time, both warm, in turns; start-up apart"},
        {"name": "start-up: Ray against local workers", "ours": joined + first, "baseline": warm,
         "ratio": (joined + first) / warm, "note": f"{joined:.1f} s for the cluster, {first:.1f} s for its first two runs"},
        *alone,
    ]  # fmt: skip


def driver_rows(cluster: Any, folder: Path) -> list[Row]:
    """What the driver's machine carries beside the runs: tasks that do nothing, and checkpoints brought to the desk."""
    nothing = cluster.ray.remote(lambda answer: answer)
    cluster.start_task = lambda asked, _: nothing.remote(
        {"outcome": JobResult(DONE, hash=asked["job"]["hash"]).as_dict()}
    )
    each = time_sweep(cluster, folder / "nothing", TASKS, 1) / TASKS
    del cluster.start_task
    brought = {CHECKPOINT_FILE: bytes(CHECKPOINT_BYTES)}
    began = time.perf_counter()
    for _ in range(20):
        cluster.ray.get(cluster.run_store.write_files.remote("brought", brought, list(brought)))
    speed = 20 * CHECKPOINT_BYTES / 1e6 / (time.perf_counter() - began)
    bare: Row = {"baseline": None, "ratio": None}
    return [
        {"name": "a task that does nothing, by Ray's driver", "ours": each, **bare,
         "note": f"claimed, given out, heard; {TASKS} of them, two at a time"},
        {"name": "checkpoints brought to the desk", "ours": speed, "unit": "MB/s", **bare,
         "note": f"20 of {CHECKPOINT_BYTES / 1e6:.0f} MB, one after the other, on one machine"},
    ]  # fmt: skip


def seconds_per_step(trainer: object, start: int, all_ranks: bool, threads: int, count: int = 3) -> float:
    """Seconds a step."""
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
    """What torchrun starts twice: in turns rank 0 alone at the whole batch, with one and two threads, and both together."""
    told: dict[str, dict[str, list[float]]] = {}
    with distributed.process_group(torch.device("cpu")) as world, default_float32():
        for case, (name, batch) in CASES.items():
            recipe = Recipe(data="random", latent=10, nets="factor_vae_table1", objective=name, budget={"batch": batch})
            trainers = {way: build_trainer(build_parts(recipe, random_images(4000))) for way in SETUPS}
            told[case] = {way: [] for way in SETUPS}
            for turn in range(rounds + 1):  # the first warms up
                for way, (together, threads) in SETUPS.items():
                    distributed.all_reduce_max(distributed.CONTINUE)
                    if together or world.rank == 0:
                        spent = seconds_per_step(trainers[way], 3 * turn, together, threads)
                        told[case][way] += [spent] if turn else []
            if world.rank == 0:
                Path(out).write_text(json.dumps(told))


def rank_rows() -> list[Row]:
    """Two ranks against one process at an equal batch, by turn and case."""
    with tempfile.TemporaryDirectory() as place:
        out = Path(place) / "told.json"
        command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
        subprocess.run([*command, "-m", "bench.cluster", str(out)], check=True)
        told = json.loads(out.read_text())
    rows: list[Row] = []
    for case, ways in told.items():
        for way in list(SETUPS)[:2]:
            ratio = statistics.median(a / b for a, b in zip(ways["two ranks"], ways[way], strict=True))
            rows.append(
                {
                    "name": f"two ranks against {way}: {case}",
                    "ours": statistics.median(ways["two ranks"]),
                    "baseline": statistics.median(ways[way]),
                    "ratio": ratio,
                    "note": "a step of the conv net 64×64, equal global batch, in turns",
                }
            )
    return rows


def rows() -> list[Row]:
    """All rows."""
    return rank_rows() + ray_rows()


if __name__ == "__main__":
    time_rank(sys.argv[1])
