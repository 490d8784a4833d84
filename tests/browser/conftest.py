"""Headless Chromium driven by playwright; without it the browser tests are skipped with the reason."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

OLD_RUNS = Path(__file__).parents[1] / "data" / "runs_of_0_1"
INSTALL_HINT = "'make browser' installs it"


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    """One browser per test file; its event loop ends with the file, because other tests run event loops of their own."""
    api = pytest.importorskip("playwright.sync_api", reason=f"playwright is not installed: {INSTALL_HINT}")
    program = os.environ.get("UNBRAID_CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
    if program is None:
        pytest.skip(f"there is no chromium on this machine: {INSTALL_HINT}")
    with api.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def tab(chromium: Any) -> Iterator[Any]:
    """A fresh tab whose console errors and outside requests fail the test."""
    context = chromium.new_context()
    page = context.new_page()
    wrong: list[str] = []
    page.on("console", lambda message: wrong.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("request", lambda request: None if _is_local(request.url) else wrong.append(f"asked for {request.url}"))
    page.set_default_timeout(20_000)
    page.wrong = wrong
    yield page
    context.close()
    assert not wrong, wrong


def _is_local(url: str) -> bool:
    return url.startswith(("file:", "data:", "blob:", "http://127.0.0.1", "ws://127.0.0.1"))


@pytest.fixture(scope="session")
def studio(tmp_path_factory):
    """A studio over a few stored runs, one of them damaged; its address with the token, and its directory."""
    pytest.importorskip("nicegui")
    root = tmp_path_factory.mktemp("studio") / "runs"
    for name in ("vae", "hfvae_discrete", "conv", "full_posterior"):
        shutil.copytree(OLD_RUNS / name, root / name)
    (root / "broken").mkdir()
    (root / "broken" / "recipe.toml").write_text("nonsense = [")
    (root.parent / "secret.txt").write_text("nobody reads this")
    command = [sys.executable, "-m", "unbraid", "studio", str(root), "--no-browser"]
    log = root.parent / "log"
    with open(log, "wb") as out:
        server = subprocess.Popen(command, stdout=out, stderr=out, env={**os.environ, "OMP_NUM_THREADS": "1"})
    try:
        end, found = time.monotonic() + 120, None
        while found is None and time.monotonic() < end and server.poll() is None:
            time.sleep(0.3)
            found = re.search(r"http://127\.0\.0\.1:\d+/\?token=\S+", log.read_text())
        assert found, log.read_text()
        address = found[0].split("/?")[0]
        while True:
            try:
                urllib.request.urlopen(address, timeout=5)
            except urllib.error.HTTPError:
                break
            except OSError:
                assert time.monotonic() < end, log.read_text()
                time.sleep(0.3)
        yield {"open": found[0], "at": address, "root": root, "log": log}
    finally:
        server.send_signal(signal.SIGINT)
        server.wait(30)


@pytest.fixture
def signed_in_tab(tab, studio):
    """A tab that has exchanged the token for its cookie."""
    tab.set_default_timeout(60_000)
    tab.goto(studio["open"])
    tab.wait_for_url(studio["at"] + "/")
    tab.get_by_role("heading", name="Runs").wait_for()
    tab.go = lambda path: tab.goto(studio["at"] + path)
    return tab
