"""`unbraid study`: the list, the errors, and every analytic study at a small size."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

from tests.toys import make_app
from unbraid.cli.study import study as study_command
from unbraid.core.errors import UnbraidError
from unbraid.studies import STUDIES, Study, StudyOutput, run_analytic_study
from unbraid.studies.analytic import hfvae_toy, isa_vae_toys, metric_sensitivity, priors_gallery
from unbraid.studies.framework.results import Results

RESULTS = Path(__file__).parents[3] / "docs" / "results"


@pytest.fixture(scope="module")
def app() -> typer.Typer:
    return make_app("study", study_command)


def invoke_study(app, *arguments):
    return CliRunner().invoke(app, ["study", *map(str, arguments)], env={"COLUMNS": "80"})


def test_every_study_is_listed_in_80_columns_with_its_paper(app):
    done = invoke_study(app)
    assert done.exit_code == 0, done.exception
    for name, study in STUDIES.items():
        (line,) = re.findall(rf"^{name} .*$", done.output, re.M)  # one line each
        claims, *rest = line.removeprefix(name).split(maxsplit=1)
        assert claims == (str(len(study.claims)) if study.claims else "–")
        assert re.search(rf"{re.escape(study.cost['cpu'])} +{re.escape(study.cite[:5])}", rest[0])  # apart
        assert study.cite.split(",")[0].split(";")[0] in line
    assert max(map(len, done.output.splitlines())) <= 80


def test_the_list_does_not_wait_for_torch():
    code = "import sys, unbraid.studies, unbraid.cli.study\nassert 'torch' not in sys.modules"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_dry_builds_every_arm_once_whatever_the_number_of_seeds(app):
    arms = [arm.label for arm in STUDIES["pinwheel"].arms("tiny")]
    for seeds in (1, 2, 3):
        done = invoke_study(app, "pinwheel", "--scale", "tiny", "--seeds", seeds, "--dry")
        assert done.exit_code == 0, done.exception
        assert f"{seeds * len(arms)} runs ({len(arms)} arms × {seeds} seeds)" in done.output
        built, asked = done.output.split("\ncost: ")
        assert [line.split()[0] for line in built.splitlines()[1:]] == arms
        assert STUDIES["pinwheel"].about in " ".join(asked.split())
        assert asked.count("\n  - ") == len(STUDIES["pinwheel"].claims)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("thery", "--out", "x"), "Did you mean 'theory'"),
        (("pinwheel", "--scale", "huge"), "three scales.*tiny, cpu, paper"),
        (("pinwheel", "--scale", "tiny", "--keep", "x"), "tiny yields no verdict.*Omit --keep"),
        (("pinwheel", "--report", "--out", "nowhere"), "no study in nowhere"),
    ],
)
def test_mistakes_are_named(app, arguments, says):
    done = invoke_study(app, *arguments)
    assert isinstance(done.exception, UnbraidError)
    assert re.search(says, str(done.exception))


def test_a_kept_page_is_rewritten_where_its_runs_are_not_on_this_disk(app, tmp_path, monkeypatch):
    kept = tmp_path / "kept" / "iwae_order"
    shutil.copytree(RESULTS / "iwae_order", kept)
    (kept / "page.md").write_text("an old page")
    picture = (kept / "iwae_order.png").read_bytes()
    report = ("iwae_order", "--report", "--keep", kept.parent, "--out", tmp_path / "out", "--quiet")
    done = invoke_study(app, *report)
    assert done.exit_code == 0, done.exception
    judged = [
        re.sub(r" · claims as of.*", "", (at / "iwae_order" / "page.md").read_text()) for at in (kept.parent, RESULTS)
    ]
    assert judged[0] == judged[1]
    rows = [Results.load(at).rows for at in (kept, RESULTS / "iwae_order")]
    assert rows[0] == rows[1]
    assert (kept / "iwae_order.png").read_bytes() == picture  # runs that are drawn in it are not here
    changed = Results.load(kept).metadata["changed"]
    monkeypatch.setattr("unbraid.studies.framework.runner.current_commit", lambda: "abcdef0")
    assert invoke_study(app, *report, "--out", tmp_path / "third").exit_code == 0
    assert Results.load(kept).metadata["changed"] == changed  # the same claims and settings at another commit
    other = invoke_study(app, *report, "--scale", "paper", "--out", tmp_path / "other")  # nothing is kept of that scale
    assert "there is no study in" in str(other.exception)
    assert Results.load(kept).rows == rows[1]


def test_a_study_at_scale_tiny_says_why_there_is_no_verdict(app, tmp_path):
    done = invoke_study(app, "pinwheel", "--scale", "tiny", "--report", "--quiet", "--out", tmp_path)  # no run yet
    assert done.exit_code == 0, done.exception
    assert "yields no verdict" in done.output


@pytest.fixture
def quick_study(monkeypatch) -> None:
    def quick(out, advance):
        (out / "a.png").write_bytes(b"picture")
        advance(note="one")
        return StudyOutput(("what", "nats"), [("H[q(z)]", "+1.50"), ("widest", "60°")], {"entropy": 1.5}, ("a.png",))

    monkeypatch.setitem(STUDIES, "quick", Study("a study", "Nobody 2020", main=quick, steps=1))


def test_a_study_writes_pictures_and_numbers_and_prints_a_table(app, quick_study, tmp_path):
    done = invoke_study(app, "quick", "--out", tmp_path / "here")
    assert done.exit_code == 0, done.exception
    assert "H[q(z)]" in done.output  # not taken for markup
    assert "a.png" in done.output
    stored = json.loads((tmp_path / "here" / "quick.json").read_text())
    assert stored == {"study": "quick", "cite": "Nobody 2020", "numbers": {"entropy": 1.5}}
    assert json.loads(invoke_study(app, "quick", "--out", tmp_path, "--json").stdout) == {"entropy": 1.5}


def check_output(found: StudyOutput, folder) -> None:
    json.dumps(found.numbers, allow_nan=False)
    assert all(len(row) == len(found.columns) for row in found.rows)
    widths = [max(map(len, column)) for column in zip(found.columns, *found.rows, strict=True)]
    assert sum(widths) + 3 * len(widths) <= 80, "the table must fit 80 columns"
    for picture in found.pictures:
        assert (folder / picture).read_bytes()[:4] == b"\x89PNG"


def recording_advance() -> tuple[list[str], object]:
    notes: list[str] = []
    return notes, lambda n=1, note="": notes.append(note)


def test_four_terms_small(tmp_path):
    notes, advance = recording_advance()
    check_output(hfvae_toy.main(tmp_path, advance, steps=3), tmp_path)
    assert len(notes) == STUDIES["hfvae_toy"].steps


def test_priors_gallery(tmp_path):
    """Each sums to one but for tails outside of the square (1.6% of draws of the widest) and the edge of the uniform one."""
    notes, advance = recording_advance()
    found = priors_gallery.main(tmp_path, advance)
    check_output(found, tmp_path)
    assert len(notes) == STUDIES["priors_gallery"].steps
    assert len(found.numbers["mass"]) == len(priors_gallery.PLANE_PRIORS)
    assert all(0.97 < mass < 1.02 for mass in found.numbers["mass"].values())


def test_isa_toys_small(tmp_path):
    notes, advance = recording_advance()
    found = isa_vae_toys.main(tmp_path, advance, rounds=2)
    check_output(found, tmp_path)
    assert len(notes) == 2 * 2 + len(found.pictures)
    assert STUDIES["isa_vae_toys"].steps == 2 * 200 + len(found.pictures)
    assert found.rows[2][2] == found.rows[2][3] == "-57.16"


def test_sensitivity_small(tmp_path):
    """One seed: the steps of Adagrad matter, votes hardly do, and K − 1 factors fool Higgins' metric alone."""
    notes, advance = recording_advance()
    found = metric_sensitivity.main(tmp_path, advance, seeds=1)
    check_output(found, tmp_path)
    assert len(notes) == STUDIES["metric_sensitivity"].steps
    score = {(s["metric"], s["setting"]): np.mean(s["scores"]) for s in found.numbers["scores"]}
    assert score["Higgins", "3,000 steps, L = 50"] > score["Higgins", "100 steps, L = 50"] + 0.2
    votes = [score["vote", f"{v:,} votes, L = 100"] for v in metric_sensitivity.VOTES]
    assert max(votes) - min(votes) < 0.05
    for name in ("Higgins, Adagrad", "Higgins, logistic"):
        assert score[name, "4 of 5 factors held"] > 0.97
    assert score["FactorVAE's vote", "4 of 5 factors held"] == pytest.approx(0.8, abs=0.06)
    assert score["FactorVAE's vote", "5 of 5 factors held"] == 1


@pytest.mark.slow
def test_theory_through_run(tmp_path):
    notes, advance = recording_advance()
    found = run_analytic_study("theory", tmp_path, advance)
    check_output(found, tmp_path)
    assert len(notes) == STUDIES["theory"].steps
    assert json.loads((tmp_path / "theory.json").read_text())["numbers"].keys() == {"theorems", "entropy", "tc"}
