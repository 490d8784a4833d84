"""Before the studio serves anything: a missing extra, a port in use and a wrong directory are named."""

from __future__ import annotations

import socket
import sys

import pytest

from unbraid.ground.errors import UnbraidError
from unbraid.studio import serving


@pytest.mark.parametrize("name", ["uvicorn", "nicegui", "plotly"])
def test_a_missing_extra_gives_the_line_that_installs_it(monkeypatch, tmp_path, name):
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(UnbraidError, match=r"pip install 'unbraid\[studio\]'"):
        serving.serve(tmp_path, show=False, say=lambda text: None)


def test_a_port_in_use_is_named():
    with socket.socket() as taken:
        taken.bind((serving.HOME, 0))
        taken.listen()
        with pytest.raises(UnbraidError, match="cannot be used"):
            serving.free_port(taken.getsockname()[1])
    assert serving.free_port() > 0


def test_a_directory_that_is_not_there_is_named(tmp_path):
    with pytest.raises(UnbraidError, match="not a directory of runs"):
        serving.serve(tmp_path / "nothing", show=False)
