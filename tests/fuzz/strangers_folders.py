"""Readers of folders from elsewhere: links, pipes, devices, EPS files, deep nesting, a shared `out`, files of the studio."""

from __future__ import annotations

import json
import os
import shutil
import socket
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache, partial
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

from tests.fuzz import readers
from tests.fuzz.mutations import Rng, corrupt_bytes
from tests.fuzz.readers import OLD_RUNS, pick

SECRET = "precious"


def replace_by_special_file(path: Path, kind: str) -> None:
    """Put a pipe, a socket or a link in the place of a file; "" in a link's place is a pipe."""
    path.unlink(missing_ok=True)
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "socket":
        with socket.socket(socket.AF_UNIX) as one, suppress(OSError):  # a path may be too long for a socket
            one.bind(str(path))
    else:
        path.symlink_to(path.name if kind == "itself" else kind)


# links, pipes and devices as data ----------------------------------------------------------------------------------

SPECIAL_FILES = ["pipe", "pipe", "socket", "/dev/zero", "/dev/full", "/dev/tty", "/dev/random", "nowhere", "itself"]
DATA_DOORS: dict[str, Any] = {
    "x.npy": readers.load_images,
    "x.npz": readers.load_images,
    "x.h5": readers.load_images,
    "x.csv": readers.read_table,
    "v.csv": readers.load_vectors,
    "x.parquet": readers.load_vectors,
    "x.mat": readers.read_mat,
    "n.mat": readers.read_norb,
    "x.tar": readers.read_archive,
    "x.zip": readers.read_archive,
    "sweep.toml": readers.read_sweep,
    "recipe.toml": readers.read_recipe,
    "t10k-images-idx3-ubyte.gz": lambda path: readers.read_mnist(path.parent),
}


def make_special_data(rng: Rng, folder: Path) -> tuple[Path, str]:
    path, kind = folder / pick(list(DATA_DOORS), rng), pick(SPECIAL_FILES, rng)
    replace_by_special_file(path, kind)
    return path, kind


def read_special_data(inputs: tuple[Path, str]) -> Any:
    return DATA_DOORS[inputs[0].name](inputs[0])


def special_data_difference(inputs: tuple[Path, str], _: Any) -> str:
    return f"{inputs[0].name} is {inputs[1]} and was read"


def make_special_picture(rng: Rng, folder: Path) -> tuple[Path, list[str]]:
    """A folder of pictures of which one or more are no files."""
    place, ends = folder / "photos", readers.image_seeds()[1:]
    place.mkdir()
    for i in range(4):
        end, raw = pick(ends, rng)
        (place / f"{i}.{end}").write_bytes(raw)
    special = sorted(place.iterdir())[: int(rng.integers(1, 5))]
    for path in special:
        replace_by_special_file(path, pick(SPECIAL_FILES, rng))
    return place, [path.name for path in special]


def read_special_picture(inputs: tuple[Path, list[str]]) -> Any:
    return readers.load_images(inputs[0])


def special_picture_difference(inputs: tuple[Path, list[str]], data: Any) -> str:
    """What is no file is no picture: it is left out, or refused."""
    return "" if len(data) == 4 - len(inputs[1]) else f"{len(data)} pictures, {len(inputs[1])} of 4 are no files"


# EPS ---------------------------------------------------------------------------------------------------------------


def make_eps(rng: Rng, folder: Path) -> tuple[str, Path]:
    """PostScript under the name of a picture: plain, with a binary head, spoiled, alone or among pictures."""
    sides = rng.integers(1, 60, 2)
    text = f"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 {sides[0]} {sides[1]}\n%%EndComments\n(id) system\nshowpage\n".encode()
    head = b"\xc5\xd0\xd3\xc6" + np.array([32, len(text), 0, 0, 0, 0, 0], "<u4").tobytes()
    raw = head.ljust(32, b"\0") + text if rng.random() < 0.3 else text
    raw = raw[:30] + corrupt_bytes(raw[30:], rng) if rng.random() < 0.5 else raw
    path = folder / "photos" / f"9.{pick(['png', 'jpg', 'bmp', 'gif', 'tif', 'webp', 'ppm'], rng)}"
    path.parent.mkdir()
    path.write_bytes(raw)
    door = pick(["folder", "folder", "drop", "parquet"], rng)
    if door == "folder" and rng.random() < 0.5:
        end, other = pick(readers.image_seeds()[1:], rng)
        (path.parent / f"1.{end}").write_bytes(other)
    return door, path


def read_eps(inputs: tuple[str, Path]) -> Any:
    from PIL import EpsImagePlugin

    door, path = inputs
    started = AssertionError("Ghostscript was started")
    with mock.patch.object(EpsImagePlugin, "Ghostscript", side_effect=started):
        if door == "folder":
            return readers.load_images(path.parent)
        if door == "drop":
            return _explorer().uploaded_image(path.read_bytes(), path.name)
        import pyarrow as pa
        from pyarrow import parquet

        file = path.parent / "x.parquet"
        parquet.write_table(pa.table({"image": [path.read_bytes()]}), file)
        return readers.load_images(file)


@cache
def _explorer() -> Any:
    from unbraid.studio.run_library import Library

    return Library(OLD_RUNS).explorer("vae")


def eps_difference(inputs: tuple[str, Path], _: Any) -> str:
    return f"EPS was read as a picture ({inputs[0]})"


# deep nesting ------------------------------------------------------------------------------------------------------

NESTED_RUN_FILES = ("run.json", "ledger.jsonl", "scores.json", "audit.json", "names.json")
DEEP_DOORS = (*NESTED_RUN_FILES, "--set", "form", "recipe.toml", "sweep.toml", "x.npy", "model.safetensors", "message")
MAX_LEVELS = 64  # of a recipe


def make_nesting(rng: Rng, folder: Path) -> tuple[str, Any, int]:
    """A value of very many brackets, closed or not, at one of the doors that take structured text."""
    door, depth = pick(list(DEEP_DOORS), rng), int(pick([3, 60, 70, 400, 990, 3000, 20_000, 200_000], rng))
    opened, closed = pick([("[", "]"), ('{"a":', "}"), ("{a=", "}"), ("(", ")")], rng)
    value = opened * depth + pick(["1", '"x"', ""], rng) + (closed * depth if rng.random() < 0.7 else "")
    if door in NESTED_RUN_FILES or door == "model.safetensors":
        path = folder / "run"
        shutil.copytree(OLD_RUNS / "vae", path)
        if door == "ledger.jsonl":
            (path / door).write_text(value + "\n" + (path / door).read_text())
        elif door == "model.safetensors":
            head = f'{{"__metadata__": {value}}}'.encode()
            (path / door).write_bytes(len(head).to_bytes(8, "little") + head)
        else:
            old = (path / door).read_text() if (path / door).exists() else "{}"
            deep = old.rstrip().removesuffix("}") + f'{"" if old.strip() == "{}" else ","}"deep": {value}}}'
            (path / door).write_text(value if rng.random() < 0.5 else deep)
        return door, path, depth
    if door in ("recipe.toml", "sweep.toml"):
        base = readers.recipe_seeds()[0] if door == "recipe.toml" else readers.SWEEP
        (folder / door).write_text(f"latent = {value}\n{base}" if rng.random() < 0.5 else f"{base}\nx = {value}\n")
        return door, folder / door, depth
    if door == "x.npy":
        head = f"{{'descr': '|u1', 'fortran_order': False, 'shape': {value}, }}\n".encode()
        (folder / door).write_bytes(b"\x93NUMPY\x02\x00" + len(head).to_bytes(4, "little") + head + bytes(64))
        return door, folder / door, depth
    return door, value, depth


def read_nesting(inputs: tuple[str, Any, int]) -> Any:
    from unbraid import Recipe
    from unbraid.core.errors import UnbraidError

    door, given, _ = inputs
    if door == "--set":
        return Recipe.load("beta_vae_2dshapes", f"latent={given}")
    if door == "form":
        from unbraid.studio.train_form import form_fields, parse_form

        base = Recipe.load("beta_vae_2dshapes")
        recipe, wrong = parse_form(base, {**form_fields(base), "latent": given})
        if wrong:
            raise UnbraidError(str(wrong))
        return recipe
    if door == "message":
        from unbraid.studio.websocket import handle_message

        if b'"error"' in (answer := handle_message(_library(), given)):
            raise UnbraidError("answered with an error")
        return answer
    doors = {"recipe.toml": readers.read_recipe, "sweep.toml": readers.read_sweep, "x.npy": readers.load_images}
    return doors[door](given) if door in doors else _read_everything(given)


@cache
def _library() -> Any:
    from unbraid.studio.run_library import Library

    return Library(OLD_RUNS)


def _read_everything(path: Path) -> Any:
    """All structured files of a run."""
    from unbraid import Run
    from unbraid.runs.evaluation.scores import Scores
    from unbraid.runs.folder.leaf_names import read_leaf_names

    run = Run.load(path)
    return run.state, run.ledger(), run.saved_audit(), run.model, Scores.load(path), read_leaf_names(path)


def nesting_difference(inputs: tuple[str, Any, int], value: Any) -> str:
    """A recipe has at most 64 levels; files of a run may hold fields that this version does not know, which change nothing."""
    door, given, depth = inputs
    if door == "run.json":
        with _deep_recursion():
            same = value[0] == json.loads((given / door).read_bytes())
        return "" if same else "another state"
    if door in NESTED_RUN_FILES:
        with _deep_recursion():
            audit = {key: field for key, field in value[2].items() if key != "deep"}
        found = (value[1], audit, value[4].as_dict(), value[5])
        return "" if found == _unharmed() else f"other values from {door}"
    return "" if depth < MAX_LEVELS else f"{depth} levels in {door} were accepted"


@cache
def _unharmed() -> Any:
    """What the files of the old run hold."""
    _, ledger, audit, _, scores, names = _read_everything(OLD_RUNS / "vae")
    return ledger, audit, scores.as_dict(), names


class _deep_recursion:
    """Let the judge read what is deeper than Python's limit."""

    def __enter__(self) -> None:
        self.limit = sys.getrecursionlimit()
        sys.setrecursionlimit(20_000)

    def __exit__(self, *_: Any) -> None:
        sys.setrecursionlimit(self.limit)


# a shared out ------------------------------------------------------------------------------------------------------

TINY = {"steps": 2, "batch": 16, "nets": {"name": "mlp", "width": [4]}, "budget": {"threads": 1}}


def make_shared_out(rng: Rng, folder: Path) -> tuple[Path, list[tuple[str, int]]]:
    """Estimators that fit into one `out`, some of which fail."""
    kinds = ["fits", "fits", "rows too large", "callback fails", "interrupted"]
    return folder / "out", [(pick(kinds, rng), int(rng.integers(1000))) for _ in range(int(rng.integers(1, 3)))]


def read_shared_out(inputs: tuple[Path, list[tuple[str, int]]]) -> Any:
    """Whether the first estimator kept its codes, and whether the run holds the rows of the last one that was fitted."""
    from unbraid import Disentangler, Run

    out, events = inputs
    first_rows = np.random.default_rng(0).normal(size=(30, 4))
    first = Disentangler("vae", 2, out=out, standardise=False, **TINY).fit(first_rows)
    codes, last = first.transform(first_rows), first_rows
    for kind, seed in events:
        rows = np.random.default_rng(seed).normal(size=(30, 4)) * (1e300 if kind == "rows too large" else 1)
        error = {"callback fails": RuntimeError, "interrupted": KeyboardInterrupt}.get(kind)
        listener = mock.Mock(spec=["stepped"], stepped=mock.Mock(side_effect=error, return_value=False))
        other = Disentangler("vae", 2, out=out, standardise=False, callbacks=listener, **TINY)
        with suppress(Exception, KeyboardInterrupt):
            other.fit(rows)
            last = rows
    stored = Run.load(out).dataset().pixels(np.arange(30))[:, :, 0, 0]
    return np.array_equal(first.transform(first_rows), codes), np.array_equal(stored, last.astype(np.float32))


def shared_out_difference(inputs: Any, value: tuple[bool, bool]) -> str:
    kept, own = value
    return "" if kept and own else f"after {inputs[1]}: own codes kept {kept}, rows of the last fit in the run {own}"


# the studio's own files --------------------------------------------------------------------------------------------

STUDIO_FILES = [".studio/one.log", ".studio/one.json", ".studio/one.toml", ".studio/one.lock", ".studio", "new", "one"]
RUN_FILES = ["ledger.jsonl", "codes.npz", "model.safetensors", "recipe.toml", "run.json", "before", "before/recipe.toml",
             "before/ledger.jsonl", "scores.json", "names.json"]  # fmt: skip
RECORD = json.dumps({"name": "one", "pid": 2**30, "started": SECRET})


def make_studio_links(rng: Rng, folder: Path) -> tuple[Path, Path]:
    """A library in which some files and folders are links to a folder beside it."""
    root, outside = folder / "runs", folder / "outside"
    shutil.copytree(OLD_RUNS / "vae", root / "one")
    shutil.copytree(OLD_RUNS / "vae", outside / "run")
    (outside / "secret").write_text(pick([SECRET, RECORD], rng))
    for name in {pick([*STUDIO_FILES, *(f"one/{n}" for n in RUN_FILES)], rng) for _ in range(int(rng.integers(1, 4)))}:
        path = root / name
        with suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True)
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            path.unlink(missing_ok=True)
            inner = outside / "run" / path.name
            target = inner if inner.exists() else outside / pick(["secret", "secret", "nowhere", "run", ""], rng)
            path.symlink_to(target)
    return root, outside


class FakeProcess:
    """A training that is never started."""

    started: list[list[str]] = []

    def __init__(self, command: list[str], **_: Any):
        self.started.append(command)
        self.pid = 2**30 + len(self.started)

    def poll(self) -> None:
        return None


def use_studio(inputs: tuple[Path, Path]) -> list[str]:
    """Ask the studio for everything that a page asks for; what lies outside must be neither changed nor shown."""
    from unbraid.core.errors import UnbraidError
    from unbraid.studio import train_processes as training
    from unbraid.studio.run_library import Library

    root, outside = inputs
    before, library, recipe, said = _contents(outside), Library(root), readers_recipe(), []
    calls = [
        partial(training.start_training, library, "one", None),
        partial(training.start_training, library, "new", recipe),
        partial(training.list_trainings, library),
        partial(training.log_tail, library, "one"),
        partial(library.explorer, "one"),
        partial(library.run, "one"),
    ]
    with mock.patch.object(training.subprocess, "Popen", FakeProcess):
        for call in calls:
            try:
                said.append(str(call()))
            except UnbraidError as error:
                said.append(str(error))
    training._CHILDREN.clear()
    assert _contents(outside) == before, "a file outside was changed"
    return said


@cache
def readers_recipe() -> Any:
    from unbraid import Recipe

    return Recipe.load("beta_vae_2dshapes")


def _contents(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() if path.is_file() else b"" for path in sorted(folder.rglob("*"))}


def studio_difference(_: Any, said: list[str]) -> str:
    shown = [text for text in said if SECRET in text]
    return f"what lies outside was shown: {shown[0][:200]}" if shown else ""


def make_studio_race(rng: Rng, folder: Path) -> tuple[Path, int]:
    shutil.copytree(OLD_RUNS / "stopped", folder / "runs" / "old")
    return folder / "runs", int(rng.integers(2, 6))


def race_studio(inputs: tuple[Path, int]) -> Any:
    """Start one training from several threads at once, each with a library of its own."""
    from unbraid.core.errors import UnbraidError
    from unbraid.studio import train_processes as training
    from unbraid.studio.run_library import Library

    root, count = inputs
    name, recipe = ("new", readers_recipe()) if count % 2 else ("old", None)

    def start(_: int) -> Any:
        try:
            return training.start_training(Library(root), name, recipe)
        except UnbraidError:
            return None

    FakeProcess.started.clear()
    with (
        mock.patch.object(training.subprocess, "Popen", FakeProcess),
        mock.patch.object(training, "process_start_time", lambda pid: f"start of {pid}"),
        mock.patch.object(training, "_is_training", return_value=True),
        ThreadPoolExecutor(count) as pool,
    ):
        begun = [one for one in pool.map(start, range(count)) if one is not None]
    training._CHILDREN.clear()
    return len(FakeProcess.started), begun, training.find_training(Library(root), name)


def race_difference(inputs: Any, value: Any) -> str:
    started, begun, found = value
    right = started == 1 and len(begun) == 1 and found is not None and found.pid == begun[0].pid
    return "" if right else f"{inputs[1]} starts: {started} processes, {len(begun)} told so, record {found}"
