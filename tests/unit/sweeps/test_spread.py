"""Local workers over several GPUs: what each is given to see. No GPU is needed: what would be started is looked at."""

from __future__ import annotations

import io
import subprocess
import sys
from types import SimpleNamespace

import pytest

from unbraid.ground import machine
from unbraid.runs.recipe import Recipe
from unbraid.sweeps import walk, workers
from unbraid.sweeps.plan import Plan, jobs
from unbraid.sweeps.workers import Workers

LISTED = """GPU 0: NVIDIA A100-SXM4-40GB (UUID: GPU-aaaa)
GPU 1: NVIDIA A100-SXM4-40GB (UUID: GPU-bbbb)
"""


@pytest.fixture
def seen(monkeypatch):
    """What CUDA_VISIBLE_DEVICES is for each worker that is started."""
    found = []

    def started(command, env, **options):
        found.append(env.get("CUDA_VISIBLE_DEVICES"))
        return SimpleNamespace(stdin=io.BytesIO(), stdout=io.BytesIO(), pid=0)

    monkeypatch.setattr(workers, "subprocess", SimpleNamespace(Popen=started, PIPE=subprocess.PIPE))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    return found


def test_workers_take_turns_and_a_new_one_takes_the_place_of_the_dead(seen):
    crew = Workers(5, ["GPU-a", "GPU-b"])
    crew.idle(5)
    assert seen == ["GPU-a", "GPU-b", "GPU-a", "GPU-b", "GPU-a"]
    for worker in [crew.alive[1], crew.alive[3]]:
        crew.alive.remove(worker)
        worker.said.close()
    crew.idle(5)
    assert seen[5:] == ["GPU-b", "GPU-b"]
    for worker in crew.alive:
        worker.said.close()


@pytest.mark.parametrize("cards", [[], ["0"]])
def test_no_gpu_or_one_leaves_the_environment_as_it_is(seen, cards):
    crew = Workers(2, cards)
    crew.idle(2)
    assert seen == [None, None]
    for worker in crew.alive:
        worker.said.close()


@pytest.mark.parametrize(
    ("device", "spread"), [("auto", ["0", "1"]), ("cuda", ["0", "1"]), ("cpu", []), ("cuda:1", [])]
)
def test_runs_for_the_cpu_or_for_a_numbered_gpu_are_not_spread(monkeypatch, tmp_path, device, spread):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
    recipes = [Recipe.load("decomposition_pinwheel").set(f"budget.device={device}")]
    assert walk.spread(Plan(tmp_path, jobs(tmp_path, recipes, ["one"]))) == spread


def test_gpus_are_counted_as_nvidia_smi_lists_them_or_the_environment_says(monkeypatch):
    def said(listed):
        monkeypatch.setattr(machine.shutil, "which", lambda name: name)
        monkeypatch.setattr(machine.subprocess, "run", lambda *words, **options: SimpleNamespace(stdout=listed))
        return machine.cards()

    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert said(LISTED) == ["GPU-aaaa", "GPU-bbbb"]
    assert said(LISTED + "  MIG 1g.5gb Device 0: (UUID: MIG-cccc)\n") == []
    assert said("") == []
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2, 3")
    assert said(LISTED) == ["2", "3"]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "-1")
    assert said(LISTED) == []


def test_counting_gpus_loads_no_torch():
    code = "import sys, unbraid.ground.machine as m; m.cards(); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
