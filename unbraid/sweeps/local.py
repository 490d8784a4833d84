"""Many runs on one machine: one process and one thread each, with a live line per run.

One thread each keeps runs out of each other's way, whatever the net; docs/benchmarks.md has what it brings.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from unbraid.ground.errors import Stopped, UnbraidError, expect
from unbraid.ground.files import writable, write_text
from unbraid.ground.progress import board
from unbraid.objectives.ledger import short
from unbraid.runs.recipe import Recipe
from unbraid.runs.run import LEDGER, Run


def sweep(recipes: Sequence[Recipe], out: str | Path, workers: int = 0, quiet: bool = False) -> list[Run]:
    """Train every recipe into `out/<name>-<seed>`; finished runs are kept, interrupted ones go on where they were.

    `workers` is how many run at once (default: one per core). Ctrl-C stops all of them at a checkpoint.
    """
    folder = writable(out)
    names = [f"{r.name}-{r.seed}" for r in recipes]
    expect(len(set(names)) == len(names), "two recipes of a sweep would share a run directory", found=sorted(names))
    workers = workers or _cores()
    waiting = list(zip(recipes, names))
    running: dict[str, tuple[Recipe, subprocess.Popen[bytes], float]] = {}
    board = _Board({name: r.budget.steps for r, name in zip(recipes, names)}, folder, quiet)
    try:
        with board:
            while waiting or running:
                while waiting and len(running) < workers:
                    recipe, name = waiting.pop(0)
                    running[name] = (recipe, _start(recipe, folder, name), time.monotonic())
                for name in [n for n, (_, child, _) in running.items() if child.poll() is not None]:
                    _finished(name, running.pop(name)[1], folder)
                board.update(running)
                time.sleep(0.2)
    except BaseException as error:
        _stop([child for _, child, _ in running.values()])
        if isinstance(error, KeyboardInterrupt):
            raise Stopped(f"stopped; the same command goes on from the checkpoints in {folder}") from None
        raise
    return [Run.load(folder / name) for name in names]


def _start(recipe: Recipe, folder: Path, name: str) -> subprocess.Popen[bytes]:
    source = folder / f"{name}.toml"
    write_text(source, recipe.toml())
    command = [
        sys.executable,
        "-m",
        "unbraid",
        "train",
        str(source),
        "--out",
        str(folder / name),
        "--resume",
        "--quiet",
    ]
    threads = str(recipe.budget.threads or 1)
    environment = os.environ | {"OMP_NUM_THREADS": threads, "MKL_NUM_THREADS": threads}
    log = open(folder / f"{name}.log", "wb")  # noqa: SIM115  (the child owns it)
    with log:
        return subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, env=environment)


def _finished(name: str, child: subprocess.Popen[bytes], folder: Path) -> None:
    if child.returncode == 130:
        raise KeyboardInterrupt
    if child.returncode != 0:
        said = (folder / f"{name}.log").read_text(errors="replace").strip().splitlines()
        reason = said[-1].removeprefix("error: ") if said else f"exit code {child.returncode}"
        raise UnbraidError(f"run {name} failed: {reason} (all it said: {folder / f'{name}.log'})")


def _stop(children: list[subprocess.Popen[bytes]]) -> None:
    """Ask every child to write a checkpoint and wait for it."""
    for child in children:
        child.terminate()
    for child in children:
        try:
            child.wait(timeout=120)
        except subprocess.TimeoutExpired:
            child.kill()


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class _Board:
    """One bar per run, read from the ledgers the runs write."""

    def __init__(self, steps: dict[str, int], folder: Path, quiet: bool):
        self.steps, self.folder, self.quiet = steps, folder, quiet
        self.live: Any = None
        self.tasks: dict[str, Any] = {}
        self.first: dict[str, tuple[float, int]] = {}
        self.printed = time.monotonic()

    def __enter__(self) -> _Board:
        if not self.quiet and sys.stderr.isatty():
            self.live = board(max(self.steps.values()))
            self.tasks = {
                name: self.live.add_task(name, total=total, speed="", note="") for name, total in self.steps.items()
            }
            self.live.start()
        return self

    def __exit__(self, *error: object) -> None:
        if self.live is not None:
            self.live.stop()

    def update(self, running: dict[str, Any]) -> None:
        """Show where every run is; in a log file, one line per run and half minute."""
        if self.quiet:
            return
        speak = time.monotonic() - self.printed > 30
        for name in self.steps:
            if name not in running and not self.live:
                continue
            line = _last_line(self.folder / name / LEDGER)
            if line is None:
                continue
            done, note = int(line["step"]) + 1, " ".join(f"{short(k)} {v:.4g}" for k, v in line["nats"].items())
            start, at = self.first.setdefault(name, (time.monotonic(), done))
            speed = (done - at) / max(time.monotonic() - start, 1e-9)
            if self.live:
                self.live.update(
                    self.tasks[name],
                    completed=done,
                    speed=f"{speed:.0f}/s" if name in running and speed else "",
                    note=note,
                )
            elif speak:
                left = f"{(self.steps[name] - done) / speed:.0f} s left" if speed else ""
                print(
                    f"{name}: step {done:,}/{self.steps[name]:,}  {speed:.0f}/s  {left}  {note}",
                    file=sys.stderr,
                    flush=True,
                )
        if speak:
            self.printed = time.monotonic()


def _last_line(path: Path) -> dict[str, Any] | None:
    """The last whole line of a ledger, read from its end."""
    try:
        with open(path, "rb") as f:
            f.seek(max(0, os.path.getsize(path) - 4096))
            lines = f.read().split(b"\n")
        return json.loads(lines[-2]) if len(lines) > 1 else None
    except (OSError, ValueError):
        return None
