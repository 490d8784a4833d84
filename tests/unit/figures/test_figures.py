"""Figures of runs: one row per leaf, literal names, and every figure in every format."""

from __future__ import annotations

import io

import numpy as np
import pytest
from matplotlib.text import Text
from PIL import Image

from unbraid.core.errors import UnbraidError
from unbraid.figures.drawing import render_figure
from unbraid.figures.registry import FIGURES, FigureOptions, draw_figure, write_figure
from unbraid.figures.report import report
from unbraid.figures.traversals import middle_image_index, traversal_rows, traversals
from unbraid.runs.evaluation.encoding import encode
from unbraid.runs.fitting.training import fit
from unbraid.runs.recipe import Recipe
from unbraid.runs.run import Run

TREE = {"class": "onehot(10)", "pose": "real(3)", "bits": "binary(2)", "style": 2}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A short run over a mixed tree, with dollar signs in its name."""
    recipe = Recipe(name="a $ b_$^x", data="digits", latent=TREE, nets={"name": "mlp", "width": 20, "depth": 1},
                    objective="hfvae", budget={"steps": 4, "batch": 16, "threads": 1})  # fmt: skip
    made = fit(recipe, tmp_path_factory.mktemp("figures") / "run", quiet=True)
    encode(made, quiet=True)
    return Run.load(made.path)


def figure_texts(figure):
    return [text.get_text() for text in figure.findobj(Text)]


def test_every_leaf_has_its_own_cells(run):
    rows = traversal_rows(run, run.codes(), dead=True)
    names = " ".join(row.name for row in rows)
    wanted = ("class", "pose", "pose)[1]", "pose)[2]", "bits", "style.0", "style.1")
    assert all(part in names or part.replace(")", "") in names for part in wanted), names
    ten = next(row for row in rows if "class" in row.name and len(row.cells) == 10)
    assert ten.cells == tuple("0123456789")
    assert ten.images.shape[0] == 10
    wide = [row for row in rows if "pose" in row.name]
    assert len(wide) == 3
    assert len({row.images.tobytes() for row in wide}) == 3, "each column of a wide leaf moves by itself"
    assert all(row.cells[0] == "-2.2" and row.cells[-1] == "+2.2" for row in wide)
    assert [row.cells for row in rows if "bits" in row.name] == [("0", "1")] * 2


def test_rows_are_what_the_decoder_gives(run):
    rows = traversal_rows(run, run.codes(), image=7, leaves=["class", "pose"], low=-1, high=1, steps=3)
    start = run.encode(run.dataset().pixels(7))[0]
    np.testing.assert_array_equal(rows[0].images, run.traverse(start, "class"))
    moved = np.repeat(start[None], 3, 0)
    column = run.model.tree.columns("pose")[1]
    moved[:, column] = [-1, 0, 1]
    np.testing.assert_array_equal(rows[2].images, run.decode(moved))


def test_a_traversal_may_start_from_code_zero(run):
    rows = traversal_rows(run, run.codes(), leaves=["class", "pose"], low=-1, high=1, steps=3, zero=True)
    tree = run.model.tree
    start = np.zeros(tree.width, np.float32)
    start[tree.columns("class")[0]] = 1  # one-hot leaves start at their first class
    for row, frame in ((0, 0), (1, 1)):  # class 0, and a column at 0
        np.testing.assert_allclose(rows[row].images[frame], run.decode(start[None])[0], atol=1e-6)
    with pytest.raises(UnbraidError, match="starts from an image or from code 0: found image 3 and zero"):
        traversal_rows(run, run.codes(), image=3, zero=True)


def test_a_mixed_tree_keeps_its_heads(run):
    shown = figure_texts(traversals(run, run.codes(), dead=True))
    assert {"0", "9", "-2.2", "+2.2", "1"} <= set(shown)


def test_the_start_is_the_middle_of_all_factors():
    from unbraid.data import load

    sprites = load("sprites32")
    assert sprites.labels(np.array([middle_image_index(sprites)]))[0].tolist() == [1, 3, 8, 8]
    digits = load("digits", size=8)
    assert digits.labels()[middle_image_index(digits)][0] in (4, 5)


@pytest.mark.parametrize("kind", ["png", "svg", "pdf", "gif"])
@pytest.mark.parametrize("name", [name for name in FIGURES if name != "positions"])  # digits have no x and y
def test_every_picture_is_written_as_every_kind_of_file(run, tmp_path, name, kind):
    told = {"traversals": FigureOptions(images=(3,), steps=3), "reconstructions": FigureOptions(images=(3, 4))}.get(
        name, FigureOptions()
    )
    made = write_figure(name, run, tmp_path / f"p.{kind}", told).read_bytes()
    start = {"png": b"\x89PNG", "svg": b"<?xml", "pdf": b"%PDF", "gif": b"GIF8"}[kind]
    assert made.startswith(start)
    assert len(made) > 800
    if name == "traversals" and kind == "gif":
        with Image.open(io.BytesIO(made)) as moving:
            assert moving.n_frames > 10


def test_the_same_picture_gives_the_same_bytes(run):
    for kind in ("png", "svg", "pdf"):
        assert render_figure(draw_figure("kl", run), kind) == render_figure(draw_figure("kl", run), kind)


def test_a_dollar_in_a_name_is_a_dollar(run, tmp_path):
    page = report(run, tmp_path / "page.html").read_text()
    assert "a $ b_$^x" in page
    assert "<nav>" not in page, "a page of one run links to no part of itself"
    assert "$ b_$^x" in "".join(figure_texts(draw_figure("reconstructions", run)))


def test_dollars_in_ledger_and_factor_names_do_not_kill_a_page(run, tmp_path):
    import json
    import shutil

    from unbraid.codes import Codes
    from unbraid.data.factors import Factor, Factors

    path = tmp_path / "run"
    shutil.copytree(run.path, path)
    lines = [json.loads(line) for line in (path / "ledger.jsonl").read_text().splitlines()]
    for line in lines:
        line["nats"]["$\\frac$"] = 1.0
    (path / "ledger.jsonl").write_text("\n".join(map(json.dumps, lines)) + "\n")
    codes = run.codes()
    Codes(codes.mean, codes.tree, codes.scale, codes.values, Factors((Factor("$x$^$", 10, "class"),), grid=False),
          codes.kl, codes.index).save(path / "codes.npz")  # fmt: skip
    page = report(Run.load(path), tmp_path / "page.html")
    assert page.stat().st_size > 10_000


def test_invalid_options_are_errors(run, tmp_path):
    with pytest.raises(UnbraidError, match="unknown leaf 'pos'. Did you mean 'pose'"):
        write_figure("traversals", run, tmp_path / "a.png", FigureOptions(leaves=("pos",)))
    with pytest.raises(UnbraidError, match="there is no such image"):
        write_figure("traversals", run, tmp_path / "a.png", FigureOptions(images=(99_999,)))
    with pytest.raises(UnbraidError, match="there is no such image"):
        write_figure("reconstructions", run, tmp_path / "a.png", FigureOptions(images=(-1,)))
    with pytest.raises(UnbraidError, match="format of a.tiff is not known"):
        write_figure("traversals", run, tmp_path / "a.tiff")
    with pytest.raises(UnbraidError, match="unknown figure 'traversal'. Did you mean 'traversals'"):
        write_figure("traversal", run, tmp_path / "a.png")
    with pytest.raises(UnbraidError, match="from low to high"):
        write_figure("traversals", run, tmp_path / "a.png", FigureOptions(low=1, high=0))
    for name, told, message in (
        (
            "kl",
            FigureOptions(leaves=("pose",), images=(3,), low=-9),
            "'kl' takes no images, leaves, low; allowed: none of images",
        ),
        ("aggregate", FigureOptions(leaves=("pose",), steps=3), "'aggregate' takes no steps; allowed: leaves"),
        ("ledger", FigureOptions(dead=True), "'ledger' takes no dead"),
        ("traversals", FigureOptions(images=(5, 999)), "start from one image: found images 5, 999"),
    ):
        for kind in ("png", "gif"):
            with pytest.raises(UnbraidError, match=message):
                write_figure(name, run, tmp_path / f"a.{kind}", told)
    assert not list(tmp_path.iterdir())


def test_figures_that_need_no_data_do_without(tmp_path):
    from tests.toys import toy_data

    made = fit(Recipe(data="mine", latent=2, nets="mlp", budget={"steps": 2, "batch": 8}), tmp_path / "run",
               dataset=toy_data(), quiet=True)  # fmt: skip
    bare = Run.load(made.path)
    for name in ("ledger", "samples"):
        assert write_figure(name, bare, tmp_path / f"{name}.png").stat().st_size > 800
    with pytest.raises(UnbraidError, match="as 'kl': found no codes yet. Encode it first with"):
        write_figure("kl", bare, tmp_path / "a.png")
    encode(made, quiet=True)
    for name in ("kl", "information", "aggregate"):
        assert write_figure(name, bare, tmp_path / f"{name}.png").stat().st_size > 800
    with pytest.raises(
        UnbraidError, match="as 'positions': found codes without factors x and y. Choose another figure"
    ):
        write_figure("positions", bare, tmp_path / "a.png")
    with pytest.raises(UnbraidError, match="was trained on data in memory"):
        write_figure("reconstructions", bare, tmp_path / "a.png")


def test_dead_leaves_are_grey_in_a_heat_map_and_never_the_best():
    from matplotlib.figure import Figure

    from unbraid.figures.drawing import GREY
    from unbraid.figures.score_figures import draw_heat_map

    axes = Figure().subplots()
    draw_heat_map(
        axes, np.array([[0.9, 0.1], [0.2, 0.8], [0.5, 0.3]]), ["z0", "z1", "wide[0]"], ["x", "y"], dead=["z0"]
    )
    best = {(round(p.get_y() + 0.5), round(p.get_x() + 0.5)) for p in axes.patches}
    assert best == {(2, 0), (1, 1)}, "z0 has the largest number of x, but is dead"
    assert [label.get_color() == GREY for label in axes.get_yticklabels()] == [True, False, False]
    colours = axes.images[0].get_array()
    assert np.ptp(colours[0, :, :3], axis=1).max() < 0.02, "shades of grey"
    assert np.ptp(colours[1, 1, :3]) > 0.2
    nothing = Figure().subplots()
    draw_heat_map(nothing, np.eye(2), ["z0", "z1"], ["x", "y"], dead=["z0", "z1"])
    assert len(nothing.patches) == 2


def test_a_recipe_with_other_data_loses_its_description(tmp_path):
    folder = tmp_path / "lamps"
    folder.mkdir()
    for i in range(24):
        Image.fromarray(np.full((16, 16, 3), 10 * i, np.uint8)).save(folder / f"{i:02d}.png")
    recipe = Recipe.load("beta_tcvae_colour_sprites").set(
        "data.name=images",
        f"data.path='{folder}'",
        "nets.name=mlp",
        "nets.width=[8]",
        "budget.steps=2",
        "budget.batch=8",
    )
    page = report(fit(recipe, tmp_path / "mine", quiet=True)).read_text()
    shown = page[: page.index("<summary>Recipe")]
    assert "<h1>mine: beta_<wbr>tcvae on images of lamps</h1>" in shown
    assert "sprites" not in shown
    assert "nearest to the median" in shown
    assert "middle of all factors" not in shown
    assert "KL of each leaf" in shown, "figures of codes need no 'unbraid encode'"
    assert "unbraid encode" in shown, "the page names the command that encodes all images"


def test_held_out_images_are_dashed(tmp_path):
    from unbraid.figures.run_figures import ledger_curves

    recipe = Recipe(data={"name": "sprites32", "subsample": 64, "split": "train"}, latent=2, nets={"name": "mlp", "width": 8},
                    budget={"steps": 6, "batch": 8, "validate_every": 2, "log_every": 1})  # fmt: skip
    figure = ledger_curves(fit(recipe, tmp_path / "run", quiet=True))
    assert {line.get_linestyle() for line in figure.axes[0].lines} == {"-", "--"}
    assert "dashed: held-out images" in " ".join(figure_texts(figure))


def test_traversals_of_two_runs_stand_side_by_side(run, tmp_path):
    from typer.testing import CliRunner

    from unbraid.cli import app

    out = tmp_path / "two.png"
    other = fit(run.recipe.set("seed=1"), tmp_path / "other", quiet=True)
    done = CliRunner().invoke(app, ["figure", "traversals", str(run.path), str(other.path), "--out", str(out)])
    assert done.exit_code == 0, done.output
    one = write_figure("traversals", run, tmp_path / "one.png")
    with Image.open(out) as both, Image.open(one) as single:
        assert both.width > 1.2 * single.width
    refused = CliRunner().invoke(app, ["figure", "kl", str(run.path), str(other.path), "--out", str(out)])
    assert "only traversals take several runs" in str(refused.exception)


def test_a_report_takes_a_folder_of_runs(run, tmp_path):
    import shutil

    from typer.testing import CliRunner

    from unbraid.cli import app

    folder = tmp_path / "runs"
    shutil.copytree(run.path, folder / "one-0")
    fit(run.recipe.set("seed=1"), folder / "one-1", quiet=True)
    fit(run.recipe.set("objective.name=vae"), folder / "two-0", quiet=True)
    (folder / "notes").mkdir()
    (folder / "report.html").write_text("somebody's")
    done = CliRunner().invoke(app, ["report", str(folder)])
    assert done.exit_code == 0, done.output
    page = (folder / "runs.html").read_text()
    assert "3 runs: hfvae and vae on digits" in page
    assert page.count('<h2 id="run') == 2, "one section for each setting"
    assert "Below: the first run of each setting." in page
    assert (folder / "report.html").read_text() == "somebody's", "the demo keeps its own page there"
    refused = CliRunner().invoke(app, ["report", str(folder / "notes")])
    assert "is not a run directory" in str(refused.exception)
