"""The index of a directory of runs: the numbers of every run in one file, updated where files of a run changed.

Ten thousand run directories contain fifty thousand files. Their names, times and sizes are checked each time; their
contents are cached in `.index.json`. A damaged, foreign or old index is rebuilt.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from unbraid._version import __version__
from unbraid.comparing.run_record import RECORD_FILES, Model, read_run
from unbraid.core.errors import UnbraidError, expect
from unbraid.core.files import read_bytes, write_text
from unbraid.core.progress import progress_bar
from unbraid.runs.folder.file_names import CODES_FILE, RECIPE_FILE

INDEX_NAME = ".index.json"
INDEX_VERSION = 1
MAX_DEPTH = 3  # levels of subfolders
INDEXED_FILES = (*RECORD_FILES, CODES_FILE)


def runs_in(folder: str | Path, quiet: bool = False) -> list[Model]:
    """Every run below a folder, sorted by name; links are not followed.

    Folders without a run have the state 'foreign', and unreadable runs 'damaged', each with its reason. The index is
    written if something changed and the folder is writable.

    Args:
        folder: the folder.
        quiet: show no progress bar.

    >>> runs_in(tmp)
    []
    """
    folder = Path(folder)
    expect(folder.is_dir(), f"{folder} is not a folder", do="Name a directory of run directories.")
    known = _load(folder)
    found = sorted(_find_folders(folder, "", MAX_DEPTH))
    stale = sum(known.get(name, ("",))[0] != key for name, key in found)
    entries: dict[str, tuple[str, Model]] = {}
    with progress_bar("reading runs", stale, quiet) as advance:
        for name, key in found:
            if name in known and known[name][0] == key:
                entries[name] = known[name]
            else:
                entries[name] = (key, _read_entry(folder, name, key))
                advance()
    has_runs = any(model.state != "foreign" for _, model in entries.values())
    if has_runs and (stale or len(known) != len(entries)):
        with suppress(UnbraidError):  # a read-only folder has no index
            _save(folder, entries)
    return [_with_paths(model, folder) for _, model in entries.values()]


def _read_entry(folder: Path, name: str, key: str) -> Model:
    if key == "link":
        return Model(name, state="foreign", why="a link, which is not followed")
    model = read_run(folder / name, name)
    return replace(model, codes=None if model.codes is None else True, place="")  # `_with_paths` adds the paths


def _with_paths(model: Model, folder: Path) -> Model:
    place = os.path.join(folder, model.name)
    return replace(model, codes=os.path.join(place, CODES_FILE) if model.codes else None, place=place)


def _find_folders(folder: Path, prefix: str, depth: int) -> Iterator[tuple[str, str]]:
    """Yield the name and key of each folder to list: runs, folders without runs, and links."""
    try:
        with os.scandir(folder / prefix) as entries:
            inside = [e for e in entries if not e.name.startswith(".") and (e.is_dir() or e.is_symlink())]
    except OSError:
        return
    for entry in inside:
        name = f"{prefix}/{entry.name}" if prefix else entry.name
        if entry.is_symlink():
            if entry.is_dir():
                yield name, "link"
            continue
        key = _fingerprint(entry.path)
        if any(part != "-" for part in key.split(" ")[: len(RECORD_FILES)]):
            yield name, key
            continue
        deeper = list(_find_folders(folder, name, depth - 1)) if depth > 1 else []
        runs = [one for one in deeper if one[1] != "-"]
        yield from runs or [(name, "-")]


def _fingerprint(path: str) -> str:
    """Time, size and inode of each file of a run, '-' where there is none; any rewrite changes one of them."""
    parts = []
    for file in INDEXED_FILES:
        try:
            s = os.lstat(f"{path}/{file}")
            parts.append(f"{s.st_mtime_ns}:{s.st_size}:{s.st_ino}" if stat.S_ISREG(s.st_mode) else "link")
        except (OSError, ValueError):
            parts.append("-")
    return " ".join(parts)


def _save(folder: Path, entries: dict[str, tuple[str, Model]]) -> None:
    """Write the index; recipes that differ in the seed only are stored once."""
    recipes: dict[str, dict[str, Any]] = {}
    runs = {}
    for name, (key, model) in entries.items():
        recipes.setdefault(model.setting, dict(model.fields))
        plain = asdict(replace(model, fields={}))
        runs[name] = [key, {k: v for k, v in plain.items() if v not in ("", None, 0, {}) and k != "name"}]
    content = {"version": INDEX_VERSION, "unbraid": __version__, "recipes": recipes, "runs": runs}
    text = json.dumps(content, allow_nan=False, ensure_ascii=False, separators=(",", ":"), default=str)
    write_text(folder / INDEX_NAME, text)


def _load(folder: Path) -> dict[str, tuple[str, Model]]:
    """The entries of the index; none if it is missing, damaged, a link, or of another version."""
    path = folder / INDEX_NAME
    try:
        if not stat.S_ISREG(os.lstat(path).st_mode):
            return {}
        stored = json.loads(read_bytes(path, "index", 1 << 30))
        if (stored["version"], stored["unbraid"]) != (INDEX_VERSION, __version__):
            return {}
        recipes, known = stored["recipes"], {}
        for name, (key, kept) in stored["runs"].items():
            model = Model(name, **kept, fields=recipes[kept.get("setting", "")])
            known[str(name)] = (str(key), model)
        return known
    except (OSError, ValueError, OverflowError, LookupError, TypeError, AttributeError, RecursionError):
        return {}


def is_run(path: str | Path) -> bool:
    """Whether a folder contains a recipe.

    Args:
        path: the folder.
    """
    return (Path(path) / RECIPE_FILE).is_file()
