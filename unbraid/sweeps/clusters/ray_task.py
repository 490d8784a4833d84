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

from unbraid.core.errors import TrainingInterrupted, UnbraidError
from unbraid.core.files import write_bytes
from unbraid.runs.folder.backup import RUN_FILES
from unbraid.runs.folder.file_names import LOCK_FILE, OUTCOME_FILE, STATE_FILE
from unbraid.sweeps.planning.plan import Job
from unbraid.sweeps.planning.scoring import Scoring

FileContents = dict[str, bytes]
WRITTEN_LAST = (STATE_FILE, OUTCOME_FILE)  # what says how far a run is comes after what it says


class RunStore:
    """Reads and writes run directories on the machine of whoever asked for the sweep."""

    def __init__(self, folder: str):
        self.folder = Path(folder)

    def read_files(self, name: str) -> FileContents:
        """All that is known of a run."""
        return read_run_files(self.folder / name)

    def write_files(self, name: str, changed: FileContents, present: list[str]) -> None:
        """Take in what a task brings; files of a run that it no longer has go."""
        path = self.folder / name
        for gone in set(RUN_FILES) - set(present):
            (path / gone).unlink(missing_ok=True)
        for file in sorted(changed, key=lambda file: (WRITTEN_LAST.index(file) if file in WRITTEN_LAST else -1, file)):
            (path / file).parent.mkdir(parents=True, exist_ok=True)
            write_bytes(path / file, changed[file])


def read_run_files(path: Path) -> FileContents:
    """The files of a run directory, whole ones only."""
    return {str(file.relative_to(path)): file.read_bytes() for file in _list_files(path)}


def _list_files(path: Path) -> list[Path]:
    found = path.rglob("*") if path.is_dir() else ()
    return sorted(f for f in found if f.is_file() and f.name != LOCK_FILE and ".part" not in f.name)


class RunUploader:
    """A callback of training: what changed in a run directory since the last time goes to the desk."""

    def __init__(self, store: Any, path: Path):
        self.store, self.path = store, path
        self.uploaded: dict[str, tuple[int, int]] = {}

    def saved(self, step: int, path: Path) -> None:
        """A checkpoint, a snapshot or the best weights."""
        self.upload()

    def upload(self) -> None:
        """Wait until the desk has it: what was brought survives this node."""
        import ray

        seen = {str(f.relative_to(self.path)): (f.stat().st_mtime_ns, f.stat().st_size) for f in _list_files(self.path)}
        changed = {
            name: (self.path / name).read_bytes() for name, mark in seen.items() if self.uploaded.get(name) != mark
        }
        if changed:
            ray.get(self.store.write_files.remote(self.path.name, changed, list(seen)))
        self.uploaded = seen


def run_task(request: dict[str, Any], store: Any) -> dict[str, Any]:
    """One job on whichever node: its outcome, or None when it was asked to stop and has left a checkpoint."""
    from unbraid import __version__
    from unbraid.runs.building.custom_parts import import_modules
    from unbraid.sweeps.engine.job_runner import run_job
    from unbraid.sweeps.engine.worker import redirect_output_to_log

    if request["unbraid"] != __version__:
        raise UnbraidError(
            f"this node has unbraid {__version__}, the sweep is of {request['unbraid']}: install the same."
        )
    import_modules(request["imports"])
    job = Job.from_dict(request["job"])
    score = Scoring.model_validate(request["score"]) if request["score"] is not None else None
    try:
        with _working_folder(request, job, store) as (folder, callbacks):
            outcome = run_job(job, folder, score, request["most"], redirect_output_to_log, callbacks)
        return {"outcome": outcome.as_dict()}
    except (TrainingInterrupted, KeyboardInterrupt):
        return {"outcome": None}
    finally:
        gc.collect()


@contextmanager
def _working_folder(request: dict[str, Any], job: Job, store: Any) -> Iterator[tuple[Path, list[Any]]]:
    """Where the run is trained: the sweep's directory if this node sees it, else a folder that is brought back."""
    if Path(request["token"]).is_file():
        yield Path(request["folder"]), []
        return
    import ray

    with tempfile.TemporaryDirectory(prefix="unbraid-") as scratch:
        carrier = RunUploader(store, Path(scratch) / job.name)
        for name, content in ray.get(store.read_files.remote(job.name)).items():
            (carrier.path / name).parent.mkdir(parents=True, exist_ok=True)
            (carrier.path / name).write_bytes(content)
        try:
            yield Path(scratch), [carrier]
        finally:
            carrier.upload()
