"""Headless Chromium driven by playwright; without it the browser tests are skipped with the reason."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from typing import Any

import pytest

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
