"""The ledger as a table: columns, data frame, CSV, the command, and validations in the figure."""

from __future__ import annotations

import csv
import io

import pytest
from typer.testing import CliRunner

from tests.toys import toy_data
from unbraid import Recipe, fit
from unbraid.cli import app
from unbraid.figures.run_figures import ledger_curves


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    import torch

    torch.set_default_dtype(torch.float32)
    lr = {"schedule": "linear", "start": 1e-3, "stop": 1e-4, "steps": 50}
    budget = {"steps": 60, "batch": 16, "log_every": 1, "threads": 1, "lr": lr, "validate_every": 20}
    recipe = Recipe(
        data="toy",
        latent=2,
        nets="decomposition_table1b",
        objective={"name": "beta_tcvae", "beta": 4},
        budget={**budget, "validate_metrics": ["mig"]},
    )
    path = tmp_path_factory.mktemp("ledger") / "run"
    return fit(recipe, path, quiet=True, dataset=toy_data(), validation=toy_data(40, seed=1))


def test_rows_become_columns_and_frames(run):
    rows, held = run.ledger(), run.validations()
    table = rows.to_frame()
    assert list(table.columns[:3]) == ["step", "loss", "lr"]
    assert list(table["step"]) == [row["step"] + 1 for row in rows]
    assert list(table["mi"]) == [row["nats"]["mi"] for row in rows]
    assert set(table["price:tc_q:root"]) == {4.0}
    assert list(held.to_frame()["step"]) == [20, 40, 60]
    assert list(held.to_frame()["score:mig"]) == [row["scores"]["mig"] for row in held]
    assert "validation" not in held.columns()


def test_csv_holds_every_number_and_reads_back(run, tmp_path):
    path = run.ledger().to_csv(tmp_path / "l.csv")
    back = list(csv.DictReader(io.StringIO(path.read_text())))
    assert [float(row["loss"]) for row in back] == [row["loss"] for row in run.ledger()]
    result = CliRunner().invoke(app, ["ledger", str(run.path), "--csv"])
    assert result.stdout == path.read_text()
    result = CliRunner().invoke(
        app, ["ledger", str(run.path), "--validation", "--out", str(tmp_path / "new" / "v.csv")]
    )
    assert "(3 rows)" in result.output
    assert (tmp_path / "new" / "v.csv").read_text().count("\n") == 4


def test_the_printed_table_fits_and_says_what_is_left_out(run):
    lines = CliRunner().invoke(app, ["ledger", str(run.path)]).output.splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[0].split()[:2] == ["step", "loss"]
    assert lines[1].split()[0] == "1"
    assert lines[-2].split()[0] == "60"
    assert "20 of 60 rows" in lines[-1]


def test_rows_that_are_not_there_are_an_error(run, tmp_path):
    plain = Recipe(data="toy", latent=2, nets="decomposition_table1b", budget={"steps": 1, "batch": 8})
    bare = fit(plain, tmp_path / "bare", quiet=True, dataset=toy_data())
    result = CliRunner().invoke(app, ["ledger", str(bare.path), "--validation"])
    assert "has no such rows" in str(result.exception)
    assert not any("held-out" in t.get_text() for t in ledger_curves(bare).findobj(lambda o: hasattr(o, "get_text")))


def test_the_picture_has_a_line_of_held_out_images_in_every_panel(run):
    figure = ledger_curves(run)
    shown = {axes.get_title(loc="left"): axes for axes in figure.axes if axes.get_visible()}
    assert {"loss", "mig"} <= set(shown)
    terms = [axes for title, axes in shown.items() if title != "mig"]
    assert all(len(axes.lines) == 2 for axes in terms)
    held = [list(axes.lines[1].get_xdata()) for axes in terms]
    assert held == [[20, 40, 60]] * len(terms)
    assert list(shown["loss"].lines[1].get_ydata()) == [row["loss"] for row in run.validations()]
    for axes in terms:
        low, high = axes.get_ylim()
        assert all(low <= y <= high for y in axes.lines[1].get_ydata()[1:])


@pytest.mark.parametrize("words", [["score", "--metrics", "mig"], ["report"], ["figure", "samples"]])
def test_commands_that_compute_take_a_device(run, words, tmp_path):
    order = [words[0], words[1], str(run.path)] if words[0] == "figure" else [words[0], str(run.path), *words[1:]]
    result = CliRunner().invoke(app, [*order, "--device", "warp"])
    assert "device 'warp' cannot be used here" in str(result.exception)


def test_codes_have_no_device(tmp_path):
    (tmp_path / "z.npy").write_bytes(b"")
    result = CliRunner().invoke(app, ["score", str(tmp_path / "z.npy"), "--device", "cpu"])
    assert "--device is the device of a run" in str(result.exception)
