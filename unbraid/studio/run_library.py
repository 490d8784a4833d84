"""The runs below one directory: found, opened, and nothing outside of it ever read."""

from __future__ import annotations

import os
from collections import OrderedDict
from dataclasses import dataclass, field
from pathlib import Path
from threading import RLock
from typing import Any

from unbraid.core.errors import UnbraidError, expect
from unbraid.runs.folder.file_names import MODEL_FILE, RECIPE_FILE
from unbraid.runs.run import Run
from unbraid.studio.explorer import Explorer

MAX_DEPTH = 3  # a sweep's runs lie one folder down, a study's sweeps two
MAX_OPEN_MODELS = 6  # models in memory at once


@dataclass(frozen=True)
class RunListing:
    """A run as a list shows it: `wrong` says why it cannot be opened, "" when it can."""

    name: str
    status: str
    objective: str
    data: str
    seed: int | None
    error: str = ""


@dataclass
class Library:
    """All runs below `root`, by their path below it."""

    root: Path
    _open: OrderedDict[str, tuple[Any, Explorer]] = field(default_factory=OrderedDict)
    _lock: RLock = field(default_factory=RLock)

    def __post_init__(self) -> None:
        self.root = Path(self.root).resolve()
        expect(self.root.is_dir(), f"{self.root} is not a directory of runs", do="Train a run first: 'unbraid train'.")

    def names(self) -> list[str]:
        """The runs below the root, sorted; the root itself is '.' when it is a run."""
        here = ["."] if (self.root / RECIPE_FILE).is_file() else []
        return here + sorted(_find_runs(self.root, "", MAX_DEPTH))

    def path(self, name: Any) -> Path:
        """The directory of a run by name; whatever leads outside of the root is refused."""
        expect(isinstance(name, str) and 0 < len(name) <= 1000, "a run is named by its path below the runs directory")
        bad = name.startswith(("/", "\\", "~")) or "\0" in name or ":" in name or "\\" in name
        expect(not bad and ".." not in name.split("/"), "a run lies below the runs directory", found=repr(name[:80]))
        try:
            path = (self.root / name).resolve()
            inside = path == self.root or self.root in path.parents
        except (OSError, RuntimeError, ValueError):
            inside = False
        expect(inside, "a run lies below the runs directory", found=repr(name[:80]))
        return path

    def run(self, name: Any) -> Run:
        """A run by name; one whose files are links to elsewhere is refused."""
        path = self.path(name)
        run = Run.load(path)
        for name_inside in os.listdir(path):
            inner = path / name_inside
            target = inner.resolve() if inner.is_symlink() else None
            expect(
                target is None or self.root in target.parents,
                f"run {name!r} links to a file outside of the runs directory, so it is not read",
                found=name_inside,
            )
        return run

    def describe_run(self, name: str) -> RunListing:
        """What a list shows of a run; a damaged or foreign one is shown as such."""
        try:
            run = self.run(name)
            recipe = run.recipe
            status = str(run.state["status"])
            return RunListing(
                name, status, str(recipe.objective.get("name", "")), str(recipe.data.get("name", "")), recipe.seed
            )
        except (UnbraidError, OSError) as error:
            return RunListing(name, "damaged", "", "", None, str(error))

    def explorer(self, name: str) -> Explorer:
        """A run with its model in memory, read again when it has been trained anew."""
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


def _find_runs(folder: Path, prefix: str, depth: int) -> list[str]:
    """Names of run directories; links are not followed."""
    names: list[str] = []
    try:
        with os.scandir(folder) as walk:
            entries = sorted(walk, key=lambda entry: entry.name)
    except OSError:
        return names
    for entry in entries:
        if entry.name.startswith(".") or entry.name == "before" or not entry.is_dir(follow_symlinks=False):
            continue
        if os.path.isfile(os.path.join(entry.path, RECIPE_FILE)):
            names.append(prefix + entry.name)
        elif depth > 1:
            names += _find_runs(Path(entry.path), f"{prefix}{entry.name}/", depth - 1)
    return names


def _fingerprint(path: Path) -> Any:
    """What changes when a run's model or what was made of it changes."""
    found = []
    for name in (MODEL_FILE, RECIPE_FILE, "codes.npz", "audit.json"):
        try:
            state = (path / name).stat()
            found.append((name, state.st_mtime_ns, state.st_size, state.st_ino))
        except OSError:
            continue
    return tuple(found)
