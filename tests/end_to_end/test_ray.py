"""A sweep on a Ray cluster of two nodes: a worker, the driver and a node are killed, and the end is that of no fault at all."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from tests.ray_cluster import RayCluster, make_plan, running_tasks, runs_with_checkpoint, two_node_cluster, wait_until
from unbraid.core.errors import UnbraidError
from unbraid.runs.folder.file_names import LEDGER_FILE, MODEL_FILE, OUTCOME_FILE, SCORES_FILE
from unbraid.sweeps.clusters.ray_connection import connect_ray
from unbraid.sweeps.clusters.ray_driver import RayWorkerPool
from unbraid.sweeps.display import results_table
from unbraid.sweeps.engine import job_results
from unbraid.sweeps.engine.job_runner import claim_and_run
from unbraid.sweeps.planning.plan import Plan

ray = pytest.importorskip("ray")
COMPARED_FILES = (MODEL_FILE, LEDGER_FILE, SCORES_FILE)


def read_results(plan: Plan) -> dict[str, bytes]:
    """What four runs ended in, to the bit, and the table of them."""
    found = {
        f"{job.name}/{name}": (plan.folder / job.name / name).read_bytes()
        for job in plan.jobs
        for name in COMPARED_FILES
    }
    return {**found, "table": "\n".join(results_table.results_table_lines(plan, 100)).encode()}


@pytest.fixture(scope="module")
def single_process_results(tmp_path_factory) -> dict[str, bytes]:
    """The same runs by this process, one after the other."""
    plan = make_plan(tmp_path_factory.mktemp("alone"))
    assert all(claim_and_run(job, plan.folder, plan.score).done for job in plan.jobs)
    return read_results(plan)


@pytest.fixture(scope="module")
def ray_cluster(tmp_path_factory):
    with two_node_cluster(tmp_path_factory.mktemp("cluster")) as cluster:
        yield cluster


def start_driver(ray_cluster: RayCluster, *arguments: str) -> subprocess.Popen:
    """A process that drives a sweep on the cluster."""
    command = [sys.executable, "-m", *arguments]
    return subprocess.Popen(
        command, env=ray_cluster.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def start_sweep(ray_cluster: RayCluster, folder: Path, *options: str) -> subprocess.Popen:
    """`unbraid sweep --engine ray`."""
    words = [
        str(folder / "sweep.toml"),
        "--out",
        str(folder / "runs"),
        "-q",
        "--engine",
        "ray",
        "--address",
        ray_cluster.address,
        *options,
    ]
    return start_driver(ray_cluster, "unbraid", "sweep", *words)


def running_pids(plan: Plan) -> list[int]:
    """Processes of runs that have a checkpoint and are not done."""
    names = {name for name in runs_with_checkpoint(plan) if not (plan.folder / name / OUTCOME_FILE).is_file()}
    return [pid for pid, name in running_tasks(plan).items() if name in names]


def run_with_fault(ray_cluster: RayCluster, folder: Path, strike: Callable[[int], object]) -> Plan:
    """The runs on the cluster by nodes that do not see our disk, with a fault on the way."""
    plan = make_plan(folder)
    process = start_driver(ray_cluster, "tests.ray_cluster", str(folder), ray_cluster.address)
    wait_until(lambda: running_pids(plan) or process.poll() is not None, 300)
    strike(running_pids(plan)[0])
    out, said = process.communicate(timeout=600)
    assert process.returncode == 0, said
    ends = [line.split()[1:] for line in out.splitlines() if line.startswith("beta_tcvae-s")]
    assert ends == [["done", "1"]] * 4, out  # at the first try, for all that the sweep knows
    return plan


@pytest.mark.slow
def test_a_killed_worker_is_started_anew_from_the_checkpoint(ray_cluster, single_process_results, tmp_path):
    plan = run_with_fault(ray_cluster, tmp_path / "worker", lambda pid: os.kill(pid, signal.SIGKILL))
    assert read_results(plan) == single_process_results
    wait_until(lambda: not running_tasks(plan))
    logs = [(plan.folder / job.name / job_results.LOG).read_text().count("# 20") for job in plan.jobs]
    assert sorted(logs) == [1, 1, 1, 2]  # one run was begun twice, and its log came back too


@pytest.mark.slow
def test_a_killed_driver_loses_nothing_and_the_same_command_goes_on(ray_cluster, single_process_results, tmp_path):
    plan = make_plan(tmp_path / "driver")
    first = start_sweep(ray_cluster, tmp_path / "driver")
    wait_until(lambda: [job for job in plan.jobs if (plan.folder / job.name / OUTCOME_FILE).is_file()], 300)
    first.kill()
    first.communicate()
    done = {job.name: job_results.read_result(plan.folder, job) for job in plan.jobs}
    made = {name: (plan.folder / name / MODEL_FILE).stat().st_mtime_ns for name, o in done.items() if o is not None}
    wait_until(lambda: not running_tasks(plan))  # Ray ends the tasks of a driver that is gone
    second = start_sweep(ray_cluster, tmp_path / "driver")
    said = second.communicate(timeout=600)
    assert second.returncode == 0, said
    assert {name: (plan.folder / name / MODEL_FILE).stat().st_mtime_ns for name in made} == made
    assert read_results(plan) == single_process_results


@pytest.mark.slow
def test_a_run_that_fits_no_node_is_refused_and_the_others_are_done(ray_cluster, tmp_path):
    """Two cores in all, one on each node: Ray would wait for ever for a run of two threads.

    Before the test that adds a wider node, which Ray takes for alive for some time after it was stopped.
    """
    folder = tmp_path / "wide"
    plan = make_plan(folder)
    file = (folder / "sweep.toml").read_text()
    (folder / "sweep.toml").write_text(file.replace("[score]", '[set]\n"budget.threads" = 2\n[score]'))
    refused = start_sweep(ray_cluster, folder)
    _, said = refused.communicate(timeout=300)
    assert refused.returncode == 2, said
    assert "beta_tcvae-s0" in said
    assert "needs 2 cores (budget.threads), and the largest of 2 nodes has 1 cores" in " ".join(said.split())
    assert not list(plan.folder.iterdir())
    one, other = "[[list]]\n'objective.beta' = 2", "[[list]]\n'objective.beta' = 3\n'budget.threads' = 2"
    mixed = file.replace("seeds = 4", "seeds = 1").replace(
        "[score]", f"[set]\n'budget.steps' = 30\n{one}\n{other}\n[score]"
    )
    (folder / "sweep.toml").write_text(mixed)
    process = start_sweep(ray_cluster, folder)
    out, said = process.communicate(timeout=300)
    assert process.returncode == 1, said
    assert "1 of 2 runs done" in out
    assert "refused: no node of the cluster is large enough" in " ".join(out.split())


@pytest.mark.slow
def test_runs_share_a_gpu_and_a_cluster_without_one_is_named(ray_cluster, single_process_results, tmp_path):
    """Ray counts what a node says it has: a GPU of one node, in halves, is room for two runs; no GPU is room for none."""
    plan = make_plan(tmp_path / "shares")
    refused = start_sweep(ray_cluster, tmp_path / "shares", "--gpus", "0.5")
    _, said = refused.communicate(timeout=300)
    assert refused.returncode == 2, said
    assert "no node of the cluster is large enough for a run" in " ".join(said.split())
    assert "0.5 GPUs" in " ".join(said.split())
    ray_cluster.add_node(f"--address={ray_cluster.address}", "--num-gpus=1", "--num-cpus=3")
    try:
        process = start_sweep(ray_cluster, tmp_path / "shares", "--gpus", "0.5")
        most = 0
        while process.poll() is None:
            most = max(most, len(running_tasks(plan)))
            time.sleep(0.05)
        _, said = process.communicate()
        assert process.returncode == 0, said
    finally:
        ray_cluster.kill_node(-1)
    assert most == 2  # of four runs, on a node with three cores
    assert read_results(plan) == single_process_results


@pytest.mark.slow
def test_ctrl_c_leaves_checkpoints_and_nothing_running(ray_cluster, single_process_results, tmp_path):
    plan = make_plan(tmp_path / "stopped")
    process = start_sweep(ray_cluster, tmp_path / "stopped")
    wait_until(lambda: running_pids(plan), 300)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=300)
    assert process.returncode == 130, said
    assert "the same command continues" in said
    wait_until(lambda: not running_tasks(plan))
    assert not list(plan.folder.glob(".ray-*"))
    process = start_sweep(ray_cluster, tmp_path / "stopped")
    _, said = process.communicate(timeout=600)
    assert process.returncode == 0, said
    assert read_results(plan) == single_process_results


@pytest.mark.slow
def test_a_killed_node_loses_nothing(ray_cluster, single_process_results, tmp_path):
    """Last: one node is left."""
    plan = run_with_fault(ray_cluster, tmp_path / "node", lambda pid: ray_cluster.kill_node(1))
    assert read_results(plan) == single_process_results


def test_a_cluster_that_cannot_be_reached_is_named_in_seconds(tmp_path):
    with socket.socket() as taken:  # bound and not listened to: nobody answers
        taken.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        start = time.monotonic()
        with pytest.raises(UnbraidError, match=f"no Ray cluster answers at {address}"):
            RayWorkerPool(Plan(tmp_path, ()), address)
    assert time.monotonic() - start < 20
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("answer", [b"", b"HTTP/1.1 400 Bad Request\r\n\r\n"])
def test_a_listener_that_is_no_ray_cluster_is_named_in_seconds(tmp_path, capfd, answer):
    def serve() -> None:
        link, _ = listener.accept()
        with link, suppress(OSError):
            link.sendall(answer)
            while link.recv(4096):
                pass

    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = f"127.0.0.1:{listener.getsockname()[1]}"
        threading.Thread(target=serve, daemon=True).start()
        start = time.monotonic()
        with pytest.raises(UnbraidError, match=f"the server at {address} is not a Ray cluster"):
            RayWorkerPool(Plan(tmp_path, ()), address)
    assert time.monotonic() - start < 20
    assert capfd.readouterr() == ("", "")  # none of Ray's own lines
    assert not list(tmp_path.iterdir())


def test_a_failed_start_leaves_no_file_of_the_sweep(tmp_path):
    plan = make_plan(tmp_path / "none")
    command = [
        sys.executable,
        "-m",
        "unbraid",
        "sweep",
        str(tmp_path / "none" / "sweep.toml"),
        "--out",
        str(plan.folder),
    ]
    refused = subprocess.run([*command, "--engine", "ray", "--address", "127.0.0.1:1"], capture_output=True, text=True)
    assert refused.returncode == 2, refused.stderr
    assert "no Ray cluster answers" in refused.stderr
    assert not list(plan.folder.iterdir())


@pytest.mark.parametrize(
    ("address", "said"), [("ray://head:10001", "driven from a node of the cluster"), ("head", "reads HOST:PORT")]
)
def test_an_address_that_cannot_be_meant_is_refused(address, said):
    with pytest.raises(UnbraidError, match=said):
        connect_ray(address)


def test_a_missing_extra_gives_the_install_line(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(UnbraidError, match=r"pip install 'unbraid\[cluster\]'"):
        connect_ray()
