"""Threads and memory of a run."""

import subprocess
import sys

import pytest
import torch

from unbraid.core.hardware import default_threads, keep_memory, use_threads

PAGE_FAULT_SCRIPT = """
import resource, torch
from unbraid.core.hardware import keep_memory
assert keep_memory()
torch.set_num_threads(1)
def step():
    kept = [torch.ones(1 << 20) for _ in range(8)]    # 4 MB each, as activations are
for _ in range(3): step()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(5): step()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def test_threads_hold_inside_and_not_after():
    before = torch.get_num_threads()
    with pytest.raises(KeyError), use_threads(3) as threads:
        assert threads == torch.get_num_threads() == 3
        raise KeyError
    assert torch.get_num_threads() == before


def test_the_default_heeds_cores_and_the_environment(monkeypatch):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    assert 1 <= default_threads() <= 4
    for limit, found in (("1", 1), ("0", default_threads()), ("many", default_threads())):
        monkeypatch.setenv("OMP_NUM_THREADS", limit)
        assert default_threads() == found


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="glibc's allocator")
def test_kept_memory_is_not_faulted_in_again():
    if not keep_memory():
        pytest.skip("this allocator takes no settings, or the user has made them")

    done = subprocess.run([sys.executable, "-c", PAGE_FAULT_SCRIPT], capture_output=True, text=True, check=True)
    assert int(done.stdout) < 200  # of 5 × 8 × 1024 pages; by default some or all of them, as the heap happens to lie


LARGE_ARRAY_SCRIPT = """
import ctypes, resource, torch
from unbraid.core.hardware import use_threads

class Info(ctypes.Structure):
    names = "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost"    # malloc.h
    _fields_ = [(name, ctypes.c_size_t) for name in names.split()]

libc = ctypes.CDLL(None)
libc.mallinfo2.restype = Info

def step():
    kept = [torch.ones(12 << 20) for _ in range(3)]    # 48 MB each, as activations of a large batch are

def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

def mapped():
    return libc.mallinfo2().hblks

with use_threads(1):
    with use_threads(1):
        for _ in range(9): step()
    before = faults()
    for _ in range(3): step()    # still inside one
    again, during = faults() - before, mapped()
    held = torch.ones(12 << 20)
    inside = mapped() - during
before = mapped()
after = torch.empty(256 << 20)    # 1 GB, never touched, larger than any hole the steps left
print(again, inside, mapped() - before)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="glibc's allocator")
def test_large_blocks_are_kept_while_a_run_computes_and_mapped_apart_after():
    if not keep_memory():
        pytest.skip("this allocator takes no settings, or the user has made them")
    done = subprocess.run([sys.executable, "-c", LARGE_ARRAY_SCRIPT], capture_output=True, text=True, check=True)
    again, inside, after = map(int, done.stdout.split())
    assert again < 200  # of 3 × 3 × 12,288 pages; nine steps before, because the heap takes a few to settle
    assert (inside, after) == (0, 1)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="glibc's allocator")
def test_encoding_a_large_set_needs_little_more_than_its_codes(tmp_path):
    """Small results kept between large activations once made 11 GB of holes of 0.06 GB of codes."""
    program = f"""
import numpy as np
from unbraid import Recipe, fit
from unbraid.data.dataset import Bits, Dataset
from unbraid.runs.evaluation.encoding import posteriors
from unbraid.core.hardware import use_threads
def peak():
    return next(int(s.split()[1]) / 1e3 for s in open("/proc/self/status") if s.startswith("VmHWM"))
images = Dataset("blank", Bits(np.zeros((40_000, 512), np.uint8), (1, 64, 64)))
recipe = Recipe(data="blank", nets="factor_vae_table1", budget={{"steps": 1, "threads": 1}})
run = fit(recipe, {str(tmp_path / "run")!r}, quiet=True, dataset=images)
with use_threads(1):
    posteriors(run.model, images, np.arange(1_000), quiet=True)
    before = peak()
    posteriors(run.model, images, quiet=True)
print(peak() - before)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert float(done.stdout) < 120  # MB; holes took as much for half of the images, noise takes up to 70


def test_settings_of_the_user_are_left_alone(monkeypatch):
    monkeypatch.setenv("MALLOC_TRIM_THRESHOLD_", "131072")
    assert keep_memory.__wrapped__() is False
