"""The parent's side of warm workers: start them, give them jobs, hear their answers and their deaths."""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import unbraid
from unbraid.core.errors import UnbraidError
from unbraid.runs.building.custom_parts import IMPORTED_MODULES
from unbraid.sweeps.engine.worker import STOPPED_EXIT_CODE
from unbraid.sweeps.planning.plan import Job, Plan

WORKER_CODE = "from unbraid.sweeps.engine.worker import serve_jobs; serve_jobs()"
STOP_TIMEOUT = 120.0  # seconds a worker has to write its checkpoint when it is asked to stop
MAX_FAILED_STARTS = 3  # workers that may die before they are ready; then something is wrong with the machine


@dataclass(eq=False)
class Worker:
    """One process, the job it has (None: idle), and whether it ever said it was ready."""

    process: subprocess.Popen[bytes]
    stderr_file: Any  # a file with what it prints outside of runs
    job: Job | None = None
    ready: bool = False
    gpu: str = ""  # the GPU it sees; all of them unless there are several
    since: float = field(default_factory=time.monotonic)

    def assign(self, job: Job, plan: Plan, max_tries: int) -> None:
        """Hand it a job; a pipe that is broken is noticed as its death."""
        self.job, self.since = job, time.monotonic()
        score = plan.score.model_dump() if plan.score is not None else None
        asked = {"job": job.as_dict(), "folder": str(plan.folder.resolve()), "score": score, "most": max_tries}
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(json.dumps(asked).encode() + b"\n")
            self.process.stdin.flush()
        except OSError:
            pass

    def exit_reason(self) -> tuple[str, str]:
        """How a dead worker ended: kind and reason."""
        code = self.process.wait()
        if code < 0:
            name = signal.Signals(-code).name
            more = ", perhaps for want of memory" if name == "SIGKILL" else ""
            return ("killed" if name in ("SIGKILL", "SIGTERM") else "crashed"), f"its process ended by {name}{more}"
        if code == STOPPED_EXIT_CODE:
            return "killed", "its process was asked to stop from outside"
        return "crashed", f"its process ended with exit code {code}"


class LocalWorkerPool:
    """Up to `count` warm processes, started when there is work and replaced when they die.

    Where there are several `cards` (GPUs) each worker sees the one that the fewest others have.
    """

    def __init__(self, count: int, gpus: Sequence[str] = ()):
        self.count, self.gpus = count, gpus if len(gpus) > 1 else ()
        self.alive: list[Worker] = []
        self.messages: queue.Queue[tuple[Worker, dict[str, Any] | None]] = queue.Queue()
        self.failed_starts = 0

    def idle_workers(self, wanted: int) -> list[Worker]:
        """Workers that can take a job, after starting as many as `wanted` jobs can use."""
        free = [w for w in self.alive if w.job is None]
        for _ in range(min(wanted - len(free), self.count - len(self.alive))):
            self.alive.append(self._start_worker())
        return [w for w in self.alive if w.job is None and w.ready]

    def busy_workers(self) -> list[Worker]:
        """Workers with a job."""
        return [w for w in self.alive if w.job is not None]

    def poll(self, timeout: float) -> tuple[Worker, dict[str, Any] | None] | None:
        """The next answer of a worker, or (worker, None) at its death; None when nothing is said for some seconds."""
        try:
            worker, message = self.messages.get(timeout=timeout)
        except queue.Empty:
            return None
        if message is not None and "ready" in message:
            worker.ready, self.failed_starts = True, 0
        elif message is None and worker in self.alive:
            self.alive.remove(worker)
            if not worker.ready:
                self._count_failed_start(worker)
        return worker, message

    def stop(self) -> None:
        """Ask all to leave a checkpoint and go; those that do not are killed. Ctrl-C meanwhile kills at once."""
        try:
            for worker in self.alive:
                if worker.process.poll() is None:
                    worker.process.terminate() if worker.job is not None else worker.process.kill()
            until = time.monotonic() + STOP_TIMEOUT
            for worker in self.alive:
                worker.process.wait(timeout=max(0.1, until - time.monotonic()))
        except (subprocess.TimeoutExpired, KeyboardInterrupt):
            pass
        finally:
            for worker in self.alive:
                worker.process.kill()
                worker.process.wait()
                for stream in (worker.process.stdin, worker.process.stdout, worker.stderr_file):
                    stream.close()  # type: ignore[union-attr]
            self.alive = []

    def _start_worker(self) -> Worker:
        home = str(Path(unbraid.__file__).parents[1])
        one = dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS"), "1")
        path = os.pathsep.join([home, *filter(None, [os.environ.get("PYTHONPATH")])])
        card = min(self.gpus, key=[w.gpu for w in self.alive].count, default="")
        sees = {"CUDA_VISIBLE_DEVICES": card} if card else {}
        said = tempfile.TemporaryFile()  # noqa: SIM115  (closed with the worker)
        process = subprocess.Popen(
            [sys.executable, "-P", "-c", WORKER_CODE, *IMPORTED_MODULES],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=said,
            env=os.environ | one | sees | {"PYTHONPATH": path},
            start_new_session=True,  # Ctrl-C on a terminal is for the parent, which then asks its workers in turn
        )
        worker = Worker(process, said, gpu=card)
        threading.Thread(target=self._read_messages, args=(worker,), daemon=True).start()
        return worker

    def _read_messages(self, worker: Worker) -> None:
        assert worker.process.stdout is not None
        try:
            for line in worker.process.stdout:
                self.messages.put((worker, json.loads(line)))
        except ValueError:
            pass  # a line cut off by its death
        self.messages.put((worker, None))

    def _count_failed_start(self, worker: Worker) -> None:
        self.failed_starts += 1
        if self.failed_starts >= MAX_FAILED_STARTS:
            worker.stderr_file.seek(0)
            lines = worker.stderr_file.read().decode(errors="replace").strip().splitlines()
            raise UnbraidError(f"no worker comes to life: {lines[-1] if lines else worker.exit_reason()[1]}.")
