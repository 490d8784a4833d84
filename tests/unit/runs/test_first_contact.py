"""What a newcomer passes to `fit`, `Recipe` and `Run` first: errors say what to pass instead, in the words of Python."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

import unbraid
from tests.toys import toy_data
from unbraid import Recipe, Run, fit
from unbraid.core import errors
from unbraid.core.errors import TrainingInterrupted, UnbraidError, use_command_line_words
from unbraid.runs.fitting import trainer
from unbraid.runs.folder.leaf_names import write_leaf_names

RECIPE = Recipe(data="toy", latent=3, nets="mlp", budget={"steps": 4, "batch": 8, "threads": 1})


@pytest.mark.parametrize(
    ("value", "found", "instead"),
    [
        (torch.rand(64, 1, 8, 8), "a Tensor of shape (64, 1, 8, 8)", "dataset=images"),
        (np.zeros((4, 8, 8)), "a ndarray of shape (4, 8, 8)", "dataset=images"),
        ({"data": "sprites32"}, "a dict with keys data", "Recipe(**fields)"),
        ({"images": np.zeros((4, 8, 8))}, "a dict with keys images", "dataset=images"),
        (None, "None", "fit("),
    ],
)
def test_what_is_no_recipe_is_described_and_never_printed(value, found, instead):
    with pytest.raises(UnbraidError) as caught:
        fit(value)
    assert found in str(caught.value)
    assert instead in str(caught.value)
    assert len(str(caught.value)) < 400


def test_a_folder_of_pictures_is_no_recipe_but_its_recipe_is_named(tmp_path, monkeypatch):
    with pytest.raises(UnbraidError, match=r"found the folder .*Recipe.load\(\"beta_tcvae_pictures\", \"data.path=/"):
        fit(tmp_path)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "vae_sprites32").mkdir()
    assert Recipe.load("vae_sprites32").data["name"] == "sprites32"


@pytest.mark.parametrize("latent", [0, -1, "x", {}])
def test_an_impossible_latent_is_refused_by_the_recipe(latent):
    with pytest.raises(UnbraidError, match="latent"):
        Recipe(data="toy", latent=latent)


@pytest.mark.parametrize("latent", [2.5, [2, 3], None, unbraid.Latent.of(3)])
def test_a_latent_of_another_type_gets_one_sentence(latent):
    with pytest.raises(
        UnbraidError, match=r"^recipe: 'latent': latent must be a whole number, a layout .* found [^;]*$"
    ):
        Recipe(data="toy", latent=latent)
    assert Recipe(data="toy", latent=np.int64(4)) == Recipe(data="toy", latent=4.0) == Recipe(data="toy", latent=4)


@pytest.mark.parametrize(
    ("field", "hint"), [("epochs", "steps = epochs"), ("learning_rate", "budget.lr"), ("batch_size", "budget.batch")]
)
def test_fields_of_other_libraries_lead_to_ours(field, hint):
    with pytest.raises(UnbraidError, match=hint):
        Recipe(data="toy", budget={field: 3})


@pytest.mark.parametrize(
    ("field", "hint"),
    [("lr", "'budget.lr'"), ("steps", "'budget.steps'"), ("learning_rate", "'budget.lr'"), ("beta", "of an objective")],
)
def test_a_field_at_the_top_leads_to_its_table(field, hint):
    with pytest.raises(UnbraidError, match=hint):
        Recipe(data="toy", **{field: 3})


def test_functions_of_a_run_take_its_directory(tmp_path, monkeypatch):
    data = unbraid.data.of(np.random.default_rng(0).random((16, 8, 8)), quiet=True)
    run = fit(RECIPE, tmp_path / "r", dataset=data, quiet=True)
    assert unbraid.encode(str(run.path), quiet=True).mean.shape == (16, 3)
    assert unbraid.audit(run.path, rows=8, quiet=True)["nats"]
    assert unbraid.report(str(run.path)) == run.path / "report.html"
    with pytest.raises(UnbraidError, match="is not a run directory"):
        unbraid.encode(tmp_path / "none")


def test_errors_name_python_arguments_and_commands_name_options(tmp_path):
    fit(RECIPE, tmp_path / "r", dataset=toy_data(24), quiet=True)
    with pytest.raises(UnbraidError, match=r"resume=True.*force=True"):
        fit(RECIPE, tmp_path / "r", dataset=toy_data(24), quiet=True)
    with pytest.raises(UnbraidError, match=r"force=True"):
        fit(RECIPE.set("budget.lr=0.1"), tmp_path / "r", dataset=toy_data(24), quiet=True, resume=True)
    with pytest.raises(UnbraidError, match=r"unbraid\.encode\(run\)"):
        Run.load(tmp_path / "r").codes()
    stop = type("Stop", (), {"stepped": lambda self, done, row: done == 2})()
    with pytest.raises(TrainingInterrupted, match=r"fit\(…, .*resume=True\)"):
        fit(RECIPE, tmp_path / "s", dataset=toy_data(24), quiet=True, callbacks=[stop])
    use_command_line_words(True)
    try:
        with pytest.raises(UnbraidError, match=r"--resume.*--force"):
            fit(RECIPE, tmp_path / "r", dataset=toy_data(24), quiet=True)
    finally:
        use_command_line_words(False)


def test_a_command_ends_without_changing_the_words_of_python():
    from typer.testing import CliRunner

    from unbraid.cli import app

    CliRunner().invoke(app, ["list"])
    assert not errors._command_line


def test_lazy_layers_are_named():
    encoder = nn.Sequential(nn.Flatten(), nn.LazyLinear(6))
    decoder = nn.Sequential(nn.Linear(3, 64), nn.Unflatten(1, (1, 8, 8)))
    with pytest.raises(UnbraidError, match=r"encoder\.1.*Call both nets once"):
        fit(RECIPE, "never", dataset=toy_data(24), nets=(encoder, decoder), quiet=True)


def test_the_columns_of_an_encoder_are_explained(tmp_path):
    nets = nn.Sequential(nn.Flatten(), nn.Linear(64, 5)), nn.Sequential(nn.Linear(3, 64), nn.Unflatten(1, (1, 8, 8)))
    with pytest.raises(UnbraidError, match=r"b × 6.*means of 3 real columns, then their log-scales"):
        fit(RECIPE, tmp_path / "r", dataset=toy_data(24), nets=nets, quiet=True)


@pytest.mark.parametrize("labels", [{"side": np.arange(16) % 2}, np.arange(16) % 2, np.zeros((16, 2), int)])
def test_a_pair_of_images_and_labels_is_a_data_set(tmp_path, monkeypatch, labels):
    monkeypatch.setenv("UNBRAID_CACHE", str(tmp_path / "cache"))
    run = fit(RECIPE, tmp_path / "r", dataset=(torch.rand(16, 1, 8, 8), labels), quiet=True)
    assert run.dataset().factors is not None


def test_two_images_are_no_pair(tmp_path, monkeypatch):
    from unbraid.data.custom.conversion import as_dataset

    monkeypatch.setenv("UNBRAID_CACHE", str(tmp_path / "cache"))
    assert len(as_dataset((np.zeros((8, 8), np.uint8), np.ones((8, 8), np.uint8)), quiet=True)) == 2


@pytest.mark.skipif(torch.cuda.is_available(), reason="the reason is for machines without CUDA")
def test_cuda_says_why_it_cannot_be_used(monkeypatch):
    with pytest.raises(UnbraidError, match=r"because (torch .* is a CPU build|CUDA does not start|this machine has)"):
        trainer.choose_device("cuda")
    monkeypatch.setattr(torch.version, "cuda", "12.4")
    monkeypatch.setattr(
        torch.cuda, "init", lambda: (_ for _ in ()).throw(RuntimeError("Found no NVIDIA driver.\nmore"))
    )
    with pytest.raises(UnbraidError, match=r"Found no NVIDIA driver\)"):
        trainer.choose_device("cuda:1")
    monkeypatch.setattr(torch.cuda, "init", lambda: None)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    with pytest.raises(UnbraidError, match="cuda:0 … cuda:1"):
        trainer.choose_device("cuda:7")


def test_runs_and_data_sets_show_themselves_in_a_notebook(tmp_path):
    data = toy_data(24)
    run = fit(RECIPE, tmp_path / "<r>", dataset=data, quiet=True)
    unbraid.encode(run, quiet=True)
    unbraid.score(run, metrics="active_units", quiet=True)
    page = run._repr_html_()
    for expected in ("data:image/png;base64,", "<svg", "active_units", "&lt;r&gt;"):
        assert expected in page
    assert "<r>" not in page
    assert "data:image/png;base64," in data._repr_html_()
    assert repr(data).startswith("Dataset 'toy")
    vectors = unbraid.data.of(np.random.default_rng(0).random((8, 5)), quiet=True)
    assert "<img" not in vectors._repr_html_()
    assert "8 vectors of 5 columns" in repr(vectors)


def test_each_traversal_in_a_notebook_has_the_name_of_its_leaf(tmp_path):
    run = fit(RECIPE, tmp_path / "r", dataset=toy_data(24), quiet=True)
    write_leaf_names(run.path, {"z1": "size & hue"})
    page = run._repr_html_()
    assert page.count("<img") == 3
    for name in ("z0", "size &amp; hue", "z2"):
        assert f">{name}</th>" in page


def test_a_run_without_weights_still_shows_its_summary(tmp_path):
    run = fit(RECIPE, tmp_path / "r", dataset=toy_data(24), quiet=True)
    (tmp_path / "r" / "model.safetensors").unlink()
    (tmp_path / "r" / "ledger.jsonl").unlink()
    assert "<img" not in Run.load(run.path)._repr_html_()


def test_every_registry_of_parts_is_public():
    for name in ("DATASETS", "NETS", "LIKELIHOODS", "POSTERIORS", "PRIORS", "TERMS", "OBJECTIVES", "METRICS"):
        assert len(getattr(unbraid, name)) > 2
