"""A warm worker: a process that keeps torch loaded and does one job after another, as told line by line on its input.

It answers on what was its output; all that a run prints goes to that run's own log. When its input ends, whoever
started it is gone: it writes a checkpoint and leaves, and the next command goes on from there.
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
from pathlib import Path
from typing import IO, Any

from unbraid.core.errors import TrainingInterrupted
from unbraid.sweeps.engine.job_results import LOG
from unbraid.sweeps.planning.plan import Job
from unbraid.sweeps.planning.scoring import Scoring

STOPPED_EXIT_CODE = 143  # the exit code of a worker that was asked to stop and left a checkpoint
CHECKPOINT_TIMEOUT = 120.0  # seconds for a checkpoint once there is nobody left to work for


def serve_jobs() -> None:
    """Do the jobs that arrive, until the input ends or a signal asks to stop."""
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w", buffering=1)
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    faulthandler.enable()
    for number in (signal.SIGTERM, signal.SIGINT, *([signal.SIGHUP] if hasattr(signal, "SIGHUP") else [])):
        if signal.getsignal(number) is not signal.SIG_IGN:  # nohup means what it says
            signal.signal(number, _raise_stopped)
    try:
        _process_jobs(answers)
    except (TrainingInterrupted, BrokenPipeError):
        sys.exit(STOPPED_EXIT_CODE)


def _process_jobs(answers: IO[str]) -> None:
    from unbraid.runs.building.custom_parts import import_modules
    from unbraid.sweeps.engine.job_runner import claim_and_run

    _preload_torch()
    import_modules(sys.argv[1:])  # said on the command line of whoever started us
    lines: queue.Queue[str] = queue.Queue()
    threading.Thread(target=_read_stdin, args=(lines,), daemon=True).start()
    print(json.dumps({"ready": os.getpid()}), file=answers)
    while line := lines.get():
        asked = json.loads(line)
        job, folder = Job.from_dict(asked["job"]), Path(asked["folder"])
        score = Scoring.model_validate(asked["score"]) if asked["score"] is not None else None
        outcome = claim_and_run(job, folder, score, asked["most"], redirect_output_to_log)
        print(json.dumps({"outcome": outcome.as_dict() if outcome else None}), file=answers)
        gc.collect()


def _preload_torch() -> None:
    """Load once what every run needs; torch loads a part of itself only with the first optimiser."""
    import torch

    import unbraid.runs.evaluation.auditing
    import unbraid.runs.fitting.training

    unbraid.runs.fitting.training, unbraid.runs.evaluation.auditing  # noqa: B018
    torch.optim.Adam([torch.zeros(1, requires_grad=True)], fused=True)


def _raise_stopped(number: int, frame: Any) -> None:
    raise TrainingInterrupted(f"asked to stop by {signal.Signals(number).name}")


def _read_stdin(lines: queue.Queue[str]) -> None:
    """Hand on each line of the input; at its end stop what is being done, as a signal would."""
    for line in sys.stdin:
        lines.put(line)
    lines.put("")
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(CHECKPOINT_TIMEOUT)
    os._exit(1)


@contextmanager
def redirect_output_to_log(path: Path) -> Iterator[None]:
    """Everything that is printed meanwhile, by whatever library, goes to the run's log."""
    sys.stdout.flush()
    sys.stderr.flush()
    before = os.dup(2)
    try:
        with suppress(OSError):  # a full disk: it is said where the worker itself speaks
            path.mkdir(parents=True, exist_ok=True)
            log = os.open(path / LOG, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
            os.dup2(log, 1)
            os.dup2(log, 2)
            os.close(log)
            print(f"# {time.strftime('%F %T')} on {socket.gethostname()}, process {os.getpid()}", flush=True)
        yield
    finally:
        with suppress(OSError):
            sys.stdout.flush()
            sys.stderr.flush()
        os.dup2(before, 1)
        os.dup2(before, 2)
        os.close(before)
