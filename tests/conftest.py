"""Shared by all tests: float64, one thread, a place for doctests to write."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

os.environ.setdefault("OMP_NUM_THREADS", "1")
if (
    signal.getsignal(signal.SIGINT) == signal.SIG_IGN
):  # a suite started in the background: Ctrl-C is tested all the same
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def _float64(request: pytest.FixtureRequest):
    """Tests run in float64 and leave torch's defaults as they were (only where torch is already loaded or needed)."""
    import torch

    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    torch.set_num_threads(1)
    torch.manual_seed(0)
    yield
    torch.set_default_dtype(before)


@pytest.fixture(scope="session")
def reference_data() -> Path:
    """Reference data that may lie beside the project; tests that need it skip without it."""
    path = Path(os.environ.get("UNBRAID_SHARED", Path(__file__).resolve().parents[2] / "shared"))
    if not (path / "data").is_dir():
        pytest.skip("the reference data beside the project is not here")
    return path
