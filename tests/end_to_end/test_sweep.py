"""Sweeps in real processes: workers, parents and shards are killed, duplicated and late; no finished run is lost."""

from __future__ import annotations

import hashlib
import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from unbraid.runs.fitting.training import fit
from unbraid.sweeps.engine.job_claims import is_claimed
from unbraid.sweeps.planning.plan import build_plan
from unbraid.sweeps.planning.sweep_file import Sweep

SWEEP_TOML = """
name = "pin"
recipe = "decomposition_pinwheel"
seeds = {seeds}
[set]
"budget.steps" = {steps}
"budget.checkpoint_every" = 10
"budget.log_every" = 5
"budget.threads" = 1
[grid]
"objective.beta" = {betas}
[score]
metrics = []
audit = 32
"""


def write_sweep(folder: Path, steps: int = 60, seeds: int = 2, betas: str = "[0.5, 1]") -> Path:
    path = folder / "s.toml"
    path.write_text(SWEEP_TOML.format(steps=steps, seeds=seeds, betas=betas))
    return path


def start_sweep(file: Path, out: Path, *options: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "unbraid", "sweep", str(file), "--out", str(out), "--quiet", *map(str, options)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def wait_for_output(process: subprocess.Popen[str], code: int = 0, timeout: float = 300) -> str:
    output, _ = process.communicate(timeout=timeout)
    assert process.returncode == code, output
    return output


def wait_until(condition, timeout: float = 120):
    """Wait until a function returns something, and return it."""
    began = time.monotonic()
    while time.monotonic() - began < timeout:
        if what := condition():
            return what
        time.sleep(0.02)
    raise AssertionError("timeout")


def worker_pid(run: Path) -> int:
    """The process that works on a run, once it has trained for a while."""
    wait_until(lambda: (run / "checkpoint.safetensors").exists())
    return int(re.findall(r"process (\d+)", (run / "log.txt").read_text())[-1])


def planned_jobs(file: Path, out: Path):
    return build_plan(Sweep.load(file), out).jobs


def count_trainings(out: Path) -> dict[str, int]:
    """How often the training of each run was started or continued."""
    return {p.parent.name: p.read_text().count("process ") for p in sorted(out.glob("*/log.txt"))}


def digest(path: Path) -> str:
    """One hash over the weights and the ledger of a run."""
    return hashlib.sha256(b"".join((path / n).read_bytes() for n in ("model.safetensors", "ledger.jsonl"))).hexdigest()


def train_alone(file: Path, out: Path, folder: Path) -> dict[str, str]:
    """The digest of each run when it is trained alone."""
    return {job.name: digest(fit(job.recipe, folder / job.name, quiet=True).path) for job in planned_jobs(file, out)}


@pytest.mark.slow
def test_killed_workers_and_parents_and_two_parents_at_once_end_in_the_bits_of_runs_alone(tmp_path):
    file, out = write_sweep(tmp_path, steps=150, betas="[0.5]"), tmp_path / "out"
    first, second = (out / job.name for job in planned_jobs(file, out))
    parent = start_sweep(file, out, "--workers", 1, "--retries", 1)
    os.kill(worker_pid(first), signal.SIGKILL)  # the worker: its run is tried again, after the other
    orphan = worker_pid(second)
    parent.kill()  # the parent: its worker writes a checkpoint and exits
    parent.communicate()
    killed = json.loads((first / "outcome.json").read_text())
    assert (killed["status"], killed["kind"], killed["tries"]) == ("failed", "killed", 1)
    assert "SIGKILL" in killed["reason"]
    both = [start_sweep(file, out, "--workers", 1) for _ in range(2)]
    for process in both:
        assert "2 of 2 runs done" in wait_for_output(process)
    with pytest.raises(ProcessLookupError):
        os.kill(orphan, 0)
    assert count_trainings(out) == {first.name: 2, second.name: 2}
    assert {p.name: digest(p) for p in (first, second)} == train_alone(file, out, tmp_path / "alone")


def test_ctrl_c_stops_at_a_checkpoint_and_a_failure_is_in_the_exit_code(tmp_path):
    file, out = write_sweep(tmp_path, steps=100_000, seeds=1, betas="[0.5]"), tmp_path / "out"
    [job] = planned_jobs(file, out)
    parent = start_sweep(file, out, "--workers", 1)
    worker_pid(out / job.name)
    os.kill(parent.pid, signal.SIGINT)
    assert "the same command continues" in wait_for_output(parent, 130)
    assert json.loads((out / job.name / "run.json").read_text())["status"] == "stopped"
    assert not (out / job.name / "outcome.json").exists()
    assert not is_claimed(out, job.name)
    bad = write_sweep(tmp_path, steps=3, seeds=1, betas="[0.5]")
    bad.write_text(bad.read_text().replace("[grid]", '"budget.batch" = 401\n[grid]'))
    output = wait_for_output(start_sweep(bad, out), 1)
    assert "0 of 1 runs done" in output
    assert "refused: a batch is drawn without replacement" in output


@pytest.mark.slow
def test_the_twentieth_run_of_a_warm_worker_ends_in_the_bits_of_a_run_alone(tmp_path):
    file, out = write_sweep(tmp_path, steps=25, seeds=20, betas="[0.5]"), tmp_path / "out"
    wait_for_output(start_sweep(file, out, "--workers", 1))
    jobs = planned_jobs(file, out)
    assert len({re.findall(r"process (\d+)", (out / j.name / "log.txt").read_text())[0] for j in jobs}) == 1
    recipe = tmp_path / "last.toml"
    recipe.write_text(jobs[-1].recipe.toml())
    command = [sys.executable, "-m", "unbraid", "train", str(recipe), "--out", str(tmp_path / "alone"), "--quiet"]
    subprocess.run(command, check=True, capture_output=True)
    assert digest(out / jobs[-1].name) == digest(tmp_path / "alone")


@pytest.mark.slow
def test_six_shards_two_killed_at_random_one_late_lose_nothing(tmp_path):
    file, out = write_sweep(tmp_path, steps=150, seeds=6, betas="[0.5, 1]"), tmp_path / "out"
    rng = random.Random(0)
    shards = {i: start_sweep(file, out, "--workers", 1, "--shard", f"{i}/6") for i in range(1, 6)}
    for i in rng.sample(sorted(shards), 2):
        wait_until(lambda: list(out.glob("*/checkpoint.safetensors")))
        time.sleep(rng.uniform(0, 3))
        shards[i].kill()
        shards[i].communicate()
        shards[i] = start_sweep(file, out, "--workers", 1, "--shard", f"{i}/6")  # the scheduler requeues it
    late = start_sweep(file, out, "--workers", 1, "--shard", "6/6")
    overlapping = start_sweep(file, out, "--workers", 1, "--shard", "1/2")
    for process in (*shards.values(), late, overlapping):
        assert "runs done" in wait_for_output(process, timeout=900)
    before = {p: p.stat().st_mtime_ns for p in out.glob("*/model.safetensors")}
    assert len(before) == 12
    output = wait_for_output(start_sweep(file, out))
    assert "12 of 12 runs done" in output
    assert {p: p.stat().st_mtime_ns for p in out.glob("*/model.safetensors")} == before
    whole = wait_for_output(start_sweep(file, tmp_path / "whole"), timeout=900)
    assert whole.replace("whole", "out") == output  # the same table
    assert {j.name: digest(out / j.name) for j in planned_jobs(file, out)} == train_alone(file, out, tmp_path / "alone")


SBATCH_SCRIPT = """#!/usr/bin/env bash
# A fake sbatch: runs all tasks of the array at once, and the dependent job when all have ended. The first task
# receives the signal $STRIKE once it has a checkpoint; tasks that scontrol requeues are started again.
for a in "$@"; do script=$a; done
asks() { grep -q "^#SBATCH $1" "$script"; }
if asks --gpus-per-task= && ! asks --ntasks= && ! asks --gpus=; then
  echo "sbatch: error: --gpus-per-task used without either --gpus or -n/--ntasks is not allowed" >&2; exit 1
fi
asks "--signal=B:USR1@" && asks "--requeue$" && asks "--open-mode=append$" || exit 1
task() {
  export SLURM_ARRAY_JOB_ID=7 SLURM_ARRAY_TASK_ID=$1
  bash "$script" >> "$2" 2>&1 & job=$!
  if [ -n "$3" ]; then
    until compgen -G "$RUNS/*/checkpoint.safetensors" > /dev/null; do sleep 0.05; done
    kill -s "$3" "$job"
  fi
  wait "$job"; echo "ended $?" >> "$2"
  if rm "$FAKE_SLURM/requeued_7_$1" 2>/dev/null; then task "$1" "$2" ""; fi
}
case " $* " in
  *--dependency=afterany:7*) task 1 "$FAKE_SLURM/summary" "" ;;
  *) for i in $(seq "$(sed -n 's/^#SBATCH --array=1-//p' "$script")"); do
       if [ "$i" = 1 ]; then strike=${STRIKE:-}; else strike=; fi
       task "$i" "$FAKE_SLURM/task$i" "$strike" &
     done; wait; echo "7;cluster" ;;
esac
"""
SCONTROL_SCRIPT = '#!/usr/bin/env bash\ntouch "$FAKE_SLURM/${1}d_$2"\n'  # a fake scontrol


def submit(folder: Path, text: str, out: Path, strike: str = "") -> subprocess.CompletedProcess[str]:
    """Submit a script to the fake SLURM; the outputs of the tasks are in the folder."""
    tools = folder / "bin"
    tools.mkdir()
    for name, content in {"sbatch": SBATCH_SCRIPT, "scontrol": SCONTROL_SCRIPT}.items():
        (tools / name).write_text(content)
        (tools / name).chmod(0o755)
    (folder / "job.sh").write_text(text)
    own = {"PATH": f"{tools}:{os.environ['PATH']}", "FAKE_SLURM": str(folder), "RUNS": str(out), "STRIKE": strike}
    return subprocess.run(["bash", folder / "job.sh"], env=os.environ | own, capture_output=True, text=True)


@pytest.mark.slow
def test_the_slurm_script_runs_under_a_fake_scheduler(tmp_path):
    file, out = write_sweep(tmp_path, steps=10, seeds=2), tmp_path / "a b" / "out"
    options = ["--script", "slurm", "--shards", 3, "--time", "00:10:00", "--partition", "short", "--gpus", 1]
    text = wait_for_output(start_sweep(file, out, *options, "--setup", 'echo "set up $SLURM_ARRAY_TASK_ID"'))
    for line in ("--array=1-3", "--time=00:10:00", "--partition=short", "--gpus-per-task=1", "--cpus-per-task=1"):
        assert f"#SBATCH {line}\n" in text
    output = submit(tmp_path, text, out)
    assert output.returncode == 0, output.stderr
    assert "array 7;" in output.stdout
    assert "4 of 4 runs done" in (tmp_path / "summary").read_text()
    assert set(count_trainings(out).values()) == {1}
    assert "2 of 2 runs done" in (tmp_path / "task1").read_text()
    assert "set up 3\n" in (tmp_path / "task3").read_text()


def test_the_fake_scheduler_refuses_gpus_per_task_without_ntasks(tmp_path):
    text = wait_for_output(start_sweep(write_sweep(tmp_path), tmp_path / "out", "--script", "slurm", "--gpus", 1))
    output = submit(tmp_path, text.replace("#SBATCH --ntasks=1\n", ""), tmp_path / "out")
    assert output.returncode == 1
    assert "--gpus-per-task used without" in output.stderr


@pytest.mark.slow
@pytest.mark.parametrize(("signal_sent", "ends"), [("USR1", ["130", "0"]), ("TERM", ["130"])])
def test_a_slurm_task_out_of_time_is_requeued_and_a_cancelled_one_is_not(tmp_path, signal_sent, ends):
    file, out = write_sweep(tmp_path, steps=800, seeds=1, betas="[0.5]"), tmp_path / "out"
    output = submit(
        tmp_path, wait_for_output(start_sweep(file, out, "--script", "slurm", "--shards", 1)), out, signal_sent
    )
    assert output.returncode == 0, output.stderr
    task = (tmp_path / "task1").read_text()
    assert re.findall(r"^ended (\d+)$", task, re.MULTILINE) == ends, task
    assert "the same command continues" in task  # appended to, not overwritten
    assert "1 of 1 runs done" in (tmp_path / "summary").read_text()
    assert set(count_trainings(out).values()) == {2}
    assert {j.name: digest(out / j.name) for j in planned_jobs(file, out)} == train_alone(file, out, tmp_path / "alone")


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can mount a small disk")
def test_a_full_disk_is_a_failure_that_the_same_command_repairs(tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=300k", "none", disk], capture_output=True).returncode:
        pytest.skip("no small disk can be mounted here")
    try:
        file, out = write_sweep(tmp_path, steps=40, seeds=4), disk / "out"
        output = wait_for_output(start_sweep(file, out, "--workers", 1), 1)
        assert "No space left on device" in output
        kept = {p: p.stat().st_mtime_ns for p in out.glob("*/model.safetensors")}
        assert 0 < len(kept) < 8
        subprocess.run(["mount", "-o", "remount,size=50m", disk], check=True)
        assert "8 of 8 runs done" in wait_for_output(start_sweep(file, out, "--workers", 1))
        assert {p: p.stat().st_mtime_ns for p in kept} == kept
        assert {j.name: digest(out / j.name) for j in planned_jobs(file, out)} == train_alone(
            file, out, tmp_path / "alone"
        )
    finally:
        subprocess.run(["umount", disk], check=True)
