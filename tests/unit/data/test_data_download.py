"""Downloads from a server of our own: resumed, checked, and clear when there is no network."""

from __future__ import annotations

import hashlib
import http.server
import threading

import pytest

from unbraid.data.download import File, fetch
from unbraid.errors import UnbraidError

BODY = bytes(range(256)) * 5000
MD5 = "md5:" + hashlib.md5(BODY, usedforsecurity=False).hexdigest()


class Handler(http.server.BaseHTTPRequestHandler):
    """Serves BODY; /plain knows no ranges, /short breaks off, /gone is missing."""

    asked: list[str | None] = []

    def do_GET(self):
        wanted = self.headers.get("Range")
        self.asked.append(wanted)
        if self.path == "/gone":
            self.send_error(404, "Not Found")
            return
        start = int(wanted.removeprefix("bytes=").rstrip("-")) if wanted and self.path != "/plain" else 0
        if start >= len(BODY):
            self.send_error(416)
            return
        self.send_response(206 if start else 200)
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(BODY) - 1}/{len(BODY)}")
        self.send_header("Content-Length", str(len(BODY) - start))
        self.end_headers()
        end = len(BODY) - 1000 if self.path == "/short" and not start else len(BODY)
        self.wfile.write(BODY[start:end])

    def log_message(self, *_):
        pass


@pytest.fixture
def site():
    Handler.asked = []
    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_a_whole_file(site, tmp_path):
    path = fetch(File(f"{site}/a", MD5), tmp_path / "deep" / "a.bin", quiet=True)
    assert path.read_bytes() == BODY
    assert [p.name for p in path.parent.iterdir()] == ["a.bin"]
    fetch(File(f"{site}/a", MD5), path, quiet=True)
    assert len(Handler.asked) == 1, "what is there is not fetched again"


@pytest.mark.parametrize("page", ["a", "plain"])
def test_a_broken_download_continues(site, tmp_path, page):
    (tmp_path / "a.bin.part").write_bytes(BODY[:70_000])
    assert fetch(File(f"{site}/{page}", MD5), tmp_path / "a.bin", quiet=True).read_bytes() == BODY
    assert Handler.asked == ["bytes=70000-"]


def test_breaking_off_keeps_what_came_and_is_no_file(site, tmp_path):
    with pytest.raises(UnbraidError, match=r"broke off|continues it"):
        fetch(File(f"{site}/short", MD5), tmp_path / "a.bin", quiet=True, timeout=5)
    assert not (tmp_path / "a.bin").exists()
    assert (tmp_path / "a.bin.part").stat().st_size == len(BODY) - 1000
    assert fetch(File(f"{site}/short", MD5), tmp_path / "a.bin", quiet=True).read_bytes() == BODY


@pytest.mark.parametrize("part", [b"", b"wrong" * 1000, BODY + b"too long"])
def test_a_wrong_checksum_is_never_trusted(site, tmp_path, part):
    if part:
        (tmp_path / "a.bin.part").write_bytes(part)
    wrong = MD5 if part else "md5:" + "0" * 32
    with pytest.raises(UnbraidError, match="wrong md5"):
        fetch(File(f"{site}/a", wrong), tmp_path / "a.bin", quiet=True)
    assert not (tmp_path / "a.bin").exists()
    assert not (tmp_path / "a.bin.part").exists()


def test_a_missing_page_and_no_network(site, tmp_path):
    with pytest.raises(UnbraidError, match="answers 404"):
        fetch(File(f"{site}/gone"), tmp_path / "a.bin", quiet=True)
    with pytest.raises(UnbraidError, match="Is there a network"):
        fetch(File("http://127.0.0.1:9/x"), tmp_path / "a.bin", quiet=True, timeout=2)
    assert not (tmp_path / "a.bin").exists()
