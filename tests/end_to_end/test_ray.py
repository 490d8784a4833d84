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

from tests.rayed import Two, asked, begun, tasks_of, two_nodes, until
from unbraid.ground.errors import UnbraidError
from unbraid.runs.run import LEDGER, MODEL, OUTCOME, SCORES
from unbraid.sweeps import outcomes, table
from unbraid.sweeps.cluster import Cluster
from unbraid.sweeps.connection import connected
from unbraid.sweeps.plan import Plan
from unbraid.sweeps.task import execute

ray = pytest.importorskip("ray")
SAME = (MODEL, LEDGER, SCORES)


def results(plan: Plan) -> dict[str, bytes]:
    """What four runs ended in, to the bit, and the table of them."""
    found = {f"{job.name}/{name}": (plan.folder / job.name / name).read_bytes() for job in plan.jobs for name in SAME}
    return {**found, "table": "\n".join(table.lines(plan, 100)).encode()}


@pytest.fixture(scope="module")
def alone(tmp_path_factory) -> dict[str, bytes]:
    """The same runs by this process, one after the other."""
    plan = asked(tmp_path_factory.mktemp("alone"))
    assert all(execute(job, plan.folder, plan.score).done for job in plan.jobs)
    return results(plan)


@pytest.fixture(scope="module")
def two(tmp_path_factory):
    with two_nodes(tmp_path_factory.mktemp("cluster")) as cluster:
        yield cluster


def driver(two: Two, *words: str) -> subprocess.Popen:
    """A process that drives a sweep on the cluster."""
    command = [sys.executable, "-m", *words]
    return subprocess.Popen(command, env=two.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def sweep(two: Two, folder: Path, *more: str) -> subprocess.Popen:
    """`unbraid sweep --engine ray`."""
    words = [
        str(folder / "sweep.toml"),
        "--out",
        str(folder / "runs"),
        "-q",
        "--engine",
        "ray",
        "--address",
        two.address,
        *more,
    ]
    return driver(two, "unbraid", "sweep", *words)


def at_work(plan: Plan) -> list[int]:
    """Processes of runs that have a checkpoint and are not done."""
    names = {name for name in begun(plan) if not (plan.folder / name / OUTCOME).is_file()}
    return [pid for pid, name in tasks_of(plan).items() if name in names]


def walked(two: Two, folder: Path, fault: Callable[[int], object]) -> Plan:
    """The runs on the cluster by nodes that do not see our disk, with a fault on the way."""
    plan = asked(folder)
    process = driver(two, "tests.rayed", str(folder), two.address)
    until(lambda: at_work(plan) or process.poll() is not None, 300)
    fault(at_work(plan)[0])
    out, said = process.communicate(timeout=600)
    assert process.returncode == 0, said
    ends = [line.split()[1:] for line in out.splitlines() if line.startswith("beta_tcvae-s")]
    assert ends == [["done", "1"]] * 4, out  # at the first try, for all that the sweep knows
    return plan


@pytest.mark.slow
def test_a_killed_worker_is_started_anew_from_the_checkpoint(two, alone, tmp_path):
    plan = walked(two, tmp_path / "worker", lambda pid: os.kill(pid, signal.SIGKILL))
    assert results(plan) == alone
    until(lambda: not tasks_of(plan))
    logs = [(plan.folder / job.name / outcomes.LOG).read_text().count("# 20") for job in plan.jobs]
    assert sorted(logs) == [1, 1, 1, 2]  # one run was begun twice, and its log came back too


@pytest.mark.slow
def test_a_killed_driver_loses_nothing_and_the_same_command_goes_on(two, alone, tmp_path):
    plan = asked(tmp_path / "driver")
    first = sweep(two, tmp_path / "driver")
    until(lambda: [job for job in plan.jobs if (plan.folder / job.name / OUTCOME).is_file()], 300)
    first.kill()
    first.communicate()
    done = {job.name: outcomes.read(plan.folder, job) for job in plan.jobs}
    made = {name: (plan.folder / name / MODEL).stat().st_mtime_ns for name, o in done.items() if o is not None}
    until(lambda: not tasks_of(plan))  # Ray ends the tasks of a driver that is gone
    second = sweep(two, tmp_path / "driver")
    said = second.communicate(timeout=600)
    assert second.returncode == 0, said
    assert {name: (plan.folder / name / MODEL).stat().st_mtime_ns for name in made} == made
    assert results(plan) == alone


@pytest.mark.slow
def test_a_run_that_fits_no_node_is_refused_and_the_others_are_done(two, tmp_path):
    """Two cores in all, one on each node: Ray would wait for ever for a run of two threads.

    Before the test that adds a wider node, which Ray takes for alive for some time after it was stopped.
    """
    folder = tmp_path / "wide"
    plan = asked(folder)
    file = (folder / "sweep.toml").read_text()
    (folder / "sweep.toml").write_text(file.replace("[score]", '[set]\n"budget.threads" = 2\n[score]'))
    refused = sweep(two, folder)
    _, said = refused.communicate(timeout=300)
    assert refused.returncode == 2, said
    assert "beta_tcvae-s0" in said
    assert "asks for 2 cores (budget.threads), and of 2 nodes the largest has 1 cores" in " ".join(said.split())
    assert not list(plan.folder.iterdir())
    one, other = "[[list]]\n'objective.beta' = 2", "[[list]]\n'objective.beta' = 3\n'budget.threads' = 2"
    mixed = file.replace("seeds = 4", "seeds = 1").replace(
        "[score]", f"[set]\n'budget.steps' = 30\n{one}\n{other}\n[score]"
    )
    (folder / "sweep.toml").write_text(mixed)
    process = sweep(two, folder)
    out, said = process.communicate(timeout=300)
    assert process.returncode == 1, said
    assert "1 of 2 runs done" in out
    assert "refused: no node of the cluster has room for it" in " ".join(out.split())


@pytest.mark.slow
def test_runs_share_a_gpu_and_a_cluster_without_one_is_named(two, alone, tmp_path):
    """Ray counts what a node says it has: a GPU of one node, in halves, is room for two runs; no GPU is room for none."""
    plan = asked(tmp_path / "shares")
    refused = sweep(two, tmp_path / "shares", "--gpus", "0.5")
    _, said = refused.communicate(timeout=300)
    assert refused.returncode == 2, said
    assert "no node of the cluster has room for a run" in " ".join(said.split())
    assert "0.5 GPUs" in " ".join(said.split())
    two.add_node(f"--address={two.address}", "--num-gpus=1", "--num-cpus=3")
    try:
        process = sweep(two, tmp_path / "shares", "--gpus", "0.5")
        most = 0
        while process.poll() is None:
            most = max(most, len(tasks_of(plan)))
            time.sleep(0.05)
        _, said = process.communicate()
        assert process.returncode == 0, said
    finally:
        two.kill_node(-1)
    assert most == 2  # of four runs, on a node with three cores
    assert results(plan) == alone


@pytest.mark.slow
def test_ctrl_c_leaves_checkpoints_and_nothing_running(two, alone, tmp_path):
    plan = asked(tmp_path / "stopped")
    process = sweep(two, tmp_path / "stopped")
    until(lambda: at_work(plan), 300)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=300)
    assert process.returncode == 130, said
    assert "the same command goes on" in said
    until(lambda: not tasks_of(plan))
    assert not list(plan.folder.glob(".ray-*"))
    process = sweep(two, tmp_path / "stopped")
    _, said = process.communicate(timeout=600)
    assert process.returncode == 0, said
    assert results(plan) == alone


@pytest.mark.slow
def test_a_killed_node_loses_nothing(two, alone, tmp_path):
    """Last: one node is left."""
    plan = walked(two, tmp_path / "node", lambda pid: two.kill_node(1))
    assert results(plan) == alone


def test_a_cluster_that_cannot_be_reached_is_named_in_seconds(tmp_path):
    with socket.socket() as taken:  # bound and not listened to: nobody answers
        taken.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        start = time.monotonic()
        with pytest.raises(UnbraidError, match=f"no Ray cluster answers at {address}"):
            Cluster(Plan(tmp_path, ()), address)
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
        with pytest.raises(UnbraidError, match=f"what listens at {address} is no Ray cluster"):
            Cluster(Plan(tmp_path, ()), address)
    assert time.monotonic() - start < 20
    assert capfd.readouterr() == ("", "")  # none of Ray's own lines
    assert not list(tmp_path.iterdir())


def test_a_failed_start_leaves_no_file_of_the_sweep(tmp_path):
    plan = asked(tmp_path / "none")
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
        connected(address)


def test_a_missing_extra_gives_the_install_line(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(UnbraidError, match=r"pip install 'unbraid\[cluster\]'"):
        connected()
