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

from unbraid.ground.errors import UnbraidError, expect
from unbraid.ground.files import read_json, read_npy, replacing, sha256, writable, write_json
from unbraid.ground.locks import locked
from unbraid.ground.progress import Advance, bar

Fill = Callable[[np.ndarray, Advance], None]
PATIENCE = 3600.0  # seconds to wait for another process that makes the same


def folder() -> Path:
    """The cache folder: the environment variable UNBRAID_CACHE, or ~/.cache/unbraid."""
    return Path(os.environ.get("UNBRAID_CACHE") or Path.home() / ".cache" / "unbraid")


def place(name: str) -> Path:
    """Where the array called `name` lies in the cache; names cannot leave it."""
    path = folder() / f"{name}.npy"
    expect(path.resolve().is_relative_to(folder().resolve()), "a cached name must stay in the cache folder", found=name)
    return path


def ready(name: str) -> bool:
    """Whether a whole array of this name is in the cache (sizes compared, contents not read)."""
    return _description(place(name)) is not None


def generated(name: str, shape: tuple[int, ...], dtype: Any, fill: Fill, total: int, quiet: bool = False) -> np.ndarray:
    """The cached array `name`, made by `fill(array, advance)` if it is not there yet; read-only, mapped from disk.

    `total` is how often `fill` will call `advance`. A damaged file is made again.
    """
    path = place(name)
    if not _trusted(path):
        with locked(path.with_suffix(".lock"), PATIENCE):
            if not _trusted(path):  # another process may have made it while this one waited
                _make(path, shape, np.dtype(dtype), fill, total, quiet)
    array = np.asarray(read_npy(path, f"cached {name}", mmap=True))  # a plain view indexes faster than np.memmap
    expect(
        array.shape == shape and array.dtype == dtype,
        f"the cached {name} has another layout",
        found=f"{array.shape} {array.dtype}",
        allowed=f"{shape} {np.dtype(dtype)}",
        do=f"Delete {path}.",
    )
    return array


def verified(name: str) -> str:
    """The SHA-256 of a cached array after reading all of it; an error when it is absent or damaged."""
    path = place(name)
    described = _description(path)
    expect(described is not None, f"{name} is not in the cache", found=str(path), do="Make it first.")
    found = sha256(path)
    expect(
        described is not None and found == described["sha256"],
        f"the cached {name} is damaged",
        found="another checksum",
        do=f"Delete {path} and make it again.",
    )
    return found


def state(files: Iterable[Path], *options: object) -> str:
    """A short name for the present state of some files (names, sizes, times) read with some options."""
    digest = hashlib.sha256(repr(options).encode())
    for file in files:
        stat = file.stat()
        digest.update(os.fsencode(f"{file.name} {stat.st_size} {stat.st_mtime_ns}\n"))  # not every name is UTF-8
    return digest.hexdigest()[:20]


def _make(path: Path, shape: tuple[int, ...], dtype: np.dtype, fill: Fill, total: int, quiet: bool) -> None:
    need = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
    _sweep(path)
    room(path.parent, need)
    path.with_suffix(".json").unlink(missing_ok=True)
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": dtype.str, "fortran_order": False, "shape": shape})
    with replacing(path) as f:
        f.write(header.getvalue())
        f.truncate(f.tell() + need)
        f.flush()
        array = np.memmap(f, dtype, "r+", len(header.getvalue()), shape)
        with bar(f"making {path.stem}", total, quiet) as advance:
            fill(array, advance)
        array.flush()
        digest = hashlib.sha256(header.getvalue())
        digest.update(np.asarray(array).reshape(-1).view(np.uint8).data)
    write_json(path.with_suffix(".json"), {"sha256": digest.hexdigest(), **_stamp(path)})


def room(place: Path, need: int) -> None:
    """Refuse work for which there is too little room on the disk of the folder `place`."""
    import shutil

    free = shutil.disk_usage(writable(place)).free
    expect(
        free > need,
        f"not enough room in {place}",
        found=f"{free / 1e6:,.0f} MB free, {need / 1e6:,.0f} MB needed",
        do="Free some space, or point UNBRAID_CACHE at another disk.",
    )


def _sweep(path: Path) -> None:
    """Remove what killed runs left behind. The caller holds the lock, so no living run owns these files."""
    for left in path.parent.glob(f".{path.name}.*.part"):
        with suppress(OSError):
            left.unlink()


def _stamp(path: Path) -> dict[str, int]:
    stat = path.stat()
    return {"bytes": stat.st_size, "mtime_ns": stat.st_mtime_ns}


def _description(path: Path) -> dict[str, Any] | None:
    try:
        described = read_json(path.with_suffix(".json"), "cache entry")
        whole = isinstance(described, dict) and path.stat().st_size == described["bytes"]
        return described if whole and isinstance(described.get("sha256"), str) else None
    except (UnbraidError, OSError, KeyError):
        return None


def _trusted(path: Path) -> bool:
    """Whole and unchanged since it was last checked; if only its time changed, it is read and checked again."""
    described = _description(path)
    if described is None:
        return False
    if described.get("mtime_ns") == path.stat().st_mtime_ns:
        return True
    if sha256(path) != described["sha256"]:
        return False
    with suppress(UnbraidError):  # a read-only cache can still be used
        write_json(path.with_suffix(".json"), {"sha256": described["sha256"], **_stamp(path)})
    return True
