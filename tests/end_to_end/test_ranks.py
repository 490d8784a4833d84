"""Training over several ranks: the ledger and gradients of one process; a lost rank ends the run with a clear error."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from tests.contracts.test_objectives import CASES
from tests.distributed_steps import record_steps, start_torchrun
from tests.toys import toy_data
from unbraid.cli import app
from unbraid.core.errors import UnbraidError
from unbraid.runs.fitting.training import fit
from unbraid.runs.folder.file_names import CHECKPOINT_FILE, LEDGER_FILE, MODEL_FILE
from unbraid.runs.recipe import Recipe
from unbraid.runs.run import Run


def wait_for_exit(process, timeout: float = 120.0) -> tuple[int, str, str]:
    """The exit code and what was output."""
    try:
        out, err = process.communicate(timeout=timeout)
    finally:
        process.terminate()  # torchrun then ends its ranks
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
    return process.returncode, out, err


def relative_distance(found: np.ndarray, expected: np.ndarray) -> float:
    """The relative distance of two vectors."""
    return float(np.linalg.norm(found - expected) / (np.linalg.norm(expected) or 1.0))


@pytest.fixture(scope="module")
def two_rank_arrays(tmp_path_factory) -> dict[str, np.ndarray]:
    """Every objective by two ranks, started once."""
    out = tmp_path_factory.mktemp("ranks") / "arrays.npz"
    code, _, output = wait_for_exit(start_torchrun(2, "tests.distributed_steps", str(out)))
    assert code == 0, output
    with np.load(out) as arrays:
        return dict(arrays)


@pytest.mark.parametrize("case", CASES)
def test_two_ranks_give_ledger_and_gradients_of_one(case, two_rank_arrays):
    alone = record_steps(case)
    assert {key for key in two_rank_arrays if key.startswith(f"{case}|")} == set(alone)
    for key, wanted in alone.items():
        assert relative_distance(two_rank_arrays[key], wanted) < (1e-5 if "|0|" in key else 1e-3), key


def test_a_detached_gather_is_noticed(two_rank_arrays):
    """The rows of the other rank as constants: what the test above must not let pass."""
    alone = record_steps("beta_tcvae")
    for number, least in enumerate((0.01, 0.05, 0.1)):  # more, the further the codes are from each other
        assert (
            relative_distance(
                two_rank_arrays[f"detached beta_tcvae|{number}|model"], alone[f"beta_tcvae|{number}|model"]
            )
            > least
        )


RECIPE = """data = "sprites32"
latent = 4
nets = {name = "mlp", width = 64}
objective = {name = "factor_vae", gamma = 4.0, critic = {width = 32, depth = 2}}
budget = {steps = %d, batch = 12, log_every = 1, checkpoint_every = 50, threads = 1}
"""


def start_training(tmp_path: Path, steps: int, count: int, *options: str) -> subprocess.Popen:
    """`unbraid train` over so many ranks."""
    (tmp_path / "recipe.toml").write_text(RECIPE % steps)
    return start_torchrun(count, "unbraid", "train", str(tmp_path / "recipe.toml"), "-q", *options)


def losses(path: Path) -> np.ndarray:
    return np.array([row["loss"] for row in Run.load(path).ledger()])


def wait_for_checkpoint(path: Path, timeout: float = 60.0) -> None:
    """Wait until a run has a checkpoint."""
    end = time.monotonic() + timeout
    while not (path / CHECKPOINT_FILE).is_file():
        assert time.monotonic() < end, "no checkpoint came"
        time.sleep(0.05)


def rank_pids(process: subprocess.Popen) -> list[int]:
    """The processes that a torchrun started, rank by rank."""
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    found = {}
    for child in map(int, children):
        words = dict(w.split("=", 1) for w in Path(f"/proc/{child}/environ").read_text().split("\0") if "=" in w)
        found[int(words["RANK"])] = child
    return [found[rank] for rank in sorted(found)]


@pytest.mark.slow
@pytest.mark.parametrize("victim", [0, 1])
def test_a_killed_rank_ends_the_run_with_one_error_and_it_resumes(victim, tmp_path):
    steps = 250
    code, _, output = wait_for_exit(start_training(tmp_path, steps, 2, "--out", str(tmp_path / "whole")))
    assert code == 0, output
    process = start_training(tmp_path, steps, 2, "--out", str(tmp_path / "killed"))
    wait_for_checkpoint(tmp_path / "killed")
    os.kill(rank_pids(process)[victim], signal.SIGKILL)
    start = time.monotonic()
    code, _, output = wait_for_exit(process)
    assert code == 1  # torchrun's own
    assert "error: another rank of this run is gone" in output
    assert "--resume --out" in output
    assert "unbraid/" not in output.partition("torch.distributed.elastic")[0], "a traceback of ours"
    assert time.monotonic() - start < 60
    code, _, output = wait_for_exit(start_training(tmp_path, steps, 2, "--resume", "--out", str(tmp_path / "killed")))
    assert code == 0, output
    for name in (LEDGER_FILE, MODEL_FILE):
        assert (tmp_path / "killed" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


@pytest.mark.slow
def test_a_run_resumes_with_more_and_fewer_ranks_and_a_note(tmp_path):
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    code, _, output = wait_for_exit(start_training(tmp_path, 90, 2, "--out", str(parts)))
    assert code == 0, output
    code, _, output = wait_for_exit(start_training(tmp_path, 120, 3, "--resume", "--out", str(parts)))
    assert code == 0, output
    assert "continues on 3 ranks, after 2 ranks" in output
    assert output.count("continues on") == 1  # rank 0 speaks
    code, _, output = wait_for_exit(start_training(tmp_path, 150, 1, "--resume", "--out", str(parts)))
    assert code == 0, output
    assert Run.load(parts).state["moved"] == ["2 ranks → 3 ranks after step 90", "3 ranks → one rank after step 120"]
    assert "ranks" not in Run.load(parts).state
    fit(tmp_path / "recipe.toml", whole, quiet=True)
    np.testing.assert_allclose(losses(parts), losses(whole), rtol=1e-3)


@pytest.mark.slow
def test_ranks_that_share_no_disk_fit_and_resume_many_times_in_one_script(tmp_path):
    code, _, output = wait_for_exit(start_torchrun(2, "tests.distributed_precision", str(tmp_path)))
    assert code == 0, output
    assert Run.load(tmp_path / "disk of rank 0" / "run").state["step"] == 12


@pytest.mark.slow
def test_ctrl_c_stops_all_ranks_with_a_checkpoint(tmp_path):
    process = start_training(tmp_path, 10**6, 2, "--out", str(tmp_path / "run"))
    wait_for_checkpoint(tmp_path / "run")
    children = rank_pids(process)
    process.send_signal(signal.SIGINT)
    _, _, output = wait_for_exit(process)
    assert output.count("continue with: unbraid train --resume") == 1
    assert Run.load(tmp_path / "run").state["status"] == "stopped"
    assert not [child for child in children if Path(f"/proc/{child}").exists()]


@pytest.mark.parametrize(
    ("recipe", "output"),
    [
        ({"budget": {"batch": 9}}, "an equal part of the batch: found budget.batch 9, 2 ranks"),
        ({"nets": {"name": "mlp", "norm": "batch"}}, "nets cannot be trained over several ranks"),
        ({"objective": "info_gan", "nets": "info_gan_small"}, "a GAN cannot be trained over several ranks"),
        ({"budget": {"device": "cuda"}}, "device 'cuda' cannot be used here"),
    ],
)
def test_what_ranks_do_not_support_is_refused_before_any_work(recipe, output, tmp_path, monkeypatch):
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "here")
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setenv("RANK", "0")
    asked = {"data": "toy", "latent": 2, "nets": "mlp", **recipe}
    with pytest.raises(UnbraidError, match=re.escape(output)):
        fit(Recipe(**asked), tmp_path / "run", quiet=True, dataset=toy_data())
    assert not (tmp_path / "run").exists()


def test_other_commands_are_not_for_torchrun(monkeypatch):
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "here")
    monkeypatch.setenv("WORLD_SIZE", "2")
    ended = CliRunner().invoke(app, ["sweep", "sweep.toml"])
    assert "torchrun starts only the command train" in str(ended.exception)
