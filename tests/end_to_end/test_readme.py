"""The README's promises: every command runs in the order shown from a clean clone, and so do its lines of Python."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"


def readme_commands() -> list[str]:
    """The lines of the block of first commands, without what is said of them."""
    block = re.search(r"<!-- commands:.*?-->\n```\n(.*?)```", README.read_text(), re.DOTALL)
    assert block, "README.md has lost its block of commands"
    return [re.split(r"\s+# ", line)[0] for line in block[1].splitlines()]


def readme_python() -> str:
    """The lines of Python that the README shows."""
    return re.search(r"```python\n(.*?)```", README.read_text(), re.DOTALL)[1]


@pytest.fixture(scope="module")
def clone(tmp_path_factory):
    """A clean clone with an empty cache, and `unbraid` of that clone first on the PATH."""
    top = tmp_path_factory.mktemp("clone")
    subprocess.run(["git", "clone", "--quiet", "--no-hardlinks", str(ROOT), str(top / "unbraid")], check=True)
    door = top / "bin" / "unbraid"
    door.parent.mkdir()
    door.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m unbraid "$@"\n')
    door.chmod(0o755)
    here = top / "unbraid"
    path = f"{door.parent}{os.pathsep}{os.environ['PATH']}"
    changed = {"PATH": path, "PYTHONPATH": str(here), "UNBRAID_CACHE": str(top / "cache"), "COLUMNS": "80"}
    return here, os.environ | changed


def test_every_command_says_what_it_takes_and_exists():
    from typer.testing import CliRunner

    from unbraid.cli import app

    text = README.read_text()
    assert len(readme_commands()) >= 12
    for line in readme_commands():
        words = shlex.split(line.split(" > ")[0])
        assert words[0] == "unbraid"
        assert CliRunner().invoke(app, [words[1], "--help"]).exit_code == 0, line
        assert re.search(rf"^{re.escape(line)}\s+# \w", text, re.MULTILINE), f"nothing is said of: {line}"


def test_the_readme_is_short():
    assert len(README.read_text().split()) <= 900


@pytest.mark.slow
def test_every_command_runs_in_the_order_shown(clone):
    here, environment = clone
    for line in readme_commands():
        done = subprocess.run(
            ["sh", "-c", line], cwd=here, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"
        assert "Traceback" not in done.stderr, line
    for made in ("demo/report.html", "runs/one/report.html", "traversals.pdf", "runs/one/explore.html", "mine.toml"):
        assert (here / made).stat().st_size > 500, made


@pytest.mark.slow
def test_the_lines_of_python_end_in_a_report_with_scores(clone):
    here, environment = clone
    done = subprocess.run(
        [sys.executable, "-c", readme_python()], cwd=here, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert re.search(r"mig 0\.\d+", done.stdout)
    page = (here / "runs" / "three" / "report.html").read_text()
    assert re.search(r"<th>mig<span", page)
