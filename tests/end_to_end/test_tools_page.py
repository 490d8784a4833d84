"""The examples of docs/tools.md run as they stand."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch

PAGE = Path(__file__).parents[2] / "docs" / "tools.md"
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)


@pytest.mark.slow
@pytest.mark.parametrize("number", range(len(BLOCKS)))
def test_every_example_runs(number, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    torch.set_default_dtype(torch.float32)
    names: dict = {}
    exec(compile(BLOCKS[number], f"{PAGE.name} example {number}", "exec"), names)
    assert len(names) > 3
