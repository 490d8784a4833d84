"""Fetching a file: resumed where it broke off, checked before it is trusted, clear when there is no network."""

from __future__ import annotations

import hashlib
import http.client
import os
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path

from unbraid.data.store import locked
from unbraid.errors import UnbraidError, expect
from unbraid.files import writable
from unbraid.progress import bar

PIECE = 1 << 20


@dataclass(frozen=True)
class File:
    """A file on the network; `checksum` reads 'md5:…' or 'sha256:…', or is empty when none was published."""

    url: str
    checksum: str = ""
    bytes: int = 0


def fetch(file: File, path: str | Path, quiet: bool = False, timeout: float = 30.0) -> Path:
    """Download `file` to `path` unless it is there already; return the path.

    What arrives is kept in `path.part` and continued by the next call (a server that cannot continue starts
    over). It becomes `path` only when whole and when its checksum is right; a wrong one is deleted and named.
    """
    path = Path(path)
    if path.is_file():
        return path
    writable(path.parent)
    part = path.with_name(path.name + ".part")
    with locked(path.with_name(path.name + ".lock")):
        if not path.is_file():
            _receive(file, part, quiet, timeout)
            _check(file, part)
            os.replace(part, path)
    path.with_name(path.name + ".lock").unlink(missing_ok=True)
    return path


def _receive(file: File, part: Path, quiet: bool, timeout: float) -> None:
    have = part.stat().st_size if part.exists() else 0
    request = urllib.request.Request(file.url, headers={"Range": f"bytes={have}-"} if have else {})
    try:
        with urllib.request.urlopen(request, timeout=timeout) as reply:
            resumed = reply.status == 206 and _range_start(reply.headers.get("Content-Range", "")) == have
            have = have if resumed else 0
            length = reply.headers.get("Content-Length")
            total = have + int(length) if length else 0
            with open(part, "ab" if resumed else "wb") as f, bar(f"fetching {part.stem}", total, quiet) as advance:
                advance(have)
                while piece := reply.read(PIECE):
                    f.write(piece)
                    advance(len(piece))
                f.flush()
                os.fsync(f.fileno())
    except urllib.error.HTTPError as error:
        if error.code == 416 and have:  # nothing beyond what we have: the checksum decides
            return
        raise UnbraidError(f"{file.url} answers {error.code} {error.reason}. Fetch the file by hand and give its "
                           "path.") from error
    except (OSError, http.client.HTTPException) as error:
        reason = getattr(error, "reason", None) or error
        raise UnbraidError(f"cannot fetch {file.url}: {reason}. Is there a network? What has arrived is kept and the "
                           "next try continues it; or fetch the file by hand and give its path.") from error
    size = part.stat().st_size
    expect(not total or size == total, f"the download of {file.url} broke off", found=f"{size:,} of {total:,} bytes",
           do="Try again: it continues from there.")


def _range_start(header: str) -> int:
    """The first byte of 'bytes 5-9/10', or -1."""
    digits = header.removeprefix("bytes ").split("-")[0].strip()
    return int(digits) if digits.isdigit() else -1


def _check(file: File, part: Path) -> None:
    if not file.checksum:
        return
    kind, _, expected = file.checksum.partition(":")
    with open(part, "rb") as f:
        found = hashlib.file_digest(f, kind).hexdigest()
    if found != expected:
        part.unlink()
        raise UnbraidError(f"{file.url} arrived with the wrong {kind}: found {found}, published {expected}. It was "
                           "deleted; the file has changed or was damaged on the way.")
