"""The command `unbraid score`."""

import json

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

from tests.toys import make_app
from unbraid.cli.score import score
from unbraid.codes import Codes
from unbraid.core.errors import UnbraidError
from unbraid.data.factors import Factors
from unbraid.figures.score_figures import score_gallery, score_heat_maps
from unbraid.latent import Latent
from unbraid.metrics.evaluation.battery import battery

FACTORS = Factors.of({"shape": 3, "x": 12})


@pytest.fixture(scope="module")
def app() -> typer.Typer:
    return make_app("score", score)


@pytest.fixture
def folder(tmp_path):
    y = FACTORS.labels(np.random.default_rng(0).integers(FACTORS.count, size=300))
    z = np.column_stack([y, np.zeros(300)]).astype(float)
    Codes(z, Latent.of(3), values=y, factors=FACTORS, kl=np.array([1.0, 1.0, 0.0])).save(tmp_path / "codes.npz")
    np.save(tmp_path / "z.npy", z)
    names = np.array(["square", "ellipse", "heart"])[y[:, 0]]
    (tmp_path / "y.csv").write_text("shape,x\n" + "".join(f"{a},{b}\n" for a, b in zip(names, y[:, 1], strict=True)))
    return tmp_path


def invoke_score(app, *arguments):
    return CliRunner().invoke(app, ["score", *map(str, arguments)], env={"COLUMNS": "80"})


def test_codes_of_a_run_are_scored_and_written_beside_it(app, folder):
    done = invoke_score(app, folder, "--metrics", "mig,dci,factor_vae")
    assert done.exit_code == 0, done.exception
    assert "factor_vae" in done.output
    stored = json.loads((folder / "scores.json").read_text())
    assert stored["factors"] == {"shape": 3, "x": 12}
    assert stored["scores"]["mig"]["value"] > 0.95
    assert stored["scores"]["factor_vae"]["settings"]["prune"] == "kl"
    assert (folder / "scores.png").read_bytes()[:4] == b"\x89PNG"


def test_own_arrays_with_words_as_labels_and_json_alone_on_standard_output(app, folder):
    own = ("--codes", folder / "z.npy", "--factors", folder / "y.csv")
    done = invoke_score(app, *own, "--metrics", "mig", "--seeds", 3, "--json", "--out", folder / "here")
    assert done.exit_code == 0, done.exception
    report = json.loads(done.stdout)
    assert report["factors"] == {"shape": 3, "x": 12}
    low, high = report["scores"]["mig"]["interval"]
    assert low <= report["scores"]["mig"]["value"] <= high
    assert (folder / "here" / "scores.json").is_file()


def test_ceilings_are_printed_with_hashes(app, folder):
    y = Codes.load(folder / "codes.npz").values
    np.save(folder / "h.npy", y[:, 0] * 12 + y[:, 1] % 11)
    done = invoke_score(app, folder, "--metrics", "mig", "--hashes", folder / "h.npy")
    assert done.exit_code == 0, done.exception
    assert "ceiling" in done.output
    assert json.loads((folder / "scores.json").read_text())["ceilings"]["mig"] < 1


def test_no_number_is_cut_short_whatever_the_width(folder, monkeypatch, capsys):
    from unbraid.cli.score import _print
    from unbraid.runs.evaluation.scoring import score

    y = Codes.load(folder / "codes.npz").values
    for more in ({}, {"seeds": 2, "images": y[:, 0] * 12 + y[:, 1] % 11}):
        scores = score(
            folder / "codes.npz", metrics="mig,dci,factor_vae,modularity,gaussian_total_correlation", quiet=True, **more
        )
        seen = set()
        for width in range(80, 141):
            monkeypatch.setenv("COLUMNS", str(width))
            _print(scores, [])
            lines = [line.strip() for line in capsys.readouterr().out.splitlines()]
            head = next(line for line in lines if line.startswith("metric"))
            for name, s in scores.items():
                line = next(line for line in lines if line.startswith(f"{name} "))
                assert f" {s.value:.3f} " in line, f"{width}: {line}"  # no 0.…
                assert "…" not in line[: head.index("range")], f"{width}: {line}"
                assert not s.interval or f"{s.interval[0]:.3f}–{s.interval[1]:.3f}" in line
            seen.add("what it asks" in head)
            assert max(map(len, lines[: len(scores) + 4])) <= width
        assert True in seen, "the last column is printed at 140 columns"


def test_groups_from_the_command_line(app, folder):
    done = invoke_score(app, folder, "--metrics", "mig", "--groups", "0-1,2", "--json")
    assert json.loads(done.stdout)["units"] == ["z0+z1", "z2"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "give either"),
        (("nowhere",), "no codes at"),
        (("{}", "--metrics", "mgi"), "Did you mean"),
        (("{}", "--protocol", "quick"), "unknown protocol"),
        (("--codes", "{}/y.csv"), "must be numbers"),
        (("--codes", "{}/z.npy", "--factors", "{}/bad.csv"), "different lengths"),
        (("--codes", "{}/z.npy", "--factors", "{}/y.parquet"), "cannot read"),
        (("--codes", "{}/z.npy", "--metrics", "mig"), "need factors"),
    ],
)
def test_mistakes_are_named(app, folder, arguments, message):
    (folder / "bad.csv").write_text("1,2\n3\n")
    done = invoke_score(app, *(str(a).replace("{}", str(folder)) for a in arguments))
    assert isinstance(done.exception, UnbraidError)
    assert message in str(done.exception)


def test_figures_hold_every_name():
    y = FACTORS.labels(np.arange(36).repeat(10))
    scores = battery(y.astype(float), y, names=FACTORS.names, metrics="mig,mcc,dci")
    figure = score_heat_maps(scores)
    texts = {t.get_text() for axes in figure.axes for t in axes.get_xticklabels()}
    assert {"shape", "x"} <= texts
    assert len(figure.axes) == 3
    shown = score_gallery({"perfect": scores, "again": scores})
    assert [t.get_text() for t in shown.axes[0].get_yticklabels()] == ["mig", "dci", "mcc"]
    with pytest.raises(UnbraidError, match="matrix"):
        score_heat_maps(battery(y.astype(float), metrics="hoyer"))


def test_the_footer_says_how_intervals_were_found_and_why_a_score_is_nothing(app, folder):
    np.save(folder / "dead.npy", np.ones((300, 4)))
    own = ("--codes", folder / "dead.npy", "--factors", folder / "y.csv", "--metrics", "factor_vae,mig,dci")
    done = invoke_score(app, *own, "--seeds", 3, "--interval", "bootstrap", "--out", folder)
    assert done.exit_code == 0, done.exception
    text = " ".join(done.output.split())
    assert "factor_vae: all 4 columns are dead: they never change" in text
    assert "dead columns: all 4" in text
    assert "95%: score ± t·deviation over 3 bootstrap samples of the rows" in text
    assert json.loads((folder / "scores.json").read_text())["settings"]["interval"] == "bootstrap"
    done = invoke_score(app, folder, "--metrics", "mig,factor_vae", "--seeds", 3, "--interval", "seeds")
    text = " ".join(done.output.split())
    assert "no interval for mig: this metric does not depend on a seed" in text
    assert "95% (factor_vae): Wilson" in text
    assert max(len(line) for line in done.output.splitlines() if not line.startswith("written")) <= 80


def test_own_arrays_in_one_file(app, folder):
    z, y = np.load(folder / "z.npy"), Codes.load(folder / "codes.npz").values
    np.savez(folder / "mine.npz", codes=z, factors=y, names=np.array(["kind", "place"]))
    done = invoke_score(app, folder / "mine.npz", "--metrics", "mig", "--json")
    assert done.exit_code == 0, done.exception
    report = json.loads(done.stdout)
    assert report["factors"] == {"kind": 3, "place": 12}
    assert report["scores"]["mig"]["value"] > 0.95
    np.savez(folder / "other.npz", z=z, y=y)
    done = invoke_score(app, folder / "other.npz")
    assert "found arrays z, y; allowed: codes" in str(done.exception)


def test_few_rows_skip_what_cannot_run_and_fewer_bins_mend_it(app, folder):
    y = Codes.load(folder / "codes.npz").values
    np.savez(folder / "few.npz", codes=y[:15].astype(float), factors=y[:15])
    done = invoke_score(app, folder / "few.npz")
    assert done.exit_code == 0, done.exception
    text = " ".join(done.output.split())
    assert "skipped mig, mig_sup, jemmig" in text
    assert "found 15 rows, 20 bins. Lower bins, or" in text
    stored = json.loads((folder / "scores.json").read_text())
    assert stored["scores"]["mig"]["value"] is None
    assert "as many rows as bins" in stored["skipped"]["mig"]
    done = invoke_score(app, folder / "few.npz", "--metrics", "mig", "--bins", 4, "--json")
    assert json.loads(done.stdout)["scores"]["mig"]["settings"]["bins"] == 4
    done = invoke_score(app, folder / "few.npz", "--metrics", "mig")
    assert "as many rows as bins" in str(done.exception)


def test_words_as_codes_and_a_header_of_numbers_are_named(app, folder):
    np.save(folder / "words.npy", np.array([["a", "b"]] * 300))
    done = invoke_score(app, "--codes", folder / "words.npy", "--factors", folder / "y.csv")
    assert isinstance(done.exception, UnbraidError)
    assert "codes must be numbers" in str(done.exception)
    y = Codes.load(folder / "codes.npz").values
    (folder / "numbers.csv").write_text("0,1\n" + "".join(f"{a},{b}\n" for a, b in y))
    done = invoke_score(app, "--codes", folder / "z.npy", "--factors", folder / "numbers.csv", "--metrics", "mig")
    assert done.exit_code == 0, done.exception
    assert "header of factors: the first row, 0, 1, was read as column names" in " ".join(done.output.split())
    (folder / "one.csv").write_text("0\n" + "".join(f"{a}\n" for a in y[:, 0]))
    (folder / "tens.csv").write_text("10,20\n" + "".join(f"{a},{b}\n" for a, b in y))
    for name in ("one.csv", "tens.csv"):
        done = invoke_score(app, "--codes", folder / "z.npy", "--factors", folder / name)
        assert "is a header of numbers" in str(done.exception)


@pytest.mark.parametrize("names", [None, ["a", 3, 4], [10, 20, 30]])
def test_headers_of_numbers_in_codes_and_labels_are_no_rows(app, folder, names):
    pandas = pytest.importorskip("pandas")
    z, y = np.load(folder / "z.npy"), Codes.load(folder / "codes.npz").values
    pandas.DataFrame(z + 0.25, columns=names).to_csv(folder / "z.csv", index=False)
    pandas.DataFrame(y).to_csv(folder / "n.csv", index=False)
    done = invoke_score(app, "--codes", folder / "z.csv", "--factors", folder / "n.csv", "--metrics", "mig", "--json")
    assert done.exit_code == 0, done.exception
    report = json.loads(done.stdout)
    assert report["rows"] == 300
    assert report["factors"] == {"0": 3, "1": 12}
    assert report["scores"]["mig"]["value"] > 0.95


def test_whole_numbers_below_headers_of_numbers_are_noted(app, folder):
    y = Codes.load(folder / "codes.npz").values
    text = "0,1\n" + "".join(f"{a:.0f},{b:.0f}\n" for a, b in y)
    for name in ("whole.csv", "labels.csv"):  # nothing tells the header from the rows: all of them are whole numbers
        (folder / name).write_text(text)
    paths = ("--codes", folder / "whole.csv", "--factors", folder / "labels.csv")
    done = invoke_score(app, *paths, "--metrics", "mig")
    assert done.exit_code == 0, done.exception
    assert "was read as labels; if it names the columns, give them other names" in " ".join(done.output.split())
    (folder / "labels.csv").write_text(text.replace("0,1\n", "1,2\n", 1))  # may be names, may be a row too many
    done = invoke_score(app, "--codes", folder / "z.npy", "--factors", folder / "labels.csv", "--metrics", "mig")
    assert "is a header of numbers" in str(done.exception)


def test_free_text_is_no_factor_and_is_named_above_the_table(app, folder):
    lines = (folder / "y.csv").read_text().splitlines()
    remarks = [lines[0] + ",remark", *(f"{line},seen on day {i}" for i, line in enumerate(lines[1:]))]
    (folder / "text.csv").write_text("\n".join(remarks) + "\n")
    done = invoke_score(
        app, "--codes", folder / "z.npy", "--factors", folder / "text.csv", "--metrics", "mig", "--out", folder
    )
    assert done.exit_code == 0, done.exception
    note = "left out text: remark (text with about as many values as rows; --keep-text remark scores it"
    assert " ".join(done.output.split()).startswith(note)
    stored = json.loads((folder / "scores.json").read_text())
    assert stored["factors"] == {"shape": 3, "x": 12}
    assert stored["scores"]["mig"]["value"] > 0.95


def test_free_text_is_scored_if_asked(app, folder):
    remarks = [f"seen on day {i}" for i in range(300)]
    labels = np.stack([Codes.load(folder / "codes.npz").values[:, 0].astype(str), remarks], 1)
    (folder / "text.csv").write_text("shape,remark\n" + "\n".join(map(",".join, labels)) + "\n")
    asked = ["--codes", folder / "z.npy", "--factors", folder / "text.csv", "--metrics", "mig", "--json", "--keep-text"]
    done = invoke_score(app, *asked, "remark")
    assert done.exit_code == 0, done.exception
    assert json.loads(done.stdout)["factors"] == {"shape": 3, "remark": 300}
    done = invoke_score(app, *asked, "remarks")
    assert "unknown factor to keep 'remarks'" in str(done.exception)


def test_a_failing_metric_loses_no_other_score(app, folder, monkeypatch):
    from unbraid.metrics import METRICS, Metric, Score

    def failing(codes, factors=None, **inputs):
        return codes.nothing

    def nameless(codes, factors=None, **inputs):
        return Score("nameless", None)

    class SilentError(Exception):
        def __str__(self):
            raise RuntimeError("no text")

    def silent(codes, factors=None, **inputs):
        raise SilentError

    def leaving(codes, factors=None, **inputs):
        raise SystemExit("stop")

    def untold(codes, factors=None, **inputs):
        raise ValueError("bad \ud800")

    circle: list = []
    circle.append(circle)
    stored = {
        "silent_entry": Score("x", 0.5, {"rows": SilentError()}),
        "circular": Score("x", 0.5, {"rows": circle}),
        "half_a_character": Score("x", 0.5, {}, None, {"note": "\ud800"}),
        "long_number": Score("x", 0.5, {}, None, {"note": 10**5000}),
        "nan_ends": Score("x", 0.5, {}, (float("nan"), 1.0)),
        "odd_reason": Score("x", 0.5, {}, None, {"skipped": SilentError()}),
    }
    odd = {
        **{name: lambda codes, factors=None, score=score, **inputs: score for name, score in stored.items()},
        "untold": untold,
        "no_settings": lambda codes, factors=None, **inputs: Score("x", 0.5, {}, None, None),
        "no_ends": lambda codes, factors=None, **inputs: Score("x", 0.5, {}, 5),
        "wrong_ends": lambda codes, factors=None, **inputs: Score("x", 0.5, {}, ("a", "b")),
        "silent": silent,
        "leaving": leaving,
    }
    for name, call in odd.items():
        monkeypatch.setitem(METRICS, name, Metric(call, "nothing"))
    no_chance = Metric(METRICS["mig"].call, "nothing", chance=failing)
    monkeypatch.setitem(METRICS, "no_chance", no_chance)
    assert invoke_score(app, folder, "--metrics", "no_chance").exit_code == 0
    monkeypatch.setitem(METRICS, "failing", Metric(failing, "nothing"))
    monkeypatch.setitem(METRICS, "nameless", Metric(nameless, "nothing"))
    done = invoke_score(app, folder, "--metrics", ",".join(["mig", *odd]), "--json")
    assert done.exit_code == 0, done.exception
    report = json.loads(done.stdout)
    assert report["scores"]["mig"]["value"] > 0.95
    assert report["skipped"].keys() == odd.keys()
    assert (report["skipped"]["silent"], report["skipped"]["leaving"]) == ("SilentError", "SystemExit: stop")
    for seeds in (1, 2):
        done = invoke_score(app, folder, "--metrics", "mig,failing,nameless", "--seeds", seeds, "--json")
        assert done.exit_code == 0, done.exception
        report = json.loads(done.stdout)
        assert report["scores"]["mig"]["value"] > 0.95
        assert report["skipped"]["failing"] == "AttributeError: 'Table' object has no attribute 'nothing'"
        assert report["skipped"]["nameless"].startswith("TypeError")
    done = invoke_score(app, folder, "--metrics", "failing")
    assert "AttributeError" in str(done.exception)
    assert isinstance(done.exception, UnbraidError)


def test_own_codes_leave_no_file_behind_and_names_may_be_in_capitals(app, folder):
    before = {path.name for path in folder.iterdir()}
    arrays = ("--codes", folder / "z.npy", "--factors", folder / "y.csv", "--metrics", "MIG,DCI")
    done = invoke_score(app, *arrays)
    assert done.exit_code == 0, done.exception
    assert "mig " in done.output
    assert "not written: --out FOLDER" in done.output
    assert {path.name for path in folder.iterdir()} == before
    done = invoke_score(app, *arrays, "--out", folder / "there")
    assert {path.name for path in (folder / "there").iterdir()} == {"scores.json", "scores.png"}


def test_versions_other_than_the_first_are_stored_and_compared(monkeypatch):
    from dataclasses import replace

    from unbraid.comparing.run_record import unpack_scores
    from unbraid.metrics import METRICS
    from unbraid.runs.evaluation.scoring import score

    rng = np.random.default_rng(0)
    labels = rng.integers(0, 3, (200, 2))
    first = score(labels + 0.1, labels, metrics="mig,sap", quiet=True)
    monkeypatch.setitem(METRICS, "mig", replace(METRICS["mig"], version=2))
    second = score(labels + 0.1, labels, metrics="mig,sap", quiet=True)
    assert "versions" not in first.settings
    assert second.settings["versions"] == {"mig": 2}
    assert unpack_scores(first)[2] != unpack_scores(second)[2]
