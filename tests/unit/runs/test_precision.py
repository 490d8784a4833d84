"""Half precision, compiled nets, and runs that move from one device to another."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from tests.toys import toy_data
from unbraid import Recipe, Run, UnbraidError, fit
from unbraid.core.tensor_files import read_tensors
from unbraid.runs.building.builders import build_parts, build_trainer
from unbraid.runs.fitting import precision
from unbraid.runs.folder.file_names import CHECKPOINT_FILE, LEDGER_FILE, MODEL_FILE, STATE_FILE

ROOT = Path(__file__).parents[3]
BUDGET = {"steps": 4, "batch": 16, "log_every": 1, "threads": 1, "device": "cpu"}


def recipe(objective: str = "vae", **budget: object) -> Recipe:
    return Recipe(data="toy", latent=2, nets="decomposition_table1b", objective=objective, budget={**BUDGET, **budget})


BF16_SCRIPT = """
import sys, torch
from tests.toys import toy_data
from tests.unit.runs.test_precision import recipe
from unbraid import fit
from unbraid.runs.building.builders import build_parts, build_trainer

trainer = build_trainer(build_parts(recipe(precision="bf16"), toy_data()))
inside = []
linear = next(m for m in trainer.parts.model.encoder.modules() if isinstance(m, torch.nn.Linear))
linear.register_forward_hook(lambda module, given, out: inside.append(out.dtype))
draw = trainer.parts.model.draw(trainer.batches(0), 96)
assert inside == [torch.bfloat16], inside
assert {t.dtype for t in (draw.z, draw.out, draw.log_p, *trainer.parts.model.parameters())} == {torch.float32}
for name, steps, how in (("half", 4, "bf16"), ("plain", 4, "float32"), ("parts", 2, "bf16"), ("parts", 4, "bf16")):
    for objective in ("vae", "factor_vae"):
        folder = f"{sys.argv[1]}/{objective}/{name}"
        plan = recipe(objective, precision=how, steps=steps)
        fit(plan, folder, resume=name == "parts", quiet=True, dataset=toy_data())
"""


def test_products_are_in_bf16_and_terms_in_float32(tmp_path):
    """In a subprocess without the instructions that some virtual CPUs only advertise."""
    env = {**os.environ, "ONEDNN_MAX_CPU_ISA": "AVX512_CORE"}
    done = subprocess.run(
        [sys.executable, "-c", BF16_SCRIPT, str(tmp_path)],
        env=env,
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    for objective in ("vae", "factor_vae"):  # a critic's gradients and its state too
        half, plain, parts = (Run.load(tmp_path / objective / name) for name in ("half", "plain", "parts"))
        near = [abs(a["loss"] / b["loss"] - 1) for a, b in zip(half.ledger(), plain.ledger(), strict=True)]
        assert 0 < max(near) < 0.02, objective
        for name in (MODEL_FILE, CHECKPOINT_FILE, LEDGER_FILE):
            assert (parts.path / name).read_bytes() == (half.path / name).read_bytes(), objective
    tensors, _ = read_tensors(half.path / CHECKPOINT_FILE, "checkpoint")
    critic = [t for key, t in tensors.items() if "critic" in key and t.is_floating_point()]
    assert critic
    assert {t.dtype for t in critic} == {torch.float32}
    assert recipe(precision="bf16").hash != recipe().hash


def test_bf16_that_would_kill_the_process_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("unbraid.runs.fitting.precision.bf16_works", lambda: False)
    with pytest.raises(UnbraidError, match="cannot be used on this processor"):
        fit(recipe(precision="bf16"), tmp_path / "a", quiet=True, dataset=toy_data())


@pytest.mark.parametrize(
    ("native", "faster", "chosen"), [(False, True, "float32"), (True, False, "float32"), (True, True, "bf16")]
)
def test_auto_is_bf16_where_it_is_native_and_faster(tmp_path, monkeypatch, native, faster, chosen):
    configured = []
    monkeypatch.setattr(precision, "bf16_is_native", lambda device: native)
    monkeypatch.setattr(precision, "bf16_is_faster", lambda model, images, device: faster)
    monkeypatch.setattr(precision, "configure_precision", lambda model, chosen, *more: configured.append(chosen))
    run = fit(recipe(precision="auto", steps=2), tmp_path / "a", quiet=True, dataset=toy_data())
    assert configured == [chosen]
    assert run.state["precision"] == chosen
    assert run.recipe.budget.precision == "auto"
    monkeypatch.setattr(precision, "bf16_is_native", lambda device: not native)
    monkeypatch.setattr(precision, "bf16_is_faster", lambda model, images, device: True)
    more = fit(recipe(precision="auto", steps=4), run.path, resume=True, quiet=True, dataset=toy_data())
    assert configured == [chosen] * 2  # as the run began, whatever this machine would choose
    assert more.state["precision"] == chosen
    plain = fit(recipe(steps=2), tmp_path / "b", quiet=True, dataset=toy_data())
    assert "precision" not in plain.state


@pytest.mark.parametrize(("slow", "faster"), [("float32", True), ("bf16", False)])
def test_the_trial_compares_both_precisions_and_changes_nothing(monkeypatch, slow, faster):
    trainer = build_trainer(build_parts(recipe(), toy_data()))
    model, images = trainer.parts.model, trainer.batches(0)
    clock, marked = [0.0], []

    def mark(copy, *_):
        copy.marked = True

    monkeypatch.setattr(precision, "configure_precision", mark)
    monkeypatch.setattr(precision.time, "perf_counter", lambda: clock[0])
    posterior = type(model).posterior

    def timed(copy, x):
        name = "bf16" if hasattr(copy, "marked") else "float32"
        clock[0] += 0.2 if name == slow else 0.1
        marked.append(name)
        return posterior(copy, x)

    monkeypatch.setattr(type(model), "posterior", timed)
    before = {name: t.clone() for name, t in model.state_dict().items()}
    random_state = torch.get_rng_state()
    assert precision.bf16_is_faster(model, images, torch.device("cpu")) == faster
    assert marked.count("bf16") == marked.count("float32") >= 3
    assert all(torch.equal(t, before[name]) for name, t in model.state_dict().items())
    assert all(p.grad is None for p in model.parameters())
    assert torch.equal(torch.get_rng_state(), random_state)


@pytest.mark.parametrize(
    ("flags", "works", "native"),
    [
        ("avx512f avx512_bf16", True, True),
        ("amx_bf16 sse", True, True),
        ("avx512f", True, False),
        ("amx_bf16", False, False),
    ],
)
def test_bf16_is_native_where_the_processor_says_so_and_it_runs(monkeypatch, flags, works, native):
    monkeypatch.setattr(precision, "bf16_works", lambda: works)
    monkeypatch.setattr(precision.Path, "is_file", lambda path: True)
    monkeypatch.setattr(precision.Path, "read_text", lambda path, **how: f"flags : {flags}\n")
    assert precision.bf16_is_native.__wrapped__("cpu") == native
    assert not precision.bf16_is_native.__wrapped__("mps")


def test_compiling_without_a_compiler_is_refused_before_work(tmp_path, monkeypatch):
    monkeypatch.setattr("shutil.which", lambda name: None)
    with pytest.raises(UnbraidError, match="needs a C\\+\\+ compiler"):
        fit(recipe(compile=True), tmp_path / "a", quiet=True, dataset=toy_data())


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of torch itself
def test_compiled_nets_train_to_rounding(tmp_path):
    torch.set_default_dtype(torch.float32)
    run = fit(recipe(compile=True), tmp_path / "a", quiet=True, dataset=toy_data())
    plain = fit(recipe(), tmp_path / "b", quiet=True, dataset=toy_data())
    for a, b in zip(run.ledger(), plain.ledger(), strict=True):
        assert abs(a["loss"] / b["loss"] - 1) < 1e-4
    assert set(run.model.state_dict()) == set(plain.model.state_dict())


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of torch itself
@pytest.mark.parametrize("objective", ["vae", "factor_vae"])
def test_compiled_nets_resume_to_the_same_bits(objective, tmp_path):
    torch.set_default_dtype(torch.float32)
    for name, steps in (("whole", 4), ("parts", 2), ("parts", 4)):
        plan = recipe(objective, compile=True, steps=steps)
        fit(plan, tmp_path / name, resume=name == "parts", quiet=True, dataset=toy_data())
    for name in (MODEL_FILE, CHECKPOINT_FILE, LEDGER_FILE):
        assert (tmp_path / "parts" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


def test_a_run_that_moves_to_another_device_resumes_with_a_note(tmp_path, capsys):
    run = fit(recipe(steps=2), tmp_path / "a", quiet=True, dataset=toy_data())
    state = json.loads((run.path / STATE_FILE).read_text())
    (run.path / STATE_FILE).write_text(json.dumps({**state, "device": "cuda:0"}))
    moved = fit(recipe(), run.path, resume=True, quiet=True, dataset=toy_data())
    assert "continues on cpu, after cuda" in capsys.readouterr().err
    assert moved.state["moved"] == ["cuda → cpu after step 2"]
    assert moved.state["status"] == "done"


def test_the_device_of_a_run_is_its_recipes_or_the_one_asked_for(tmp_path):
    run = fit(recipe(), tmp_path / "a", quiet=True, dataset=toy_data())
    assert run.model_on_device is run.model  # on the CPU nothing is copied
    with pytest.raises(UnbraidError, match="device 'mars' cannot be used here"):
        Run.load(run.path, dataset=toy_data(), device="mars")
