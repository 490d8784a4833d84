"""Commands with the weights of a snapshot or the best ones: they use those, and leave the files of the run unchanged."""

from __future__ import annotations

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from tests.toys import toy_data
from unbraid import Recipe, Run, UnbraidError, audit, encode, fit, report, score
from unbraid.cli import app
from unbraid.codes import Codes
from unbraid.data import of
from unbraid.figures.registry import draw_figure
from unbraid.runs.evaluation.leaf_summary import summarise_leaves
from unbraid.runs.folder.file_names import AUDIT_FILE


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run with a snapshot and with best weights that are not the last, encoded, scored and audited."""
    top = tmp_path_factory.mktemp("weights")
    toy = toy_data(96)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("UNBRAID_CACHE", str(top / "cache"))
        data = of(toy.images.array, dict(zip(toy.factors.names, toy.labels().T, strict=True)), quiet=True)
        budget = {
            "steps": 30,
            "batch": 16,
            "threads": 1,
            "lr": 0.05,
            "snapshots": [0, 30],
            "validate_every": 5,
            "best": True,
        }
        recipe = Recipe(data="mine", latent=2, nets={"name": "mlp", "width": [8]}, budget=budget)
        fit(recipe, top / "run", dataset=data, validation=toy_data(40, seed=3), quiet=True)
        made = Run.load(top / "run")
        encode(made, quiet=True)
        score(made, metrics="mig", quiet=True)
        audit(made, rows=32, quiet=True)
        yield made


def invoke(*words):
    return CliRunner().invoke(app, [str(word) for word in words])


def file_contents(run):
    return {path.name: path.read_bytes() for path in run.path.iterdir() if path.is_file()}


@pytest.mark.parametrize("how", [["--best"], ["--at", 0]], ids=["best", "at"])
def test_every_command_takes_other_weights_and_leaves_the_run_unchanged(how, run, tmp_path):
    before, other = file_contents(run), run.best() if how == ["--best"] else run.at(0)
    step = other.state["step"]
    done = invoke("encode", run.path, "-q", *how, "--out", tmp_path / "codes.npz")
    assert done.exit_code == 0, done.output
    assert f"step {step}" in done.output
    codes = Codes.load(tmp_path / "codes.npz")
    np.testing.assert_array_equal(codes.mean, encode(other, quiet=True).mean)
    done = invoke("score", run.path, "--metrics", "mig", *how, "--json")
    assert json.loads(done.stdout)["settings"]["step"] == step
    assert json.loads(done.stdout)["scores"]["mig"]["value"] == score(other, metrics="mig", quiet=True)["mig"].value
    assert "not written: a run keeps" in invoke("score", run.path, "--metrics", "mig", *how).output
    done = invoke("score", run.path, "--metrics", "mig", *how, "--out", tmp_path / "scores")
    assert (tmp_path / "scores" / "scores.json").is_file()
    done = invoke("audit", run.path, "--rows", 32, "-q", *how, "--out", tmp_path / "audit.json")
    assert done.exit_code == 0, done.output
    assert json.loads((tmp_path / "audit.json").read_text())["nats"] == audit(other, rows=32, quiet=True)["nats"]
    assert f"weights after step {step}" in invoke("audit", run.path, "--rows", 32, "-q", *how).output
    for words in (["report", run.path, *how], ["export", run.path, "--html", *how]):
        refused = invoke(*words)
        assert "is made of the last weights, and is not overwritten" in str(refused.exception)
        assert invoke(*words, "--out", tmp_path / "page.html").exit_code == 0
    assert invoke("export", run.path, "--hub", *how, "--out", tmp_path / "hub").exit_code == 0
    assert not (tmp_path / "hub" / "scores.json").exists()
    assert Run.load(tmp_path / "hub").state["step"] == step
    for name in ("traversals", "kl", "information", "aggregate"):
        done = invoke("figure", name, run.path, *how, "--out", tmp_path / f"{name}.png")
        assert done.exit_code == 0, str(done.exception)
    assert file_contents(run) == before


def test_figures_of_a_snapshot_use_its_own_codes_not_the_audit(run):
    books = json.loads((run.path / AUDIT_FILE).read_text())["leaf_mi"]
    assert {note.name: note.nats for note in summarise_leaves(run)} == pytest.approx(books)
    first = run.at(0)
    own = encode(first, quiet=True)
    shown = {note.name: note.nats for note in summarise_leaves(first, own)}
    assert shown == pytest.approx(dict(zip((leaf.name for leaf in own.tree.leaves), own.kl, strict=True)))
    assert shown != pytest.approx(books)
    bars = [bar.get_height() for bar in draw_figure("kl", first).axes[0].patches]
    assert bars == pytest.approx(list(own.kl))


def test_a_report_of_a_snapshot_shows_no_scores_of_the_last_weights(run, tmp_path):
    last = report(run, tmp_path / "last.html").read_text()
    page = report(run.at(0), tmp_path / "first.html").read_text()
    assert ">mig<" in last
    assert ">mig<" not in page
    assert "after step 0" in page


def test_options_that_exclude_each_other_are_named(run, tmp_path):
    for words, message in (
        (["encode", run.path, "--best"], "not overwritten: found the best weights. State where to write: --out"),
        (["encode", run.path, "--best", "--at", 0], "one set of weights at a time: found --best and --at"),
        (["encode", run.path, "--at", 7], "has no snapshot of step 7: found snapshots after 0, 30"),
        (["score", run.path / "codes.npz", "--best"], "choose the weights of a run"),
        (["score", run.path, "--best", "--over-training"], "choose the weights of one run"),
    ):
        done = invoke(*words)
        assert isinstance(done.exception, UnbraidError)
        assert message in str(done.exception)
