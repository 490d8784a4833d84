"""Fixtures of all tests: float64, one thread, reference data."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

os.environ.setdefault("OMP_NUM_THREADS", "1")
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:  # started in the background; tests of Ctrl-C need the handler
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def _float64(request: pytest.FixtureRequest):
    """Run tests in float64 and restore torch's default type."""
    import torch

    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    torch.set_num_threads(1)
    torch.manual_seed(0)
    yield
    torch.set_default_dtype(before)


@pytest.fixture(scope="session")
def reference_data() -> Path:
    """The folder of reference data next to the project; tests that need it are skipped without it."""
    path = Path(os.environ.get("UNBRAID_SHARED", Path(__file__).resolve().parents[2] / "shared"))
    if not (path / "data").is_dir():
        pytest.skip("no reference data next to the project")
    return path
