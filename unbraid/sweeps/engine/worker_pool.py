"""The pool of local workers: starts worker processes, sends them jobs, and reads their messages."""

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
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import unbraid
from unbraid.core.errors import UnbraidError
from unbraid.runs.building.custom_parts import IMPORTED_MODULES
from unbraid.sweeps.engine.worker import STOPPED_EXIT_CODE
from unbraid.sweeps.planning.plan import Job, Plan, job_request

WORKER_CODE = "from unbraid.sweeps.engine.worker import serve_jobs; serve_jobs()"
STOP_TIMEOUT = 120.0  # seconds for a checkpoint when a worker is stopped
MAX_FAILED_STARTS = 3  # workers that may end before they are ready; more mean that none can start


@dataclass(eq=False)
class Worker:
    """One worker process.

    Args:
        process: the process.
        stderr_file: receives what it prints outside of runs.
        job: the job it is running; None when it is idle.
        ready: whether it has loaded torch.
        gpu: the GPU that it sees; "" for all of them.
        since: when it received its job.
    """

    process: subprocess.Popen[bytes]
    stderr_file: Any
    job: Job | None = None
    ready: bool = False
    gpu: str = ""
    since: float = field(default_factory=time.monotonic)

    def assign(self, job: Job, plan: Plan, max_tries: int) -> None:
        """Send the process a job; see `JobWorker.assign`."""
        self.job, self.since = job, time.monotonic()
        assert self.process.stdin is not None
        with suppress(OSError):  # the process has ended, which `poll` reports
            self.process.stdin.write(json.dumps(job_request(job, plan, max_tries)).encode() + b"\n")
            self.process.stdin.flush()

    def exit_reason(self) -> tuple[str, str]:
        """The kind of failure and the reason, from the exit code."""
        code = self.process.wait()
        if code < 0:
            name = signal.Signals(-code).name
            more = ", perhaps for lack of memory" if name == "SIGKILL" else ""
            return ("killed" if name in ("SIGKILL", "SIGTERM") else "crashed"), f"its process ended by {name}{more}"
        if code == STOPPED_EXIT_CODE:
            return "killed", "another process stopped its process"
        return "crashed", f"its process ended with exit code {code}"


class LocalWorkerPool:
    """Up to `count` worker processes, started when there is work and replaced when they end.

    Args:
        count: maximum number of workers.
        gpus: GPUs to distribute the workers over; of several, each worker sees the one with the fewest workers.
    """

    def __init__(self, count: int, gpus: Sequence[str] = ()):
        self.count, self.gpus = count, gpus if len(gpus) > 1 else ()
        self.alive: list[Worker] = []
        self.messages: queue.Queue[tuple[Worker, dict[str, Any] | None]] = queue.Queue()
        self.failed_starts = 0

    def idle_workers(self, wanted: int) -> list[Worker]:
        """See `WorkerPool.idle_workers`."""
        idle = [w for w in self.alive if w.job is None]
        for _ in range(min(wanted - len(idle), self.count - len(self.alive))):
            self.alive.append(self._start_worker())
        return [w for w in self.alive if w.job is None and w.ready]

    def busy_workers(self) -> list[Worker]:
        """See `WorkerPool.busy_workers`."""
        return [w for w in self.alive if w.job is not None]

    def poll(self, timeout: float) -> tuple[Worker, dict[str, Any] | None] | None:
        """See `WorkerPool.poll`."""
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
        """See `WorkerPool.stop`. Workers that take longer than `STOP_TIMEOUT` are killed; Ctrl-C kills them at once."""
        try:
            for worker in self.alive:
                if worker.process.poll() is None:
                    worker.process.terminate() if worker.job is not None else worker.process.kill()
            deadline = time.monotonic() + STOP_TIMEOUT
            for worker in self.alive:
                worker.process.wait(timeout=max(0.1, deadline - time.monotonic()))
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
        root = str(Path(unbraid.__file__).parents[1])
        libraries = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS")
        gpu = min(self.gpus, key=[w.gpu for w in self.alive].count, default="")
        environment = os.environ | dict.fromkeys(libraries, "1") | ({"CUDA_VISIBLE_DEVICES": gpu} if gpu else {})
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH")]))
        stderr = tempfile.TemporaryFile()  # noqa: SIM115  (closed with the worker)
        process = subprocess.Popen(
            [sys.executable, "-P", "-c", WORKER_CODE, *IMPORTED_MODULES],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
            env=environment,
            start_new_session=True,  # Ctrl-C in a terminal reaches the parent only, which then stops its workers
        )
        worker = Worker(process, stderr, gpu=gpu)
        threading.Thread(target=self._read_messages, args=(worker,), daemon=True).start()
        return worker

    def _read_messages(self, worker: Worker) -> None:
        assert worker.process.stdout is not None
        with suppress(ValueError):  # the process ended in the middle of a line
            for line in worker.process.stdout:
                self.messages.put((worker, json.loads(line)))
        self.messages.put((worker, None))

    def _count_failed_start(self, worker: Worker) -> None:
        self.failed_starts += 1
        if self.failed_starts >= MAX_FAILED_STARTS:
            worker.stderr_file.seek(0)
            lines = worker.stderr_file.read().decode(errors="replace").strip().splitlines()
            raise UnbraidError(f"no worker can start: {lines[-1] if lines else worker.exit_reason()[1]}.")
