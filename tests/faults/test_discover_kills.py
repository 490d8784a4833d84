"""Kills of a discovery: the whole group or one worker, at several moments; the same command ends with the same choice."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tests.faults.trials import children, kill_processes
from tests.ray_cluster import ROOT, wait_until
from unbraid.core.files import read_json

pytestmark = pytest.mark.slow
TIMEOUT = 500.0


def start_discovery(folder: Path, *options: str) -> subprocess.Popen[str]:
    """The command in a process group of its own."""
    return subprocess.Popen(
        [sys.executable, "-m", "unbraid", "discover", "../bars", "--out", ".", "--minutes", "0.05", "--seeds", "2",
         "--workers", "1", "--latents", "3", *options],
        cwd=folder, env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}, start_new_session=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip


def finish(process: subprocess.Popen[str]) -> str:
    output, _ = process.communicate(timeout=TIMEOUT)
    return output


def kill_group(process: subprocess.Popen[str]) -> None:
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate(timeout=60)


def finished_runs(folder: Path) -> int:
    """Rungs of all runs that have a result."""
    return sum(path.is_file() for path in (folder / "runs").glob("*/outcome.json")) if folder.is_dir() else 0


def outcome(folder: Path) -> tuple[str, list[dict], list[dict]]:
    found = read_json(folder / "discovery.json", "result")
    assert found["complete"]
    return found["run"], found["factors"], found["settings"]


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A folder of pictures and a discovery that nothing disturbed."""
    root = tmp_path_factory.mktemp("kills")
    (root / "bars").mkdir()
    for k in range(60):
        picture = np.zeros((8, 8), np.uint8)
        picture[:, k % 6 : k % 6 + 2] = 100 + 15 * (k // 6)
        Image.fromarray(picture).save(root / "bars" / f"{k:02d}.png")
    folder = root / "whole"
    folder.mkdir()
    plan_shared(folder, None)
    output = finish(start_discovery(folder))
    assert "page:" in output, output
    return folder


def plan_shared(folder: Path, whole: Path | None) -> None:
    """Store a plan of two settings, without a limit of time; its steps are the same in every folder."""
    output = finish(start_discovery(folder, "--dry"))
    assert "The plan is in" in output, output
    plan = json.loads((folder / "plan.json").read_text())
    first = plan["settings"][0]
    objective = {**first["recipe"]["objective"], "beta": 2 * first["recipe"]["objective"]["beta"]}
    dear = {**first, "name": "dear", "recipe": {**first["recipe"], "objective": objective}, "complexity": 9.0}
    plan["settings"] = [first, dear]
    if whole is None:
        plan["rungs"] = [{"steps": s, "keep": 1} for s in (40, 80)]
        plan["confirming"] = 1
    else:
        shared = json.loads((whole / "plan.json").read_text())
        plan = {**shared, "settings": plan["settings"]}
    (folder / "plan.json").write_text(json.dumps(plan))


@pytest.fixture
def disturbed(whole, request):
    """A folder with the same plan, in which nothing is trained yet."""
    folder = whole.parent / request.node.name.replace("/", "-")
    folder.mkdir()
    plan_shared(folder, whole)
    return folder


def test_a_group_killed_at_several_moments_continues_to_the_same_choice(whole, disturbed):
    rng = np.random.default_rng(1)
    struck = 0
    for wanted in (0, 1, 2, 3):  # results before the kill, then a random moment more
        process = start_discovery(disturbed)
        wait_until(lambda: finished_runs(disturbed) >= wanted or process.poll() is not None, TIMEOUT)  # noqa: B023
        time.sleep(rng.uniform(0, 3))
        struck += process.poll() is None
        kill_group(process) if process.poll() is None else finish(process)
    assert struck >= 2
    output = finish(start_discovery(disturbed))
    assert outcome(disturbed) == outcome(whole), output


def test_a_killed_worker_is_replaced_and_the_choice_is_the_same(whole, disturbed):
    process = start_discovery(disturbed)
    for wanted in (0, 2):
        wait_until(lambda: finished_runs(disturbed) >= wanted and children(process.pid), TIMEOUT)  # noqa: B023
        assert kill_processes(children(process.pid)[:1])
    output = finish(process)
    assert outcome(disturbed) == outcome(whole), output


def test_ctrl_c_leaves_a_valid_result_and_more_minutes_continue(whole, disturbed):
    process = start_discovery(disturbed)
    wait_until(lambda: finished_runs(disturbed) >= 2, TIMEOUT)
    os.kill(process.pid, signal.SIGINT)
    output = finish(process)
    assert process.returncode != 0
    assert "Traceback" not in output
    assert "The same command continues" in output
    found = read_json(disturbed / "discovery.json", "result")
    assert not found["complete"]
    assert found["run"]
    for name in ("discovery.html", "codes.csv", "best/recipe.toml"):
        assert (disturbed / name).is_file(), name
    finish(start_discovery(disturbed))
    assert outcome(disturbed) == outcome(whole)
    output = finish(start_discovery(disturbed, "--more", "0.05"))
    assert "added:" in output
    more = read_json(disturbed / "discovery.json", "result")
    assert more["complete"]
    assert more["steps"] > read_json(whole / "discovery.json", "result")["steps"]
