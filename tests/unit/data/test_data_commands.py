"""The verbs `unbraid data list|make|show`, as a user calls them."""

from __future__ import annotations

import pytest
import typer
from typer.testing import CliRunner

from unbraid.cli import data as verbs
from unbraid.core.errors import UnbraidError
from unbraid.data import DATASETS


@pytest.fixture
def invoke():
    app = typer.Typer()
    app.add_typer(verbs.data_app, name="data")

    def run(*words: str, columns: str = "200"):
        result = CliRunner().invoke(app, ["data", *words], env={"COLUMNS": columns})
        if result.exception and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result

    return run


def test_list_names_every_set_its_status_and_how_to_get_it(invoke):
    text = " ".join(invoke("list").output.split())
    for name, source in DATASETS.items():
        assert name in text
        if source.status().startswith("needs"):
            assert " ".join(source.how_to_get.split()) in text
    one = invoke("list", "sprites32").output
    assert "orientation = false" in one
    assert "hold_out" in one


def test_list_fits_eighty_columns(invoke, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    for words in ([], ["chairs"], ["celeba"], ["images"]):
        for line in invoke("list", *words, columns="80").output.splitlines():
            assert len(line) <= 80, line


def test_make_then_ready(invoke):
    assert "can be generated" in invoke("list", "sprites32").output
    assert "4,608 of 1×32×32 ready" in invoke("make", "sprites32").output
    assert "status      ready" in invoke("list", "sprites32").output


def test_make_says_that_files_given_by_their_path_were_not_copied(invoke, tmp_path):
    import data_layouts

    data_layouts.mnist(tmp_path)
    said = invoke("make", "mnist", "--set", f"path={tmp_path}").output
    assert "was not copied: give that path in a recipe too, or put its files into" in said
    assert "status      needs a file" in invoke("list", "mnist").output


def test_show_writes_a_picture(invoke, tmp_path):
    out = tmp_path / "p.png"
    options = ["--set", "orientation=true", "--set", "subsample=200", "--rows", "2"]
    text = invoke("show", "sprites32", *options, "--out", str(out)).output
    assert "200 of 1×32×32" in text
    assert "orientation 20" in text
    assert out.read_bytes()[:4] == b"\x89PNG"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("make", "sprite32"), "Did you mean 'sprites32'"),
        (("show", "sprites32", "--set", "orientation"), "OPTION=VALUE"),
        (("show", "sprites32", "--out", "a.jpg"), "PNG"),
        (("make", "celeba"), "licence"),
        (("make", "sprites32", "--set", "orientation=maybe"), "must be true or false"),
    ],
)
def test_mistakes_are_named(invoke, words, message):
    with pytest.raises(UnbraidError, match=message):
        invoke(*words)


def test_a_sheet_repeats_nothing_and_leaves_missing_labels_out(tmp_path):
    import numpy as np

    from unbraid.data.custom.images import from_arrays
    from unbraid.figures import dataset_figures
    from unbraid.figures.drawing import save_figure

    images = np.arange(1, 8, dtype=np.uint8)[:, None, None].repeat(8, 1).repeat(8, 2)
    data = from_arrays(images, {"kind": ["", "a", "b", "", "c", "a", "b"], "none": [float("nan")] * 7}, partial=True)
    sheet = dataset_figures.contact_sheet(data, 2, 5)
    assert sheet.shape == (2 + 2 * 10, 2 + 5 * 10, 3)
    tiles = np.rint(255 * sheet[6::10, 6::10, 0]).astype(int).ravel()
    assert sorted(tiles[tiles < 100]) == [1, 2, 3, 4, 5, 6, 7]
    assert dataset_figures.contact_sheet(data, 2, 12).shape == (2 + 10, 2 + 7 * 10, 3)
    ((name, index),) = dataset_figures.factor_traversal_indices(data)
    assert name == "kind"
    assert data.labels(index)[:, 0].tolist() == [0, 1, 2]
    save_figure(dataset_figures.dataset_figure(data), tmp_path / "a.png", dpi=100)
    points = from_arrays(
        np.random.default_rng(0).random((6, 2, 1, 1)), ["a", None, "b"] * 2, partial=True, layout="nchw"
    )
    save_figure(dataset_figures.dataset_figure(points), tmp_path / "b.png", dpi=100)
    assert (tmp_path / "b.png").stat().st_size > 1000
