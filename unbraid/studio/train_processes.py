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

from unbraid.core.errors import UnbraidError, expect
from unbraid.core.files import ensure_writable_folder, read_bytes, read_json, write_json, write_text
from unbraid.runs.folder.file_names import RECIPE_FILE
from unbraid.runs.recipe import Recipe
from unbraid.studio.run_library import Library

STATE_FOLDER = ".studio"
_CHILDREN: dict[int, subprocess.Popen[bytes]] = {}  # ours, so that the finished ones are not left as zombies


@dataclass(frozen=True)
class TrainingProcess:
    """A process that trains one run: `started` is what the system says of when it began."""

    name: str
    pid: int
    start_time: str
    path: str

    @property
    def alive(self) -> bool:
        """True when that very process still runs."""
        _reap()
        return (
            self.start_time != ""
            and process_start_time(self.pid) == self.start_time
            and _is_training(self.pid, self.path)
        )


def start_training(library: Library, name: str, recipe: Recipe | None) -> TrainingProcess:
    """Begin a training of a recipe under a new name, or go on with a run (no recipe)."""
    folder = ensure_writable_folder(library.root / STATE_FOLDER)
    path = library.path(name)
    before = find_training(library, name)
    expect(before is None or not before.alive, f"{name} is being trained already")
    command = [sys.executable, "-m", "unbraid", "train"]
    if recipe is None:
        library.run(name)
        command += ["--resume", "--out", str(path)]
    else:
        good = re.fullmatch(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,99}", name) is not None
        expect(good, "a new run's name has letters, digits, dots, dashes and underscores", found=repr(name[:100]))
        expect(not (path / RECIPE_FILE).exists(), f"{name} already exists", do="Choose another name, or resume it.")
        told = folder / f"{_safe_name(name)}.toml"
        write_text(told, recipe.toml())
        command += [str(told), "--out", str(path)]
    with open(folder / f"{_safe_name(name)}.log", "wb") as log:
        child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
    _CHILDREN[child.pid] = child
    training = TrainingProcess(name, child.pid, process_start_time(child.pid), str(path))
    write_json(folder / f"{_safe_name(name)}.json", {"name": name, "pid": training.pid, "started": training.start_time})
    return training


def find_training(library: Library, name: str) -> TrainingProcess | None:
    """The last training of a run that the studio started, from its record; None when there is none or it is damaged."""
    record = library.root / STATE_FOLDER / f"{_safe_name(name)}.json"
    if not record.is_file() or record.is_symlink():
        return None
    try:
        found: Any = read_json(record, "record", 1 << 16)
        pid, started = found["pid"], found["started"]
    except (UnbraidError, KeyError, TypeError):
        return None
    if not isinstance(pid, int) or pid <= 1 or not isinstance(started, str):
        return None
    return TrainingProcess(name, pid, started, str(library.path(name)))


def list_trainings(library: Library) -> list[TrainingProcess]:
    """Every training the studio knows of, the living first."""
    folder = library.root / STATE_FOLDER
    names = []
    for record in sorted(folder.glob("*.json")) if folder.is_dir() else []:
        try:
            names.append(str(read_json(record, "record", 1 << 16)["name"]))
        except (UnbraidError, KeyError, TypeError):
            continue
    found = []
    for name in names:
        try:
            training = find_training(library, name)
        except UnbraidError:
            continue
        found += [training] if training is not None else []
    return sorted(found, key=lambda one: not one.alive)


def stop_training(training: TrainingProcess) -> bool:
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


def log_tail(library: Library, name: str, max_bytes: int = 4000) -> str:
    """The end of a training's log."""
    log = library.root / STATE_FOLDER / f"{_safe_name(name)}.log"
    if not log.is_file() or log.is_symlink():
        return ""
    return read_bytes(log, "log", 1 << 26)[-max_bytes:].decode(errors="replace")


def process_start_time(pid: int) -> str:
    """When a process started, in the system's own words; "" when there is no such process or it is finished."""
    stat = Path(f"/proc/{pid}/stat")
    if stat.parent.parent.joinpath("self").exists():
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            return ""
        return "" if fields[0] in "ZX" else f"{fields[19]} {_boot_id()}"
    shown = subprocess.run(["ps", "-o", "lstart=", "-p", str(pid)], capture_output=True, text=True, check=False)
    return shown.stdout.strip()


def _boot_id() -> str:
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


def _safe_name(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]", "_", name)[:150]
