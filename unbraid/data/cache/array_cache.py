"""Cache of generated arrays, checked by SHA-256 and opened as memory maps.

An entry is two files, `NAME.npy` and `NAME.json` (size, SHA-256). The array is written under a temporary name and
renamed once complete; the description is written last. So an interrupted process leaves nothing that a later one
accepts. A lock serialises processes that need the same array: the second waits and finds it ready.
"""

from __future__ import annotations

import hashlib
import io
import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from unbraid.core.errors import UnbraidError, expect
from unbraid.core.files import (
    atomic_write,
    cache_dir,
    ensure_writable_folder,
    read_json,
    read_npy,
    remove_partial_files,
    sha256,
    write_json,
)
from unbraid.core.locks import file_lock
from unbraid.core.progress import Advance, progress_bar

FillFunction = Callable[[np.ndarray, Advance], None]
LOCK_TIMEOUT = 3600.0  # seconds to wait for another process that generates the same array


def cache_path(name: str) -> Path:
    """Path of the array `name` in the cache; a name that leads out of the cache is an error.

    Args:
        name: the name of the array.
    """
    path = cache_dir() / f"{name}.npy"
    expect(
        path.resolve().is_relative_to(cache_dir().resolve()),
        "the name of a cached array must not leave the cache folder",
        found=name,
    )
    return path


def is_cached(name: str) -> bool:
    """Return True if the array `name` is complete in the cache; sizes are compared, contents are not read.

    Args:
        name: the name of the array.
    """
    return _read_description(cache_path(name)) is not None


def generated_status(name: str) -> str:
    """Status of a data set that is generated into the array `name`: 'ready' or 'can be generated'.

    Args:
        name: the name of the array.
    """
    return "ready" if is_cached(name) else "can be generated"


def load_or_generate(
    name: str, shape: tuple[int, ...], dtype: Any, fill: FillFunction, total: int, quiet: bool = False
) -> np.ndarray:
    """Open a cached array, read-only and memory-mapped; generate it first if it is missing or damaged.

    Args:
        name: name of the cache entry.
        shape: shape of the array.
        dtype: type of its elements.
        fill: called as `fill(array, advance)` to write the array.
        total: number of calls of `advance` that `fill` makes.
        quiet: show no progress bar.
    """
    path = cache_path(name)
    if not _is_valid(path):
        with file_lock(path.with_suffix(".lock"), LOCK_TIMEOUT):
            if not _is_valid(path):  # another process may have generated it in the meantime
                _generate(path, shape, np.dtype(dtype), fill, total, quiet)
    array = np.asarray(read_npy(path, f"cached {name}", mmap=True))  # a plain view indexes faster than np.memmap
    expect(
        array.shape == shape and array.dtype == dtype,
        f"the cached {name} has another layout",
        found=f"{array.shape} {array.dtype}",
        allowed=f"{shape} {np.dtype(dtype)}",
        do=f"Delete {path}.",
    )
    return array


def file_fingerprint(files: Iterable[Path], *options: object) -> str:
    """Short hash of the state of some files (names, sizes, modification times) and of the options they are read with.

    Args:
        files: the files.
        *options: values that change the result of reading them.
    """
    digest = hashlib.sha256(repr(options).encode())
    for file in files:
        stat = file.stat()
        digest.update(os.fsencode(f"{file.name} {stat.st_size} {stat.st_mtime_ns}\n"))  # not every name is UTF-8
    return digest.hexdigest()[:20]


def _generate(path: Path, shape: tuple[int, ...], dtype: np.dtype, fill: FillFunction, total: int, quiet: bool) -> None:
    need = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    remove_partial_files(path.parent, [path.name])  # this process holds the lock, so no other one writes them
    check_disk_space(path.parent, need)
    path.with_suffix(".json").unlink(missing_ok=True)
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": dtype.str, "fortran_order": False, "shape": shape})
    with atomic_write(path) as f:
        f.write(header.getvalue())
        f.truncate(f.tell() + need)
        f.flush()
        array = np.memmap(f, dtype, "r+", len(header.getvalue()), shape)
        with progress_bar(f"generating {path.stem}", total, quiet) as advance:
            fill(array, advance)
        array.flush()
        digest = hashlib.sha256(header.getvalue())
        digest.update(np.asarray(array).reshape(-1).view(np.uint8).data)
    write_description(path, digest.hexdigest())


def check_disk_space(directory: Path, required_bytes: int) -> None:
    """Raise if the disk of a folder has too little free space.

    Args:
        directory: the folder; it is created if it does not exist.
        required_bytes: bytes to be written.
    """
    import shutil

    free = shutil.disk_usage(ensure_writable_folder(directory)).free
    expect(
        free > required_bytes,
        f"not enough disk space in {directory}",
        found=f"{free / 1e6:,.0f} MB free, {required_bytes / 1e6:,.0f} MB needed",
        do="Free some space, or point UNBRAID_CACHE at another disk.",
    )


def write_description(path: Path, digest: str) -> None:
    """Write the description of a cached array, which marks it as complete.

    Args:
        path: the array file.
        digest: its SHA-256.
    """
    stat = path.stat()
    description = {"sha256": digest, "bytes": stat.st_size, "mtime_ns": stat.st_mtime_ns}
    write_json(path.with_suffix(".json"), description)


def _read_description(path: Path) -> dict[str, Any] | None:
    try:
        described = read_json(path.with_suffix(".json"), "cache entry")
        whole = isinstance(described, dict) and path.stat().st_size == described["bytes"]
        return described if whole and isinstance(described.get("sha256"), str) else None
    except (UnbraidError, OSError, KeyError):
        return None


def _is_valid(path: Path) -> bool:
    """Return True if the entry is complete and unchanged; a changed modification time alone is checked by hash."""
    described = _read_description(path)
    if described is None:
        return False
    if described.get("mtime_ns") == path.stat().st_mtime_ns:
        return True
    if sha256(path) != described["sha256"]:
        return False
    with suppress(UnbraidError):  # a read-only cache can still be used
        write_description(path, described["sha256"])
    return True
