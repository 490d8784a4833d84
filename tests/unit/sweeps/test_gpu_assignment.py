"""The GPU that each local worker sees. No GPU is needed: the test inspects the processes that would be started."""

from __future__ import annotations

import io
import subprocess
import sys
from types import SimpleNamespace

import pytest

from unbraid.core import hardware
from unbraid.runs.recipe import Recipe
from unbraid.sweeps.engine import scheduler, worker_pool
from unbraid.sweeps.engine.worker_pool import LocalWorkerPool
from unbraid.sweeps.planning.plan import Plan, build_jobs

NVIDIA_SMI_OUTPUT = """GPU 0: NVIDIA A100-SXM4-40GB (UUID: GPU-aaaa)
GPU 1: NVIDIA A100-SXM4-40GB (UUID: GPU-bbbb)
"""


@pytest.fixture
def visible_devices(monkeypatch):
    """CUDA_VISIBLE_DEVICES of each worker that is started."""
    found = []

    def fake_popen(command, env, **options):
        found.append(env.get("CUDA_VISIBLE_DEVICES"))
        return SimpleNamespace(stdin=io.BytesIO(), stdout=io.BytesIO(), pid=0)

    monkeypatch.setattr(worker_pool, "subprocess", SimpleNamespace(Popen=fake_popen, PIPE=subprocess.PIPE))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    return found


def test_workers_take_turns_and_a_new_one_takes_the_place_of_the_dead(visible_devices):
    pool = LocalWorkerPool(5, ["GPU-a", "GPU-b"])
    pool.idle_workers(5)
    assert visible_devices == ["GPU-a", "GPU-b", "GPU-a", "GPU-b", "GPU-a"]
    for worker in [pool.alive[1], pool.alive[3]]:
        pool.alive.remove(worker)
        worker.stderr_file.close()
    pool.idle_workers(5)
    assert visible_devices[5:] == ["GPU-b", "GPU-b"]
    for worker in pool.alive:
        worker.stderr_file.close()


@pytest.mark.parametrize("gpus", [[], ["0"]])
def test_no_gpu_or_one_leaves_the_environment_as_it_is(visible_devices, gpus):
    pool = LocalWorkerPool(2, gpus)
    pool.idle_workers(2)
    assert visible_devices == [None, None]
    for worker in pool.alive:
        worker.stderr_file.close()


@pytest.mark.parametrize(
    ("device", "spread"), [("auto", ["0", "1"]), ("cuda", ["0", "1"]), ("cpu", []), ("cuda:1", [])]
)
def test_runs_for_the_cpu_or_for_a_numbered_gpu_are_not_spread(monkeypatch, tmp_path, device, spread):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
    recipes = [Recipe.load("decomposition_pinwheel").set(f"budget.device={device}")]
    assert scheduler.gpus_for_workers(Plan(tmp_path, build_jobs(tmp_path, recipes, ["one"]))) == spread


def test_gpus_are_counted_as_nvidia_smi_lists_them_or_the_environment_says(monkeypatch):
    def count_gpus(listed):
        monkeypatch.setattr(hardware.shutil, "which", lambda name: name)
        monkeypatch.setattr(hardware.subprocess, "run", lambda *words, **options: SimpleNamespace(stdout=listed))
        return hardware.visible_gpus()

    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert count_gpus(NVIDIA_SMI_OUTPUT) == ["GPU-aaaa", "GPU-bbbb"]
    assert count_gpus(NVIDIA_SMI_OUTPUT + "  MIG 1g.5gb Device 0: (UUID: MIG-cccc)\n") == []
    assert count_gpus("") == []
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2, 3")
    assert count_gpus(NVIDIA_SMI_OUTPUT) == ["2", "3"]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "-1")
    assert count_gpus(NVIDIA_SMI_OUTPUT) == []


def test_counting_gpus_loads_no_torch():
    code = "import sys, unbraid.core.hardware as m; m.visible_gpus(); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
