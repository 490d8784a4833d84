"""Folders, tar and zip files with one interface, read member by member in memory.

Nothing is unpacked to disk, so no path inside an archive can lead out of it.
"""

from __future__ import annotations

import gzip
import io
import lzma
import re
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path

from unbraid.core.errors import UnbraidError, expect
from unbraid.core.files import is_file, read_bytes
from unbraid.data.cache.array_cache import file_fingerprint

# errors that malformed archives have raised in tests
ARCHIVE_ERRORS = (
    tarfile.TarError,
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
    EOFError,
    OSError,
    NotImplementedError,
    RuntimeError,
    ValueError,
    OverflowError,
    struct.error,
)
MAX_MEMBER_BYTES = 1 << 30  # no data set here has a member above a gigabyte


def member_names(path: Path, pattern: str) -> list[str]:
    """Sorted names of the members that match a pattern.

    Args:
        path: folder or archive.
        pattern: regular expression, searched anywhere in the name.
    """
    expect(
        path.is_dir() or is_file(path),
        f"{path} is neither a folder nor a file",
        found="a pipe, a device or a socket" if path.exists() else "nothing",
        do="Give the folder or the archive as it was published.",
    )
    try:
        if path.is_dir():
            every = [p.relative_to(path).as_posix() for p in path.rglob("*") if p.is_file()]
        elif zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as zipped:
                every = zipped.namelist()
        else:
            with tarfile.open(path) as tar:
                every = [member.name for member in tar if member.isfile()]
                while tar.fileobj is not None and tar.fileobj.read(1 << 20):
                    pass  # read to the end, where a compressed archive has its checksum
    except ARCHIVE_ERRORS as error:
        reason = str(error).partition("\n")[0].rstrip(":")  # tarfile lists every format that it tried
        raise UnbraidError(f"cannot read {path}: {reason}. It is truncated, damaged or not an archive.") from error
    return sorted(name for name in every if re.search(pattern, name))


def read_members(path: Path, wanted: Collection[str]) -> Iterator[tuple[str, bytes]]:
    """Yield (name, bytes) of members, in the order that is fastest to read.

    Args:
        path: folder or archive.
        wanted: names of the members.
    """
    chosen = set(wanted)
    try:
        if path.is_dir():
            yield from ((name, read_bytes(path / name, limit=MAX_MEMBER_BYTES)) for name in sorted(chosen))
        elif zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as zipped:
                for info in zipped.infolist():
                    if info.filename in chosen:
                        _check_member_size(path, info.filename, info.file_size)
                        yield info.filename, zipped.read(info)
        else:
            with tarfile.open(path) as tar:
                for member in tar:
                    if member.name in chosen and member.isfile():
                        _check_member_size(path, member.name, member.size)
                        opened = tar.extractfile(member)
                        yield member.name, opened.read() if opened else b""
    except UnbraidError:
        raise
    except ARCHIVE_ERRORS as error:
        raise UnbraidError(f"cannot read {path}: {error}. It is truncated or damaged.") from error


def members_fingerprint(path: Path, names: Iterable[str], *options: object) -> str:
    """Short hash of the state of an archive, or of the members of a folder, and of the options they are read with.

    Args:
        path: the folder or archive.
        names: the members that are read.
        *options: the options.
    """
    files = [path] if path.is_file() else [path / name for name in names]
    return file_fingerprint(files, str(path.resolve()), *options)


def gunzip(path: Path, raw: bytes) -> bytes:
    """Decompress gzipped bytes, up to a gigabyte: a few bytes may expand to terabytes.

    Args:
        path: the file, for errors.
        raw: its bytes.
    """
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(raw)) as file:
            content = file.read(MAX_MEMBER_BYTES + 1)
    except ARCHIVE_ERRORS as error:
        raise UnbraidError(f"{path} is damaged or truncated ({error}). Fetch it again.") from error
    _check_member_size(path, "the content", len(content))
    return content


def _check_member_size(path: Path, name: str, size: int) -> None:
    expect(size <= MAX_MEMBER_BYTES, f"{name} in {path} is too large for this data set", found=f"{size:,} bytes")
