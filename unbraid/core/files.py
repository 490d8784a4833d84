"""Atomic writes and safe reads of bytes, text, JSON, TOML and arrays.

A write goes to a temporary file in the same folder, then fsync, then rename: a reader sees the old file or the new one,
never half of one. Reads refuse pickle, devices and pipes, and raise `UnbraidError` for a damaged file.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from glob import escape
from io import FileIO
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from unbraid.core.errors import UnbraidError, expect

PART_SUFFIX = ".part"  # suffix of a file that is not complete yet

NPZ_UNCHECKED_BYTES = 1 << 28  # an .npz that unpacks to more than this is checked for its ratio
MAX_NESTING = 64  # levels of tables and lists in a file
MAX_NPZ_RATIO = 64  # unpacked bytes per packed byte
DAMAGED_ARRAYS = "It is damaged, cut off, or holds Python objects (which are never unpickled here)."


def cache_dir() -> Path:
    """The cache folder: the environment variable UNBRAID_CACHE, or ~/.cache/unbraid."""
    return Path(os.environ.get("UNBRAID_CACHE") or Path.home() / ".cache" / "unbraid")


@contextmanager
def atomic_write(path: str | Path) -> Iterator[BinaryIO]:
    """Open a temporary file that replaces `path` only if the block ends without an error.

    Args:
        path: the file to write.

    >>> with atomic_write(tmp / "a.txt") as f:
    ...     _ = f.write(b"whole or not at all")
    """
    path = Path(path)
    folder = ensure_writable_folder(path.parent)
    temporary = ""
    try:
        handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", suffix=PART_SUFFIX, dir=folder)
        with os.fdopen(handle, "wb") as f:
            yield f
            f.flush()
            os.fsync(f.fileno())
        os.chmod(temporary, 0o666 & ~_umask())
        os.replace(temporary, path)
        fsync_folder(folder)
    except BaseException as error:
        with suppress(OSError):
            os.unlink(temporary)
        if isinstance(error, OSError):
            raise UnbraidError(
                f"cannot write {path}: {error.strerror or error}. Free some space or choose "
                "another folder; the previous file is unchanged."
            ) from error
        raise


def remove_partial_files(folder: str | Path, names: Iterable[str], min_age: float = 0.0) -> None:
    """Remove temporary files that killed writes left.

    Args:
        folder: where to look.
        names: the files that were being written.
        min_age: leave temporary files younger than this, in seconds; another process may be writing them.
    """
    left = [part for name in names for part in Path(folder).glob(f".{escape(name)}.*{PART_SUFFIX}")]
    for part in left:
        with suppress(OSError):
            if time.time() - part.stat().st_mtime >= min_age:
                part.unlink()


def is_file(path: str | Path) -> bool:
    """Whether a path is a file; False for a path that is too long or not accessible.

    Args:
        path: the path.
    """
    try:
        return Path(path).is_file()
    except (OSError, ValueError):
        return False


def ensure_writable_folder(folder: str | Path) -> Path:
    """Create a folder if it is missing and return it; raise an error if it cannot be written.

    Args:
        folder: the folder.
    """
    folder = Path(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UnbraidError(f"cannot create the folder {folder}: {error.strerror}. Choose another one.") from error
    expect(os.access(folder, os.W_OK | os.X_OK), f"the folder {folder} is not writable", do="Choose another one.")
    return folder


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def fsync_folder(folder: Path) -> None:
    """Write a folder's list of names to the disk.

    Args:
        folder: the folder.
    """
    with suppress(OSError):  # some file systems cannot open a folder
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def write_bytes(path: str | Path, content: bytes) -> None:
    """Write bytes atomically.

    Args:
        path: the file.
        content: the bytes.
    """
    with atomic_write(path) as f:
        f.write(content)


def write_text(path: str | Path, content: str) -> None:
    """Write text atomically, as UTF-8.

    Args:
        path: the file.
        content: the text.
    """
    try:
        raw = content.encode()
    except UnicodeEncodeError as error:
        raise UnbraidError(
            f"cannot write {path}: {content[error.start : error.end]!a} is not text (a file name that is not UTF-8?). "
            "Rename that file."
        ) from None
    write_bytes(path, raw)


def write_json(path: str | Path, content: Any) -> None:
    """Write JSON atomically; NaN and infinity are refused, because JSON has none.

    Args:
        path: the file.
        content: what `json.dumps` accepts.
    """
    write_text(path, json.dumps(content, indent=1, allow_nan=False, ensure_ascii=False) + "\n")


def open_regular(path: str | Path, what: str = "file") -> BinaryIO:
    """Open a file for reading; raise `UnbraidError` for a device or a pipe, which may never end.

    Args:
        path: the file; a link to a regular file is followed.
        what: what the file is, for errors.
    """
    try:
        # without O_NONBLOCK, opening a pipe waits for its writer
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    except (OSError, ValueError) as error:
        raise UnbraidError(f"cannot read {what} {path}: {getattr(error, 'strerror', None) or error}.") from error
    mode = os.fstat(handle).st_mode
    if not stat.S_ISREG(mode):
        os.close(handle)
        found = "a folder" if stat.S_ISDIR(mode) else "a pipe, a device or a socket"
        raise UnbraidError(f"cannot read {what} {path}: found {found}, allowed a regular file.")
    return os.fdopen(handle, "rb")


def open_for_writing(path: str | Path, append: bool = False) -> FileIO:
    """Open a file for writing without following a link, so that no file elsewhere is changed.

    Args:
        path: the file.
        append: append to it instead of emptying it.
    """
    flags = os.O_WRONLY | os.O_CREAT | (os.O_APPEND if append else os.O_TRUNC)
    flags |= getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    expect(not os.path.islink(path), f"cannot write {path}", found="a link", do="Delete it; links are not followed.")
    handle = os.open(path, flags, 0o666)
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise UnbraidError(f"cannot write {path}: found a pipe, a device or a socket. Delete it.")
    # opened by path, so that errors can name the file
    return open(path, "ab" if append else "wb", buffering=0, opener=lambda *_: handle)


def read_bytes(path: str | Path, what: str = "file", limit: int | None = None) -> bytes:
    """Read a whole regular file; raise `UnbraidError` if it is missing, unreadable or too large.

    Args:
        path: the file.
        what: what the file is, for errors.
        limit: the largest size, in bytes.
    """
    with open_regular(path, what) as f:
        size = os.fstat(f.fileno()).st_size
        expect(
            limit is None or size <= limit,
            f"{what} {path} is too large",
            found=f"{size:,} bytes",
            allowed=f"at most {limit:,}" if limit else None,
        )
        try:
            return f.read(size)  # not more, even if the file grows
        except OSError as error:
            raise UnbraidError(f"cannot read {what} {path}: {error.strerror}.") from error


def read_json(path: str | Path, what: str = "file", limit: int = 1 << 28) -> Any:
    """Read JSON; the error names a damaged file.

    Args:
        path: the file.
        what: what the file is, for errors.
        limit: the largest size, in bytes.
    """
    raw = read_bytes(path, what, limit)
    try:
        return json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise UnbraidError(f"{what} {path} is not valid JSON ({error}). It is damaged or was cut off.") from error


def read_toml(path: str | Path, what: str = "recipe", limit: int = 1 << 24) -> dict[str, Any]:
    """Read TOML; the error names the wrong line.

    Args:
        path: the file.
        what: what the file is, for errors.
        limit: the largest size, in bytes.
    """
    raw = read_bytes(path, what, limit)
    try:
        found = tomllib.loads(raw.decode())
    except (ValueError, RecursionError) as error:
        raise UnbraidError(f"{what} {path} is not valid TOML: {error}.") from error
    check_nesting(found, f"{what} {path}")
    return found


def check_nesting(value: Any, what: str = "a recipe") -> None:
    """Refuse tables and lists nested more than `MAX_NESTING` deep, which recursive functions could not process.

    Args:
        value: plain tables, lists and numbers.
        what: what the value is, for errors.
    """
    level = [value]
    for _ in range(MAX_NESTING):
        nested = [v.values() if isinstance(v, dict) else v for v in level if isinstance(v, dict | list | tuple)]
        level = [child for children in nested for child in children]
        if not level:
            return
    raise UnbraidError(f"{what} is nested too deeply: allowed {MAX_NESTING} levels. Write it with fewer brackets.")


def write_npy(path: str | Path, array: np.ndarray) -> None:
    """Write one array atomically as `.npy`.

    Args:
        path: the file.
        array: numbers or strings.
    """
    expect(
        array.dtype != object,
        f"cannot write {path}: an object array would need pickle",
        do="Convert it to numbers or strings first.",
    )
    with atomic_write(path) as f:
        np.save(f, array, allow_pickle=False)


def check_characters(array: np.ndarray, what: str) -> np.ndarray:
    """Return an array; raise an error for text with numbers that are no characters, of which Python can make no string.

    Args:
        array: the array.
        what: what the array is, for errors.
    """
    if array.dtype.kind == "U" and array.nbytes:
        points = np.ascontiguousarray(array).view(np.dtype("u4").newbyteorder(array.dtype.byteorder))
        known = int(points.max()) <= sys.maxunicode
        expect(known, f"{what} is damaged", found="text with characters that do not exist")
    return array


def read_npy(path: str | Path, what: str = "array", mmap: bool = False) -> np.ndarray:
    """Read a `.npy` array; raise `UnbraidError` for a pickled, truncated or damaged file.

    Args:
        path: the file.
        what: what the file is, for errors.
        mmap: map the file into memory instead of reading it.
    """
    path = Path(path)
    expect(path.is_file(), f"{what} {path} does not exist")
    try:
        array = np.load(path, mmap_mode="r" if mmap else None, allow_pickle=False)
    except Exception as error:  # numpy raises many kinds on damaged headers
        raise UnbraidError(f"cannot read {what} {path}: {error}. {DAMAGED_ARRAYS}") from error
    expect(isinstance(array, np.ndarray), f"{what} {path} is an archive, not one array", do="Give an .npy file.")
    return check_characters(array, f"{what} {path}")


def read_npz(path: str | Path, what: str = "arrays") -> dict[str, np.ndarray]:
    """Read all arrays of an `.npz`; raise `UnbraidError` for a pickled, truncated or damaged file.

    Args:
        path: the file.
        what: what the file is, for errors.
    """
    path = Path(path)
    expect(path.is_file(), f"{what} {path} does not exist")
    try:
        # numpy leaves a damaged file open if it opened the file itself
        with open_regular(path, what) as f, np.load(f, allow_pickle=False) as archive:
            expect(hasattr(archive, "files"), f"{what} {path} is one array, not an archive", do="Give an .npz file.")
            unpacked, packed = sum(info.file_size for info in archive.zip.infolist()), path.stat().st_size
            expect(
                unpacked <= max(NPZ_UNCHECKED_BYTES, MAX_NPZ_RATIO * packed),
                f"{what} {path} would unpack to far more than numbers do",
                found=f"{unpacked / 1e6:,.0f} MB out of {packed / 1e6:,.1f}",
                do="If that is intended, save it with numpy.savez, which does not compress.",
            )
            arrays = {name: archive[name] for name in archive.files}
            strange = [name for name, array in arrays.items() if not isinstance(array, np.ndarray)]
            expect(
                not strange,
                f"{what} {path} is damaged",
                found=f"{strange[0] if strange else ''!r}, which is not an array",
            )
            return {name: check_characters(array, f"{name!r} in {what} {path}") for name, array in arrays.items()}
    except UnbraidError:
        raise
    except Exception as error:
        raise UnbraidError(f"cannot read {what} {path}: {error}. {DAMAGED_ARRAYS}") from error


def write_npz(path: str | Path, arrays: dict[str, np.ndarray]) -> None:
    """Write several arrays atomically as a compressed `.npz`.

    Args:
        path: the file.
        arrays: the arrays by name.
    """
    for name, array in arrays.items():
        expect(array.dtype != object, f"cannot write {name!r} to {path}: an object array would need pickle")
    with atomic_write(path) as f:
        np.savez_compressed(f, **arrays)  # type: ignore[arg-type]


def sha256(path: str | Path) -> str:
    """The SHA-256 of a file, in hexadecimal.

    Args:
        path: the file.
    """
    digest = hashlib.sha256()
    with open_regular(path) as f:
        while piece := f.read(1 << 20):
            digest.update(piece)
    return digest.hexdigest()
