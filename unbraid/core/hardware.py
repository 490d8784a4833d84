"""Cores, GPUs, the number of threads, and memory that glibc keeps between training steps."""

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
from pathlib import Path

MMAP_THRESHOLD, TRIM_THRESHOLD, MMAP_MAX = -3, -1, -4  # parameters of mallopt(3)
DEFAULT_MMAP_MAX = 65_536  # glibc's default number of blocks in memory maps of their own
_open_contexts = [0]  # how many `use_threads` contexts are open, nested


def cpu_count() -> int:
    """The number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def visible_gpus() -> list[str]:
    """The NVIDIA GPUs that this process may use, as CUDA_VISIBLE_DEVICES names them, without importing torch.

    They come from CUDA_VISIBLE_DEVICES if it is set, else from `nvidia-smi`. The list is empty where a GPU is
    partitioned (MIG).
    """
    if (visible := os.environ.get("CUDA_VISIBLE_DEVICES")) is not None:
        return [name.strip() for name in visible.split(",") if name.strip() not in ("", "-1", "NoDevFiles")]
    tool = shutil.which("nvidia-smi")
    try:
        listed = subprocess.run([tool, "-L"], capture_output=True, text=True, timeout=30).stdout if tool else ""
    except (OSError, subprocess.SubprocessError):
        return []
    return [] if "MIG-" in listed else re.findall(r"^GPU \d+: .*\(UUID: (GPU-[^)]+)\)", listed, re.MULTILINE)


def default_threads() -> int:
    """The number of usable cores, bounded by OMP_NUM_THREADS and by four: more threads do not make a step faster."""
    limit = os.environ.get("OMP_NUM_THREADS", "").split(",")[0].strip()
    return max(1, min(4, cpu_count(), int(limit) if limit.isdecimal() and int(limit) else cpu_count()))


@cache
def mkl_is_slow() -> bool:
    """Whether torch multiplies float32 matrices by MKL on an AMD processor with AVX-512, which MKL uses on Intel's alone.

    oneDNN, which torch has for convolutions, takes half of MKL's time there.
    """
    import torch

    flags = Path("/proc/cpuinfo")
    known = flags.read_text(errors="replace") if flags.is_file() else ""
    amd = re.search(r"^vendor_id\s*: AuthenticAMD$", known, re.MULTILINE) and re.search(r"\bavx512f\b", known)
    return bool(amd) and torch.backends.mkl.is_available() and torch.backends.mkldnn.is_available()


@contextmanager
def use_threads(count: int = 0) -> Iterator[int]:
    """Set the number of threads and keep freed memory until the block ends; yield the number of threads.

    Args:
        count: the number of threads; 0 takes `default_threads`.

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
    """Make glibc keep freed memory instead of returning it to the system; True where that could be set.

    A step frees its activations and the next step allocates them again. By default the pages are returned and fetched
    each time: ten thousand page faults in a step of Kim & Mnih's net with batch 64, a tenth of its time or more
    (docs/benchmarks.md). Peak memory is the same. Settings of the user (MALLOC_TRIM_THRESHOLD_ and the like) are
    respected.
    """
    names = ("TRIM_THRESHOLD", "MMAP_THRESHOLD", "MMAP_MAX", "TOP_PAD")
    own = {f"MALLOC_{name}_" for name in names} & set(os.environ)
    if not sys.platform.startswith("linux") or own or "glibc.malloc" in os.environ.get("GLIBC_TUNABLES", ""):
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # absent in musl
    return mallopt is not None and bool(mallopt(MMAP_THRESHOLD, 1 << 25) and mallopt(TRIM_THRESHOLD, 2**31 - 1))


def allow_mmap(allowed: bool) -> bool:
    """Allow or forbid memory maps of their own for blocks above 32 MB, which glibc returns as soon as they are freed.

    Training forbids them: with batch 1,024 they cost 220,000 page faults per step, a fifth to a third of its time. The
    peak is 5 to 20% higher, because a freed block does not always fit the next request.

    Args:
        allowed: whether glibc may map such blocks.
    """
    return bool(ctypes.CDLL(None).mallopt(MMAP_MAX, DEFAULT_MMAP_MAX if allowed else 0))
