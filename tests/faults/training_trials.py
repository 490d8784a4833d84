"""Faults of single trainings: kills inside checkpoint writes, two fits into one `out`, and a studio that is killed or raced.

Processes are forked from one that has loaded torch, so a trial takes about a second; only the studio starts real commands.
"""

from __future__ import annotations

import os
import signal
import tempfile
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from tests.faults.trials import TIMEOUT, Trial, TrialContext, kill_processes
from tests.ray_cluster import wait_until
from unbraid import Disentangler, Recipe, Run, fit
from unbraid.core.files import PART_SUFFIX
from unbraid.core.tensor_files import read_metadata
from unbraid.runs.folder.backup import is_finished_run
from unbraid.runs.folder.file_names import CHECKPOINT_FILE, LEDGER_FILE, MODEL_FILE
from unbraid.studio import train_processes
from unbraid.studio.run_library import Library

EVERY = 4  # steps between checkpoints
RECIPE = {
    "data": {"name": "digits", "size": 8},
    "latent": 2,
    "nets": {"name": "mlp", "width": [16]},
    "objective": "beta_tcvae",
    "budget": {"steps": 40, "batch": 16, "log_every": 2, "checkpoint_every": EVERY, "threads": 1, "device": "cpu"},
}
LONG = {**RECIPE, "budget": {**RECIPE["budget"], "steps": 3000, "checkpoint_every": 100}}  # type: ignore[dict-item]
REFUSED = 3  # exit code of a process that was told that another one trains here


def fork(work: Callable[[], None]) -> int:
    """Run a function in a forked process and return its pid; the process ends with 0, or 1 after an error."""
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        work()
        code = 0
    except BaseException as error:
        code = REFUSED if "another process is training" in str(error) else 1
        if code == 1:
            traceback.print_exc()
    finally:
        os._exit(code)


def exit_code(pid: int) -> int:
    """Wait for a forked process; minus the signal that ended it, or its exit code."""
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def read_bits(path: Path) -> list[bytes]:
    """The files of a run in which a fault would show."""
    return [(path / name).read_bytes() if (path / name).is_file() else b"" for name in (MODEL_FILE, LEDGER_FILE)]


class KilledWrites:
    """Counts the steps of atomic writes in this process, and kills it before or after the one with a given number."""

    def __init__(self, at: int, after: bool = False, reports: int | None = None):
        self.count, self.at, self.after, self.reports = 0, at, after, reports
        for module, name in ((os, "fsync"), (os, "chmod"), (os, "replace"), (tempfile, "mkstemp")):
            setattr(module, name, self._wrap(getattr(module, name), name))

    def _wrap(self, call: Any, name: str) -> Any:
        def wrapped(*given: Any, **named: Any) -> Any:
            self.count += 1
            struck = self.count == self.at
            if struck and not self.after:
                if name == "fsync" and os.readlink(f"/proc/self/fd/{given[0]}").endswith(PART_SUFFIX):
                    os.truncate(given[0], os.fstat(given[0]).st_size // 2)  # a file that is half written
                os.kill(os.getpid(), signal.SIGKILL)
            value = call(*given, **named)
            if name == "replace" and Path(given[1]).name == CHECKPOINT_FILE and self.reports is not None:
                os.write(self.reports, b".")
            if struck:
                os.kill(os.getpid(), signal.SIGKILL)
            return value

        return wrapped


def kill_in_checkpoint_write(context: TrialContext) -> Trial:
    """A training is killed inside one of its writes, once or twice, and goes on with resume."""
    whole, run = context.folder / "whole", context.folder / "run"
    recipe = Recipe.from_dict(RECIPE)
    counted, counts = os.pipe()

    def count_writes() -> None:
        writes = KilledWrites(0)
        fit(recipe, whole, quiet=True)
        os.write(counts, str(writes.count).encode())

    assert exit_code(fork(count_writes)) == 0
    total, lost, struck = int(os.read(counted, 100)), 0, True
    for resumed in range(context.rng.randint(1, 2)):
        at, after = context.rng.randint(1, total if not resumed else total // 4), context.rng.random() < 0.5
        reports, reported = os.pipe()

        def train(at: int = at, after: bool = after, reported: int = reported) -> None:
            KilledWrites(at, after, reported)
            fit(recipe, run, resume=(run / "recipe.toml").exists(), quiet=True)

        before = _checkpoint_step(run)
        ended = exit_code(fork(train))
        os.close(reported)
        written = len(os.read(reports, 10_000))
        os.close(reports)
        struck = struck and ended == -signal.SIGKILL
        lost += _checkpoint_step(run) < before + EVERY * written - EVERY * bool(before and written)
    os.close(counted)
    os.close(counts)
    fit(recipe, run, resume=(run / "recipe.toml").exists(), quiet=True)
    return Trial("", struck, 0, lost, read_bits(run) == read_bits(whole))


def _checkpoint_step(run: Path) -> int:
    """The step of the checkpoint, which must be readable if it is there."""
    return int(read_metadata(run / CHECKPOINT_FILE)["step"]) if (run / CHECKPOINT_FILE).is_file() else 0


def kill_one_of_two_fits(context: TrialContext) -> Trial:
    """Two processes fit their own rows into one `out`, the first is killed; what is left is fitted again."""
    options: dict[str, Any] = {"steps": 600, "batch": 16, "nets": {"name": "mlp", "width": [8]}, "standardise": False}
    rows = [np.random.default_rng(seed).normal(size=(60, 4)) for seed in (1, 2)]
    context.folder.mkdir(parents=True)
    out, alone = context.folder / "run", context.folder / "alone"

    def fit_rows(number: int, folder: Path) -> None:
        Disentangler("vae", 2, out=folder, budget={"threads": 1, "checkpoint_every": 100}, **options).fit(rows[number])

    for number in (0, 1):
        assert exit_code(fork(lambda number=number: fit_rows(number, alone / str(number)))) == 0  # type: ignore[misc]
    first = fork(lambda: fit_rows(0, out))
    time.sleep(context.rng.uniform(0, 0.3))
    second = fork(lambda: fit_rows(1, out))
    time.sleep(context.rng.uniform(0, 0.2))
    kill_processes([first])
    struck, ended = exit_code(first) == -signal.SIGKILL, exit_code(second)
    lost = int(ended == 0 and read_bits(out) != read_bits(alone / "1"))
    lost += int(ended not in (0, REFUSED))
    fit_rows(0, out)
    stored = Run.load(out).dataset().pixels(np.arange(60))[:, :, 0, 0]
    same = read_bits(out) == read_bits(alone / "0") and np.array_equal(stored, rows[0].astype(np.float32))
    return Trial("", struck, int(ended == 0), lost, same)


def kill_studio(context: TrialContext) -> Trial:
    """The studio is killed while a training that it started runs: the training ends, and another studio finds it."""
    return _train_by_studios(context, studios=1)


def race_studios(context: TrialContext) -> Trial:
    """Several studios on one directory start the same training at once, and all are killed: there is one training."""
    return _train_by_studios(context, studios=context.rng.randint(2, 3))


def _train_by_studios(context: TrialContext, studios: int) -> Trial:
    root, whole, recipe = context.folder / "runs", context.folder / "whole", Recipe.from_dict(LONG)
    root.mkdir(parents=True)
    told, tell = os.pipe()

    def serve() -> None:
        try:
            found = train_processes.start_training(Library(root), "one", recipe)
            os.write(tell, f"{found.pid}\n".encode())
        finally:
            time.sleep(TIMEOUT)

    started = [fork(serve) for _ in range(studios)]
    wait_until(lambda: (root / "one" / CHECKPOINT_FILE).is_file(), TIMEOUT)
    time.sleep(context.rng.uniform(0, 0.3))
    training = train_processes.find_training(Library(root), "one")
    struck = kill_processes(started) and training is not None and training.alive
    for pid in started:
        exit_code(pid)
    pids = os.read(told, 1000).split()
    os.close(told)
    os.close(tell)
    assert training is not None
    lost = int(pids != [str(training.pid).encode()])  # one training, and its record is its own
    wait_until(lambda: not training.alive or is_finished_run(root / "one"), TIMEOUT)
    wait_until(lambda: not training.alive, TIMEOUT)
    assert exit_code(fork(lambda: fit(recipe, whole, quiet=True) and None)) == 0  # type: ignore[func-returns-value]
    return Trial("", struck, 0, lost, read_bits(root / "one") == read_bits(whole))
