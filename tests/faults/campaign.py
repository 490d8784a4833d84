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

from tests.ranked import torchrun
from tests.rayed import RECIPE, TOP, Two, asked, begun, tasks_of, until
from unbraid.ground.tensors import read_note
from unbraid.runs.run import CHECKPOINT, LEDGER, MODEL, SCORES, STATE
from unbraid.sweeps import outcomes
from unbraid.sweeps.plan import Plan
from unbraid.sweeps.task import execute

PATIENCE = 600.0
RUNS = (MODEL, LEDGER, SCORES)


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
    said: str = ""

    @property
    def good(self) -> bool:
        """Something was struck, nothing lost, and the end is that of no fault."""
        return self.struck and self.same and not self.lost


@dataclass(frozen=True)
class Place:
    """Where a trial is made: its folder, its chance, the results without a fault, and a Ray cluster if one is needed."""

    folder: Path
    chance: random.Random
    wanted: dict[str, bytes]
    two: Two | None = None


def results(plan: Plan) -> dict[str, bytes]:
    """What the runs of a plan ended in, to the bit; an empty word for a file that is not there."""
    files = [plan.folder / job.name / name for job in plan.jobs for name in RUNS]
    return {f"{f.parent.name}/{f.name}": f.read_bytes() if f.is_file() else b"" for f in files}


def without_fault(folder: Path) -> dict[str, bytes]:
    """The four runs, trained one after the other by this process."""
    plan = asked(folder)
    for job in plan.jobs:
        assert execute(job, plan.folder, plan.score) is not None
    return results(plan)


def process(two: Two | None, *words: str) -> subprocess.Popen[str]:
    """`python -m WORDS`, one thread, in the cluster's environment if there is one."""
    env = two.environment if two else {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(TOP)}
    return subprocess.Popen(
        [sys.executable, "-m", *words], env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


def sweep(place: Place, *words: str) -> subprocess.Popen[str]:
    """`unbraid sweep` of the four runs."""
    folder = place.folder
    more = ["--engine", "ray", "--address", place.two.address] if place.two else ["--workers", "2"]
    file, out = str(folder / "sweep.toml"), str(folder / "runs")
    return process(place.two, "unbraid", "sweep", file, "--out", out, "-q", "--retries", "2", *more, *words)


def ended(started: subprocess.Popen[str]) -> str:
    said, _ = started.communicate(timeout=PATIENCE)
    return said


def children(pid: int) -> list[int]:
    """The processes that a process started."""
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def hit(place: Place, plan: Plan, fault: Callable[[], bool], again: Callable[[], str], wait: bool = True) -> Trial:
    """Wait for a random number of runs, not all, to have a checkpoint and a random moment more; strike; go on; compare.

    `fault` says whether it found something to strike; a sweep that was done by then was not struck.
    """
    some = place.chance.randint(1, len(plan.jobs) - 1) if wait else 0
    until(lambda: len(begun(plan)) >= some, PATIENCE)
    time.sleep(place.chance.uniform(0, 0.3) if wait else 0)  # a run takes a second or two: there is something to strike
    done = [job for job in plan.jobs if (found := outcomes.read(plan.folder, job)) is not None and found.done]
    before = {job.name: (plan.folder / job.name / MODEL).stat().st_mtime_ns for job in done}
    struck = fault() and len(done) < len(plan.jobs)
    said = again()
    kept = {name: mark for name, mark in before.items() if _written(plan.folder / name / MODEL) == mark}
    return Trial("", struck, len(before), len(before) - len(kept), results(plan) == place.wanted, said[-400:])


def killed(pids: list[int]) -> bool:
    """Kill processes; True when there was one, and it was there."""
    found = [pid for pid in pids if Path(f"/proc/{pid}").is_dir()]
    for pid in found:
        os.kill(pid, signal.SIGKILL)
    return bool(found)


def _written(path: Path) -> int:
    return path.stat().st_mtime_ns if path.is_file() else 0


def worker(place: Place) -> Trial:
    """A warm worker is killed; the sweep starts another."""
    plan, parent = asked(place.folder), sweep(place)
    return hit(
        place,
        plan,
        lambda: killed(place.chance.sample(children(parent.pid), 1)),
        lambda: ended(parent),
    )


def driver(place: Place) -> Trial:
    """The sweep's own process is killed, and the same command is given again."""
    plan, parent = asked(place.folder), sweep(place)

    def again() -> str:
        ended(parent)
        return ended(sweep(place))

    return hit(place, plan, lambda: parent.poll() is None and killed([parent.pid]), again)


def shard(place: Place) -> Trial:
    """Of three shards on one directory one is killed; the summary's command does what is left."""
    plan = asked(place.folder)
    shards = [sweep(place, "--shard", f"{i}/3", "--workers", "1") for i in (1, 2, 3)]

    def again() -> str:
        return "".join(map(ended, shards)) + ended(sweep(place))

    one = place.chance.choice(shards)
    return hit(place, plan, lambda: one.poll() is None and killed([one.pid]), again)


def ray_worker(place: Place) -> Trial:
    """The process of a Ray task is killed, on nodes that do not see our disk."""
    plan = asked(place.folder)
    parent = process(place.two, "tests.rayed", str(place.folder), place.two.address)  # type: ignore[union-attr]
    return hit(place, plan, lambda: killed(list(tasks_of(plan))[:1]), lambda: ended(parent))


def ray_node(place: Place) -> Trial:
    """A node is gone with all its processes, and nobody saw its disk."""
    plan, two = asked(place.folder), place.two
    assert two is not None
    parent = process(two, "tests.rayed", str(place.folder), two.address)

    def fault() -> bool:
        at_work = bool(tasks_of(plan))
        two.kill_node(1)
        return at_work

    trial = hit(place, plan, fault, lambda: ended(parent))
    two.add_node()
    return trial


def rank(place: Place) -> Trial:
    """One of two ranks is killed; torchrun ends, and the run goes on with --resume."""
    whole, run = place.folder / "whole", place.folder / "run"
    place.folder.mkdir()
    (place.folder / "recipe.toml").write_text(RECIPE)

    def train(out: Path, *more: str) -> subprocess.Popen[str]:
        return torchrun(2, "unbraid", "train", str(place.folder / "recipe.toml"), "-q", "--out", str(out), *more)

    ended(train(whole))
    parent = train(run)
    some = 25 * place.chance.randint(1, 8)
    until(lambda: (run / CHECKPOINT).is_file() and read_note(run / CHECKPOINT)["step"] >= some, PATIENCE)
    at = int(read_note(run / CHECKPOINT)["step"])
    struck = parent.poll() is None and killed([place.chance.choice(children(parent.pid))])
    ended(parent)
    lost = int(read_note(run / CHECKPOINT)["step"]) < at
    said = ended(train(run, "--resume"))
    same = all((run / name).read_bytes() == (whole / name).read_bytes() for name in (MODEL, LEDGER, STATE))
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


def full_disk(place: Place) -> Trial:
    """The disk is full before the sweep is done; there is room again, and the same command is given."""
    with small_disk(place.folder, place.chance.randint(4500, 8500)):  # the four runs take 8,900 kB
        plan = asked(place.folder)
        full = "No space left on device" in ended(sweep(place))

        def fault() -> bool:
            subprocess.run(["mount", "-o", "remount,size=200m", str(place.folder)], check=True)
            return full

        return hit(place, plan, fault, lambda: ended(sweep(place)), wait=False)


FAULTS: dict[str, Callable[[Place], Trial]] = {
    "worker killed": worker,
    "driver killed": driver,
    "shard killed": shard,
    "disk full": full_disk,
    "rank killed": rank,
    "Ray worker killed": ray_worker,
    "Ray driver killed": driver,
    "Ray node killed": ray_node,
}
