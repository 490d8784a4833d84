"""A Ray cluster of two nodes on this machine, for tests and fault campaigns; `ray start` begins it, and its pids end it."""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from unbraid.runs.folder.file_names import CHECKPOINT_FILE
from unbraid.sweeps.planning.plan import Plan, build_plan
from unbraid.sweeps.planning.sweep_file import Sweep

ROOT = Path(__file__).resolve().parents[1]
RECIPE = """data = "sprites32"
latent = 3
nets = {name = "mlp", width = 64}
objective = "beta_tcvae"
budget = {steps = 300, batch = 32, log_every = 100, checkpoint_every = 25, threads = 1, device = "cpu"}
"""
SWEEP = """name = "four"
recipe = "recipe.toml"
seeds = 4
[score]
metrics = ["mig"]
audit = 0
"""
RAY_SETTINGS = {
    "RAY_worker_niceness": "0",
    "RAY_health_check_period_ms": "500",
    "RAY_health_check_failure_threshold": "3",
    "RAY_health_check_initial_delay_ms": "0",
}


@dataclass
class RayCluster:
    """Two nodes: their address, and the processes of `ray start --block`."""

    folder: Path
    address: str
    environment: dict[str, str]
    cores: int
    nodes: list[subprocess.Popen[bytes]] = field(default_factory=list)
    nodes_started: int = 0

    def add_node(self, *options: str) -> None:
        """Start one more node and wait for it."""
        ray = str(Path(sys.executable).with_name("ray"))
        fixed = ["--node-ip-address=127.0.0.1", f"--num-cpus={self.cores}", "--disable-usage-stats", "--block"]
        self.nodes_started += 1
        log = self.folder / f"node{self.nodes_started}.log"
        with open(log, "wb") as log_file:
            command = [ray, "start", *fixed, *(options or [f"--address={self.address}"])]
            self.nodes.append(
                subprocess.Popen(
                    command, env=self.environment, stdout=log_file, stderr=log_file, start_new_session=True
                )
            )
        wait_until(lambda: "Ray runtime started" in log.read_text(), 300)

    def kill_node(self, number: int) -> None:
        """Kill all processes of a node."""
        node = self.nodes.pop(number)
        with suppress(ProcessLookupError):
            os.killpg(node.pid, signal.SIGKILL)
        node.wait()


def make_plan(folder: Path) -> Plan:
    """A plan of four short runs in a folder."""
    folder.mkdir(exist_ok=True)
    (folder / "recipe.toml").write_text(RECIPE)
    (folder / "sweep.toml").write_text(SWEEP)
    return build_plan(Sweep.load(folder / "sweep.toml"), folder / "runs")


@contextmanager
def two_node_cluster(folder: Path, cores: int = 1) -> Iterator[RayCluster]:
    """Start a head and one more node on the loopback interface, with token authentication.

    Args:
        folder: the folder of the cluster.
        cores: cores of each node.
    """
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    port = port if not 10002 <= port <= 19999 else 20500  # Ray's own range for its workers
    own = {
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN": secrets.token_hex(16),
        "HOME": str(folder),
        "OMP_NUM_THREADS": "1",
    }
    env = {**os.environ, **RAY_SETTINGS, **own, "PYTHONPATH": str(ROOT)}
    sockets = Path(tempfile.mkdtemp(prefix="ray-", dir="/tmp"))  # their names may not be long
    two = RayCluster(folder, f"127.0.0.1:{port}", env, cores)
    try:
        two.add_node("--head", f"--port={port}", "--include-dashboard=false", f"--temp-dir={sockets}")
        two.add_node()
        yield two
    finally:
        while two.nodes:
            two.kill_node(-1)
        shutil.rmtree(sockets, ignore_errors=True)


def wait_until(condition: Callable[[], object], timeout: float = 60.0) -> None:
    """Wait until a condition holds.

    Args:
        condition: the condition.
        timeout: the limit in seconds.
    """
    end = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < end, "it did not come"
        time.sleep(0.05)


def running_tasks(sweep_plan: Plan) -> dict[int, str]:
    """Processes that currently work on runs of a plan; Ray names them by their task."""
    names = {f"ray::{job.name}" for job in sweep_plan.jobs}
    found = {}
    for path in Path("/proc").iterdir():
        with suppress(OSError, IndexError):
            title = (path / "cmdline").read_bytes().split(b"\0")[0].decode(errors="replace").strip()
            if path.name.isdigit() and title in names:
                found[int(path.name)] = title.removeprefix("ray::")
    return found


def sweep_without_shared_disk(folder: Path, address: str) -> None:
    """Run the four runs on a cluster whose nodes cannot see this disk.

    Args:
        folder: the folder of the sweep.
        address: the cluster.
    """
    from unbraid.sweeps.clusters.ray_driver import RayWorkerPool
    from unbraid.sweeps.engine.scheduler import run_plan

    wanted = make_plan(folder)
    cluster = RayWorkerPool(wanted, address)
    cluster.token.unlink()
    for name, outcome in run_plan(wanted, cluster).items():
        print(name, outcome.status, outcome.tries, outcome.reason)


def runs_with_checkpoint(sweep_plan: Plan) -> list[str]:
    """Runs of a plan that have a checkpoint."""
    return [job.name for job in sweep_plan.jobs if (sweep_plan.folder / job.name / CHECKPOINT_FILE).is_file()]


if __name__ == "__main__":
    sweep_without_shared_disk(Path(sys.argv[1]), sys.argv[2])
