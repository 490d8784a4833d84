"""Faults and what they leave: a sweep or a run over ranks is hit at some moment, and its end compared with that of no fault."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.distributed_steps import start_torchrun
from tests.ray_cluster import RECIPE, ROOT, RayCluster, make_plan, running_tasks, runs_with_checkpoint, wait_until
from unbraid.core.tensor_files import read_metadata
from unbraid.runs.folder.file_names import CHECKPOINT_FILE, LEDGER_FILE, MODEL_FILE, SCORES_FILE, STATE_FILE
from unbraid.sweeps.engine import job_results
from unbraid.sweeps.engine.job_runner import claim_and_run
from unbraid.sweeps.planning.plan import Plan

TIMEOUT = 600.0
RESULT_FILES = (MODEL_FILE, LEDGER_FILE, SCORES_FILE)


@dataclass(frozen=True)
class Trial:
    """One fault: whether it struck work that was under way, how many runs were finished then, how many of them (or of
    checkpoints) it took, and the end.
    """

    fault: str
    struck: bool
    finished: int
    lost: int
    same: bool
    output: str = ""

    @property
    def passed(self) -> bool:
        """Something was struck, nothing lost, and the end is that of no fault."""
        return self.struck and self.same and not self.lost


@dataclass(frozen=True)
class TrialContext:
    """Where a trial is made: its folder, its chance, the results without a fault, and a Ray cluster if one is needed."""

    folder: Path
    rng: random.Random
    expected: dict[str, bytes]
    cluster: RayCluster | None = None


def read_results(plan: Plan) -> dict[str, bytes]:
    """What the runs of a plan ended in, to the bit; an empty word for a file that is not there."""
    files = [plan.folder / job.name / name for job in plan.jobs for name in RESULT_FILES]
    return {f"{f.parent.name}/{f.name}": f.read_bytes() if f.is_file() else b"" for f in files}


def train_without_fault(folder: Path) -> dict[str, bytes]:
    """The four runs, trained one after the other by this process."""
    plan = make_plan(folder)
    for job in plan.jobs:
        assert claim_and_run(job, plan.folder, plan.score) is not None
    return read_results(plan)


def start_module(cluster: RayCluster | None, *arguments: str) -> subprocess.Popen[str]:
    """`python -m WORDS`, one thread, in the cluster's environment if there is one."""
    env = cluster.environment if cluster else {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    return subprocess.Popen(
        [sys.executable, "-m", *arguments], env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


def start_sweep(context: TrialContext, *options: str) -> subprocess.Popen[str]:
    """`unbraid sweep` of the four runs."""
    folder = context.folder
    more = ["--engine", "ray", "--address", context.cluster.address] if context.cluster else ["--workers", "2"]
    file, out = str(folder / "sweep.toml"), str(folder / "runs")
    return start_module(
        context.cluster, "unbraid", "sweep", file, "--out", out, "-q", "--retries", "2", *more, *options
    )


def wait_for_output(process: subprocess.Popen[str]) -> str:
    said, _ = process.communicate(timeout=TIMEOUT)
    return said


def children(pid: int) -> list[int]:
    """The processes that a process started."""
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def run_trial(
    context: TrialContext, plan: Plan, strike: Callable[[], bool], finish: Callable[[], str], wait: bool = True
) -> Trial:
    """Wait for a random number of runs, not all, to have a checkpoint and a random moment more; strike; go on; compare.

    `fault` says whether it found something to strike; a sweep that was done by then was not struck.
    """
    some = context.rng.randint(1, len(plan.jobs) - 1) if wait else 0
    wait_until(lambda: len(runs_with_checkpoint(plan)) >= some, TIMEOUT)
    time.sleep(context.rng.uniform(0, 0.3) if wait else 0)  # a run takes a second or two: there is something to strike
    done = [job for job in plan.jobs if (found := job_results.read_result(plan.folder, job)) is not None and found.done]
    before = {job.name: (plan.folder / job.name / MODEL_FILE).stat().st_mtime_ns for job in done}
    struck = strike() and len(done) < len(plan.jobs)
    said = finish()
    kept = {name: mark for name, mark in before.items() if _modified_at(plan.folder / name / MODEL_FILE) == mark}
    return Trial("", struck, len(before), len(before) - len(kept), read_results(plan) == context.expected, said[-400:])


def kill_processes(pids: list[int]) -> bool:
    """Kill processes; True when there was one, and it was there."""
    found = [pid for pid in pids if Path(f"/proc/{pid}").is_dir()]
    for pid in found:
        os.kill(pid, signal.SIGKILL)
    return bool(found)


def _modified_at(path: Path) -> int:
    return path.stat().st_mtime_ns if path.is_file() else 0


def kill_worker(context: TrialContext) -> Trial:
    """A warm worker is killed; the sweep starts another."""
    plan, parent = make_plan(context.folder), start_sweep(context)
    return run_trial(
        context,
        plan,
        lambda: kill_processes(context.rng.sample(children(parent.pid), 1)),
        lambda: wait_for_output(parent),
    )


def kill_driver(context: TrialContext) -> Trial:
    """The sweep's own process is killed, and the same command is given again."""
    plan, parent = make_plan(context.folder), start_sweep(context)

    def finish() -> str:
        wait_for_output(parent)
        return wait_for_output(start_sweep(context))

    return run_trial(context, plan, lambda: parent.poll() is None and kill_processes([parent.pid]), finish)


def kill_shard(context: TrialContext) -> Trial:
    """Of three shards on one directory one is killed; the summary's command does what is left."""
    plan = make_plan(context.folder)
    shards = [start_sweep(context, "--shard", f"{i}/3", "--workers", "1") for i in (1, 2, 3)]

    def finish() -> str:
        return "".join(map(wait_for_output, shards)) + wait_for_output(start_sweep(context))

    one = context.rng.choice(shards)
    return run_trial(context, plan, lambda: one.poll() is None and kill_processes([one.pid]), finish)


def kill_ray_worker(context: TrialContext) -> Trial:
    """The process of a Ray task is killed, on nodes that do not see our disk."""
    plan = make_plan(context.folder)
    parent = start_module(context.cluster, "tests.ray_cluster", str(context.folder), context.cluster.address)  # type: ignore[union-attr]
    return run_trial(
        context, plan, lambda: kill_processes(list(running_tasks(plan))[:1]), lambda: wait_for_output(parent)
    )


def kill_ray_node(context: TrialContext) -> Trial:
    """A node is gone with all its processes, and nobody saw its disk."""
    plan, two = make_plan(context.folder), context.cluster
    assert two is not None
    parent = start_module(two, "tests.ray_cluster", str(context.folder), two.address)

    def strike() -> bool:
        at_work = bool(running_tasks(plan))
        two.kill_node(1)
        return at_work

    trial = run_trial(context, plan, strike, lambda: wait_for_output(parent))
    two.add_node()
    return trial


def kill_rank(context: TrialContext) -> Trial:
    """One of two ranks is killed; torchrun ends, and the run goes on with --resume."""
    whole, run = context.folder / "whole", context.folder / "run"
    context.folder.mkdir()
    (context.folder / "recipe.toml").write_text(RECIPE)

    def train(out: Path, *more: str) -> subprocess.Popen[str]:
        return start_torchrun(
            2, "unbraid", "train", str(context.folder / "recipe.toml"), "-q", "--out", str(out), *more
        )

    wait_for_output(train(whole))
    parent = train(run)
    some = 25 * context.rng.randint(1, 8)
    wait_until(
        lambda: (run / CHECKPOINT_FILE).is_file() and read_metadata(run / CHECKPOINT_FILE)["step"] >= some, TIMEOUT
    )
    at = int(read_metadata(run / CHECKPOINT_FILE)["step"])
    struck = parent.poll() is None and kill_processes([context.rng.choice(children(parent.pid))])
    wait_for_output(parent)
    lost = int(read_metadata(run / CHECKPOINT_FILE)["step"]) < at
    said = wait_for_output(train(run, "--resume"))
    same = all(
        (run / name).read_bytes() == (whole / name).read_bytes() for name in (MODEL_FILE, LEDGER_FILE, STATE_FILE)
    )
    return Trial("", struck, 0, int(lost), same, said[-400:])


@contextmanager
def small_disk(folder: Path, kilobytes: int) -> Any:
    """A disk of that size."""
    folder.mkdir(parents=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={kilobytes}k", "none", str(folder)], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def fill_disk(context: TrialContext) -> Trial:
    """The disk is full before the sweep is done; there is room again, and the same command is given."""
    with small_disk(context.folder, context.rng.randint(4500, 8500)):  # the four runs take 8,900 kB
        plan = make_plan(context.folder)
        full = "No space left on device" in wait_for_output(start_sweep(context))

        def strike() -> bool:
            subprocess.run(["mount", "-o", "remount,size=200m", str(context.folder)], check=True)
            return full

        return run_trial(context, plan, strike, lambda: wait_for_output(start_sweep(context)), wait=False)
