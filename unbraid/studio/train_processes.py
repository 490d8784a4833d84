"""Training processes: start, find again, stop.

A training outlives the browser tab and the server. The folder `.studio/` of the runs directory stores its pid, start
time, recipe and log. The start time identifies the process, because pids are reused; no other process is ever signalled.
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
from unbraid.core.files import ensure_writable_folder, open_for_writing, open_regular, read_json, write_json, write_text
from unbraid.core.locks import file_lock
from unbraid.runs import Recipe
from unbraid.runs.building import custom_parts
from unbraid.runs.folder.file_names import RECIPE_FILE
from unbraid.studio.run_library import Library

STATE_FOLDER = ".studio"
_CHILDREN: dict[int, subprocess.Popen[bytes]] = {}  # polled, so that finished processes do not stay as zombies


@dataclass(frozen=True)
class TrainingProcess:
    """A process that trains one run.

    Args:
        name: name of the run.
        pid: process id.
        start_time: start time as the system reports it; "" if unknown.
        path: the run directory.
    """

    name: str
    pid: int
    start_time: str
    path: str

    @property
    def alive(self) -> bool:
        """True if this very process still runs."""
        _reap()
        return (
            self.start_time != ""
            and process_start_time(self.pid) == self.start_time
            and _is_training(self.pid, self.path)
        )


def start_training(library: Library, name: str, recipe: Recipe | None) -> TrainingProcess:
    """Start a training in a new process, or resume a run.

    Args:
        library: the runs of the studio.
        name: name of the run.
        recipe: recipe of a new run; None to resume.
    """
    folder = library.root / STATE_FOLDER
    expect(not folder.is_symlink(), f"{folder} is a link", do="Delete it; the studio follows no links.")
    ensure_writable_folder(folder)
    # two clicks may arrive at once: the second finds the training of the first
    with file_lock(folder / f"{_safe_name(name)}.lock", timeout=10):
        return _start_training(library, folder, name, recipe)


def _start_training(library: Library, folder: Path, name: str, recipe: Recipe | None) -> TrainingProcess:
    path = library.path(name)
    previous = find_training(library, name)
    expect(previous is None or not previous.alive, f"{name} is being trained already")
    imports = [word for module in custom_parts.IMPORTED_MODULES for word in ("--import", module)]
    command = [sys.executable, "-m", "unbraid", "train", *imports]
    if recipe is None:
        library.run(name)
        command += ["--resume", "--out", str(path)]
    else:
        good = re.fullmatch(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,99}", name) is not None
        expect(good, "a run name may contain letters, digits, dots, dashes and underscores", found=repr(name[:100]))
        expect(not (path / RECIPE_FILE).exists(), f"{name} already exists", do="Choose another name, or resume it.")
        recipe_path = folder / f"{_safe_name(name)}.toml"
        write_text(recipe_path, recipe.toml())
        command += [str(recipe_path), "--out", str(path)]
    with open_for_writing(folder / f"{_safe_name(name)}.log") as log:
        child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
    _CHILDREN[child.pid] = child
    training = TrainingProcess(name, child.pid, process_start_time(child.pid), str(path))
    write_json(folder / f"{_safe_name(name)}.json", {"name": name, "pid": training.pid, "started": training.start_time})
    return training


def find_training(library: Library, name: str) -> TrainingProcess | None:
    """Return the last training of a run from its record; None if the record is missing or damaged.

    Args:
        library: the runs of the studio.
        name: name of the run.
    """
    found = _read_record(library, library.root / STATE_FOLDER / f"{_safe_name(name)}.json")
    return found if found is not None and found.name == name else None


def list_trainings(library: Library) -> list[TrainingProcess]:
    """Return every recorded training, running ones first.

    Args:
        library: the runs of the studio.
    """
    found = [_read_record(library, record) for record in sorted((library.root / STATE_FOLDER).glob("*.json"))]
    return sorted((one for one in found if one is not None), key=lambda one: not one.alive)


def _read_record(library: Library, record: Path) -> TrainingProcess | None:
    if not record.is_file() or record.is_symlink():
        return None
    try:
        plain: Any = read_json(record, "record", 1 << 16)
        name, pid, started = str(plain["name"]), plain["pid"], plain["started"]
        path = library.path(name)
    except (UnbraidError, KeyError, TypeError):
        return None
    valid = isinstance(pid, int) and pid > 1 and isinstance(started, str) and record.stem == _safe_name(name)
    return TrainingProcess(name, pid, started, str(path)) if valid else None


def stop_training(training: TrainingProcess) -> bool:
    """Ask a training to write its checkpoint and exit; return False if it had already ended.

    On Linux a pidfd is opened before the process is checked, so that its pid cannot be reused in between.

    Args:
        training: the training.
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
    """Return the end of a training's log.

    Args:
        library: the runs of the studio.
        name: name of the run.
        max_bytes: how much of the log.
    """
    log = library.root / STATE_FOLDER / f"{_safe_name(name)}.log"
    if not log.is_file() or log.is_symlink():
        return ""
    with open_regular(log, "log") as f:
        f.seek(max(0, os.fstat(f.fileno()).st_size - max_bytes))
        return f.read(max_bytes).decode(errors="replace")


def process_start_time(pid: int) -> str:
    """Return the start time of a process as the system reports it; "" if it has ended or does not exist.

    Args:
        pid: process id.
    """
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
    """Return True if the process is an 'unbraid train' into this directory, as far as the system shows."""
    command = b""
    for _ in range(20):  # the command line is empty for a moment after the start
        try:
            command = Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:
            return not Path("/proc/self").exists()
        if command:
            break
        time.sleep(0.005)
    arguments = command.decode(errors="replace").split("\0")
    return "train" in arguments and path in arguments


def _reap() -> None:
    for pid, child in list(_CHILDREN.items()):
        if child.poll() is not None:
            del _CHILDREN[pid]


def _safe_name(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]", "_", name)[:150]
