"""Every test of data gets a cache of its own."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("UNBRAID_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def reference_data():
    """The folder of real files beside the project, where there is one."""
    folder = Path(os.environ.get("UNBRAID_SHARED") or Path(__file__).parents[4] / "shared") / "data"
    if not folder.is_dir():
        pytest.skip("no ../shared/data beside the project (or set UNBRAID_SHARED)")
    return folder
