"""Folders, tar and zip files read alike, member by member and in memory: nothing is ever unpacked to disk,
so no path inside an archive can lead anywhere."""

from __future__ import annotations

import gzip
import io
import lzma
import re
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Collection, Iterator
from pathlib import Path

from unbraid.core.errors import UnbraidError, expect
from unbraid.core.files import read_bytes

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
)  # all that a hostile archive has been seen to raise
MAX_MEMBER_BYTES = 1 << 30  # no member of the sets here is larger than a gigabyte


def member_names(path: Path, pattern: str) -> list[str]:
    """The sorted member names that match a regular expression (searched, not anchored)."""
    expect(path.exists(), f"{path} does not exist", do="Give the folder or the archive as it was published.")
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
                    pass  # to its end, where a compressed one has its checksum
    except ARCHIVE_ERRORS as error:
        reason = str(error).partition("\n")[0].rstrip(":")  # tarfile lists every way in which it tried
        raise UnbraidError(f"cannot read {path}: {reason}. It is cut off, damaged or no archive.") from error
    return sorted(name for name in every if re.search(pattern, name))


def read_members(path: Path, wanted: Collection[str]) -> Iterator[tuple[str, bytes]]:
    """(name, bytes) of the wanted members, in the order in which they are quickest to read."""
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
        raise UnbraidError(f"cannot read {path}: {error}. It is cut off or damaged.") from error


def gunzip(path: Path, raw: bytes) -> bytes:
    """What a gzipped file holds, up to a gigabyte: a few bytes may say that they are terabytes."""
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(raw)) as file:
            content = file.read(MAX_MEMBER_BYTES + 1)
    except ARCHIVE_ERRORS as error:
        raise UnbraidError(f"{path} is damaged or cut off ({error}). Fetch it again.") from error
    _check_member_size(path, "what is gzipped", len(content))
    return content


def _check_member_size(path: Path, name: str, size: int) -> None:
    expect(size <= MAX_MEMBER_BYTES, f"{name} in {path} is too large to be a part of this set", found=f"{size:,} bytes")
