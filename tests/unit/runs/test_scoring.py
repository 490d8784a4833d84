"""`unbraid.score`: one function and one schema for the command, the demo and the report."""

import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest

import unbraid
from unbraid import metrics
from unbraid.codes import Codes
from unbraid.core.errors import UnbraidError
from unbraid.data.factors import Factors
from unbraid.latent import Latent
from unbraid.runs.evaluation.scoring import Scores, score

OLD_RUNS = Path(__file__).parents[2] / "data" / "runs_of_0_1"
FACTORS = Factors.of({"shape": 3, "x": 12})


def make_codes(n: int = 300) -> Codes:
    rng = np.random.default_rng(0)
    y = FACTORS.labels(rng.integers(FACTORS.count, size=n))
    z = np.column_stack([y + 0.1 * rng.normal(size=y.shape), 0.01 * rng.normal(size=n)])
    return Codes(z, Latent.of(3), np.full((n, 3), 0.1), y, FACTORS, np.array([2.0, 3.0, 0.001]))


def test_codes_arrays_and_files_score_alike(tmp_path):
    c = make_codes()
    c.save(tmp_path / "codes.npz")
    np.save(tmp_path / "z.npy", c.mean)
    (tmp_path / "y.csv").write_text("shape;x\n" + "".join(f"{a};{b}\n" for a, b in c.values))
    wanted = {"metrics": "mig,sap", "quiet": True}
    expected = metrics.battery(c, metrics="mig,sap")
    found = [
        score(c, **wanted),
        score(c.mean, c.values, names=FACTORS.names, kinds=["class", "ordinal"], **wanted),
        score(tmp_path, **wanted),
        score(tmp_path / "codes.npz", **wanted),
        score(tmp_path / "z.npy", tmp_path / "y.csv", kinds=["class", "ordinal"], **wanted),
    ]
    for scores in found:
        assert {n: s.value for n, s in scores.items()} == {n: s.value for n, s in expected.items()}
        assert scores.factors == {"shape": 3, "x": 12}


def test_a_table_is_scored_with_its_own_units_and_labels(tmp_path):
    c = make_codes()
    options = {"groups": [[0, 1], [2]], "names": ["a", "b"], "kinds": ["class", "ordinal"]}
    table = metrics.as_table(c.mean, c.values, **options)
    notes = dict(table.notes)
    found = score(table, metrics="mig,sap", leave_out="b", seeds=2, out=tmp_path, quiet=True)
    expected = score(c.mean, c.values, metrics="mig,sap", leave_out="b", seeds=2, quiet=True, **options)
    assert {n: (s.value, s.interval) for n, s in found.items()} == {
        n: (s.value, s.interval) for n, s in expected.items()
    }
    assert found.factors == {"a": 3}
    assert found.settings["groups"] == {"z0+z1": [0, 1], "z2": [2]}
    assert table.notes == notes
    assert Scores.load(tmp_path)["mig"].value == found["mig"].value
    with pytest.raises(UnbraidError, match="already has its labels and groups: found also names"):
        score(table, names=["a", "b"], quiet=True)
    with pytest.raises(UnbraidError, match="score takes no option 'group'. Did you mean 'groups'"):
        score(table, group="top", quiet=True)


def test_what_is_written_is_read_back(tmp_path):
    made = score(make_codes(), metrics="mig,factor_vae,hoyer,mig@paper", out=tmp_path, seeds=3, quiet=True)
    stored = json.loads((tmp_path / "scores.json").read_text())
    assert stored["schema"] == 2
    assert set(stored) == {"schema", "settings", "rows", "units", "factors", "notes", "ceilings", "skipped", "scores"}
    assert set(stored["scores"]["mig"]) == {"value", "table", "interval", "settings", "cite"}
    read = Scores.load(tmp_path)
    assert read.as_dict() == made.as_dict() == stored
    assert list(read) == ["mig", "factor_vae", "hoyer", "mig@paper"]
    assert read["mig"].interval == made["mig"].interval
    assert read["mig@paper"].settings["estimator"] == "posterior"
    assert np.array_equal(read["mig"].table["matrix"], made["mig"].table["matrix"])


def test_arrays_in_memory_write_nothing_without_out(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    score(make_codes(), metrics="mig", quiet=True)
    assert not list(tmp_path.iterdir())


def test_factors_left_out_are_not_scored_and_noted():
    made = score(make_codes(), metrics="mig", leave_out="shape", quiet=True)
    assert made.factors == {"x": 12}
    assert made.settings["left_out"] == ["shape"]
    assert made["mig"].value == metrics.mig(make_codes().drop_factors("shape"), protocol="fast").value
    with pytest.raises(UnbraidError, match="Did you mean 'shape'"):
        score(make_codes(), leave_out="shap", quiet=True)
    with pytest.raises(UnbraidError, match="at least one factor must remain"):
        score(make_codes(), leave_out=["shape", "x"], quiet=True)


def test_printing_fits_into_a_few_lines_of_a_terminal():
    made = score(make_codes(), quiet=True)
    lines = str(made).splitlines()
    assert len(lines) <= 12
    assert max(map(len, lines)) <= 100
    assert "shape 3, x 12" in lines[0]
    assert f"mig {made['mig'].value:.3f}" in str(made)
    assert "<table>" in made._repr_html_()
    text = str(make_codes())
    assert text.splitlines()[0] == "codes of 300 examples in 3 columns, means and scales"
    assert "2 of 3 above 0.05" in text
    assert "factors  shape 3, x 12" in text
    run = unbraid.Run.load(OLD_RUNS / "vae")
    assert "status   done" in str(run) or "status   finished" in str(run), str(run)
    assert str(OLD_RUNS / "vae") in run._repr_html_()
    assert "<table>" in run._repr_html_()


def test_a_run_prints_its_scores_and_how_long_it_trained(tmp_path):
    path = tmp_path / "run"
    shutil.copytree(OLD_RUNS / "vae", path)
    (path / "scores.json").unlink()
    assert "scores " not in str(unbraid.Run.load(path))
    assert "trained in" not in str(unbraid.Run.load(path))
    score(make_codes(), metrics="mig,dci,sap,modularity,hoyer", quiet=True).save(path)
    (path / "outcome.json").write_text('{"seconds": {"train": 43.7}}')
    text = str(unbraid.Run.load(path))
    assert re.search(r"  scores   mig \d\.\d{3}, dci \d\.\d{3}, sap \d\.\d{3}, \w+ \d\.\d{3} and 1 more", text), text
    assert ", trained in 44 s" in text
    assert len(text.splitlines()) <= 8
    (path / "scores.json").write_text("{")
    (path / "outcome.json").write_text('{"seconds": 3}')
    assert "scores   cannot be read" in str(unbraid.Run.load(path))


def test_an_audit_prints_a_line_for_each_term_and_stays_plain_data(tmp_path):
    shutil.copytree(OLD_RUNS / "vae", tmp_path / "run")
    run = unbraid.Run.load(tmp_path / "run")
    made = unbraid.audit(run, rows=16, divergences="mmd", quiet=True)
    lines = str(made).splitlines()
    assert [line.split()[0] for line in lines[:2]] == ["reconstruction", "kl"]
    assert any(line.strip().startswith("mmd ") for line in lines)
    assert lines[-1].startswith("nats per example; q(z) exact of")
    assert json.loads((run.path / "audit.json").read_text()) == json.loads(json.dumps(made))
    assert str(run.saved_audit()) == str(made)


def test_frames():
    pytest.importorskip("pandas")
    made = score(make_codes(), metrics="mig,factor_vae", quiet=True)
    frame = made.to_frame()
    assert frame.loc["mig", "value"] == made["mig"].value
    assert frame.loc["factor_vae", "low"] == made["factor_vae"].interval[0]
    table = make_codes().to_frame()
    assert list(table.columns) == ["z0", "z1", "z2", "shape", "x"]
    assert len(table) == 300


@pytest.mark.parametrize("name", sorted(p.parent.name for p in OLD_RUNS.glob("*/scores.json")))
def test_scores_of_version_0_1_are_read(name):
    old = json.loads((OLD_RUNS / name / "scores.json").read_text())
    read = Scores.load(OLD_RUNS / name)
    assert read["mig"].value == old["scores"]["mig"]["value"]
    assert read.rows == old["rows"]
    assert list(read.factors) == old["factors"]
    assert read.settings["protocol"] == old["protocol"]
    # one name per quantity: what 0.1 called total correlation was the Gaussian's
    assert read["gaussian_total_correlation"].value == old["scores"]["total_correlation"]["value"]


def test_the_list_that_the_demo_of_0_1_wrote_is_read(tmp_path):
    (tmp_path / "scores.json").write_text(json.dumps([metrics.mig(make_codes()).as_dict()]))
    assert Scores.load(tmp_path)["mig"].value == metrics.mig(make_codes()).value


@pytest.mark.parametrize(
    "text",
    [
        '{"schema": 2, "scores": {}, "settings": {}, "rows": 1e999}',
        '{"a": 1}',
        '"x"',
        "[1]",
        '{"scores": [1]}',
        '{"scores": {"mig": 3}}',
        '{"scores": {"mig": {"value": "x"}}}',
        "[" * 9999,
    ]
    + [
        '{"schema": 99, "scores": {}}',
        '{"schema": 2, "scores": {}}',
        '{"scores": {"mig": {"value": 1, "interval": [1]}}}',
    ],
)
def test_damaged_scores_are_named(tmp_path, text):
    (tmp_path / "scores.json").write_text(text)
    with pytest.raises(UnbraidError, match="scores"):
        Scores.load(tmp_path)


def test_a_run_is_encoded_when_it_has_no_codes_and_its_codes_are_used_when_it_has(tmp_path):
    run = tmp_path / "run"
    shutil.copytree(OLD_RUNS / "vae", run)
    kept = score(run, metrics="mig", save=False, quiet=True)
    assert kept["mig"].value == Scores.load(run)["mig"].value
    (run / "codes.npz").unlink()
    again = score(unbraid.Run.load(run), metrics="mig", quiet=True)
    assert again["mig"].value == pytest.approx(kept["mig"].value, abs=0.05)
    assert (run / "codes.npz").is_file()
    assert Codes.load(run / "codes.npz").notes["data"] == again.settings["data"]


def test_mistakes_come_before_the_work(tmp_path):
    run = tmp_path / "run"
    shutil.copytree(OLD_RUNS / "vae", run)
    (run / "codes.npz").unlink()
    for wrong in ({"metrics": "mgi"}, {"protocol": "quick"}, {"data": "nowhere"}, {"metrics": "mcc@paper"}):
        with pytest.raises(UnbraidError):
            score(run, quiet=True, **wrong)
        assert not (run / "codes.npz").exists()
    with pytest.raises(UnbraidError, match="codes without a run"):
        score(make_codes(), split="test", quiet=True)


def test_a_run_directory_may_be_called_like_a_file(tmp_path):
    run = shutil.copytree(OLD_RUNS / "vae", tmp_path / "one.json")
    assert Scores.load(run)["mig"].value == Scores.load(OLD_RUNS / "vae")["mig"].value
