"""Identity of published files: by size and checksum, or by file type where no checksum was published."""

from __future__ import annotations

import hashlib
import zipfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from unbraid.core.errors import UnbraidError, expect
from unbraid.core.files import read_json, write_json

REFETCH_HINT = (
    "Delete it and fetch it again with 'unbraid data make'. To use a file of your own, keep it in another folder and "
    'set path = "...".'
)
MAGIC_BYTES = {  # by suffix: offset and value of the bytes that identify the type
    ".zip": (0, b"PK"),
    ".npz": (0, b"PK"),
    ".gz": (0, b"\x1f\x8b"),
    ".tar": (257, b"ustar"),
    ".mat": (0, b"MATLAB"),
    ".h5": (0, b"\x89HDF"),
}


@dataclass(frozen=True)
class RemoteFile:
    """A file on the network.

    Args:
        url: its address.
        checksum: 'md5:…' or 'sha256:…'; empty if none was published.
        num_bytes: its size; 0 if none was published.
        mirrors: other addresses, each with its own checksum.
    """

    url: str
    checksum: str = ""
    num_bytes: int = 0
    mirrors: tuple[RemoteFile, ...] = ()


def verify_published(file: RemoteFile, path: Path) -> Path:
    """Return the path if it holds the published file or no file yet, else raise: anyone may write to the cache.

    The file is read once; `path.checked` stores its size and modification time. Without a published checksum its type
    must match, so a log-in page is refused.

    Args:
        file: the published file.
        path: the local file.
    """
    places = {place.checksum: place for place in (*reversed(file.mirrors), file)}
    if not path.is_file():
        return path
    if "" in places:
        other = kind_mismatch(path)
        expect(not other, f"{path} is not the published file", found=other, do=REFETCH_HINT)
        return path
    stat, stamp_path = path.stat(), path.with_name(f"{path.name}.checked")
    stamp = {"bytes": stat.st_size, "mtime_ns": stat.st_mtime_ns, "checksums": sorted(places)}
    with suppress(UnbraidError):
        if read_json(stamp_path, "note") == stamp:
            return path
    wrong = []
    for place in places.values():
        try:
            verify_checksum(place, path, delete=False)
        except UnbraidError as error:
            wrong.append(str(error))
            continue
        with suppress(UnbraidError):  # a read-only cache can still be used
            write_json(stamp_path, stamp)
        return path
    raise UnbraidError(f"{wrong[-1]} {REFETCH_HINT}")


def kind_mismatch(path: Path, suffix: str = "") -> str:
    """Describe the content of a file if it does not match the suffix of its name; empty if it does.

    The type is read from the first bytes, and from the end for a zip.

    Args:
        path: the file.
        suffix: expected suffix; that of the path by default.

    >>> _ = (tmp / "a.zip").write_bytes(b"<!DOCTYPE html><title>Log in</title>")
    >>> kind_mismatch(tmp / "a.zip")
    'a page or text (it begins with <!DOCTYPE html><)'
    """
    place, magic = MAGIC_BYTES.get(suffix or path.suffix, (0, b""))
    try:
        with open(path, "rb") as f:
            head = f.read(512)
    except OSError as error:
        return f"unreadable ({error.strerror})"
    if head[place : place + len(magic)] == magic:
        return "truncated" if magic == b"PK" and not zipfile.is_zipfile(path) else ""
    start = head[:16].decode("ascii", "replace")
    return f"a page or text (it begins with {start})" if start.isprintable() and start else "another type of file"


def file_status(file: RemoteFile, path: Path) -> str:
    """Return 'ready' if a file may be the published one, by size and type, else a description of the problem.

    Args:
        file: the published file.
        path: the local file.
    """
    if not path.is_file():
        return f"needs a file: {path.name}"
    size = path.stat().st_size
    other_size = f"of another size ({size:,} bytes)" if file.num_bytes and size != file.num_bytes else ""
    wrong = kind_mismatch(path) or other_size
    return f"needs a file: {path.name}; the file at {path} is {wrong}" if wrong else "ready"


def verify_checksum(file: RemoteFile, path: Path, delete: bool = True) -> None:
    """Raise unless a file has the published size and checksum (or type, if no checksum was published).

    Args:
        file: the published file.
        path: the local file.
        delete: delete a wrong file.
    """
    kind, _, expected = file.checksum.partition(":")
    size, gone = path.stat().st_size, "It was deleted; the" if delete else "The"
    wrong = (
        f"size: found {size:,} bytes, published {file.num_bytes:,}" if file.num_bytes and size != file.num_bytes else ""
    )
    if not wrong and kind:
        with open(path, "rb") as f:
            found = hashlib.file_digest(f, kind).hexdigest()
        wrong = f"{kind}: found {found}, published {expected}" if found != expected else ""
    elif not wrong and (other := kind_mismatch(path, PurePosixPath(file.url).suffix)):
        wrong = f"content: found {other}"
    if wrong:
        if delete:
            path.unlink()
        raise UnbraidError(
            f"{'' if delete else f'{path} '}has the wrong {wrong}. {gone} file has changed or was damaged in transfer."
        )
