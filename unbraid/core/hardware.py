"""The machine a run computes on: its cores and GPUs, how many threads it takes, and memory that is kept between steps."""

from __future__ import annotations

import ctypes
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

MMAP_THRESHOLD, TRIM_THRESHOLD, MMAP_MAX = -3, -1, -4  # glibc's names, mallopt(3)
DEFAULT_MMAP_MAX = 65_536  # how many blocks glibc maps apart unless told otherwise
_open_contexts = [0]  # how many of `computing` are open, one in another


def cpu_count() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def visible_gpus() -> list[str]:
    """The NVIDIA GPUs this process may use, as CUDA_VISIBLE_DEVICES names them; asked without loading torch.

    Those of CUDA_VISIBLE_DEVICES if it is set, else those that `nvidia-smi` lists; none where a GPU is cut into parts (MIG).
    """
    if (said := os.environ.get("CUDA_VISIBLE_DEVICES")) is not None:
        return [word.strip() for word in said.split(",") if word.strip() not in ("", "-1", "NoDevFiles")]
    tool = shutil.which("nvidia-smi")
    try:
        listed = subprocess.run([tool, "-L"], capture_output=True, text=True, timeout=30).stdout if tool else ""
    except (OSError, subprocess.SubprocessError):
        return []
    return [] if "MIG-" in listed else re.findall(r"^GPU \d+: .*\(UUID: (GPU-[^)]+)\)", listed, re.MULTILINE)


def default_threads() -> int:
    """As many as there are cores this process may use (fewer if OMP_NUM_THREADS says so), four at most: more do not pay."""
    said = os.environ.get("OMP_NUM_THREADS", "").split(",")[0].strip()
    return max(1, min(4, cpu_count(), int(said) if said.isdecimal() and int(said) else cpu_count()))


@contextmanager
def use_threads(count: int = 0) -> Iterator[int]:
    """Compute with this many threads (0: the default), keep freed memory, give it back at the end; yields the threads.

    >>> import torch
    >>> with use_threads(1) as threads:
    ...     threads, torch.get_num_threads()
    (1, 1)
    """
    import torch

    before = torch.get_num_threads()
    threads = count or default_threads()
    kept = keep_memory() and allow_mmap(False)
    torch.set_num_threads(threads)
    _open_contexts[0] += 1
    try:
        yield threads
    finally:
        _open_contexts[0] -= 1
        torch.set_num_threads(before)
        if kept and not _open_contexts[0]:
            allow_mmap(True)
            ctypes.CDLL(None).malloc_trim(0)


@cache
def keep_memory() -> bool:
    """Have glibc keep what a step frees instead of handing it back to the system; True where that could be set.

    The activations of a step are freed at its end and asked for again by the next one. By default their pages go back and
    forth: ten thousand page faults a step of Kim & Mnih's net at a batch of 64, a tenth of its time and more
    (docs/benchmarks.md). The peak stays what it was. Settings of the user's own (MALLOC_TRIM_THRESHOLD_ and
    its like) are left alone.
    """
    names = ("TRIM_THRESHOLD", "MMAP_THRESHOLD", "MMAP_MAX", "TOP_PAD")
    own = {f"MALLOC_{name}_" for name in names} & set(os.environ)
    if not sys.platform.startswith("linux") or own or "glibc.malloc" in os.environ.get("GLIBC_TUNABLES", ""):
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # musl has none
    return mallopt is not None and bool(mallopt(MMAP_THRESHOLD, 1 << 25) and mallopt(TRIM_THRESHOLD, 2**31 - 1))


def allow_mmap(allowed: bool) -> bool:
    """Whether glibc may map blocks above 32 MB apart, which go back to the system as soon as they are freed.

    While a run computes it may not: at a batch of 1,024 such blocks made 220,000 page faults a step, a fifth to a third of its
    time. The peak is 5 to 20% higher, because what is freed is not always what fits next.
    """
    return bool(ctypes.CDLL(None).mallopt(MMAP_MAX, DEFAULT_MMAP_MAX if allowed else 0))
