"""The exported page without a browser: its content, no external requests, and escaped names."""

from __future__ import annotations

import re
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from tests.exported_page import decode, page_content, page_layers
from unbraid.cli import app
from unbraid.codes import Codes
from unbraid.data.factors import Factors
from unbraid.export.html import render_explorer, write_explorer
from unbraid.latent import Latent
from unbraid.runs.evaluation.leaf_summary import (
    DEAD_NATS,
    START_CANDIDATES,
    _leaf_factors,
    clear_row,
    edges,
    load_or_encode_codes,
    sample_prior_values,
    summarise_leaves,
    typical_rows,
)
from unbraid.runs.folder.file_names import CODES_FILE
from unbraid.runs.run import Run

OLD_RUNS = Path(__file__).parents[2] / "data" / "runs_of_0_1"


@pytest.mark.parametrize("name", ["vae", "hfvae_discrete", "conv", "info_gan"])
def test_the_page_decodes_its_own_start_as_the_run_does(name):
    run = Run.load(OLD_RUNS / name)
    text = render_explorer(run)
    z = np.array([page_content(text)["start"], *page_content(text)["draws"][:3]])
    assert np.abs(decode(page_layers(text), z) - run.decode(z)).max() < 5e-3


def test_the_page_starts_with_a_typical_image_that_has_clear_edges():
    run = Run.load(OLD_RUNS / "conv")
    codes = run.codes()
    clear, near = clear_row(run, codes), typical_rows(codes, START_CANDIDATES)
    assert clear in near
    strength = [(edges(run.decode(codes.mean[[row]])) ** 2).sum() for row in near]
    assert strength[list(near).index(clear)] == pytest.approx(max(strength))
    assert min(strength) < max(strength)
    assert page_content(render_explorer(run))["start"] == pytest.approx(codes.mean[clear].tolist(), abs=1e-3)


def test_leaves_are_sorted_by_their_information():
    run = Run.load(OLD_RUNS / "vae")
    found = page_content(render_explorer(run))["leaves"]
    nats = [leaf["nats"] for leaf in found]
    assert nats == sorted(nats, reverse=True)
    assert {leaf["name"] for leaf in found} == {leaf.name for leaf in run.model.tree.leaves}
    assert all(leaf["dead"] == (leaf["nats"] < DEAD_NATS) for leaf in found)
    assert all(leaf["low"][0] <= -2.8 and leaf["high"][0] >= 2.8 for leaf in found)


def test_a_leaf_is_named_after_the_factor_it_follows(tmp_path):
    shutil.copytree(OLD_RUNS / "vae", tmp_path / "run")
    (tmp_path / "run" / "audit.json").unlink()
    run = Run.load(tmp_path / "run")
    codes = run.codes()
    values = np.asarray(codes.values, float)
    means = codes.mean.astype(float).copy()
    means[:, 0] = values[:, 0]  # the first column is now the factor itself
    kl = np.array([1.0] + [0.0] * (len(codes.tree.leaves) - 1))
    notes = summarise_leaves(run, replace(codes, mean=means, kl=kl))
    named = {note.name: note.factor for note in notes}
    assert named[run.model.tree.leaves[0].name] == codes.factors.items[0].name
    assert all(note.factor == "" for note in notes if note.dead), "a dead leaf follows no factor"


def test_a_weak_leaf_is_named_after_the_factor_it_knows_best():
    # the bound by its own nats is a larger share of a factor with less entropy, and must not choose that factor
    factors = Factors.of({"shape": 3, "scale": 4}, grid=False)
    values = np.stack(np.meshgrid(np.arange(3), np.arange(4), np.arange(50), indexing="ij"), -1).reshape(-1, 3)[:, :2]
    mean = values[:, 1:] + 1.2 * values[:, :1] * (values[:, 1:] > 2)  # mostly scale
    codes = Codes(mean.astype(float), Latent.of(1), values=values, factors=factors, kl=np.array([0.29]))
    assert _leaf_factors(codes, {codes.tree.leaves[0].name: 0.29}) == {codes.tree.leaves[0].name: "scale"}


def test_slider_ranges_cover_prior_and_codes():
    run = Run.load(OLD_RUNS / "info_gan")
    real = [note for note in summarise_leaves(run) if note.kind == "real"]
    assert all((note.low[0], note.high[0]) == (-1.0, 1.0) for note in real)
    codes = Run.load(OLD_RUNS / "vae").codes()
    far = replace(codes, mean=codes.mean + 7)
    assert max(note.high[0] for note in summarise_leaves(Run.load(OLD_RUNS / "vae"), far)) > 7


def test_draws_of_the_prior_are_values_and_repeat():
    run = Run.load(OLD_RUNS / "hfvae_discrete")
    drawn = sample_prior_values(run, 50)
    onehot = run.model.tree.columns_of_kind("onehot")
    assert np.allclose(drawn[:, onehot].sum(1), 1)
    assert np.array_equal(drawn, sample_prior_values(run, 50))


def test_a_run_without_codes_still_sorts_its_leaves(tmp_path):
    shutil.copytree(OLD_RUNS / "vae", tmp_path / "run")
    (tmp_path / "run" / CODES_FILE).unlink()
    (tmp_path / "run" / "audit.json").unlink()
    run = Run.load(tmp_path / "run")
    codes = load_or_encode_codes(run, max_images=100)
    assert codes is not None
    assert all(note.nats is not None for note in summarise_leaves(run, codes))
    assert not (tmp_path / "run" / CODES_FILE).exists()


def test_the_page_makes_no_external_request():
    text = render_explorer(Run.load(OLD_RUNS / "vae"))
    assert "default-src 'none'" in text
    assert not re.search(r"""(src|href)\s*=\s*["'](?!data:)""", text)
    assert not re.search(r"https?://|fetch\(|XMLHttpRequest|import\(|WebSocket", text)


def test_a_hostile_name_stays_text(tmp_path):
    shutil.copytree(OLD_RUNS / "vae", tmp_path / "run")
    recipe = tmp_path / "run" / "recipe.toml"
    hostile = "</script><script>alert(1)</script><img src=x onerror=alert(2)>"
    plain = recipe.read_text()
    recipe.write_text(plain.replace('name = "vae"', f"name = '{hostile}'\nabout = '{hostile}'", 1))
    text = render_explorer(Run.load(tmp_path / "run"))
    assert "<script>alert" not in text
    assert "<img src=x" not in text
    assert page_content(text)["name"] == hostile


def test_the_command_writes_into_the_run_or_to_out(tmp_path):
    shutil.copytree(OLD_RUNS / "vae", tmp_path / "run")
    done = CliRunner().invoke(app, ["export", str(tmp_path / "run"), "--html"])
    assert done.exit_code == 0, done.output
    assert (tmp_path / "run" / "explore.html").is_file()
    done = CliRunner().invoke(app, ["export", str(tmp_path / "run"), "--html", "--out", str(tmp_path / "there.html")])
    assert done.exit_code == 0
    assert (tmp_path / "there.html").read_text() == (tmp_path / "run" / "explore.html").read_text()
    refused = CliRunner().invoke(app, ["export", str(tmp_path / "run")])
    assert "--to html" in str(refused.exception)


def test_an_unfinished_run_is_an_error():
    with pytest.raises(ValueError, match="no trained model yet"):
        write_explorer(Run.load(OLD_RUNS / "stopped"))
