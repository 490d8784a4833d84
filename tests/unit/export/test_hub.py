"""The hub folder: a run with equal weights, and a model card with the facts of the run."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import unbraid
from tests.toys import toy_data
from unbraid import Recipe, Run, UnbraidError, fit
from unbraid.cli import app
from unbraid.export.hub import write_hub
from unbraid.runs.folder.file_names import MODEL_FILE

OLD_RUNS = Path(__file__).parents[2] / "data" / "runs_of_0_1"


def card_header(text: str) -> dict:
    """The YAML header of a card."""
    yaml = pytest.importorskip("yaml")
    return yaml.safe_load(text.split("---\n")[1])


@pytest.mark.parametrize("name", ["vae", "hfvae_discrete", "info_gan", "full_posterior"])
def test_the_folder_is_a_run_with_the_same_bits(name, tmp_path):
    run = Run.load(OLD_RUNS / name)
    folder = write_hub(run, tmp_path / "hub")
    again = Run.load(folder)
    assert (folder / MODEL_FILE).read_bytes() == (run.path / MODEL_FILE).read_bytes()
    x = np.random.default_rng(0).random((3, *run.state["shape"]), dtype=np.float32)
    codes = run.encode(x)
    assert np.array_equal(codes, again.encode(x))
    assert np.array_equal(run.decode(codes), again.decode(codes))
    assert np.array_equal(run.sample(2), again.sample(2))
    config = json.loads((folder / "config.json").read_text())
    assert Recipe.from_dict(config["recipe"]).hash == run.recipe.hash
    assert config["latent_columns"] == list(run.model.tree.column_names)


@pytest.fixture(scope="module")
def scored_run(tmp_path_factory):
    """A run on a file of images that was scored with intervals and audited."""
    import torch

    torch.set_default_dtype(torch.float32)
    place = tmp_path_factory.mktemp("scored")
    toy = toy_data(96)
    np.savez(place / "bars.npz", images=toy.images.array, labels=toy.labels()[:, 0])
    recipe = Recipe(
        name="bars|1",
        about="Bars of light.",
        data={"name": "images", "path": str(place / "bars.npz"), "key": "images", "labels": "labels", "layout": "nchw"},
        latent=2,
        nets="decomposition_table1b",
        objective={"name": "beta_tcvae", "beta": 3},
        budget={"steps": 4, "batch": 16, "threads": 1},
    )
    run = fit(recipe, place / "run", quiet=True)
    unbraid.encode(run, quiet=True)
    unbraid.score(run, metrics="mig,sap", seeds=3, quiet=True)
    unbraid.audit(run, rows=64, quiet=True)
    return run


def test_the_card_has_the_facts_of_the_run(scored_run, tmp_path):
    result = CliRunner().invoke(app, ["export", str(scored_run.path), "--hub", "--out", str(tmp_path / "hub")])
    assert result.exit_code == 0, result.output
    card = (tmp_path / "hub" / "README.md").read_text()
    found = card_header(card)
    assert found["library_name"] == "unbraid"
    assert "beta_tcvae" in found["tags"]
    scores = unbraid.Scores.load(scored_run.path)
    measured = {m["type"]: m["value"] for m in found["model-index"][0]["results"][0]["metrics"]}
    assert measured == {name: pytest.approx(s.value, abs=1e-6) for name, s in scores.items()}
    low, high = scores["mig"].interval
    assert f"| mig | {scores['mig'].value:.3f} | {low:.3f} – {high:.3f} |" in card
    for said in ("Bars of light.", "beta_tcvae (beta 3)", "96 examples of 1×8×8", "4 steps of 16", "@", "± "):
        assert said in card
    assert "title" in card.split("```bibtex")[1], "the papers to cite"
    assert "![Traversals" in card
    assert (tmp_path / "hub" / "traversals.png").read_bytes()[1:4] == b"PNG"


def test_the_card_holds_no_html_of_a_recipe(tmp_path):
    """Names and descriptions come from a recipe, which may be another person's; the hub renders the card."""
    tag = "<img src=x onerror=alert(1)>"
    recipe = Recipe(
        name=f"bars {tag}",
        about=f"Bars {tag} & ![seen](https://example.org/seen.png)\n```\n<script>alert(2)</script>",
        data=f"toy {tag}",
        latent=2,
        nets="decomposition_table1b",
        budget={"steps": 1, "batch": 8},
    )
    run = fit(recipe, tmp_path / "run", dataset=toy_data(), quiet=True)
    card = (write_hub(run, tmp_path / "hub") / "README.md").read_text()
    text = card.split("---\n", 2)[2]  # without the header, which is data
    blocks = re.findall(r"^(`{3,})\w+\n(.*?)^\1$", text, flags=re.MULTILINE | re.DOTALL)
    for _, block in blocks:
        text = text.replace(block, "")
    assert len(blocks) == 3
    assert "<img" not in text
    assert "<script" not in text
    assert "](https:" not in text
    assert "# bars &lt;img src=x" in text
    assert "Bars &lt;img src=x onerror=alert(1)&gt; &amp; ![seen]\\(https" in text


def test_no_path_of_this_machine_is_exported(scored_run, tmp_path):
    folder = write_hub(scored_run, tmp_path / "hub")
    place = str(scored_run.path.parent)
    for file in folder.iterdir():
        assert place.encode() not in file.read_bytes(), file.name
    again = Run.load(folder, dataset=scored_run.dataset())
    assert np.array_equal(unbraid.encode(again, quiet=True).mean, scored_run.codes().mean)


def test_hugging_faces_own_reader_reads_the_card(scored_run, tmp_path):
    hub = pytest.importorskip("huggingface_hub")
    card = hub.ModelCard.load(write_hub(scored_run, tmp_path / "hub") / "README.md")
    assert card.data.library_name == "unbraid"
    assert {result.metric_type for result in card.data.eval_results} == {"mig", "sap"}


def test_a_run_without_scores_or_data_has_a_card_too(tmp_path):
    recipe = Recipe(data="toy", latent=2, nets="decomposition_table1b", budget={"steps": 2, "batch": 8})
    fit(recipe, tmp_path / "run", dataset=toy_data(), quiet=True)
    folder = write_hub(Run.load(tmp_path / "run"))
    card = (folder / "README.md").read_text()
    assert "was not scored" in card
    assert "![" not in card
    assert "model-index" not in card_header(card)
    assert write_hub(Run.load(tmp_path / "run")) == folder, "overwritten"


def test_snapshots_are_exported_too(tmp_path):
    budget = {"steps": 4, "batch": 8, "snapshots": [2]}
    recipe = Recipe(data="toy", latent=2, nets="decomposition_table1b", budget=budget)
    run = fit(recipe, tmp_path / "run", dataset=toy_data(), quiet=True).at(2)
    folder = write_hub(run, tmp_path / "hub")
    assert (folder / MODEL_FILE).read_bytes() == run.weights.read_bytes()


def test_a_folder_with_other_files_and_an_unfinished_run_are_errors(tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "README.md").write_text("mine")
    with pytest.raises(UnbraidError, match="contains other files"):
        write_hub(Run.load(OLD_RUNS / "vae"), tmp_path / "mine")
    assert [f.name for f in (tmp_path / "mine").iterdir()] == ["README.md"]
    shutil.copytree(OLD_RUNS / "stopped", tmp_path / "stopped")
    with pytest.raises(UnbraidError, match="no trained model yet"):
        write_hub(Run.load(tmp_path / "stopped"))
    assert not (tmp_path / "stopped" / "hub").exists()
