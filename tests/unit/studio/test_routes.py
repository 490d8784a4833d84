"""Routes of the studio: large uploads get a response, and binary WebSocket frames are requests like others."""

from __future__ import annotations

import http.client
import json
import shutil
import struct
import threading
import time
from pathlib import Path

import pytest

from unbraid.studio.explorer import MAX_UPLOAD_BYTES
from unbraid.studio.run_library import Library
from unbraid.studio.server import HOST, free_port

OLD_RUNS = Path(__file__).parents[2] / "data" / "runs_of_0_1"


@pytest.fixture(scope="module")
def app(tmp_path_factory):
    fastapi = pytest.importorskip("fastapi")
    from unbraid.studio.routes import register_routes

    root = tmp_path_factory.mktemp("runs")
    shutil.copytree(OLD_RUNS / "vae", root / "vae")

    async def run_in_thread(work, *arguments):
        return work(*arguments)

    app = fastapi.FastAPI()
    register_routes(app, Library(root), run_in_thread)
    return app


def header(raw: bytes) -> dict:
    """The JSON header of a binary message."""
    (size,) = struct.unpack("<I", raw[:4])
    return json.loads(raw[4 : 4 + size])


def test_an_upload_above_the_limit_is_answered(app):
    uvicorn = pytest.importorskip("uvicorn")
    port = free_port()
    server = uvicorn.Server(uvicorn.Config(app, HOST, port, log_level="error"))
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        while not server.started:
            time.sleep(0.01)
        for extra in (1, 32 << 20):
            line = http.client.HTTPConnection(HOST, port, timeout=30)
            line.request("POST", "/studio/drop?run=vae", body=bytes(MAX_UPLOAD_BYTES + extra))
            assert "too large" in header(line.getresponse().read())["error"]
            line.close()
    finally:
        server.should_exit = True
        thread.join()


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_binary_frames_are_answered_like_text(app):
    testclient = pytest.importorskip("starlette.testclient")
    with testclient.TestClient(app) as client, client.websocket_connect("/studio/live") as socket:
        request = json.dumps({"ask": "prior", "run": "vae", "seed": 1, "n": 7})
        socket.send_text(request)
        text = socket.receive_bytes()
        socket.send_bytes(request.encode())
        assert socket.receive_bytes() == text
        for bad in (b"", b"\xff\xfe\x00", b"[" * 5000):
            socket.send_bytes(bad)
            assert header(socket.receive_bytes())["error"]
        socket.send_text(request)
        assert header(socket.receive_bytes())["n"] == 7
