"""A checkpoint or a run.json that a stranger edited is refused as damaged: no traceback, and no write beyond a tensor."""

from __future__ import annotations

import json
import shutil

import pytest
import torch

from tests.toys import toy_data
from unbraid import Recipe, Run, UnbraidError, fit
from unbraid.core.tensor_files import read_tensors, write_tensors
from unbraid.runs.folder.checkpoint import LAYOUT_KEY
from unbraid.runs.folder.file_names import BEST_FILE, CHECKPOINT_FILE, MODEL_FILE, STATE_FILE

FACTOR_VAE = {"name": "factor_vae", "gamma": 2, "critic": {"width": 8, "depth": 1}}


def recipe(steps: int = 4, **budget: object) -> Recipe:
    full = {"steps": steps, "batch": 16, "log_every": 2, "threads": 1, **budget}
    return Recipe(data="toy", latent=2, nets="decomposition_table1b", objective=FACTOR_VAE, budget=full)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    return fit(recipe(), tmp_path_factory.mktemp("x") / "run", quiet=True, dataset=toy_data()).path


@pytest.fixture
def run(trained, tmp_path):
    return shutil.copytree(trained, tmp_path / "run")


def resume(path, **budget):
    return fit(recipe(6, **budget), path, resume=True, quiet=True, dataset=toy_data())


def edit(path, change) -> None:
    tensors, note = read_tensors(path)
    change(tensors, note)
    write_tensors(path, tensors, note)


@pytest.mark.parametrize("size", [(1,), (3, 2), ()])
@pytest.mark.parametrize("key", ["exp_avg", "exp_avg_sq", "step"])
def test_moments_of_another_size_are_refused(run, key, size):
    def change(tensors, note):
        for name in [n for n in tensors if n.startswith("optimiser.") and n.endswith(f".{key}")]:
            tensors[name] = torch.zeros(size)

    edit(run / CHECKPOINT_FILE, change)
    if (key, size) == ("step", ()):
        assert resume(run).state["step"] == 6
    else:
        with pytest.raises(UnbraidError, match="state of an optimiser does not fit its parameter"):
            resume(run)


def test_missing_and_unknown_moments_are_refused(run):
    edit(run / CHECKPOINT_FILE, lambda t, note: [t.pop(n) for n in list(t) if n.endswith(".exp_avg_sq")])
    with pytest.raises(UnbraidError, match="does not fit its parameter"):
        resume(run)


@pytest.mark.parametrize("optimiser", ["adamw", "radam", "sgd"])
def test_every_optimiser_resumes(tmp_path, optimiser):
    options = {"optimiser": optimiser, "amsgrad": optimiser == "adamw"}
    fit(recipe(4, **options), tmp_path / "run", quiet=True, dataset=toy_data())
    assert resume(tmp_path / "run", **options).state["step"] == 6


@pytest.mark.parametrize(
    ("key", "value"),
    [("step", "x"), ("step", None), ("step", True), ("ledger", "x"), ("ledger", None), ("ledger", -1),
     (LAYOUT_KEY, "{"), (LAYOUT_KEY, "[" * 100_000)],
)  # fmt: skip
def test_damaged_notes_of_a_checkpoint_are_named(run, key, value):
    edit(run / CHECKPOINT_FILE, lambda tensors, note: note.update({key: value}))
    with pytest.raises(UnbraidError, match="is damaged"):
        resume(run)


@pytest.mark.parametrize("change", [{"kernels": "x"}, {"kernels": []}, {"moved": 5}, {"moved": [3]}])
def test_odd_entries_of_run_json_are_no_traceback(run, change):
    state = json.loads((run / STATE_FILE).read_text())
    (run / STATE_FILE).write_text(json.dumps({**state, **change}))
    assert resume(run).state["step"] == 6


def test_a_damaged_note_of_the_weights_is_named(run):
    edit(run / MODEL_FILE, lambda tensors, note: note.update(step="x"))
    with pytest.raises(UnbraidError, match="its step cannot be read"):
        _ = Run.load(run).model


def test_a_linked_folder_of_snapshots_is_refused_and_loses_no_file(run, tmp_path):
    mine = tmp_path / "mine" / "0000000900.safetensors"
    mine.parent.mkdir()
    mine.write_text("precious")
    (run / "snapshots").symlink_to(mine.parent)
    for options in ({"resume": True}, {"force": True}):
        with pytest.raises(UnbraidError, match="snapshots is a link"):
            fit(recipe(6, snapshots=2), run, quiet=True, dataset=toy_data(), **options)
    assert mine.read_text() == "precious"
    assert list(mine.parent.iterdir()) == [mine]


@pytest.mark.parametrize("step", ["five", None, 900])
def test_best_weights_of_a_later_or_unknown_step_are_dropped(run, step):
    write_tensors(run / BEST_FILE, {"a": torch.zeros(2)}, {"step": step})
    assert resume(run).state["step"] == 6
    assert not (run / BEST_FILE).exists()


def test_weights_that_are_not_finite_are_refused_before_training(run):
    def change(tensors, note):
        tensors[min(name for name in tensors if name.startswith("state.model."))].view(-1)[0] = torch.nan

    edit(run / CHECKPOINT_FILE, change)
    with pytest.raises(UnbraidError, match="is damaged: its weights hold NaN"):
        resume(run)
