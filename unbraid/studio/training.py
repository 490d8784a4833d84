"""Trainings as processes of their own: started, found again by pid and start time, and stopped; no other process is touched.

A training outlives the tab and the server. What is known of it lies in `.studio/` of the runs directory: the command's pid with
the moment it started (a pid alone may belong to somebody else by now), its recipe and its log.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from unbraid.ground.errors import UnbraidError, expect
from unbraid.ground.files import read_bytes, read_json, writable, write_json, write_text
from unbraid.runs.recipe import Recipe
from unbraid.runs.run import RECIPE
from unbraid.studio.library import Library

FOLDER = ".studio"
_CHILDREN: dict[int, subprocess.Popen[bytes]] = {}  # ours, so that the finished ones are not left as zombies


@dataclass(frozen=True)
class Training:
    """A process that trains one run: `started` is what the system says of when it began."""

    name: str
    pid: int
    started: str
    path: str

    @property
    def alive(self) -> bool:
        """True when that very process still runs."""
        _reap()
        return self.started != "" and moment(self.pid) == self.started and _is_training(self.pid, self.path)


def start(library: Library, name: str, recipe: Recipe | None) -> Training:
    """Begin a training of a recipe under a new name, or go on with a run (no recipe)."""
    folder = writable(library.root / FOLDER)
    path = library.path(name)
    before = find(library, name)
    expect(before is None or not before.alive, f"{name} is being trained already")
    command = [sys.executable, "-m", "unbraid", "train"]
    if recipe is None:
        library.run(name)
        command += ["--resume", "--out", str(path)]
    else:
        good = re.fullmatch(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,99}", name) is not None
        expect(good, "a new run's name has letters, digits, dots, dashes and underscores", found=repr(name[:100]))
        expect(not (path / RECIPE).exists(), f"{name} already exists", do="Choose another name, or resume it.")
        told = folder / f"{_safe(name)}.toml"
        write_text(told, recipe.toml())
        command += [str(told), "--out", str(path)]
    with open(folder / f"{_safe(name)}.log", "wb") as log:
        child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
    _CHILDREN[child.pid] = child
    training = Training(name, child.pid, moment(child.pid), str(path))
    write_json(folder / f"{_safe(name)}.json", {"name": name, "pid": training.pid, "started": training.started})
    return training


def find(library: Library, name: str) -> Training | None:
    """The last training of a run that the studio started, from its record; None when there is none or it is damaged."""
    record = library.root / FOLDER / f"{_safe(name)}.json"
    if not record.is_file() or record.is_symlink():
        return None
    try:
        found: Any = read_json(record, "record", 1 << 16)
        pid, started = found["pid"], found["started"]
    except (UnbraidError, KeyError, TypeError):
        return None
    if not isinstance(pid, int) or pid <= 1 or not isinstance(started, str):
        return None
    return Training(name, pid, started, str(library.path(name)))


def all_of(library: Library) -> list[Training]:
    """Every training the studio knows of, the living first."""
    folder = library.root / FOLDER
    names = []
    for record in sorted(folder.glob("*.json")) if folder.is_dir() else []:
        try:
            names.append(str(read_json(record, "record", 1 << 16)["name"]))
        except (UnbraidError, KeyError, TypeError):
            continue
    found = []
    for name in names:
        try:
            training = find(library, name)
        except UnbraidError:
            continue
        found += [training] if training is not None else []
    return sorted(found, key=lambda one: not one.alive)


def stop(training: Training) -> bool:
    """Ask a training to write its checkpoint and end; False when it had ended before.

    On Linux the process is held by a handle before it is looked at, so that its pid cannot pass to another in between.
    """
    if training.pid <= 1:
        return False
    try:
        if hasattr(os, "pidfd_open") and hasattr(signal, "pidfd_send_signal"):
            handle = os.pidfd_open(training.pid)
            try:
                if not training.alive:
                    return False
                signal.pidfd_send_signal(handle, signal.SIGTERM)
            finally:
                os.close(handle)
        elif training.alive:
            os.kill(training.pid, signal.SIGTERM)
        else:
            return False
    except (ProcessLookupError, PermissionError):
        return False
    return True


def said(library: Library, name: str, most: int = 4000) -> str:
    """The end of a training's log."""
    log = library.root / FOLDER / f"{_safe(name)}.log"
    if not log.is_file() or log.is_symlink():
        return ""
    return read_bytes(log, "log", 1 << 26)[-most:].decode(errors="replace")


def moment(pid: int) -> str:
    """When a process started, in the system's own words; "" when there is no such process or it is finished."""
    stat = Path(f"/proc/{pid}/stat")
    if stat.parent.parent.joinpath("self").exists():
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            return ""
        return "" if fields[0] in "ZX" else f"{fields[19]} {_boot()}"
    shown = subprocess.run(["ps", "-o", "lstart=", "-p", str(pid)], capture_output=True, text=True, check=False)
    return shown.stdout.strip()


def _boot() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def _is_training(pid: int, path: str) -> bool:
    """True when the process is an 'unbraid train' into that directory, as far as the system tells."""
    said = b""
    for _ in range(20):  # a process has no words yet in the moment after its start
        try:
            said = Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:
            return not Path("/proc/self").exists()
        if said:
            break
        time.sleep(0.005)
    words = said.decode(errors="replace").split("\0")
    return "train" in words and path in words


def _reap() -> None:
    for pid, child in list(_CHILDREN.items()):
        if child.poll() is not None:
            del _CHILDREN[pid]


def _safe(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]", "_", name)[:150]
