"""Runs below one directory; files outside it are never read."""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from threading import RLock
from typing import Any

from unbraid.core.errors import expect
from unbraid.runs import Run
from unbraid.runs.folder.file_names import BACKUP_FOLDER, MODEL_FILE, RECIPE_FILE
from unbraid.runs.folder.leaf_names import NAMES_FILE
from unbraid.runs.folder.snapshots import SNAPSHOT_FOLDER
from unbraid.studio.explorer import Explorer

MAX_DEPTH = 3  # runs of a sweep are one folder down, runs of a study two
MAX_OPEN_MODELS = 6


@dataclass
class Library:
    """All runs below `root`, named by their relative path.

    Args:
        root: the runs directory.
    """

    root: Path
    _open: OrderedDict[str, tuple[Any, Explorer]] = field(default_factory=OrderedDict)
    _lock: RLock = field(default_factory=RLock)

    def __post_init__(self) -> None:
        self.root = Path(self.root).resolve()
        expect(self.root.is_dir(), f"{self.root} is not a directory of runs", do="Train a run first: 'unbraid train'.")

    def names(self) -> list[str]:
        """Sorted names of the runs; the root itself is '.' if it is a run."""
        here = ["."] if (self.root / RECIPE_FILE).is_file() else []
        return here + sorted(_find_runs(self.root, "", MAX_DEPTH))

    def path(self, name: Any) -> Path:
        """Return the directory of a run; a name that leads outside the root is refused.

        Args:
            name: path below the root, as sent by the browser.
        """
        expect(isinstance(name, str) and 0 < len(name) <= 1000, "a run is named by its path below the runs directory")
        bad = name.startswith(("/", "\\", "~")) or "\0" in name or ":" in name or "\\" in name
        plain = not bad and ".." not in name.split("/")
        expect(plain, "a run must lie below the runs directory", found=repr(name[:80]))
        try:
            path = (self.root / name).resolve()
            inside = path == self.root or self.root in path.parents
        except (OSError, RuntimeError, ValueError):
            inside = False
        expect(inside, "a run must lie below the runs directory", found=repr(name[:80]))
        return path

    def run(self, name: Any) -> Run:
        """Load a run; a run with links to files outside the root is refused.

        Args:
            name: path below the root, as sent by the browser.
        """
        path = self.path(name)
        run = Run.load(path)
        for link in _find_links(path):
            try:
                inside = self.root in link.resolve().parents
            except (OSError, RuntimeError):  # a link to itself
                inside = False
            expect(
                inside,
                f"run {name!r} links to a file outside the runs directory",
                found=link.relative_to(path),
            )
        return run

    def explorer(self, name: str) -> Explorer:
        """Return a run with its model in memory, loaded again if its files have changed.

        Args:
            name: path below the root.
        """
        run = self.run(name)
        stamp = _fingerprint(run.path)
        with self._lock:
            kept = self._open.get(name)
            if kept is None or kept[0] != stamp:
                kept = (stamp, Explorer.from_run(run))
                self._open[name] = kept
            self._open.move_to_end(name)
            while len(self._open) > MAX_OPEN_MODELS:
                self._open.popitem(last=False)
            return kept[1]


def _find_links(folder: Path) -> Iterator[Path]:
    """Links in a run directory, in its snapshots and in its backup."""
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_symlink():
                yield Path(entry.path)
            elif entry.name in (BACKUP_FOLDER, SNAPSHOT_FOLDER) and entry.is_dir():
                yield from _find_links(Path(entry.path))


def _find_runs(folder: Path, prefix: str, depth: int) -> list[str]:
    """Names of run directories; links are not followed."""
    names: list[str] = []
    try:
        with os.scandir(folder) as found:
            entries = sorted(found, key=lambda entry: entry.name)
    except OSError:
        return names
    for entry in entries:
        if entry.name.startswith(".") or entry.name == BACKUP_FOLDER or not entry.is_dir(follow_symlinks=False):
            continue
        if os.path.isfile(os.path.join(entry.path, RECIPE_FILE)):
            names.append(prefix + entry.name)
        elif depth > 1:
            names += _find_runs(Path(entry.path), f"{prefix}{entry.name}/", depth - 1)
    return names


def _fingerprint(path: Path) -> Any:
    """Modification times, sizes and inodes of the files that the explorer reads."""
    found = []
    for name in (MODEL_FILE, RECIPE_FILE, "codes.npz", "audit.json", NAMES_FILE):
        try:
            state = (path / name).stat()
            found.append((name, state.st_mtime_ns, state.st_size, state.st_ino))
        except OSError:
            continue
    return tuple(found)
