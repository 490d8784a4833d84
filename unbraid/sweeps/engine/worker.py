"""A local worker: a process that keeps torch loaded and runs the jobs it reads from its standard input, one per line.

It answers on its standard output; everything that a run prints goes to the log of that run. When the input ends, the
parent process has ended: the worker writes a checkpoint and exits, and the next command continues from there.
"""

from __future__ import annotations

import faulthandler
import gc
import json
import os
import queue
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import IO, Any

from unbraid.core.errors import TrainingInterrupted, UnbraidError
from unbraid.core.files import open_for_writing
from unbraid.core.signals import TERMINATION_SIGNALS
from unbraid.sweeps.engine.job_results import LOG
from unbraid.sweeps.planning.plan import parse_job_request

STOPPED_EXIT_CODE = 143  # of a worker that received a signal and wrote a checkpoint
CHECKPOINT_TIMEOUT = 120.0  # seconds for the checkpoint after the parent has ended


def serve_jobs() -> None:
    """Run the jobs that arrive until the input ends or a signal arrives."""
    output = os.fdopen(os.dup(sys.stdout.fileno()), "w", buffering=1)
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    faulthandler.enable()
    for number in (signal.SIGINT, *TERMINATION_SIGNALS):
        if signal.getsignal(number) is not signal.SIG_IGN:  # nohup ignores SIGHUP on purpose
            signal.signal(number, _raise_stopped)
    try:
        _process_jobs(output)
    except (TrainingInterrupted, BrokenPipeError):
        sys.exit(STOPPED_EXIT_CODE)


def _process_jobs(output: IO[str]) -> None:
    from unbraid.core.errors import use_command_line_words
    from unbraid.runs.building.custom_parts import import_modules
    from unbraid.sweeps.engine.job_runner import claim_and_run

    _preload_torch()
    use_command_line_words(True)  # runs of a sweep are continued with commands
    import_modules(sys.argv[1:])  # the --import options of the parent
    lines: queue.Queue[str] = queue.Queue()
    threading.Thread(target=_read_stdin, args=(lines,), daemon=True).start()
    print(json.dumps({"ready": os.getpid()}), file=output)
    while line := lines.get():
        result = claim_and_run(*parse_job_request(json.loads(line)), redirect_output_to_log)
        print(json.dumps({"outcome": asdict(result) if result else None}), file=output)
        gc.collect()


def _preload_torch() -> None:
    """Import once what every run needs; torch imports a part of itself only with the first optimiser."""
    import torch

    import unbraid.runs.evaluation.auditing
    import unbraid.runs.fitting.training

    unbraid.runs.fitting.training, unbraid.runs.evaluation.auditing  # noqa: B018
    torch.optim.Adam([torch.zeros(1, requires_grad=True)], fused=True)


def _raise_stopped(number: int, frame: Any) -> None:
    raise TrainingInterrupted(f"stopped by {signal.Signals(number).name}")


def _read_stdin(lines: queue.Queue[str]) -> None:
    """Queue each line of the input; at its end stop the process as a signal would."""
    for line in sys.stdin:
        lines.put(line)
    lines.put("")
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(CHECKPOINT_TIMEOUT)
    os._exit(1)


@contextmanager
def redirect_output_to_log(path: Path) -> Iterator[None]:
    """Redirect everything that is printed, by any library, to the log of a run.

    Args:
        path: the run directory.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    stderr = os.dup(2)
    try:
        with suppress(OSError, UnbraidError):  # a full disk, or a link: the worker's own stderr receives the output
            path.mkdir(parents=True, exist_ok=True)
            with open_for_writing(path / LOG, append=True) as log:
                os.dup2(log.fileno(), 1)
                os.dup2(log.fileno(), 2)
            print(f"# {time.strftime('%F %T')} on {socket.gethostname()}, process {os.getpid()}", flush=True)
        yield
    finally:
        with suppress(OSError):
            sys.stdout.flush()
            sys.stderr.flush()
        os.dup2(stderr, 1)
        os.dup2(stderr, 2)
        os.close(stderr)
