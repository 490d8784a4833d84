"""A killed run resumes to the same bits: model, optimisers, schedules, randomness, batches, running statistics."""

from __future__ import annotations

import hashlib
import multiprocessing
import os
import random
import signal
import time
from pathlib import Path

import pytest
import torch

from tests.toys import toy_data
from unbraid.core.errors import UnbraidError
from unbraid.runs.fitting.training import TrainingInterrupted, fit
from unbraid.runs.folder.file_names import BACKUP_FOLDER, CHECKPOINT_FILE, LEDGER_FILE, MODEL_FILE
from unbraid.runs.recipe import Recipe
from unbraid.runs.run import Run

PROCESS_CONTEXT = multiprocessing.get_context("forkserver")
PROCESS_CONTEXT.set_forkserver_preload(
    ["unbraid.runs.fitting.training", "tests.toys"]
)  # children start fast, with torch already loaded
STEPS = 60
TIMEOUT = 600  # seconds of one training on a very busy machine
OBJECTIVES = {
    "vae": {"name": "beta_vae", "beta": {"schedule": "linear", "start": 0, "stop": 2, "steps": 40}},
    "factor_vae": {"name": "factor_vae", "gamma": 5, "critic": {"width": 16, "depth": 2, "steps": 2}},
    "dip_vae": {"name": "dip_vae_ii", "rho": 0.3},
    "hfvae": {"name": "hfvae"},
}


def recipe(name: str, threads: int = 1, steps: int = STEPS) -> Recipe:
    latent = {"s": 3, "c": "onehot(3)"} if name == "hfvae" else 3  # not in alphabetical order
    return Recipe(
        name=name,
        data="toy",
        latent=latent,
        nets="small32",
        objective=OBJECTIVES[name],
        posterior={"temperature": {"schedule": "geometric", "start": 1.0, "stop": 0.5, "steps": 50}},
        budget={"steps": steps, "batch": 16, "checkpoint_every": 3, "log_every": 5, "threads": threads},
    )


class DieAfterStep:
    """A callback that kills its process abruptly (SIGPROF without a handler) at a moment of the steps after a given one.

    The moment counts processor time and the length of a step here: how busy the machine is decides nothing.
    """

    def __init__(self, step: int, delay: float):
        self.step, self.delay = step, delay

    def stepped(self, step, row):
        if step == self.step:
            signal.setitimer(signal.ITIMER_PROF, self.delay * time.process_time() / step)


def train(name: str, threads: int, path: str, die_in_write: int = 0, callbacks=()) -> None:
    """What a child does; `die_in_write` kills it inside that many-th fsync, with the new checkpoint half on disk."""
    if die_in_write:
        left, sync = [die_in_write], os.fsync

        def fsync(handle: int) -> None:
            left[0] -= 1
            if left[0] == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            sync(handle)

        os.fsync = fsync
    fit(recipe(name, threads), path, resume=True, quiet=True, dataset=toy_data(), callbacks=callbacks)


def start_training(*arguments) -> multiprocessing.Process:
    process = PROCESS_CONTEXT.Process(target=train, args=arguments)
    process.start()
    return process


def digest(path: Path) -> str:
    """One hash over everything a run ends in."""
    return hashlib.sha256(
        b"".join((path / name).read_bytes() for name in (MODEL_FILE, CHECKPOINT_FILE, LEDGER_FILE))
    ).hexdigest()


def train_with_kills(name: str, threads: int, kills: int, folder: Path) -> tuple[str, set[str], int]:
    whole = folder / "whole"
    process = start_training(name, threads, str(whole))
    process.join(TIMEOUT)
    assert process.exitcode == 0
    rng, landed, ends = random.Random(0), 0, set()
    for kill in range(kills):
        path = folder / f"run{kill}"
        in_write = rng.randint(6, 60) if kill % 4 == 0 else 0
        callbacks = () if in_write else (DieAfterStep(rng.randint(1, STEPS - 5), rng.uniform(0.01, 2)),)
        process = start_training(name, threads, str(path), in_write, callbacks)
        process.join(TIMEOUT)
        landed += process.exitcode in (-signal.SIGKILL, -signal.SIGPROF)
        process = start_training(name, threads, str(path))
        process.join(TIMEOUT)
        assert process.exitcode == 0
        ends.add(digest(path))
    return digest(whole), ends, landed


@pytest.mark.parametrize("name", OBJECTIVES)
def test_killed_runs_end_in_the_same_bits(name, tmp_path):
    whole, ends, landed = train_with_kills(name, 1, 3, tmp_path)
    assert ends == {whole}
    assert landed >= 1


@pytest.mark.slow
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("name", OBJECTIVES)
def test_twenty_kills_end_in_the_same_bits(name, threads, tmp_path):
    whole, ends, landed = train_with_kills(name, threads, 20, tmp_path)
    assert ends == {whole}
    assert landed >= 10


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_writes_a_checkpoint_and_the_run_resumes(signum, tmp_path, monkeypatch):
    import unbraid.runs.fitting.trainer as module

    whole = fit(recipe("vae"), tmp_path / "whole", quiet=True, dataset=toy_data())
    inner = module.step

    def step(trainer, number, also=()):
        if number == 7:
            os.kill(os.getpid(), signum)
        return inner(trainer, number, also)

    monkeypatch.setattr(module, "step", step)
    with pytest.raises(TrainingInterrupted, match="after step 8 of 60.*resume=True"):
        fit(recipe("vae"), tmp_path / "cut", quiet=True, dataset=toy_data())
    assert Run.load(tmp_path / "cut").state["status"] == "stopped"
    monkeypatch.setattr(module, "step", inner)
    again = fit(recipe("vae"), tmp_path / "cut", resume=True, quiet=True, dataset=toy_data())
    assert digest(again.path) == digest(whole.path)


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_in_the_last_step_finishes_and_then_stops(signum, tmp_path, monkeypatch):
    import unbraid.runs.fitting.trainer as module

    inner, begun = module.step, []

    def step(trainer, number, also=()):
        if number == 3:
            os.kill(os.getpid(), signum)
        return inner(trainer, number, also)

    monkeypatch.setattr(module, "step", step)
    with pytest.raises(TrainingInterrupted, match="all 4 steps were done"):
        for seed in (0, 1):
            begun.append(seed)
            fit(recipe("vae", steps=4).set(f"seed={seed}"), tmp_path / f"{seed}", quiet=True, dataset=toy_data())
    assert begun == [0]
    assert Run.load(tmp_path / "0").state["status"] == "done"


@pytest.mark.parametrize("signum", [signal.SIGHUP, signal.SIGINT])
def test_an_ignored_signal_stays_ignored(signum, tmp_path, monkeypatch):
    import unbraid.runs.fitting.trainer as module

    inner, seen = module.step, []

    def step(trainer, number, also=()):
        os.kill(os.getpid(), signum)
        seen.append(number)
        return inner(trainer, number, also)

    monkeypatch.setattr(module, "step", step)
    before = signal.signal(signum, signal.SIG_IGN)  # as nohup does
    try:
        run = fit(recipe("vae", steps=3), tmp_path / "r", quiet=True, dataset=toy_data())
        assert signal.getsignal(signum) is signal.SIG_IGN
    finally:
        signal.signal(signum, before)
    assert seen == [0, 1, 2]
    assert run.state["status"] == "done"


def test_more_steps_continue_to_the_same_bits(tmp_path):
    fit(recipe("vae", steps=4), tmp_path / "r", quiet=True, dataset=toy_data())
    longer = fit(recipe("vae", steps=9), tmp_path / "r", resume=True, quiet=True, dataset=toy_data())
    assert [row["step"] for row in longer.ledger()] == [0, 3, 5, 8]
    whole = fit(recipe("vae", steps=9), tmp_path / "w", quiet=True, dataset=toy_data())
    for name, tensor in whole.model.state_dict().items():
        assert torch.equal(tensor, longer.model.state_dict()[name]), name


def test_a_signal_while_a_checkpoint_is_written_leaves_the_status_stopped(tmp_path, monkeypatch):
    from unbraid.runs.folder import run_writer

    inner = run_writer.save_checkpoint

    def save(path, trainer, done):
        inner(path, trainer, done)
        if done == 3:
            os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr(run_writer, "save_checkpoint", save)
    with pytest.raises(TrainingInterrupted, match="after step 3 of 60"):  # no step more than was asked for
        fit(recipe("vae"), tmp_path / "cut", quiet=True, dataset=toy_data())
    assert Run.load(tmp_path / "cut").state["status"] == "stopped"


def test_moments_are_restored_in_each_parameters_own_layout(tmp_path):
    """Fused Adam reads memory in order: a channels-last weight needs channels-last moments."""
    from unbraid.runs.folder import checkpoint

    torch.set_default_dtype(torch.float32)

    def make_net():
        torch.manual_seed(0)
        net = torch.nn.ModuleDict({"a": torch.nn.Conv2d(3, 8, 4)}).to(memory_format=torch.channels_last)
        return net, torch.optim.Adam(net.parameters(), fused=True)

    def train_steps(net, optimiser, count, seed):
        for i in range(count):
            torch.manual_seed(seed + i)
            optimiser.zero_grad()
            net["a"](torch.randn(2, 3, 8, 8).to(memory_format=torch.channels_last)).square().sum().backward()
            optimiser.step()

    net, optimiser = make_net()
    train_steps(net, optimiser, 3, 0)
    checkpoint.write_checkpoint(tmp_path / "c", net, {"a": optimiser}, {"step": 3, "ledger": 0})
    other, second = make_net()
    checkpoint.load_checkpoint(tmp_path / "c", other, {"a": second})
    moment = second.state[other["a"].weight]["exp_avg"]
    assert moment.stride() == other["a"].weight.stride()
    assert not moment.is_contiguous()
    train_steps(net, optimiser, 3, 10)
    train_steps(other, second, 3, 10)
    assert torch.equal(net["a"].weight, other["a"].weight)


def test_a_change_is_refused_and_named(tmp_path):
    fit(recipe("vae", steps=4), tmp_path / "r", quiet=True, dataset=toy_data())
    with pytest.raises(UnbraidError, match="already holds a run"):
        fit(recipe("vae", steps=4), tmp_path / "r", quiet=True, dataset=toy_data())
    with pytest.raises(UnbraidError, match=r"budget.lr: 0.001 → 0.5.*force=True"):
        fit(recipe("vae", steps=4).set("budget.lr=0.5"), tmp_path / "r", resume=True, quiet=True, dataset=toy_data())
    with pytest.raises(UnbraidError, match=r"threads: 1 → 2"):
        fit(recipe("vae", steps=4, threads=2), tmp_path / "r", resume=True, quiet=True, dataset=toy_data())
    longer = fit(recipe("vae", steps=8), tmp_path / "r", resume=True, force=True, quiet=True, dataset=toy_data())
    assert longer.state["step"] == 8


def test_a_second_process_on_one_run_is_refused_before_it_loads_data(tmp_path, monkeypatch):
    from unbraid.core.locks import file_lock

    monkeypatch.setattr("unbraid.runs.fitting.training.build_parts", lambda *_: pytest.fail("the parts were built"))
    (tmp_path / "r").mkdir()
    with file_lock(tmp_path / "r" / ".lock"), pytest.raises(UnbraidError, match="another process is training"):
        fit(recipe("vae"), tmp_path / "r", quiet=True, dataset=toy_data())


def test_a_non_finite_loss_stops_with_the_step_and_the_term(tmp_path):
    bad = recipe("vae").set("budget.lr=5", "objective.name=row", "objective.prices={kl=-1.0}")
    with pytest.raises(UnbraidError, match=r"no longer finite at step \d+: .* diverged.*lower rate"):
        fit(bad, tmp_path / "r", quiet=True, dataset=toy_data())
    with pytest.raises(UnbraidError, match="no trained model yet"):
        Run.load(tmp_path / "r").encode(toy_data().pixels([0]))


def test_a_damaged_checkpoint_is_named(tmp_path):
    run = fit(recipe("vae", steps=4), tmp_path / "r", quiet=True, dataset=toy_data())
    path = run.path / CHECKPOINT_FILE
    path.write_bytes(path.read_bytes()[:-10])
    with pytest.raises(UnbraidError, match="checkpoint"):
        fit(recipe("vae", steps=8), tmp_path / "r", resume=True, force=True, quiet=True, dataset=toy_data())


def test_a_full_disk_loses_nothing_already_written(tmp_path):
    import resource

    run = fit(recipe("vae", steps=6), tmp_path / "r", quiet=True, dataset=toy_data())
    before = (run.path / MODEL_FILE).read_bytes()
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, limit[1]))
        with pytest.raises(UnbraidError, match="cannot write"):
            fit(recipe("vae", steps=12), tmp_path / "r", resume=True, force=True, quiet=True, dataset=toy_data())
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
        signal.signal(signal.SIGXFSZ, handler)
    assert (run.path / BACKUP_FOLDER / MODEL_FILE).read_bytes() == before
    again = fit(recipe("vae", steps=12), tmp_path / "r", resume=True, force=True, quiet=True, dataset=toy_data())
    assert digest(again.path) == digest(
        fit(recipe("vae", steps=12), tmp_path / "fresh", quiet=True, dataset=toy_data()).path
    )


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_an_unwritable_folder_is_named(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(UnbraidError, match="not writable|cannot make"):
        fit(recipe("vae"), tmp_path / "r", quiet=True, dataset=toy_data())


@pytest.mark.parametrize("old", [False, True], ids=["with a layout", "of an older version"])
def test_the_order_of_branches_survives_a_checkpoint(tmp_path, old):
    from unbraid.core.tensor_files import read_tensors, write_tensors
    from unbraid.runs.folder.checkpoint import LAYOUT_KEY
    from unbraid.runs.folder.resume_checks import load_run_recipe, recorded_recipe

    started = recipe("hfvae", steps=6)
    fit(started, tmp_path / "run", quiet=True, dataset=toy_data())
    file = tmp_path / "run" / CHECKPOINT_FILE
    if old:
        tensors, note = read_tensors(file)
        del note[LAYOUT_KEY]
        write_tensors(file, tensors, note)
    assert recorded_recipe(tmp_path / "run").differences(started) == []
    assert (
        fit(recipe("hfvae", steps=9), tmp_path / "run", resume=True, quiet=True, dataset=toy_data()).state["step"] == 9
    )
    other = started.model_copy(update={"latent": {"c": "onehot(3)", "s": 3}})
    assert recorded_recipe(tmp_path / "run").differences(other)  # another order is another model
    (tmp_path / "run" / "recipe.toml").unlink()
    assert list(load_run_recipe(tmp_path / "run").latent) == ["s", "c"]
