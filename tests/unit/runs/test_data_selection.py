"""The data that a run is evaluated on: a split, another data set, factors left out; in Python and on the command line."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import unbraid
from unbraid.cli import app
from unbraid.core.errors import UnbraidError
from unbraid.data import load
from unbraid.runs.evaluation.data_selection import select_data
from unbraid.runs.evaluation.scoring import Scores

OLD_RUNS = Path(__file__).parents[2] / "data" / "runs_of_0_1"


@pytest.fixture
def run(tmp_path):
    shutil.copytree(OLD_RUNS / "vae", tmp_path / "run")  # digits of 8 × 8, split train with test = 0.9
    return unbraid.Run.load(tmp_path / "run")


def run_cli(*arguments):
    done = CliRunner().invoke(app, [*map(str, arguments)])
    assert done.exit_code == 0, (done.output, done.exception)
    return done.output


def test_splits_of_the_runs_own_data(run):
    own, note = select_data(run)
    test, _ = select_data(run, split="test")
    whole, _ = select_data(run, split="all")
    assert (len(own), len(test), len(whole)) == (180, 1617, 1797)
    assert note == {"data": "digits", "split": "train", "images": 180}
    same, _ = select_data(run, "digits")  # the whole set, in the run's size
    assert len(same) == 1797
    assert same.shape == (1, 8, 8)
    with pytest.raises(UnbraidError, match="hold nothing out"):
        select_data(run, split="held_out")


def test_combinations_held_out_are_a_split(run):
    recipe = run.path / "recipe.toml"
    recipe.write_text(recipe.read_text().replace("size = 8", "size = 8\nhold_out = {class = 3}"))
    seen, held = (select_data(unbraid.Run.load(run.path), split=split)[0] for split in ("all", "held_out"))
    assert set(np.unique(held.labels())) == {3}
    assert 3 not in seen.labels()


def test_other_data_by_path_and_in_memory(run, tmp_path):
    images = np.random.default_rng(0).integers(0, 255, (40, 8, 8), np.uint8)
    np.save(tmp_path / "mine.npy", images)
    for given in (tmp_path / "mine.npy", str(tmp_path / "mine.npy"), load("images", path=str(tmp_path / "mine.npy"))):
        assert len(unbraid.encode(run, given, quiet=True, save=False)) == 40
    with pytest.raises(UnbraidError, match="no data set and no file 'digit'. Did you mean 'digits'"):
        select_data(run, "digit")
    np.save(tmp_path / "large.npy", np.zeros((4, 9, 9), np.uint8))
    with pytest.raises(UnbraidError, match="does not fit this run"):
        select_data(run, tmp_path / "large.npy")


def test_factors_left_out_have_no_labels(run):
    codes = unbraid.encode(run, leave_out="class", quiet=True, save=False)
    assert codes.factors is None
    assert codes.values is None
    with pytest.raises(UnbraidError, match="no factor 'clas'. Did you mean 'class'"):
        unbraid.encode(run, leave_out=["clas"], quiet=True)


def test_commands_take_data_split_and_leave_out(run):
    out = run_cli("encode", run.path, "--split", "test", "--quiet")
    assert "1,617 codes of 3 columns (data digits, split test)" in out
    assert len(run.codes()) == 1617
    run_cli("score", run.path, "--metrics", "mig")  # of the codes there are
    assert Scores.load(run.path).settings["split"] == "test"
    run_cli("score", run.path, "--metrics", "mig", "--split", "all", "--data", "digits")
    found = Scores.load(run.path)
    assert (found.rows, found.settings["split"]) == (1797, "all")
    assert len(run.codes()) == 1617, "scoring another part leaves the codes alone"
    run_cli("audit", run.path, "--split", "test", "--leave-out", "class", "--rows", 64, "--quiet", "--also", "mmd")
    audited = json.loads((run.path / "audit.json").read_text())
    assert (audited["n"], audited["split"], audited["left_out"]) == (1617, "test", ["class"])
    assert set(audited["also"]) == {"mmd"}


def test_the_audit_gives_divergences_on_demand(run):
    found = unbraid.audit(run, divergences=["mmd", "mmd_rbf", "inclusive_kl"], quiet=True, save=False)["also"]
    # six steps of training leave q(z|x) next to the prior, so every divergence is next to nothing
    for name, unit in {"mmd": 0.1, "mmd_rbf": 0.1, "inclusive_kl": 0.3}.items():
        assert abs(found[name]["value"]) < unit
    assert found["inclusive_kl"]["value"] > -3 * found["inclusive_kl"]["error"]
    assert "also" not in unbraid.audit(run, quiet=True, save=False)
    with pytest.raises(UnbraidError, match="Did you mean 'mmd'"):
        unbraid.audit(run, divergences="mdm", quiet=True)


def test_a_subset_keeps_the_weight_of_the_samples_own_posterior(run):
    """E log q(z) over M of N posteriors: with the own one at 1/M, mi would be near log M whatever the truth."""
    import torch

    from tests.toys import random_posterior
    from unbraid.latent import Latent
    from unbraid.model.draw import Draw
    from unbraid.runs.evaluation.auditing import _mixture_estimator
    from unbraid.terms import exact

    tree, n, m = Latent.of(2), 800, 50
    q = random_posterior(tree, n, seed=1, spread=2.0)
    index = torch.randperm(n)[:m]
    part = q.select_rows(index)
    z = part.rsample()

    def log_q(estimator, size):
        return Draw(None, torch.zeros(m, 1, 1, 1), part, z, size, estimator).log_q[:, 0].mean()  # type: ignore[arg-type]

    truth = log_q(exact(q), n)
    mended, naive = log_q(_mixture_estimator(part, np.arange(m), n), n), log_q(exact(part), m)
    assert abs(mended - truth) < 0.5 * abs(naive - truth)


def test_a_read_only_run_is_refused_before_the_work(run, monkeypatch):
    def work(*_, **__):
        raise AssertionError("the work began")

    monkeypatch.setattr("unbraid.core.files.os.access", lambda *_: False)
    monkeypatch.setattr("unbraid.runs.evaluation.encoding.posteriors", work)
    monkeypatch.setattr("unbraid.runs.evaluation.auditing.posteriors", work)
    for stage in (unbraid.encode, unbraid.audit, unbraid.score):
        with pytest.raises(UnbraidError, match="not writable"):
            stage(run, quiet=True)
