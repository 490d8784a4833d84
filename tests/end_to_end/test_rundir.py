"""Training and the run directory: refusals change nothing, old files are backed up, the state is never out of date."""

import json
import os
import signal
from dataclasses import replace

import pytest

from tests.toys import toy_data
from unbraid.core.errors import UnbraidError
from unbraid.data.dataset import Pixels
from unbraid.runs.fitting.training import fit
from unbraid.runs.folder.file_names import BACKUP_FOLDER
from unbraid.runs.folder.resume_checks import load_run_recipe
from unbraid.runs.recipe import Recipe
from unbraid.runs.run import Run


def tiny_recipe(**budget):
    """A VAE of a few steps."""
    asked = {"steps": 6, "batch": 16, "threads": 1, **budget}
    return Recipe(data="toy", latent=3, nets="small32", objective="vae", budget=asked)


def test_a_full_disk_under_the_ledger_is_named(tmp_path):
    import resource

    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1_500, limit[1]))
        with pytest.raises(UnbraidError, match=r"cannot write .*ledger.jsonl: (File too large|No space)"):
            fit(
                tiny_recipe(steps=100, log_every=1, checkpoint_every=1000),
                tmp_path / "r",
                quiet=True,
                dataset=toy_data(),
            )
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
        signal.signal(signal.SIGXFSZ, handler)


def test_a_refused_resume_leaves_the_run_unchanged(tmp_path):
    run = fit(tiny_recipe(), tmp_path / "r", quiet=True, dataset=toy_data())
    files = {f.name: f.read_bytes() for f in run.path.iterdir() if f.is_file()}
    for change, message in (
        (tiny_recipe(steps=9).set("latent=6"), "does not fit"),
        (tiny_recipe(steps=3), "more steps than"),
    ):
        with pytest.raises(UnbraidError, match=message):
            fit(change, run.path, resume=True, force=True, quiet=True, dataset=toy_data())
        assert {f.name: f.read_bytes() for f in run.path.iterdir() if f.is_file()} == files


def test_files_made_of_old_weights_are_deleted_with_them(tmp_path):
    run = fit(tiny_recipe(), tmp_path / "r", quiet=True, dataset=toy_data())
    (run.path / "codes.npz").write_bytes(b"of the old weights")
    fit(tiny_recipe().set("seed=5"), run.path, force=True, quiet=True, dataset=toy_data())
    assert not (run.path / "codes.npz").exists()
    (run.path / "audit.json").write_text("{}")
    fit(tiny_recipe(steps=8).set("seed=5"), run.path, resume=True, force=True, quiet=True, dataset=toy_data())
    assert not (run.path / "audit.json").exists()
    assert not (run.path / BACKUP_FOLDER).exists()


@pytest.mark.parametrize("damage", [None, b"", b"null", b"3", b"[]"])
def test_a_lost_or_damaged_state_needs_force(tmp_path, damage):
    run = fit(tiny_recipe(), tmp_path / "r", quiet=True, dataset=toy_data())
    (run.path / "run.json").unlink()
    if damage is not None:
        (run.path / "run.json").write_bytes(damage)
    with pytest.raises(UnbraidError, match=r"run.json|run state"):
        fit(tiny_recipe(), run.path, resume=True, quiet=True, dataset=toy_data())


def test_a_ledger_that_lost_lines_needs_force_and_is_not_padded(tmp_path):
    run = fit(tiny_recipe(log_every=1), tmp_path / "r", quiet=True, dataset=toy_data())
    first = (run.path / "ledger.jsonl").read_bytes().split(b"\n")[0] + b"\n"
    for left in (first, None):
        (run.path / "ledger.jsonl").unlink()
        if left is not None:
            (run.path / "ledger.jsonl").write_bytes(left)
        with pytest.raises(UnbraidError, match="lost lines"):
            fit(tiny_recipe(log_every=1), run.path, resume=True, quiet=True, dataset=toy_data())
    again = fit(tiny_recipe(log_every=1, steps=8), run.path, resume=True, quiet=True, dataset=toy_data(), force=True)
    assert [row["step"] for row in again.ledger()] == [6, 7]


def test_other_images_and_stale_threads_are_noticed(tmp_path):
    run = fit(tiny_recipe(), tmp_path / "r", quiet=True, dataset=toy_data())
    other = replace(toy_data(), images=Pixels(255 - toy_data().images.array))
    with pytest.raises(UnbraidError, match="data:"):
        fit(tiny_recipe(), run.path, resume=True, quiet=True, dataset=other)
    fit(tiny_recipe(threads=2, steps=8), run.path, resume=True, force=True, quiet=True, dataset=toy_data())
    assert json.loads((run.path / "run.json").read_text())["threads"] == 2


def test_a_non_finite_loss_names_the_recovery_command(tmp_path, monkeypatch):
    import unbraid.runs.fitting.trainer as module

    plain, broken = module.VaeTrainer.step, tiny_recipe(steps=9, checkpoint_every=2)

    def breaks(self, number, also=()):
        if number == 5:
            raise module.NonFiniteLossError("the loss is no longer finite at step 5: kl diverged.")
        return plain(self, number, also)

    monkeypatch.setattr(module.VaeTrainer, "step", breaks)
    with pytest.raises(
        UnbraidError, match=r"step 5: kl diverged.*checkpoint, after step 4.*fit\(.*r', resume=True, force"
    ):
        fit(broken, tmp_path / "r", quiet=True, dataset=toy_data())
    with pytest.raises(UnbraidError, match="no checkpoint yet"):
        fit(tiny_recipe(steps=9, checkpoint_every=1000), tmp_path / "s", quiet=True, dataset=toy_data())


def test_an_edited_recipe_in_the_run_directory_is_noticed_by_resume(tmp_path):
    factor = tiny_recipe(steps=4).set(
        "objective.name=factor_vae", "objective.gamma=5", "objective.critic={width=8, depth=1}"
    )
    run = fit(factor, tmp_path / "r", quiet=True, dataset=toy_data())
    whole = (run.path / "recipe.toml").read_text()
    (run.path / "recipe.toml").write_text(whole.replace("gamma = 5", "gamma = 35"))
    edited = load_run_recipe(run.path).set("budget.steps=8")
    with pytest.raises(UnbraidError, match=r"objective.gamma: 5 → 35.*delete that file"):
        fit(edited, run.path, resume=True, quiet=True, dataset=toy_data())
    (run.path / "recipe.toml").write_text("gamma = [")
    with pytest.raises(UnbraidError, match=r"not valid TOML.*Delete it"):
        load_run_recipe(run.path)
    (run.path / "recipe.toml").unlink()
    assert load_run_recipe(run.path) == factor
    longer = fit(load_run_recipe(run.path).set("budget.steps=8"), run.path, resume=True, quiet=True, dataset=toy_data())
    assert longer.recipe.objective["gamma"] == 5
    assert longer.state["schema"] == 2
    assert longer.state["recipe"] == longer.recipe.hash


def test_descriptions_and_intervals_may_change_without_force(tmp_path):
    fit(tiny_recipe(), tmp_path / "r", quiet=True, dataset=toy_data())
    other = tiny_recipe(steps=8, log_every=2, checkpoint_every=5).set("about=longer", "name=other")
    assert fit(other, tmp_path / "r", resume=True, quiet=True, dataset=toy_data()).state["step"] == 8


def test_branches_in_another_order_are_another_latent(tmp_path):
    trees = [{"a": 1, "b": 2}, {"b": 2, "a": 1}]
    one, two = (Recipe.from_dict(tiny_recipe().as_dict() | {"latent": tree}) for tree in trees)
    fit(one, tmp_path / "r", quiet=True, dataset=toy_data())
    with pytest.raises(UnbraidError, match="latent:"):
        fit(two.set("budget.steps=8"), tmp_path / "r", resume=True, quiet=True, dataset=toy_data())


def test_a_run_of_a_later_version_says_so(tmp_path):
    run = fit(tiny_recipe(), tmp_path / "r", quiet=True, dataset=toy_data())
    state = json.loads((run.path / "run.json").read_text())
    (run.path / "run.json").write_text(json.dumps(state | {"schema": 99}))
    with pytest.raises(UnbraidError, match="later version.*schema 99"):
        Run.load(run.path).sample(1)


def test_parts_of_interrupted_writes_are_swept_and_nothing_else(tmp_path):
    run = fit(tiny_recipe(), tmp_path / "r", quiet=True, dataset=toy_data())
    ours = [".checkpoint.safetensors.x1.part", ".run.json.abc.part", ".codes.npz.old.part"]
    kept = [".codes.npz.new.part", ".mine.part", "checkpoint.safetensors.part"]
    for name in ours + kept:
        (run.path / name).write_bytes(b"half")
    os.utime(run.path / ours[2], (0, 0))
    fit(tiny_recipe(), run.path, resume=True, quiet=True, dataset=toy_data())
    assert sorted(f.name for f in run.path.glob("*part")) == sorted(kept)
