"""What a Ray cluster does for a sweep: one task for each run, and a desk on the driver's machine that keeps what they bring.

A task may be started anew on any node, so it is "train with resume". Where a node sees the sweep's own directory it works in
it; elsewhere it works in a folder of its own, begins from what the desk has, and brings every checkpoint and every result back.
"""

from __future__ import annotations

import gc
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from unbraid.ground.errors import Stopped, UnbraidError
from unbraid.ground.files import write_bytes
from unbraid.runs.before import FILES
from unbraid.runs.run import LOCK, OUTCOME, STATE
from unbraid.sweeps.plan import Job
from unbraid.sweeps.scoring import Scoring

Files = dict[str, bytes]
LAST = (STATE, OUTCOME)  # what says how far a run is comes after what it says


class Desk:
    """Reads and writes run directories on the machine of whoever asked for the sweep."""

    def __init__(self, folder: str):
        self.folder = Path(folder)

    def files(self, name: str) -> Files:
        """All that is known of a run."""
        return contents(self.folder / name)

    def keep(self, name: str, changed: Files, present: list[str]) -> None:
        """Take in what a task brings; files of a run that it no longer has go."""
        path = self.folder / name
        for gone in set(FILES) - set(present):
            (path / gone).unlink(missing_ok=True)
        for file in sorted(changed, key=lambda file: (LAST.index(file) if file in LAST else -1, file)):
            (path / file).parent.mkdir(parents=True, exist_ok=True)
            write_bytes(path / file, changed[file])


def contents(path: Path) -> Files:
    """The files of a run directory, whole ones only."""
    return {str(file.relative_to(path)): file.read_bytes() for file in _files(path)}


def _files(path: Path) -> list[Path]:
    found = path.rglob("*") if path.is_dir() else ()
    return sorted(f for f in found if f.is_file() and f.name != LOCK and ".part" not in f.name)


class Carrier:
    """A callback of training: what changed in a run directory since the last time goes to the desk."""

    def __init__(self, desk: Any, path: Path):
        self.desk, self.path = desk, path
        self.sent: dict[str, tuple[int, int]] = {}

    def saved(self, step: int, path: Path) -> None:
        """A checkpoint, a snapshot or the best weights."""
        self.bring()

    def bring(self) -> None:
        """Wait until the desk has it: what was brought survives this node."""
        import ray

        seen = {str(f.relative_to(self.path)): (f.stat().st_mtime_ns, f.stat().st_size) for f in _files(self.path)}
        changed = {name: (self.path / name).read_bytes() for name, mark in seen.items() if self.sent.get(name) != mark}
        if changed:
            ray.get(self.desk.keep.remote(self.path.name, changed, list(seen)))
        self.sent = seen


def work(asked: dict[str, Any], desk: Any) -> dict[str, Any]:
    """One job on whichever node: its outcome, or None when it was asked to stop and has left a checkpoint."""
    from unbraid import __version__
    from unbraid.runs.own import import_modules
    from unbraid.sweeps.task import settle
    from unbraid.sweeps.worker import logged

    if asked["unbraid"] != __version__:
        raise UnbraidError(
            f"this node has unbraid {__version__}, the sweep is of {asked['unbraid']}: install the same."
        )
    import_modules(asked["imports"])
    job = Job.of(asked["job"])
    score = Scoring.model_validate(asked["score"]) if asked["score"] is not None else None
    try:
        with _place(asked, job, desk) as (folder, callbacks):
            outcome = settle(job, folder, score, asked["most"], logged, callbacks)
        return {"outcome": outcome.plain()}
    except (Stopped, KeyboardInterrupt):
        return {"outcome": None}
    finally:
        gc.collect()


@contextmanager
def _place(asked: dict[str, Any], job: Job, desk: Any) -> Iterator[tuple[Path, list[Any]]]:
    """Where the run is trained: the sweep's directory if this node sees it, else a folder that is brought back."""
    if Path(asked["token"]).is_file():
        yield Path(asked["folder"]), []
        return
    import ray

    with tempfile.TemporaryDirectory(prefix="unbraid-") as scratch:
        carrier = Carrier(desk, Path(scratch) / job.name)
        for name, content in ray.get(desk.files.remote(job.name)).items():
            (carrier.path / name).parent.mkdir(parents=True, exist_ok=True)
            (carrier.path / name).write_bytes(content)
        try:
            yield Path(scratch), [carrier]
        finally:
            carrier.bring()
