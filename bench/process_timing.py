"""Time functions in separate processes, in alternation, so that the memory of one does not affect another."""

from __future__ import annotations

import importlib
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

Child = subprocess.Popen[str]


@dataclass(frozen=True)
class TimedFunction:
    """A function that returns what is timed.

    Args:
        target: `module:name` of the function.
        options: its arguments.
        threads: the number of threads of its process.
        warmup: calls before the first that is timed.
    """

    target: str
    options: tuple[str, ...] = ()
    threads: int = 1
    warmup: int = 3


def serve(target: str, options: tuple[str, ...], threads: int, warmup: int = 3) -> None:
    """Time a function in this process: for each line "k" of standard input, repeat it k times and print CPU seconds, wall seconds
    and peak MB.

    Args:
        target: `module:name` of the function.
        options: its arguments.
        threads: the number of threads.
        warmup: calls before the first that is timed.
    """
    import torch

    torch.set_num_threads(threads)
    module, _, name = target.partition(":")
    run = getattr(importlib.import_module(module), name)(*options)
    for _ in range(warmup):
        run()
    print("ready", flush=True)
    for line in sys.stdin:
        cpu, wall = time.process_time(), time.perf_counter()
        for _ in range(int(line)):
            run()
        cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
        print(cpu, wall, peak_memory_mb(), flush=True)


def peak_memory_mb() -> float:
    """Peak resident memory of this process in MB (Linux); `ru_maxrss` would include that of the parent process."""
    with open("/proc/self/status") as f:
        return next(int(line.split()[1]) / 1e3 for line in f if line.startswith("VmHWM"))


@contextmanager
def start_process(function: TimedFunction) -> Iterator[Child]:
    """Start the process of a timed function and wait until it is warm."""
    what = (function.target, function.options, function.threads, function.warmup)
    child = subprocess.Popen(
        [sys.executable, "-c", f"from bench.process_timing import serve; serve{what!r}"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"OMP_NUM_THREADS": str(function.threads)},
    )
    try:
        if read_reply(child) != ["ready"]:
            raise RuntimeError(f"{function} did not start")
        yield child
    finally:
        child.kill()
        child.communicate()


def request_repeats(child: Child, repeats: int) -> None:
    """Ask a process for repeats of its function.

    Args:
        child: the process.
        repeats: how many.
    """
    assert child.stdin is not None
    child.stdin.write(f"{repeats}\n")
    child.stdin.flush()


def read_reply(child: Child) -> list[str]:
    """Read the reply of a process, split into numbers."""
    assert child.stdout is not None
    return child.stdout.readline().split()


def time_processes(functions: dict[str, TimedFunction], rounds: int, repeats: int, starts: int = 3) -> dict[str, float]:
    """Median CPU seconds of one repeat of each function, in alternation.

    Args:
        functions: the functions by name.
        rounds: the number of alternations.
        repeats: repeats in each.
        starts: how often processes are restarted, because memory addresses affect times.
    """
    found: dict[str, list[float]] = {name: [] for name in functions}
    for _ in range(starts):
        with ExitStack() as stack:
            children = {name: stack.enter_context(start_process(c)) for name, c in functions.items()}
            for _ in range(rounds):
                for name, child in children.items():
                    request_repeats(child, repeats)
                    found[name].append(float(read_reply(child)[0]) / repeats)
    return {name: statistics.median(times) for name, times in found.items()}


def parallel_throughput(functions: list[TimedFunction], repeats: int) -> float:
    """Repeats per second of several functions that run at the same time, in total.

    Args:
        functions: the functions.
        repeats: repeats of each.
    """
    with ExitStack() as stack:
        children = [stack.enter_context(start_process(c)) for c in functions]
        for child in children:
            request_repeats(child, repeats)
        return sum(repeats / float(read_reply(child)[1]) for child in children)
