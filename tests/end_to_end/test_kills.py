"""The last finished run can always be opened: after a kill, or a full disk, at every file operation in turn."""

from __future__ import annotations

import builtins
import errno
import os
import shutil
from pathlib import Path

import numpy as np
import pytest

from tests.toys import toy_data
from unbraid.core.errors import UnbraidError
from unbraid.runs.fitting.training import fit
from unbraid.runs.folder.backup import RUN_FILES, is_finished_run
from unbraid.runs.folder.file_names import BACKUP_FOLDER, CHECKPOINT_FILE, CODES_FILE, LEDGER_FILE, MODEL_FILE
from unbraid.runs.recipe import Recipe
from unbraid.runs.run import Run

DATA = toy_data(24)


def recipe(seed: int = 0, steps: int = 2) -> Recipe:
    """A run of two steps and a checkpoint in each."""
    budget = {"steps": steps, "batch": 8, "threads": 1, "log_every": 1, "checkpoint_every": 1}
    return Recipe(data="toy", latent=2, seed=seed, nets="decomposition_table1b", budget=budget)


def train(path: Path, seed: int = 0, steps: int = 2, **options) -> Run:
    return fit(recipe(seed, steps), path, quiet=True, dataset=DATA, **options)


class ProcessKilledError(BaseException):
    """The process is gone."""


class FailingFileSystem:
    """Counts changes to files; from number `at` on every one fails: all of them after a kill, new bytes on a full disk."""

    WRITE_CALLS = ("mkdir", "link", "open", "write")

    def __init__(self, monkeypatch: pytest.MonkeyPatch, at: int, kind: str):
        self.count, self.at, self.kind = 0, at, kind
        for name in ("replace", "mkdir", "unlink", "rmdir", "link", "fsync", "open"):
            monkeypatch.setattr(os, name, self._wrap(getattr(os, name), name))
        monkeypatch.setattr(builtins, "open", self._wrap(builtins.open, "open"))

    def _wrap(self, call, name):
        def wrapped(*given, **named):
            mode = named.get("mode", given[1] if len(given) > 1 else "r")
            reads = name == "open" and (mode == "r" or mode == "rb" or mode == os.O_RDONLY)
            if not reads and not (isinstance(mode, int) and not mode & (os.O_CREAT | os.O_WRONLY | os.O_RDWR)):
                self.count += 1
                self._fail(name)
            return call(*given, **named)

        return wrapped

    def _fail(self, name):
        if self.count >= self.at and self.kind == "kill":
            raise ProcessKilledError
        if self.count >= self.at and name in self.WRITE_CALLS:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def file_contents(path: Path) -> dict[str, bytes]:
    return {name: (path / name).read_bytes() for name in RUN_FILES if (path / name).is_file()}


@pytest.fixture(scope="module")
def runs(tmp_path_factory) -> dict[str, Path]:
    """A finished run with codes; the same with a new run stopped in its place; the ends that new runs come to."""
    folder = tmp_path_factory.mktemp("runs")
    old = train(folder / "finished").path
    (old / CODES_FILE).write_bytes(b"codes of the finished run")
    halted = Path(shutil.copytree(old, folder / "halted"))
    with pytest.MonkeyPatch.context() as patch:
        import unbraid.runs.folder.run_writer as directory

        def die(*_):
            raise ProcessKilledError

        patch.setattr(directory, "finish_run", die)
        with pytest.raises(ProcessKilledError):
            train(halted, seed=5, force=True)
    assert is_finished_run(halted / BACKUP_FOLDER)
    assert (halted / CHECKPOINT_FILE).is_file()
    return {
        "finished": old,
        "halted": halted,
        "overwritten": train(folder / "overwritten", seed=9).path,
        "continued": train(folder / "continued", steps=3).path,
    }


SCENARIOS = {  # where it begins, what is asked, how it would end
    "overwrite": ("finished", {"seed": 9, "force": True}, "overwritten"),
    "overwrite again": ("halted", {"seed": 9, "force": True}, "overwritten"),
    "more steps": ("finished", {"steps": 3, "resume": True}, "continued"),
}


def surviving_run(path: Path, old: dict[str, bytes], new: Path) -> str:
    """Which run can be opened: 'new' or 'old', byte for byte; nothing else will do."""
    assert Run.load(path).recipe.latent == 2  # never 'not a run directory'
    if is_finished_run(path) and file_contents(path) != old:
        assert (path / MODEL_FILE).read_bytes() == (new / MODEL_FILE).read_bytes()
        assert (path / LEDGER_FILE).read_bytes() == (new / LEDGER_FILE).read_bytes()
        return "new"
    place = path if is_finished_run(path) else path / BACKUP_FOLDER
    assert file_contents(place) == old, sorted(file_contents(place))
    assert np.isfinite(Run.load(place).sample(1)).all()
    return "old"


CASES = [("overwrite", "full disk"), *((scene, "kill") for scene in SCENARIOS)]
LONG = [pytest.param(scene, "full disk", marks=pytest.mark.slow) for scene in SCENARIOS if scene != "overwrite"]


@pytest.mark.parametrize(("scene", "kind"), [*CASES, *LONG])
def test_the_last_finished_run_can_always_be_opened(scene, kind, runs, tmp_path):
    start, asked, end = SCENARIOS[scene]
    old = file_contents(runs["finished"])
    ends = []
    for at in range(1, 500):
        path = Path(shutil.copytree(runs[start], tmp_path / f"{at}"))
        with pytest.MonkeyPatch.context() as patch:
            fault = FailingFileSystem(patch, at, kind)
            try:
                train(path, **asked)
            except (ProcessKilledError, UnbraidError) as error:
                message = str(error) or "killed"
            else:
                message = "" if fault.count < at or kind == "full disk" else "finished over a kill"
        ends.append(surviving_run(path, old, runs[end]))
        if kind == "full disk" and start == "finished" and message and not (path / BACKUP_FOLDER).exists():
            assert file_contents(path) == old  # refused before it began: in place
        if "is backed up in" in message:
            assert file_contents(path / BACKUP_FOLDER) == old
        if not message:
            break
        if at % 5 == 0:  # every so often: the same command ends as if nothing had been
            train(path, **asked)
            assert surviving_run(path, old, runs[end]) == "new"
            assert not (path / BACKUP_FOLDER).exists()
            assert [f.name for f in path.iterdir() if f.name.endswith(".part")] == []
        shutil.rmtree(path)
    assert at > 25
    assert {"old", "new"} == set(ends) if kind == "kill" else ends[-1] == "new"


def test_two_kills_and_three_commands_lose_nothing(runs, tmp_path):
    old = file_contents(runs["finished"])
    rng = np.random.default_rng(0)
    for trial in range(30):
        path = Path(shutil.copytree(runs["finished"], tmp_path / f"{trial}"))
        for _ in range(3):
            with pytest.MonkeyPatch.context() as patch:
                FailingFileSystem(patch, int(rng.integers(1, 45)), "kill")
                with pytest.raises(ProcessKilledError):
                    train(path, seed=9, force=True)
            surviving_run(path, old, runs["overwritten"])
        shutil.rmtree(path)
