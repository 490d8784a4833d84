"""Training processes are started, found again, stopped and resumed; no other process is ever signalled."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from unbraid.core.errors import UnbraidError
from unbraid.core.files import write_json
from unbraid.runs.recipe import Recipe
from unbraid.runs.run import Run
from unbraid.studio import train_processes
from unbraid.studio.run_library import Library
from unbraid.studio.train_form import cost_fields, describe_fields, estimate_seconds, form_fields, parse_form
from unbraid.studio.training_list import training_progress

TINY = {"data": {"name": "digits", "size": 8}, "latent": 2, "nets": {"name": "mlp", "width": [8]},
        "budget": {"steps": 1_000_000, "batch": 16, "threads": 1, "log_every": 10}}  # fmt: skip


def wait_until(condition, timeout: float = 90.0) -> bool:
    """Poll a condition; return False on timeout."""
    end = time.monotonic() + timeout
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.1)
    return False


@pytest.mark.slow
def test_start_find_stop_resume(tmp_path):
    library = Library(tmp_path)
    begun = train_processes.start_training(library, "one", Recipe.from_dict(TINY))
    try:
        assert wait_until(lambda: training_progress(begun)[0] > 20), train_processes.log_tail(library, "one")
        with pytest.raises(UnbraidError, match="being trained already"):
            train_processes.start_training(library, "one", None)
        # another server finds it again from the directory alone
        found = train_processes.find_training(Library(tmp_path), "one")
        assert found == begun
        assert found.alive
        assert train_processes.stop_training(found)
        assert wait_until(lambda: not found.alive)
        run = Run.load(tmp_path / "one")
        assert run.state["status"] == "stopped"
        assert (tmp_path / "one" / "checkpoint.safetensors").is_file()
        done = run.state["step"]
        begun = train_processes.start_training(library, "one", None)
        assert wait_until(lambda: training_progress(begun)[0] > done + 20), train_processes.log_tail(library, "one")
    finally:
        train_processes.stop_training(begun)
        assert wait_until(lambda: not begun.alive)
        train_processes._reap()


def test_another_process_under_the_same_pid_is_left_alone(tmp_path):
    library = Library(tmp_path)
    other = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)", "train", str(tmp_path / "x")])
    try:
        now = train_processes.process_start_time(other.pid)
        assert now
        truth = train_processes.TrainingProcess("x", other.pid, now, str(tmp_path / "x"))
        assert truth.alive, "the very same process would be known"
        for lie in (
            replace(truth, start_time="1 boot"),
            replace(truth, start_time=""),
            replace(truth, path=str(tmp_path / "y")),
        ):
            assert not lie.alive
            assert not train_processes.stop_training(lie)
        (tmp_path / ".studio").mkdir()
        for pid, started in (
            (os.getpid(), train_processes.process_start_time(os.getpid())),
            (1, train_processes.process_start_time(1)),
            (0, ""),
            (-1, "x"),
            ("1", "x"),
        ):
            write_json(tmp_path / ".studio" / "x.json", {"name": "x", "pid": pid, "started": started})
            found = train_processes.find_training(library, "x")
            assert found is None or not found.alive
            assert found is None or not train_processes.stop_training(found)
        assert other.poll() is None, "it must still run"
    finally:
        other.kill()
        other.wait()


def test_a_finished_process_is_not_alive():
    done = subprocess.Popen([sys.executable, "-c", "pass"])
    wait_until(lambda: train_processes.process_start_time(done.pid) == "", 10)
    assert train_processes.process_start_time(done.pid) == "", "a zombie is finished"
    done.wait()


@pytest.mark.parametrize("name", ["../x", "a/b", ".hidden", "", "a b", "x" * 200, "/x"])
def test_new_runs_have_plain_names(tmp_path, name):
    with pytest.raises(UnbraidError):
        train_processes.start_training(Library(tmp_path), name, Recipe.from_dict(TINY))
    assert not list(tmp_path.glob("*.toml"))


def test_damaged_records_are_no_trainings(tmp_path):
    (tmp_path / ".studio").mkdir()
    for i, text in enumerate(("", "[]", "{}", '{"pid": 5}', "{" * 100)):
        (tmp_path / ".studio" / f"r{i}.json").write_text(text)
    assert train_processes.list_trainings(Library(tmp_path)) == []


def test_the_form_holds_every_field_of_the_budget_and_the_objective():
    shown = form_fields(Recipe.load("beta_tcvae_sprites32"))
    assert {"budget.steps", "budget.lr", "budget.betas", "objective.beta", "objective.name", "latent", "seed"} <= set(
        shown
    )
    assert shown["objective.beta"] == "6.0"


def test_an_unchanged_form_is_the_recipe_itself():
    from unbraid.runs.recipes import RECIPES

    for name in RECIPES:
        base = Recipe.load(name)
        recipe, wrong = parse_form(base, form_fields(base))
        own = base.data["name"] == "images"  # a recipe for pictures of the user, who has to say where they are
        assert list(wrong) == (["data.path"] if own else [])
        assert recipe == (None if own else base)


def test_errors_are_assigned_to_their_fields():
    base = Recipe.load("beta_tcvae_sprites32")
    recipe, wrong = parse_form(base, form_fields(base) | {"budget.steps": "-1", "budget.lr": "fast", "seed": "x"})
    assert recipe is None
    assert set(wrong) == {"budget.steps", "budget.lr", "seed"}
    recipe, wrong = parse_form(base, form_fields(base) | {"objective.beta": "'a'"})
    assert set(wrong) == {"objective.beta"}
    recipe, wrong = parse_form(base, form_fields(base) | {"latent": "onehot(x)"})
    assert set(wrong) == {"latent"}
    recipe, wrong = parse_form(base, form_fields(base) | {"objective.beta": "9", "budget.steps": "7"})
    assert not wrong
    assert recipe is not None
    assert recipe.objective["beta"] == 9
    assert recipe.budget.steps == 7


class NoProcess:
    """Stands for a training process that was started."""

    commands: list = []

    def __init__(self, command, **_):
        time.sleep(0.3)  # two starts at once would overlap here
        self.commands.append(command)
        self.pid = 2**30 + len(self.commands)

    def poll(self):
        return None


def test_two_starts_at_once_make_one_training(tmp_path, monkeypatch):
    monkeypatch.setattr(train_processes.subprocess, "Popen", NoProcess)
    monkeypatch.setattr(NoProcess, "commands", [])
    monkeypatch.setattr(train_processes, "process_start_time", lambda pid: f"start of {pid}")
    monkeypatch.setattr(train_processes, "_is_training", lambda pid, path: True)
    library, recipe = Library(tmp_path), Recipe.from_dict(TINY)

    def start(_):
        try:
            return train_processes.start_training(library, "one", recipe)
        except UnbraidError as error:
            return str(error)

    try:
        with ThreadPoolExecutor(2) as pool:
            begun, refused = sorted(pool.map(start, range(2)), key=lambda end: isinstance(end, str))
        assert len(NoProcess.commands) == 1
        assert "is being trained already" in refused
        assert train_processes.find_training(library, "one").pid == begun.pid
    finally:
        train_processes._CHILDREN.clear()


def test_no_file_is_written_through_a_link(tmp_path, monkeypatch):
    monkeypatch.setattr(train_processes.subprocess, "Popen", NoProcess)
    monkeypatch.setattr(NoProcess, "commands", [])
    (tmp_path / "runs" / ".studio").mkdir(parents=True)
    (tmp_path / "precious").write_text("precious")
    library, recipe = Library(tmp_path / "runs"), Recipe.from_dict(TINY)
    for name in ("one.log", "one.json", "two.log"):
        (library.root / ".studio" / name).symlink_to(tmp_path / ("nowhere" if name == "two.log" else "precious"))
    for name in ("one", "two"):
        with pytest.raises(UnbraidError, match="links are not followed"):
            train_processes.start_training(library, name, recipe)
    assert train_processes.list_trainings(library) == []
    assert (tmp_path / "precious").read_text() == "precious"
    assert not (tmp_path / "nowhere").exists()
    (tmp_path / "linked").mkdir()
    (tmp_path / "out").mkdir()
    (tmp_path / "linked" / ".studio").symlink_to(tmp_path / "out")
    with pytest.raises(UnbraidError, match="follows no links"):
        train_processes.start_training(Library(tmp_path / "linked"), "one", recipe)
    assert not list((tmp_path / "out").iterdir())
    assert NoProcess.commands == []


@pytest.mark.parametrize("depth", [100, 400, 3000])
def test_deep_nesting_is_an_error_of_its_field(depth):
    base = Recipe.from_dict(TINY)
    for key in ("latent", "objective.beta", "budget.steps"):
        recipe, wrong = parse_form(base, {**form_fields(base), key: "[" * depth + "]" * depth})
        assert recipe is None
        assert key in wrong


def test_every_field_has_a_sentence_and_its_kind():
    fields = {field.key: field for field in describe_fields(Recipe.load("beta_tcvae_images"))}
    assert all(field.help.strip() for field in fields.values()), [f.key for f in fields.values() if not f.help]
    assert fields["budget.amsgrad"].switch
    assert fields["data.grey"].switch
    assert fields["budget.optimiser"].choices == ("adam", "adamw", "radam", "sgd")
    assert fields["budget.steps"].basic
    assert fields["data.path"].basic
    assert not fields["budget.amsgrad"].basic
    assert "≥ 1, ≤ 1,000,000,000" in fields["budget.steps"].help
    assert fields["prior.name"].help.startswith("p(z) ="), "a formula keeps its letters"
    assert fields["likelihood.name"].help.startswith("log p(x|z)")
    assert fields["budget.betas"].help.startswith("β₁")
    assert not any("`" in field.help for field in fields.values())


def test_own_pictures_need_a_folder_that_exists(tmp_path):
    base = Recipe.load("beta_tcvae_images")
    recipe, wrong = parse_form(base, form_fields(base) | {"data.path": str(tmp_path / "nothing")})
    assert recipe is None
    assert "no such folder" in wrong["data.path"]
    recipe, wrong = parse_form(base, form_fields(base) | {"data.path": str(tmp_path), "data.grey": "true"})
    assert wrong == {}
    assert recipe.data == {"name": "images", "size": 64, "path": str(tmp_path), "grey": True}


def test_fields_that_need_each_other_are_set_together():
    base = Recipe.from_dict(TINY)
    recipe, wrong = parse_form(base, form_fields(base) | {"budget.best": "true", "budget.validate_every": "5"})
    assert wrong == {}
    assert recipe.budget.best
    recipe, wrong = parse_form(base, form_fields(base) | {"budget.best": "true"})
    assert recipe is None
    assert "validate_every" in wrong["budget.best"]


def test_the_time_of_a_step_is_measured():
    recipe = Recipe.from_dict(TINY)
    assert 0 < estimate_seconds(recipe) < 10
    fields = form_fields(recipe)
    assert cost_fields(fields) == cost_fields(fields | {"budget.steps": "9", "seed": "4"})
    assert cost_fields(fields) != cost_fields(fields | {"budget.batch": "9"})
