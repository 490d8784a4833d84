"""Whether a file is the published one: by size and checksum, or where none was published by its kind."""

from __future__ import annotations

import hashlib
import zipfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from unbraid.core.errors import UnbraidError, expect
from unbraid.core.files import read_json, write_json

REFETCH_HINT = (
    "Delete it and fetch it again with 'unbraid data make'; a file of your own is used as it is from another folder: "
    'path = "...".'
)
MAGIC_BYTES = {  # by the end of a file's name: where its kind is written, and how
    ".zip": (0, b"PK"),
    ".npz": (0, b"PK"),
    ".gz": (0, b"\x1f\x8b"),
    ".tar": (257, b"ustar"),
    ".mat": (0, b"MATLAB"),
    ".h5": (0, b"\x89HDF"),
}


@dataclass(frozen=True)
class RemoteFile:
    """A file on the network; `checksum` reads 'md5:…' or 'sha256:…', or is empty when none was published.

    `bytes` is its size, 0 when none was published; `mirrors` are other places, each with a checksum of its own.
    """

    url: str
    checksum: str = ""
    num_bytes: int = 0
    mirrors: tuple[RemoteFile, ...] = ()


def verify_published(file: RemoteFile, path: Path) -> Path:
    """`path`, if it holds the published file or nothing yet: anyone may have put a file into the cache.

    It is read once; `path.checked` remembers its size and time. Without a published checksum it must at least be a
    file of its kind: a page that asks to log in is not.
    """
    places = {place.checksum: place for place in (*reversed(file.mirrors), file)}
    if not path.is_file():
        return path
    if "" in places:
        other = kind_mismatch(path)
        expect(not other, f"{path} is not the published file", found=other, do=REFETCH_HINT)
        return path
    stat, beside = path.stat(), path.with_name(f"{path.name}.checked")
    stamp = {"bytes": stat.st_size, "mtime_ns": stat.st_mtime_ns, "checksums": sorted(places)}
    with suppress(UnbraidError):
        if read_json(beside, "note") == stamp:
            return path
    wrong = []
    for place in places.values():
        try:
            verify_checksum(place, path, delete=False)
        except UnbraidError as error:
            wrong.append(str(error))
            continue
        with suppress(UnbraidError):  # a read-only cache can still be used
            write_json(beside, stamp)
        return path
    raise UnbraidError(f"{wrong[-1]} {REFETCH_HINT}")


def kind_mismatch(path: Path, suffix: str = "") -> str:
    """What a file is if it is not of the kind that its name says, by its first bytes (a zip also by its end); or ''.

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
        return "cut off" if magic == b"PK" and not zipfile.is_zipfile(path) else ""
    start = head[:16].decode("ascii", "replace")
    return f"a page or text (it begins with {start})" if start.isprintable() and start else "something else"


def file_status(file: RemoteFile, path: Path) -> str:
    """'ready' if `path` may be the published file, at a glance: its size if one is published, and its kind."""
    if not path.is_file():
        return f"needs a file: {path.name}"
    size = path.stat().st_size
    wrong = kind_mismatch(path) or (
        f"another size ({size:,} bytes)" if file.num_bytes and size != file.num_bytes else ""
    )
    return f"needs a file: {path.name}, for what lies at {path} is {wrong}" if wrong else "ready"


def verify_checksum(file: RemoteFile, path: Path, delete: bool = True) -> None:
    """Compare what lies at `path` with the published size and checksum (or kind, if no checksum is); name a wrong one."""
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
            f"{'' if delete else f'{path} '}has the wrong {wrong}. {gone} file has changed or was damaged on the way."
        )
