"""`unbraid sweep` without workers: cost estimate, status, removal of leftovers, job-array script."""

from __future__ import annotations

import subprocess

import pytest
from typer.testing import CliRunner

from tests.toys import make_app
from unbraid.cli import sweep
from unbraid.core.errors import UnbraidError
from unbraid.sweeps.engine import job_runner
from unbraid.sweeps.planning.plan import build_plan
from unbraid.sweeps.planning.sweep_file import Sweep

SWEEP_TOML = """
name = "pin"
recipe = "decomposition_pinwheel"
seeds = 2
[set]
"budget.steps" = 3
"budget.threads" = 1
[grid]
"objective.beta" = [0.5, 1]
[score]
metrics = []
audit = 16
"""


@pytest.fixture
def invoke(tmp_path, monkeypatch):
    """Invoke `unbraid sweep` in a folder with s.toml."""
    (tmp_path / "s.toml").write_text(SWEEP_TOML)
    monkeypatch.chdir(tmp_path)

    def invoke_sweep(*words, code=0, answer=""):
        found = CliRunner().invoke(
            make_app("sweep", sweep.sweep), ["sweep", *words], input=answer, catch_exceptions=False
        )
        assert found.exit_code == code, found.output
        return found.output

    return invoke_sweep


def test_dry_builds_every_recipe_and_writes_nothing(invoke, tmp_path):
    output = invoke("s.toml", "--dry")
    names = [job.name for job in build_plan(Sweep.load(tmp_path / "s.toml"), tmp_path / "runs" / "pin").jobs]
    assert all(name in output for name in names)
    assert "4 runs in runs/pin, 0 of them done" in output
    assert "kB of disk" in output
    assert "of one core; without scoring" in output
    assert [p.name for p in tmp_path.iterdir()] == ["s.toml"]
    assert invoke("s.toml", "--dry", "--shard", "2/4").count("decomposition-") == 1


def test_dry_names_the_recipes_that_cannot_be_built(invoke, tmp_path):
    (tmp_path / "s.toml").write_text(SWEEP_TOML.replace("[0.5, 1]", '[0.5, "much"]'))
    output = invoke("s.toml", "--dry", code=1)
    assert output.count("cannot be built: decomposition-bmuch-s") == 2
    assert "'beta' of objective 'decomposition'" in output


def test_status_clean_and_the_table_of_a_sweep_that_was_half_done(invoke, tmp_path):
    from unbraid.sweeps.display.results_table import results_table_lines

    with pytest.raises(UnbraidError, match="no directory runs/pin yet"):
        invoke("s.toml", "--status")
    plan = build_plan(Sweep.load(tmp_path / "s.toml"), tmp_path / "runs" / "pin")
    for job in plan.jobs[:3]:
        job_runner.claim_and_run(job, plan.folder, plan.score)
    unfinished = plan.folder / plan.jobs[2].name
    for file in ("outcome.json", "model.safetensors"):
        (unfinished / file).unlink()
    output = invoke("s.toml", "--status")
    assert "2 of 4 runs done" in output
    assert f"1 unfinished: {unfinished.name}" in output
    assert f"1 not started: {plan.jobs[3].name}" in output
    shown = "\n".join(results_table_lines(plan))
    assert "β=0.5" in shown
    assert "elbo" in shown
    assert unfinished.name in invoke("s.toml", "--clean", answer="n\n")
    assert unfinished.is_dir()
    assert "1 removed" in invoke("s.toml", "--clean", "--yes")
    assert not unfinished.exists()
    assert "nothing to clean" in invoke("s.toml", "--clean")


def test_the_script_is_bash_and_its_options_are_plain_words(invoke, tmp_path):
    text = invoke("s.toml", "--script", "slurm", "--shards", "3", "--memory", "8G", "--retries", "2")
    subprocess.run(["bash", "-n"], input=text, text=True, check=True)
    assert "#SBATCH --mem=8G\n" in text
    assert 'part="--shard $SLURM_ARRAY_TASK_ID/3"\n' in text
    assert "--workers 1 --retries 2 $part &\n" in text
    for words, message in [
        (("--script", "pbs"), "unknown batch system 'pbs'"),
        (("--script", "slurm", "--partition", "a\n#SBATCH b"), "partition must be a plain word"),
        (("--script", "slurm", "--time", "4h"), "a time of SLURM reads MINUTES"),
        (("--script", "slurm", "--time", "1:30"), "a task needs some minutes"),
        (("--script", "slurm", "--sbatch", "exclusive"), "one option of sbatch: found 'exclusive'"),
        (("--script", "slurm", "--setup", "a\nb"), "one line of bash"),
        (("--partition", "gpu", "--cpus", "4"), "options require --script: found --partition, --cpus"),
        (("--shard", "3"), "a shard reads I/N: found '3'"),
        (("--dry", "--status"), "exclude each other"),
    ]:
        with pytest.raises(UnbraidError, match=message):
            invoke("s.toml", *words)


def test_the_script_takes_account_qos_any_option_of_sbatch_and_what_to_do_before(invoke):
    more = (
        "--sbatch",
        "--constraint=a100",
        "--sbatch",
        "--exclusive",
        "--setup",
        "module load cuda",
        "--setup",
        "ulimit -c 0",
    )
    text = invoke("s.toml", "--script", "slurm", "--account", "lab", "--qos", "long", "--gpus", "2", *more)
    subprocess.run(["bash", "-n"], input=text, text=True, check=True)
    head, _, tail = text.partition("if [ -n ")
    for line in (
        "account=lab",
        "qos=long",
        "constraint=a100",
        "exclusive",
        "ntasks=1",
        "gpus-per-task=2",
        "open-mode=append",
    ):
        assert f"#SBATCH --{line}\n" in head
    assert tail.index("module load cuda\n") < tail.index("ulimit -c 0\n") < tail.index("unbraid sweep")
