"""The machine a run computes on: how many threads it takes, and memory that is kept between steps."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

MMAP_THRESHOLD, TRIM_THRESHOLD = -3, -1  # glibc's names, mallopt(3)


def cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def default_threads() -> int:
    """As many as there are cores this process may use (fewer if OMP_NUM_THREADS says so), four at most: more do not pay."""
    said = os.environ.get("OMP_NUM_THREADS", "").split(",")[0].strip()
    return max(1, min(4, cores(), int(said) if said.isdecimal() and int(said) else cores()))


@contextmanager
def computing(asked: int = 0) -> Iterator[int]:
    """Compute with this many threads (0: the default), keep freed memory, give it back at the end; yields the threads.

    >>> import torch
    >>> with computing(1) as threads:
    ...     threads, torch.get_num_threads()
    (1, 1)
    """
    import torch

    before = torch.get_num_threads()
    threads = asked or default_threads()
    kept = keep_memory()
    torch.set_num_threads(threads)
    try:
        yield threads
    finally:
        torch.set_num_threads(before)
        if kept:
            ctypes.CDLL(None).malloc_trim(0)


@cache
def keep_memory() -> bool:
    """Have glibc keep what a step frees instead of handing it back to the system; True where that could be set.

    The activations of a step are freed at its end and asked for again by the next one. By default their pages go back and
    forth: ten thousand page faults a step of Kim & Mnih's net at a batch of 64, a tenth of its time and more
    (docs/benchmarks.md). The peak stays what it was. Settings of the user's own (MALLOC_TRIM_THRESHOLD_ and
    its like) are left alone.
    """
    own = {"MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "MALLOC_TOP_PAD_"} & set(os.environ)
    if not sys.platform.startswith("linux") or own or "glibc.malloc" in os.environ.get("GLIBC_TUNABLES", ""):
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # musl has none
    return mallopt is not None and bool(mallopt(MMAP_THRESHOLD, 1 << 25) and mallopt(TRIM_THRESHOLD, 2**31 - 1))
