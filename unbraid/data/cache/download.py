"""Downloads: resumed after an interruption, verified before use, with clear errors when the network is missing."""

from __future__ import annotations

import http.client
import os
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from unbraid.core.errors import UnbraidError, expect
from unbraid.core.files import ensure_writable_folder
from unbraid.core.locks import file_lock
from unbraid.core.progress import progress_bar
from unbraid.data.cache.array_cache import LOCK_TIMEOUT, check_disk_space
from unbraid.data.cache.checksums import RemoteFile, verify_checksum, verify_published

CHUNK_BYTES = 1 << 20
MIN_BYTES_PER_SECOND = 100  # a slower server is treated as unavailable
MAX_FILE_BYTES = 1 << 35  # no data set here has a file above 32 GB; a server that sends more is cut off


def fetch(file: RemoteFile, path: str | Path, quiet: bool = False, timeout: float = 30.0) -> Path:
    """Download a file unless the published file is already present, and return its path.

    Received bytes are kept in `path.part`, and the next call resumes (or restarts, if the server cannot resume). The
    file is moved to `path` only when its size and checksum are right; a wrong one is deleted and reported. Mirrors are
    tried in turn, and resume a partial file only if they have the same checksum.

    Args:
        file: the published file.
        path: where to store it.
        quiet: show no progress bar.
        timeout: seconds without an answer, or with too few bytes, after which the server is given up.
    """
    path = Path(path)
    if path.is_file():
        return verify_published(file, path)
    ensure_writable_folder(path.parent)
    with file_lock(path.with_name(path.name + ".lock"), LOCK_TIMEOUT):
        if not path.is_file():
            _fetch_from_mirrors(file, path, quiet, timeout)
    path.with_name(path.name + ".lock").unlink(missing_ok=True)
    return path


def _fetch_from_mirrors(file: RemoteFile, path: Path, quiet: bool, timeout: float) -> None:
    failed: list[tuple[str, str]] = []
    sums: list[str] = []
    for place in (file, *file.mirrors):
        same = sums.index(place.checksum) if place.checksum and place.checksum in sums else len(sums)
        sums.append(place.checksum)
        part = path.with_name(f"{path.name}.{same + 1}.part" if same else f"{path.name}.part")
        try:
            _download(place, part, quiet, timeout)
            verify_checksum(place, part)
        except UnbraidError as error:
            failed.append((place.url, str(error)))
            continue
        os.replace(part, path)
        for left in path.parent.glob(f"{path.name}*.part"):
            left.unlink(missing_ok=True)
        return
    where = "".join(f"\n  {url}\n    {text}" for url, text in failed)
    kept = any(part.stat().st_size for part in path.parent.glob(f"{path.name}*.part"))
    raise UnbraidError(
        f"cannot fetch {path.name}:{where}\n"
        + ("The received part is kept, and the next attempt resumes it. " if kept else "")
        + f"Try again with a network connection, or download it yourself and save it as {path}, or give its path."
    )


def _download(file: RemoteFile, part_path: Path, quiet: bool, timeout: float) -> None:
    have = part_path.stat().st_size if part_path.exists() else 0
    if file.num_bytes and have > file.num_bytes:
        part_path.unlink()
        have = 0
    if file.num_bytes and have == file.num_bytes:
        return  # complete; the checksum decides
    request = urllib.request.Request(file.url, headers={"Range": f"bytes={have}-"} if have else {})
    try:
        with _url_opener().open(request, timeout=timeout) as reply:
            total = _write_response(file, reply, part_path, have, quiet, timeout)
    except UnbraidError:
        raise
    except urllib.error.HTTPError as error:
        error.close()
        if error.code == 416 and have:  # the server has no bytes beyond the received ones
            whole = _parse_byte_count(error.headers.get("Content-Range", "").rpartition("/")[2])
            if whole in (-1, have):
                return  # the checksum decides
            part_path.unlink()
            _download(file, part_path, quiet, timeout)
            return
        raise UnbraidError(f"responds with {error.code} {error.reason}") from error
    except (OSError, http.client.HTTPException) as error:
        reason = getattr(error, "reason", None) or error
        raise UnbraidError(f"no response ({getattr(reason, 'strerror', None) or reason})") from error
    except ValueError as error:  # for example a redirect to an invalid address
        raise UnbraidError(f"sends an invalid response ({error})") from error
    size = part_path.stat().st_size
    expect(not total or size >= total, "interrupted", found=f"{size:,} of {total:,} bytes")


def _url_opener() -> urllib.request.OpenerDirector:
    """Opener of http and https addresses only, also after redirects."""
    web = urllib.request.OpenerDirector()
    for handler in (
        urllib.request.ProxyHandler,
        urllib.request.HTTPHandler,
        urllib.request.HTTPSHandler,
        urllib.request.HTTPRedirectHandler,
        urllib.request.HTTPDefaultErrorHandler,
        urllib.request.HTTPErrorProcessor,
        urllib.request.UnknownHandler,
    ):
        web.add_handler(handler())
    return web


def _write_response(
    file: RemoteFile, response: Any, part_path: Path, received_bytes: int, quiet: bool, timeout: float
) -> int:
    """Write the response of the server to the partial file; return the announced size, or 0."""
    resumed = response.status == 206 and _range_start(response.headers.get("Content-Range", "")) == received_bytes
    received_bytes = received_bytes if resumed else 0
    length, limit = _parse_byte_count(response.headers.get("Content-Length", "")), file.num_bytes or MAX_FILE_BYTES
    total = received_bytes + length if length >= 0 else 0
    wrong = "sends a different file than the published one" if file.num_bytes else "sends too much"
    expect(
        total <= limit and (not file.num_bytes or total in (0, limit)),
        wrong,
        found=f"{total:,} bytes",
        allowed=f"{limit:,}",
    )
    check_disk_space(part_path.parent, max(total - received_bytes, 0))
    label = f"fetching {part_path.name.removesuffix('.part')}"
    with open(part_path, "ab" if resumed else "wb", buffering=0) as f, progress_bar(label, total, quiet) as advance:
        advance(received_bytes)
        mark, since = received_bytes, time.monotonic()
        while piece := response.read1(CHUNK_BYTES):  # returns what has arrived, so a kill loses nothing
            received_bytes += len(piece)
            if time.monotonic() - since > timeout:  # a server may also stall by sending single bytes
                expect(
                    received_bytes - mark >= MIN_BYTES_PER_SECOND * timeout,
                    "sends too slowly",
                    found=f"{received_bytes - mark:,} bytes in {timeout:g} s",
                )
                mark, since = received_bytes, time.monotonic()
            if received_bytes > limit:
                f.truncate(0)
                raise UnbraidError(f"{wrong}: more than {limit:,} bytes. The received part was deleted.")
            try:
                f.write(piece)
            except OSError as error:
                raise UnbraidError(
                    f"cannot write {part_path}: {error.strerror}. Free some space, or point UNBRAID_CACHE "
                    "at another disk; the next attempt resumes."
                ) from error
            advance(len(piece))
        os.fsync(f.fileno())
    return total or file.num_bytes


def _range_start(header: str) -> int:
    """First byte of 'bytes 5-9/10', or -1."""
    return _parse_byte_count(header.removeprefix("bytes ").split("-")[0])


def _parse_byte_count(text: str) -> int:
    """Number of bytes in a header, or -1: a server may send '²', signs, or a thousand digits."""
    digits = text.strip()
    return int(digits) if digits.isascii() and digits.isdigit() and len(digits) < 20 else -1
