"""The cache: arrays made once, checked by SHA-256, and opened as memory maps.

A set is two files, `NAME.npy` and `NAME.json` (size, SHA-256). The array is written under another name and
renamed when whole, the description is written after it: a killed run leaves nothing that a later one trusts.
A lock lets two processes ask at once; the second waits and finds the work done.
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
from unbraid.core.files import atomic_write, ensure_writable_folder, read_json, read_npy, sha256, write_json
from unbraid.core.locks import file_lock
from unbraid.core.progress import Advance, progress_bar

FillFunction = Callable[[np.ndarray, Advance], None]
LOCK_TIMEOUT = 3600.0  # seconds to wait for another process that makes the same


def cache_dir() -> Path:
    """The cache folder: the environment variable UNBRAID_CACHE, or ~/.cache/unbraid."""
    return Path(os.environ.get("UNBRAID_CACHE") or Path.home() / ".cache" / "unbraid")


def cache_path(name: str) -> Path:
    """Where the array called `name` lies in the cache; names cannot leave it."""
    path = cache_dir() / f"{name}.npy"
    expect(
        path.resolve().is_relative_to(cache_dir().resolve()), "a cached name must stay in the cache folder", found=name
    )
    return path


def is_cached(name: str) -> bool:
    """Whether a whole array of this name is in the cache (sizes compared, contents not read)."""
    return _read_description(cache_path(name)) is not None


def load_or_generate(
    name: str, shape: tuple[int, ...], dtype: Any, fill: FillFunction, total: int, quiet: bool = False
) -> np.ndarray:
    """The cached array `name`, made by `fill(array, advance)` if it is not there yet; read-only, mapped from disk.

    `total` is how often `fill` will call `advance`. A damaged file is made again.
    """
    path = cache_path(name)
    if not _is_valid(path):
        with file_lock(path.with_suffix(".lock"), LOCK_TIMEOUT):
            if not _is_valid(path):  # another process may have made it while this one waited
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


def verify_cached(name: str) -> str:
    """The SHA-256 of a cached array after reading all of it; an error when it is absent or damaged."""
    path = cache_path(name)
    described = _read_description(path)
    expect(described is not None, f"{name} is not in the cache", found=str(path), do="Make it first.")
    found = sha256(path)
    expect(
        described is not None and found == described["sha256"],
        f"the cached {name} is damaged",
        found="another checksum",
        do=f"Delete {path} and make it again.",
    )
    return found


def file_fingerprint(files: Iterable[Path], *options: object) -> str:
    """A short name for the present state of some files (names, sizes, times) read with some options."""
    digest = hashlib.sha256(repr(options).encode())
    for file in files:
        stat = file.stat()
        digest.update(os.fsencode(f"{file.name} {stat.st_size} {stat.st_mtime_ns}\n"))  # not every name is UTF-8
    return digest.hexdigest()[:20]


def _generate(path: Path, shape: tuple[int, ...], dtype: np.dtype, fill: FillFunction, total: int, quiet: bool) -> None:
    need = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    _delete_leftovers(path)
    check_disk_space(path.parent, need)
    path.with_suffix(".json").unlink(missing_ok=True)
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": dtype.str, "fortran_order": False, "shape": shape})
    with atomic_write(path) as f:
        f.write(header.getvalue())
        f.truncate(f.tell() + need)
        f.flush()
        array = np.memmap(f, dtype, "r+", len(header.getvalue()), shape)
        with progress_bar(f"making {path.stem}", total, quiet) as advance:
            fill(array, advance)
        array.flush()
        digest = hashlib.sha256(header.getvalue())
        digest.update(np.asarray(array).reshape(-1).view(np.uint8).data)
    write_json(path.with_suffix(".json"), {"sha256": digest.hexdigest(), **_size_and_mtime(path)})


def check_disk_space(directory: Path, required_bytes: int) -> None:
    """Refuse work for which there is too little room on the disk of the folder `place`."""
    import shutil

    free = shutil.disk_usage(ensure_writable_folder(directory)).free
    expect(
        free > required_bytes,
        f"not enough room in {directory}",
        found=f"{free / 1e6:,.0f} MB free, {required_bytes / 1e6:,.0f} MB needed",
        do="Free some space, or point UNBRAID_CACHE at another disk.",
    )


def _delete_leftovers(path: Path) -> None:
    """Remove what killed runs left behind. The caller holds the lock, so no living run owns these files."""
    for left in path.parent.glob(f".{path.name}.*.part"):
        with suppress(OSError):
            left.unlink()


def _size_and_mtime(path: Path) -> dict[str, int]:
    stat = path.stat()
    return {"bytes": stat.st_size, "mtime_ns": stat.st_mtime_ns}


def _read_description(path: Path) -> dict[str, Any] | None:
    try:
        described = read_json(path.with_suffix(".json"), "cache entry")
        whole = isinstance(described, dict) and path.stat().st_size == described["bytes"]
        return described if whole and isinstance(described.get("sha256"), str) else None
    except (UnbraidError, OSError, KeyError):
        return None


def _is_valid(path: Path) -> bool:
    """Whole and unchanged since it was last checked; if only its time changed, it is read and checked again."""
    described = _read_description(path)
    if described is None:
        return False
    if described.get("mtime_ns") == path.stat().st_mtime_ns:
        return True
    if sha256(path) != described["sha256"]:
        return False
    with suppress(UnbraidError):  # a read-only cache can still be used
        write_json(path.with_suffix(".json"), {"sha256": described["sha256"], **_size_and_mtime(path)})
    return True
