"""The work of a Ray cluster in a sweep: one task for each run, and a store on the driver's machine that keeps the runs.

Ray may restart a task on any node, so a task is "train with resume". A node that sees the directory of the sweep works in
it. Any other node works in a temporary folder: it starts from the files of the store and uploads every checkpoint and result.
"""

from __future__ import annotations

import gc
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from unbraid.core.errors import TrainingInterrupted, UnbraidError
from unbraid.core.files import write_bytes
from unbraid.runs.folder.backup import RUN_FILES
from unbraid.runs.folder.file_names import LOCK_FILE, OUTCOME_FILE, STATE_FILE
from unbraid.sweeps.planning.plan import parse_job_request

FileContents = dict[str, bytes]
WRITTEN_LAST = (STATE_FILE, OUTCOME_FILE)  # they describe the other files, so these must be there first


class RunStore:
    """Reads and writes run directories on the driver's machine.

    Args:
        folder: directory of the sweep.
    """

    def __init__(self, folder: str):
        self.folder = Path(folder)

    def read_files(self, name: str) -> FileContents:
        """Read all complete files of a run.

        Args:
            name: name of the run.
        """
        path = self.folder / name
        return {str(file.relative_to(path)): file.read_bytes() for file in _list_files(path)}

    def write_files(self, name: str, changed: FileContents, present: list[str]) -> None:
        """Write the changed files of a run, and delete run files that the task no longer has.

        Args:
            name: name of the run.
            changed: contents of the changed files.
            present: names of all files that the task has.
        """
        path = self.folder / name
        for deleted in set(RUN_FILES) - set(present):
            (path / deleted).unlink(missing_ok=True)
        for file in sorted(changed, key=lambda file: (WRITTEN_LAST.index(file) if file in WRITTEN_LAST else -1, file)):
            (path / file).parent.mkdir(parents=True, exist_ok=True)
            write_bytes(path / file, changed[file])


def _list_files(path: Path) -> list[Path]:
    files = path.rglob("*") if path.is_dir() else ()
    return sorted(f for f in files if f.is_file() and f.name != LOCK_FILE and ".part" not in f.name)


class RunUploader:
    """A callback of training that uploads the changed files of a run to the store.

    Args:
        store: the `RunStore` actor.
        path: the run directory on this node.
    """

    def __init__(self, store: Any, path: Path):
        self.store, self.path = store, path
        self.uploaded: dict[str, tuple[int, int]] = {}

    def saved(self, step: int, path: Path) -> None:
        """See `callbacks`: upload after a checkpoint, a snapshot or the best weights were saved."""
        self.upload()

    def upload(self) -> None:
        """Upload the changed files, and wait until the store has them: they must survive this node."""
        import ray

        stats = {str(f.relative_to(self.path)): f.stat() for f in _list_files(self.path)}
        files = {name: (found.st_mtime_ns, found.st_size) for name, found in stats.items()}
        changed = {n: (self.path / n).read_bytes() for n, mark in files.items() if self.uploaded.get(n) != mark}
        if changed:
            ray.get(self.store.write_files.remote(self.path.name, changed, list(files)))
        self.uploaded = files


def run_task(request: dict[str, Any], store: Any) -> dict[str, Any]:
    """Run one job on any node. The result is None when the task was stopped, after it wrote a checkpoint.

    Args:
        request: the job, from `RayWorkerPool.start_task`.
        store: the `RunStore` actor.
    """
    from unbraid import __version__
    from unbraid.runs.building.custom_parts import import_modules
    from unbraid.sweeps.engine.job_runner import run_job
    from unbraid.sweeps.engine.worker import redirect_output_to_log

    if request["unbraid"] != __version__:
        raise UnbraidError(
            f"this node has unbraid {__version__}, and the driver has {request['unbraid']}. Install the same version."
        )
    import_modules(request["imports"])
    job, shared, score, max_tries = parse_job_request(request)
    try:
        with _working_folder(Path(request["token"]), shared, job.name, store) as (folder, callbacks):
            result = run_job(job, folder, score, max_tries, redirect_output_to_log, callbacks)
        return {"outcome": asdict(result)}
    except (TrainingInterrupted, KeyboardInterrupt):
        return {"outcome": None}
    finally:
        gc.collect()


@contextmanager
def _working_folder(token: Path, shared: Path, name: str, store: Any) -> Iterator[tuple[Path, list[Any]]]:
    """Yield the directory of the sweep if this node sees it, else a temporary folder with an uploader."""
    if token.is_file():
        yield shared, []
        return
    import ray

    with tempfile.TemporaryDirectory(prefix="unbraid-") as scratch:
        uploader = RunUploader(store, Path(scratch) / name)
        for file, content in ray.get(store.read_files.remote(name)).items():
            (uploader.path / file).parent.mkdir(parents=True, exist_ok=True)
            (uploader.path / file).write_bytes(content)
        try:
            yield Path(scratch), [uploader]
        finally:
            uploader.upload()
