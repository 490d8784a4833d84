"""Downloads from a server of our own: resumed, checked, and clear when there is no network."""

from __future__ import annotations

import hashlib
import http.server
import os
import signal
import subprocess
import sys
import threading
import time
import urllib.parse
from contextlib import suppress

import pytest

from unbraid.core.errors import UnbraidError
from unbraid.data.cache import download
from unbraid.data.cache.checksums import RemoteFile
from unbraid.data.cache.download import fetch

BODY = bytes(range(256)) * 5000
MD5 = "md5:" + hashlib.md5(BODY, usedforsecurity=False).hexdigest()


class Handler(http.server.BaseHTTPRequestHandler):
    """Serves BODY; /plain knows no ranges, /short breaks off, /gone is missing, /slow pauses half way,
    /endless tells no length and never ends, /exact says the size with a 416, /other is another file, /drip sends a
    byte now and then, /length=… and /to=… say an odd length or redirect."""

    requested_ranges: list[str | None] = []
    resume = threading.Event()

    def do_GET(self):
        with suppress(OSError):  # the reader may have hung up
            self.respond()

    def respond(self):
        wanted = self.headers.get("Range")
        self.requested_ranges.append(wanted)
        if self.path == "/gone":
            self.send_error(404, "Not Found")
            return
        start = int(wanted.removeprefix("bytes=").rstrip("-")) if wanted and self.path != "/plain" else 0
        if self.path == "/other":
            self.send_response(200)
            self.send_header("Content-Length", "5")
            self.end_headers()
            self.wfile.write(b"sorry")
            return
        if self.path.startswith("/length=") or self.path.startswith("/to="):
            text = urllib.parse.unquote(self.path.partition("=")[2])
            self.send_response(200 if self.path.startswith("/length") else 302)
            head = "Content-Length" if self.path.startswith("/length") else "Location"
            self._headers_buffer.append(f"{head}: {text}\r\n".encode("latin-1", "replace"))
            self.end_headers()
            self.wfile.write(BODY)
            return
        if self.path == "/drip":
            self.send_response(200)
            self.end_headers()
            for _ in range(60):
                self.wfile.write(b"x")
                self.wfile.flush()
                if self.resume.wait(0.1):
                    return
        if self.path == "/endless":
            self.send_response(200)
            self.end_headers()
            while True:
                self.wfile.write(BODY)
        if start >= len(BODY):
            self.send_response(416)
            if self.path == "/exact":
                self.send_header("Content-Range", f"bytes */{len(BODY)}")
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        self.send_response(206 if start else 200)
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(BODY) - 1}/{len(BODY)}")
        self.send_header("Content-Length", str(len(BODY) - start))
        self.end_headers()
        end = len(BODY) - 1000 if self.path == "/short" and not start else len(BODY)
        if self.path == "/slow" and not start:
            self.wfile.write(BODY[: end // 2])
            self.wfile.flush()
            self.resume.wait(30)
            return
        self.wfile.write(BODY[start:end])

    def log_message(self, *_):
        pass


@pytest.fixture
def site():
    Handler.requested_ranges = []
    Handler.resume = threading.Event()
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        Handler.resume.set()
        server.shutdown()
        thread.join()


def test_a_whole_file(site, tmp_path):
    path = fetch(RemoteFile(f"{site}/a", MD5), tmp_path / "deep" / "a.bin", quiet=True)
    assert path.read_bytes() == BODY
    assert [p.name for p in path.parent.iterdir()] == ["a.bin"]
    fetch(RemoteFile(f"{site}/a", MD5), path, quiet=True)
    assert len(Handler.requested_ranges) == 1, "what is there is not fetched again"


@pytest.mark.parametrize("page", ["a", "plain"])
def test_a_broken_download_continues(site, tmp_path, page):
    (tmp_path / "a.bin.part").write_bytes(BODY[:70_000])
    assert fetch(RemoteFile(f"{site}/{page}", MD5), tmp_path / "a.bin", quiet=True).read_bytes() == BODY
    assert Handler.requested_ranges == ["bytes=70000-"]


def test_breaking_off_keeps_what_came_and_is_no_file(site, tmp_path):
    with pytest.raises(UnbraidError, match=r"(?s)interrupted.*resumes it"):
        fetch(RemoteFile(f"{site}/short", MD5), tmp_path / "a.bin", quiet=True, timeout=5)
    assert not (tmp_path / "a.bin").exists()
    assert (tmp_path / "a.bin.part").stat().st_size == len(BODY) - 1000
    assert fetch(RemoteFile(f"{site}/short", MD5), tmp_path / "a.bin", quiet=True).read_bytes() == BODY


@pytest.mark.parametrize("part", [b"", b"wrong" * 1000, BODY + b"too long"])
def test_a_wrong_checksum_is_never_trusted(site, tmp_path, part):
    if part:
        (tmp_path / "a.bin.part").write_bytes(part)
    wrong = MD5 if part else "md5:" + "0" * 32
    with pytest.raises(UnbraidError, match="wrong md5"):
        fetch(RemoteFile(f"{site}/a", wrong), tmp_path / "a.bin", quiet=True)
    assert not (tmp_path / "a.bin").exists()
    assert not (tmp_path / "a.bin.part").exists()


def test_a_missing_page_and_no_network(site, tmp_path):
    with pytest.raises(UnbraidError, match="responds with 404"):
        fetch(RemoteFile(f"{site}/gone"), tmp_path / "a.bin", quiet=True)
    with pytest.raises(
        UnbraidError, match=r"(?s)127\.0\.0\.1:9/x\n    no response \(Connection refused\).*save it as .*a\.bin"
    ):
        fetch(RemoteFile("http://127.0.0.1:9/x"), tmp_path / "a.bin", quiet=True, timeout=2)
    assert not (tmp_path / "a.bin").exists()


def test_a_part_longer_than_the_file_is_begun_again(site, tmp_path):
    (tmp_path / "a.bin.part").write_bytes(BODY + b"too long")
    assert fetch(RemoteFile(f"{site}/exact", MD5), tmp_path / "a.bin", quiet=True).read_bytes() == BODY
    (tmp_path / "b.bin.part").write_bytes(BODY)
    assert fetch(RemoteFile(f"{site}/exact"), tmp_path / "b.bin", quiet=True).read_bytes() == BODY
    assert Handler.requested_ranges == [f"bytes={len(BODY) + 8}-", None, f"bytes={len(BODY)}-"]


def test_another_size_than_the_published_one_is_refused_before_it_is_stored(site, tmp_path):
    with pytest.raises(UnbraidError, match=r"different file than the published one: found 5 bytes; allowed: 1,280,000"):
        fetch(RemoteFile(f"{site}/other", MD5, len(BODY)), tmp_path / "a.bin", quiet=True)
    with pytest.raises(UnbraidError, match="different file"):
        fetch(RemoteFile(f"{site}/a", MD5, len(BODY) - 1), tmp_path / "a.bin", quiet=True)
    assert not list(tmp_path.glob("a.bin*.part"))


@pytest.mark.parametrize("published", [0, 2 * len(BODY)])
def test_a_server_that_never_stops_is_cut_off(site, tmp_path, monkeypatch, published):
    monkeypatch.setattr(download, "MAX_FILE_BYTES", 3_000_000)
    with pytest.raises(UnbraidError, match="The received part was deleted"):
        fetch(RemoteFile(f"{site}/endless", num_bytes=published), tmp_path / "a.bin", quiet=True)
    assert not (tmp_path / "a.bin").exists()
    assert (tmp_path / "a.bin.part").stat().st_size == 0


def test_too_little_room_is_said_before_anything_is_stored(site, tmp_path, monkeypatch):
    from collections import namedtuple

    usage = namedtuple("usage", "free")
    monkeypatch.setattr("shutil.disk_usage", lambda _: usage(1000))
    with pytest.raises(UnbraidError, match="not enough disk space"):
        fetch(RemoteFile(f"{site}/a", MD5), tmp_path / "a.bin", quiet=True)


def test_a_killed_download_continues(site, tmp_path):
    script = (
        "import sys; from unbraid.data.cache.download import fetch; from unbraid.data.cache.checksums import RemoteFile; "
        "fetch(RemoteFile(sys.argv[1], sys.argv[2]), sys.argv[3], quiet=True)"
    )
    path, part = tmp_path / "a.bin", tmp_path / "a.bin.part"
    with subprocess.Popen([sys.executable, "-c", script, f"{site}/slow", MD5, str(path)]) as process:
        for _ in range(600):
            if part.exists() and part.stat().st_size > 0:
                break
            assert process.poll() is None
            time.sleep(0.05)
        os.kill(process.pid, signal.SIGKILL)
    kept = part.stat().st_size
    assert 0 < kept < len(BODY)
    assert not path.exists()
    assert fetch(RemoteFile(f"{site}/slow", MD5), path, quiet=True).read_bytes() == BODY
    assert Handler.requested_ranges[-1] == f"bytes={kept}-"
    assert [p.name for p in tmp_path.iterdir()] == ["a.bin"]


ODD_LENGTHS = ["²", "-5", "1e3", "9" * 5000, "12, 12", "0x10", ""]
REDIRECTS = [
    "http://[::1",
    "http://x:port/",
    "ftp://127.0.0.1/x",
    "file:///etc/passwd",
    "http://",
    "//",
    "\xff\xfe",
    "http://a\tb/",
]


@pytest.mark.parametrize("page", [*(f"length={odd}" for odd in ODD_LENGTHS), *(f"to={lead}" for lead in REDIRECTS)])
def test_senseless_headers_are_named_and_mirrors_are_tried(site, tmp_path, page):
    address = f"{site}/{urllib.parse.quote(page)}"
    good = RemoteFile(f"{site}/a", MD5)
    assert fetch(RemoteFile(address, "md5:0", mirrors=(good,)), tmp_path / "a.bin", quiet=True).read_bytes() == BODY
    with pytest.raises(UnbraidError, match=r"cannot fetch b\.bin"):
        fetch(RemoteFile(address, "md5:0"), tmp_path / "b.bin", quiet=True)


def test_a_server_that_drips_is_left(site, tmp_path):
    with pytest.raises(UnbraidError, match="sends too slowly"):
        fetch(RemoteFile(f"{site}/drip", MD5), tmp_path / "a.bin", quiet=True, timeout=0.5)


def test_a_page_in_place_of_an_archive_is_not_kept(site, tmp_path):
    with pytest.raises(UnbraidError, match="has the wrong content: found another type of file"):
        fetch(RemoteFile(f"{site}/a.zip"), tmp_path / "a.zip", quiet=True)
    assert not (tmp_path / "a.zip").exists()


def test_mirrors_are_tried_in_turn(site, tmp_path):
    good, gone = RemoteFile(f"{site}/a", MD5), RemoteFile(f"{site}/gone", MD5)
    (tmp_path / "a.bin.part").write_bytes(BODY[:10])
    path = fetch(RemoteFile(f"{site}/gone", MD5, mirrors=(gone, good)), tmp_path / "a.bin", quiet=True)
    assert path.read_bytes() == BODY
    assert Handler.requested_ranges == ["bytes=10-"] * 3, "the same checksum: the part is continued"
    with pytest.raises(
        UnbraidError, match=r"(?s)fetch b\.bin:\n.*/gone\n    responds with 404 Not Found\n.*/a\n    has the wrong"
    ):
        fetch(RemoteFile(gone.url, mirrors=(RemoteFile(f"{site}/a", "md5:0"),)), tmp_path / "b.bin", quiet=True)
    other = RemoteFile(f"{site}/short", "md5:0", mirrors=(good,))
    assert fetch(other, tmp_path / "c.bin", quiet=True, timeout=5).read_bytes() == BODY
    assert Handler.requested_ranges[-1] is None, "another checksum: begun anew"
    assert sorted(p.name for p in tmp_path.iterdir() if p.suffix != ".lock") == ["a.bin", "c.bin"]
