"""Errors before the server starts: a missing extra, a port in use and a wrong directory are named."""

from __future__ import annotations

import socket
import sys

import pytest

from unbraid.core.errors import UnbraidError
from unbraid.studio import server


@pytest.mark.parametrize("name", ["uvicorn", "nicegui", "plotly"])
def test_a_missing_extra_gives_the_line_that_installs_it(monkeypatch, tmp_path, name):
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(UnbraidError, match=r"pip install 'unbraid\[studio\]'"):
        server.serve(tmp_path, open_browser=False, echo=lambda text: None)


def test_a_port_in_use_is_named():
    with socket.socket() as taken:
        taken.bind((server.HOST, 0))
        taken.listen()
        with pytest.raises(UnbraidError, match="cannot be used"):
            server.free_port(taken.getsockname()[1])
    assert server.free_port() > 0


def test_a_directory_that_is_not_there_is_named(tmp_path):
    with pytest.raises(UnbraidError, match="not a directory of runs"):
        server.serve(tmp_path / "nothing", open_browser=False)
