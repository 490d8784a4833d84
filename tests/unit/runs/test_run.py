"""A run in use: images are scaled and checked as in training, damage is named, commands can be pasted."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from tests.toys import toy_data
from unbraid.cli import app, main
from unbraid.codes import Codes
from unbraid.core import errors
from unbraid.core.errors import UnbraidError
from unbraid.core.tensor_files import read_tensors, write_tensors
from unbraid.figures.report import report
from unbraid.figures.run_figures import ledger_curves
from unbraid.runs.evaluation.auditing import audit
from unbraid.runs.fitting.training import fit
from unbraid.runs.recipe import Recipe
from unbraid.runs.run import Run

DATA = toy_data(24)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A VAE of two steps, in a folder whose name a shell would take apart."""
    recipe = Recipe(data="toy", latent=2, nets="decomposition_table1b", budget={"steps": 2, "batch": 8, "threads": 1})
    return fit(recipe, tmp_path_factory.mktemp("x") / "a run; $(echo)", quiet=True, dataset=DATA)


def test_bytes_are_scaled_as_in_training(run):
    right = run.encode(DATA.pixels([0, 5]))
    np.testing.assert_array_equal(run.encode(DATA.images.array[[0, 5]]), right)
    np.testing.assert_array_equal(run.encode(torch.from_numpy(DATA.images.array[[0, 5]])), right)
    ones = np.ones((1, 1, 8, 8))
    np.testing.assert_array_equal(run.encode(ones.astype(bool)), run.encode(ones))


@pytest.mark.parametrize("bad", [np.nan, np.inf, 255.0, -0.1, 1.5])
def test_values_that_training_refuses_are_refused(run, bad):
    images = DATA.pixels([0, 5])
    images[1, 0, 3, 3] = bad
    with pytest.raises(UnbraidError, match="images must"):
        run.encode(images)


@pytest.mark.parametrize("bad", [[[["a"]]], [[1, 2], [3]], {"a": 1}, None])
def test_other_inputs_than_images_are_named(run, bad):
    with pytest.raises(UnbraidError, match="images must"):
        run.encode(bad)


def test_tensors_with_a_gradient_are_taken(run):
    z = torch.zeros(2, 2, requires_grad=True)
    np.testing.assert_array_equal(run.decode(z), run.decode(np.zeros((2, 2))))
    assert run.encode(torch.full((1, 1, 8, 8), 0.5, requires_grad=True)).shape == (1, 2)
    assert run.traverse(z[0], 1).shape == (7, 1, 8, 8)


DEEP_JSON = "[" * 100_000 + "]" * 100_000
AUDIT = '{"nats": {"kl": 1}, "errors": {"kl": 0}, "estimator": "exact", "rows": 3, "balance": 0, "components": %s}'
DAMAGE = {
    "run.json": ["", "3", "[]", "{}", DEEP_JSON, '{"status": "done", "step": 1, "shape": 3}',
                 '{"status": "done", "step": "x", "shape": [1, 8, 8]}', '{"status": "done", "step": 2, "shape": [1, 8]}'],
    "audit.json": ["", "null", "[1]", "{}", DEEP_JSON, '{"nats": {"kl": "x"}, "errors": {}}',
                   AUDIT % '"x", "also": {}', AUDIT % '3, "also": {"w2": 3}',
                   AUDIT % '3, "iwae": {"bound": "x"}', AUDIT % '3, "how": "closed"',
                   AUDIT.replace('"kl": 0}', '"k": 0}') % "3", '{"nats": [], "errors": {}}'],
    "ledger.jsonl": ["x\n", "3\n", "{}\n", DEEP_JSON + "\n", '{"step": 1, "nats": {"kl": "x"}, "prices": {}}\n',
                     '{"step": 0, "nats": {"kl": 1' + "0" * 400 + '}, "prices": {}}\n',
                     '{"step": 0, "loss": 1' + "0" * 400 + ', "nats": {}, "prices": {}}\n',
                     '{"step": 0, "nats": {}, "prices": {}, "scores": 3}\n',
                     '{"step": "1", "nats": {}, "prices": {}}\n', '{"step": 1, "nats": {"kl": NaN}, "prices": {}}\n'],
}  # fmt: skip
READERS = {"run.json": lambda r: r.state, "audit.json": lambda r: r.saved_audit(), "ledger.jsonl": lambda r: r.ledger()}


@pytest.mark.parametrize(("name", "text"), [(name, text) for name, texts in DAMAGE.items() for text in texts])
def test_damaged_files_are_named(run, tmp_path, name, text):
    (tmp_path / "recipe.toml").write_bytes((run.path / "recipe.toml").read_bytes())
    (tmp_path / name).write_text(text)
    with pytest.raises(UnbraidError, match=name):
        READERS[name](Run.load(tmp_path))


def test_an_audit_is_read_back_and_a_read_only_folder_fails_before_the_work(run, monkeypatch):
    written = audit(run, DATA, rows=8, quiet=True)
    assert run.saved_audit() == json.loads(json.dumps(written))
    monkeypatch.setattr(os, "access", lambda *given, **named: False)
    monkeypatch.setattr(
        "unbraid.runs.evaluation.auditing.posteriors", lambda *given, **named: pytest.fail("worked first")
    )
    with pytest.raises(UnbraidError, match="not writable"):
        audit(run, DATA, rows=8, quiet=True)


def test_printed_commands_can_be_pasted(run, monkeypatch):
    monkeypatch.setattr(errors, "_command_line", True)
    (run.path / "model.safetensors").rename(run.path / "away")
    try:
        with pytest.raises(UnbraidError, match=r"--out '.*a run; \$\(echo\)'"):
            Run.load(run.path).sample(1)
    finally:
        (run.path / "away").rename(run.path / "model.safetensors")
    with pytest.raises(UnbraidError, match=r"unbraid encode '.*a run; \$\(echo\)'"):
        run.codes()


@pytest.mark.parametrize("name", ["../up", "a/b", "a\\b", "..", ".", "", "x" * 300, "a\nb", "a\0b", "/tmp/x"])
def test_a_name_cannot_lead_out_of_the_folder_of_runs(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    recipe = Recipe(data="toy", latent=2, name=name, nets="decomposition_table1b", budget={"steps": 1, "batch": 8})
    with pytest.raises(UnbraidError, match="name of its run directory"):
        fit(recipe, quiet=True, dataset=DATA)
    assert list(tmp_path.iterdir()) == []
    assert fit(recipe, tmp_path / "named", quiet=True, dataset=DATA).state["status"] == "done"  # with --out any will do


def test_set_corrects_a_file_before_it_is_refused(tmp_path):
    (tmp_path / "bad.toml").write_text('data = "sprites32"\nlatent = true\n[budget]\nsteps = "many"\nbatch = 8\n')
    with pytest.raises(UnbraidError, match="budget.steps"):
        Recipe.load(tmp_path / "bad.toml")
    mended = Recipe.load(tmp_path / "bad.toml", "budget.steps=3", "latent=4", "data.orientation=true")
    assert (mended.budget.steps, mended.latent, mended.data["orientation"]) == (3, 4, True)
    result = CliRunner().invoke(app, ["train", str(tmp_path / "bad.toml"), "-s", "budget.steps=3", "-s", "latent=x("])
    assert "budget" not in str(result.exception)
    assert "x(" in str(result.exception)


@pytest.mark.parametrize("path", ["x" * 5000, "x/" * 3000, "a\udcffb"])
@pytest.mark.parametrize("verb", [["train"], ["train", "--resume", "--out"], ["encode"], ["audit"], ["report"]])
def test_paths_too_long_or_not_utf8_are_named(verb, path, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["unbraid", *verb, path])
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code == 2
    assert capsys.readouterr().err.startswith("error: ")


def test_a_path_that_is_not_utf8_can_be_printed(tmp_path):
    command = [sys.executable, "-m", "unbraid", "recipes", "show", os.fsencode("a\udcffb.toml")]
    done = subprocess.run(command, capture_output=True, cwd=tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith(b"error: cannot read recipe a\\udcffb.toml")


def test_a_ledger_of_thousands_of_terms_is_read_and_drawn_in_part(run, tmp_path):
    (tmp_path / "recipe.toml").write_bytes((run.path / "recipe.toml").read_bytes())
    nats = {"reconstruction": 1.0, **{f"mi:leaf{i}": 0.5 for i in range(5000)}}
    row = {"loss": 1.0, "nats": nats, "prices": dict.fromkeys(nats, 1.0)}
    (tmp_path / "ledger.jsonl").write_text("".join(json.dumps({"step": s, **row}) + "\n" for s in range(20)))
    figure = ledger_curves(Run.load(tmp_path))
    assert sum(axes.get_visible() for axes in figure.axes) == 60
    assert figure.get_supxlabel() == "step (4,941 more terms are in ledger.jsonl)"
    assert len(Run.load(tmp_path).ledger()) == 20


@pytest.mark.parametrize("name", ["audit.json", "scores.json", "ledger.jsonl", "run.json"])
@pytest.mark.parametrize("text", ["{", "3", "[1, 2]", '{"scores": 3}', DEEP_JSON])
def test_a_report_names_the_damaged_file(run, name, text):
    path = run.path / name
    before = path.read_bytes() if path.exists() else None
    path.write_text(text + "\n")
    try:
        with pytest.raises(UnbraidError, match=rf"{name}|scores in"):
            report(Run.load(run.path, dataset=DATA))
    finally:
        path.unlink() if before is None else path.write_bytes(before)


def test_a_report_needs_neither_steps_nor_terms(run, tmp_path):
    for name in ("recipe.toml", "model.safetensors"):
        (tmp_path / name).write_bytes((run.path / name).read_bytes())
    state = {key: value for key, value in run.state.items() if key != "steps"}
    (tmp_path / "run.json").write_text(json.dumps(state))
    (tmp_path / "ledger.jsonl").write_text('{"step": 0, "loss": 1.0, "nats": {}, "prices": {}}\n')
    assert report(Run.load(tmp_path, dataset=DATA)).is_file()


def test_codes_with_words_for_numbers_are_named(tmp_path):
    codes = {"mean": np.zeros((3, 2)), "kl": np.array(["a", "b"])}
    np.savez(tmp_path / "codes.npz", **codes)
    with pytest.raises(UnbraidError, match="kl that holds no numbers"):
        Codes.load(tmp_path / "codes.npz")


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_weights_that_are_not_finite_are_refused(run, tmp_path, value):
    for name in ("recipe.toml", "run.json"):
        (tmp_path / name).write_bytes((run.path / name).read_bytes())
    tensors, note = read_tensors(run.path / "model.safetensors")
    name = next(iter(tensors))
    tensors[name].view(-1)[0] = value
    write_tensors(tmp_path / "model.safetensors", tensors, note)
    with pytest.raises(UnbraidError, match=r"are not finite: found NaN or infinity in 1 tensors"):
        Run.load(tmp_path).sample(1)


@pytest.mark.parametrize("depth", [100, 400, 3000])
def test_deep_nesting_on_the_command_line_is_named(depth, tmp_path):
    for command in (["train", "vae_sprites32", "--out", str(tmp_path / "r")], ["data", "make", "sprites32"]):
        for field in ("latent", "size"):
            done = CliRunner().invoke(app, [*command, "--set", f"{field}=" + "[" * depth + "]" * depth])
            assert done.exit_code != 0
            assert done.exception is None or isinstance(done.exception, UnbraidError | SystemExit), repr(done.exception)
