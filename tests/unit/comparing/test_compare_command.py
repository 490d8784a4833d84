"""`unbraid compare` as typed: formats, files, widths, plots, mistakes."""

from __future__ import annotations

import csv
import io
import json
import shutil

import numpy as np
import pytest
from typer.testing import CliRunner

from tests.unit.comparing.run_directories import write_run
from unbraid.cli import app
from unbraid.comparing import compare
from unbraid.comparing.console_table import render_text
from unbraid.core.errors import UnbraidError
from unbraid.figures.comparison_figures import box_plots, correlation_heat_map, pareto_front, sweep_curves, trade_off
from unbraid.figures.drawing import save_figure


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Seven settings over four seeds, one run failed, names that LaTeX and Markdown must not take for commands."""
    out, rng = tmp_path_factory.mktemp("runs"), np.random.default_rng(0)
    rows = [
        {"name": "vae"},
        *({"name": "beta_vae", "beta": b} for b in (1, 2, 4, 16)),
        {"name": "factor_vae", "gamma": 6.5},
    ]
    for k, objective in enumerate(rows):
        for seed in range(4):
            scores = {q: float(0.2 + 0.1 * k + 0.05 * rng.normal()) for q in ("mig", "dci", "sap", "factor_vae")}
            nats = {"reconstruction": 20 + 2 * k + rng.normal(), "tc_q:root": 1 / (1 + k) + 0.05 * rng.normal()}
            write_run(out / f"r{k}-{seed}", objective, seed, scores, nats)
    failed = write_run(out / "r9", {"name": "vae"}, 9, {}, status="running")
    (failed / "outcome.json").write_text('{"status": "failed", "kind": "killed", "reason": "100% & [bold]_x_|"}')
    return out


def run_compare(*arguments: object) -> str:
    """What a command prints; it must succeed."""
    result = CliRunner().invoke(app, ["compare", *map(str, arguments), "-q"], env={"COLUMNS": "80"})
    assert result.exit_code == 0, result.output
    return result.stdout


def test_nothing_runs_off_the_edge(folder):
    for width in (60, 80, 120):
        for table in (compare(folder), compare(folder, baseline="vae")):
            shown = render_text(table, width)
            assert max(map(len, shown.splitlines())) <= width
            assert all(g.label in shown for g in table.groups)
            assert "…" not in shown
    assert "1 failed: r9 (killed: 100% & [bold]_x_|)" in shown


def test_many_settings_go_down_the_page(tmp_path):
    for k in range(45):
        write_run(tmp_path / f"r{k}", {"name": "beta_vae", "beta": k}, 0, {"mig": k / 50, "dci": 0.1})
    shown = render_text(compare(tmp_path), 80)
    assert max(map(len, shown.splitlines())) <= 80
    assert "5 more settings" in shown
    assert "beta_vae β=39" in shown


def test_csv_and_json_hold_everything(folder):
    rows = list(csv.DictReader(io.StringIO(run_compare(folder, "-f", "csv", "-b", "vae"))))
    assert len(rows) == 6 * 7
    one = next(r for r in rows if r["setting"] == "beta_vae β=4" and r["quantity"] == "mig")
    assert float(one["low"]) < float(one["mean"]) < float(one["high"])
    assert (one["n"], one["pairs"], one["objective.beta"], one["baseline"]) == ("4", "4", "4", "vae")
    found = json.loads(run_compare(folder, "-f", "json", "-b", "vae"))
    assert found["tests"] == 5 * 7
    assert {m["state"] for m in found["models"]} == {"done", "failed"}
    assert len(found["models"]) == 25


@pytest.mark.parametrize(
    ("suffix", "format"), [(".csv", "csv"), (".json", "json"), (".md", "markdown"), (".tex", "latex")]
)
def test_the_name_of_the_file_gives_its_format(folder, tmp_path, suffix, format):
    run_compare(folder, "--out", tmp_path / f"a{suffix}")
    run_compare(folder, "--out", tmp_path / "b.txt", "--format", format)
    assert (tmp_path / f"a{suffix}").read_text() == (tmp_path / "b.txt").read_text()
    run_compare(folder, "--out", tmp_path / "c.csv", "--format", "json")
    assert json.loads((tmp_path / "c.csv").read_text())


def test_latex_is_escaped_and_balanced(folder, tmp_path):
    made = run_compare(folder, "-f", "latex", "-m", "mig,tc_q:root")
    assert r"\toprule" in made
    assert r"beta\_vae $\beta$=4 & 4 & " in made
    assert r"tc\_q:root $\downarrow$" in made
    body = [line for line in made.splitlines() if not line.startswith("%")]
    assert all(line.count("&") == 3 for line in body if line.endswith(r"\\"))
    assert made.count(r"\textbf{") == 2
    pairs = run_compare(folder, "-f", "latex", "-m", "mig,tc_q:root", "-b", "vae")
    assert pairs.count(r"\begin{tabular}") == pairs.count(r"\end{tabular}") == 2
    assert r"minus vae & mig $\uparrow$ & tc\_q:root $\downarrow$ \\" in pairs
    assert "$-$0." in pairs
    assert " -0." not in pairs
    run_compare(folder, "-f", "latex", "-o", tmp_path / "table.tex", "-m", "mig,tc_q:root")
    assert (tmp_path / "table.tex").read_text() == made


def test_markdown_has_one_width(folder):
    made = run_compare(folder, "-f", "markdown", "-b", "vae")
    for block in made.split("\n\n"):
        if block.startswith("|"):
            assert len({line.replace(r"\|", "").count("|") for line in block.splitlines()}) == 1
    assert r"**" in made
    assert "Holm over" in made


def test_a_frame(folder):
    pandas = pytest.importorskip("pandas")
    table = compare(folder, metrics="mig")
    frame = table.to_frame()
    assert isinstance(frame, pandas.DataFrame)
    assert frame["mean"].tolist() == pytest.approx(table.cells.mean[:, 0].tolist())
    wide = table.models_frame()
    assert wide.groupby("setting")["mig"].mean().to_dict() == pytest.approx(
        {g.label: m for g, m in zip(table.groups, table.cells.mean[:, 0], strict=True)}
    )


def test_plots_as_files(folder, tmp_path):
    plots = [
        f"trade_off:reconstruction,mig={tmp_path}/t.svg",
        f"against:beta,mig={tmp_path}/a.png",
        f"boxes:dci={tmp_path}/b.pdf",
    ]
    words = [w for p in (*plots, f"correlations={tmp_path}/c.png") for w in ("--plot", p)]
    assert "written: " in run_compare(folder, *words)
    assert (tmp_path / "a.png").read_bytes()[:4] == b"\x89PNG"
    assert (tmp_path / "b.pdf").read_bytes()[:4] == b"%PDF"
    drawn = (tmp_path / "t.svg").read_text()
    assert "β=4" in drawn
    assert "front" in drawn
    before = (tmp_path / "t.svg").read_bytes()
    run_compare(folder, *words)
    assert (tmp_path / "t.svg").read_bytes() == before


def test_what_a_plot_shows(folder):
    table = compare(folder)
    axes = trade_off(table, "reconstruction", "mig").axes[0]
    dots = sum(len(c.get_offsets()) for c in axes.collections if hasattr(c, "get_offsets") and c.get_alpha() == 0.35)
    assert dots == 24
    assert [t.get_text() for t in axes.get_legend().get_texts()] == ["front", "beta_vae", "factor_vae", "vae"]
    lines = sweep_curves(table, "β", "mig").axes[0].lines
    assert lines[0].get_xdata().tolist() == [1, 2, 4, 16]
    assert len(box_plots(table, "mig").axes[0].get_yticklabels()) == 6
    assert correlation_heat_map(table).axes[0].images[0].get_array().shape == (6, 6)
    with pytest.raises(UnbraidError, match="unknown swept field 'lr'"):
        sweep_curves(table, "lr")
    with pytest.raises(UnbraidError, match="unknown quantity 'mgi'"):
        trade_off(table, "reconstruction", "mgi")
    with pytest.raises(UnbraidError, match=r"format of x.jpg is not known; allowed: .png"):
        save_figure(box_plots(table, "mig"), "x.jpg")


def test_the_front_is_what_no_other_beats():
    points = np.array([[1.0, 0.2], [2.0, 0.5], [3.0, 0.4], [4.0, 0.9], [2.0, 0.5], [5.0, np.nan]])
    assert pareto_front(points, ("down", "up")) == [0, 1, 4, 3]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--format", "html"], "unknown format 'html'"),
        (["--plot", "pie=x.png"], "unknown plot 'pie'"),
        (["--plot", "boxes"], "a plot reads KIND:X,Y=FILE"),
        (["--plot", "boxes:mig=x.jpg"], "format of x.jpg is not known"),
        (["--plot", "boxes:mig,dci=x.png"], "boxes takes at most 1"),
        (["-m", "mgi"], "no model has 'mgi'"),
    ],
)
def test_mistakes_are_named_before_any_work(folder, words, message):
    result = CliRunner().invoke(app, ["compare", str(folder), *words])
    assert isinstance(result.exception, UnbraidError)
    assert message in str(result.exception)


def test_at_equal_reconstruction_and_own_intervals(folder):
    shown = run_compare(folder, "-m", "mig,reconstruction", "--equal", "reconstruction", "-b", "beta_vae β=1", "--own")
    assert "at equal reconstruction" in shown
    assert "vae − beta_vae" in shown
    assert max(map(len, shown.splitlines())) <= 80
    assert "its own 95% interval over rows" in " ".join(shown.split())


def test_a_sweep_file_stands_for_the_runs_of_its_directory(folder, tmp_path, monkeypatch):
    (tmp_path / "beta.toml").write_text(f'name = "{folder.name}"\nrecipe = "vae_sprites32"\nseeds = 2\n')
    shutil.copytree(folder, tmp_path / "runs" / folder.name)
    monkeypatch.chdir(tmp_path)
    assert run_compare("beta.toml", "--format", "csv") == run_compare(folder, "--format", "csv")
    (tmp_path / "none.toml").write_text('name = "none"\nrecipe = "vae_sprites32"\n')
    result = CliRunner().invoke(app, ["compare", "none.toml", "-q"])
    assert result.exit_code != 0
    assert "Name the directory you gave with --out." in str(result.exception)


def test_latex_has_a_short_option_and_only_what_was_asked_for(folder):
    shown = run_compare(folder, "-m", "mig", "--latex")
    assert shown == run_compare(folder, "-m", "mig", "--format", "latex")
    assert "mig" in shown
    assert "dci" not in shown
    assert "udr" not in run_compare(folder, "-m", "mig").lower()


def test_a_stranger_s_run_costs_no_other_run_its_row(tmp_path):
    for k in range(2):
        write_run(tmp_path / f"good{k}", {"name": "vae"}, k, {"mig": 0.4})
    long = write_run(tmp_path / "long", {"name": "vae"}, 5, {"mig": 0.5})
    (long / "recipe.toml").write_text("latent = " + "1" * 5000 + "\n" + (long / "recipe.toml").read_text())
    huge = write_run(tmp_path / "huge", {"name": "vae"}, 6, {"mig": 0.6}, {"reconstruction": 20.0})
    audit = (huge / "audit.json").read_text()
    (huge / "audit.json").write_text(audit.replace('"elbo": -30.0', '"elbo": 1' + "0" * 400))
    assert "0.4" in run_compare(tmp_path, "--metrics", "mig")


def test_a_file_with_an_ending_that_no_table_has_is_refused(folder, tmp_path):
    done = CliRunner().invoke(app, ["compare", str(folder), "-q", "--out", str(tmp_path / "table.xlsx")])
    assert "compare writes no .xlsx files" in str(done.exception)
    assert not (tmp_path / "table.xlsx").exists()
