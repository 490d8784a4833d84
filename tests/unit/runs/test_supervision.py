"""Supervision of a run: errors before training, limits, resume, command line, sweeps, estimator."""

from __future__ import annotations

import numpy as np
import pytest
from typer.testing import CliRunner

from tests.toys import toy_data
from unbraid.cli import app
from unbraid.core.errors import UnbraidError
from unbraid.data.dataset import Dataset, Pixels
from unbraid.export.estimator import Disentangler
from unbraid.runs.building.builders import build_parts, build_trainer
from unbraid.runs.fitting.training import fit
from unbraid.runs.recipe import Recipe

BUDGET = {"steps": 3, "batch": 16, "threads": 1, "device": "cpu", "log_every": 1}
MIXTURE = {"name": "mixture", "means": 4, "variance": 1.0, "learned": True}


def recipe(objective, supervision=None, **more) -> Recipe:
    fields = {"latent": 4, "nets": "mlp", "budget": BUDGET, **more}
    return Recipe(data="toy", objective=objective, **fields, supervision=supervision or {})


@pytest.mark.parametrize(
    ("objective", "supervision", "more", "words"),
    [
        ("ada_gvae", {}, {}, "needs pairs of images, and none are given"),
        ("slow_vae", {}, {}, "needs pairs"),
        ("beta_vae", {"pairs": {"k": 1}}, {}, "reads no pairs"),
        ("ada_gvae", {"pairs": {"k": 1}, "tie": "ml"}, {}, "has a tie of its own"),
        ("beta_vae", {"pairs": {"k": 1}, "tie": "mean"}, {}, "unknown tie 'mean'"),
        ("beta_vae", {"pairs": {"k": 1}, "tie": "ml", "shared": ["z9"]}, {}, "no node 'z9'"),
        ("gvae", {"pairs": {"source": "frames"}}, {}, "say which factors differ"),
        ("ada_gvae", {"pairs": {"k": 1, "group": 3}}, {}, "compares two views"),
        ("ada_gvae", {"pairs": {"k": 1, "n": 8}}, {}, "batch 16, 8 pairs"),
        ("ada_gvae", {"pairs": {"k": 1}}, {"posterior": {"family": "full"}}, "diagonal Gaussian"),
        ("slow_vae", {"pairs": {"k": 1}}, {"latent": {"c": "onehot(3)", "s": 3}}, "real leaves"),
        ("s2_beta_vae", {"labels": {"n": 500}}, {}, "n 500, 96 labelled"),
        ("s2_beta_vae", {"labels": {"leaves": {"place": "z0"}}}, {}, "none for light"),
        ("s2_beta_vae", {"labels": {"leaves": {"place": "z0", "light": "z0"}}}, {}, "two factors cannot have one leaf"),
        ("s2_beta_vae", {"labels": {"leaves": "name"}}, {}, "has no leaf 'place'"),
        ("s2_beta_vae", {"labels": {"factors": ["colour"]}}, {}, "no factor 'colour'"),
        ("s2_beta_vae", {"labels": {"batch": 1}}, {}, "at least two"),
        ("s2_beta_vae", {"label": {}}, {}, "takes no option 'label'"),
        ("s2_beta_vae", {}, {"latent": 1}, "2 factors, 1 leaves"),
        ("s2_beta_vae", {}, {"latent": {"a": "onehot(3)", "b": 1}}, "does not fit leaf 'a'"),
        ({"name": "s2_beta_vae", "loss": "bec"}, {}, {}, "Did you mean 'bce'"),
        ("i_vae", {}, {}, "defined with prior 'mixture'"),
        ("i_vae", {}, {"prior": MIXTURE}, "4 components, 32 states"),
        ("beta_vae", {"given": {"time": 4}}, {}, "reads no u"),
        (
            {"name": "row", "prices": {"kl@given": 1.0, "tc_q": 2.0}},
            {"given": {"time": 4}},
            {"prior": MIXTURE},
            "need q",
        ),
    ],
)
def test_errors_before_training_say_what_is_missing(objective, supervision, more, words) -> None:
    with pytest.raises(UnbraidError) as error:
        build_parts(recipe(objective, supervision, **more), toy_data())
    assert words in str(error.value)


def test_labels_of_another_length_and_without_factors() -> None:
    bare = Dataset("bare", Pixels(np.zeros((32, 1, 8, 8), np.uint8)))
    with pytest.raises(UnbraidError, match="labels are needed, and there are none"):
        build_parts(recipe("s2_beta_vae"), bare)


def losses(plan: Recipe, data: Dataset | None = None) -> list[dict[str, float]]:
    trainer = build_trainer(build_parts(plan, data or toy_data()))
    return [{key: float(v) for key, v in trainer.step(i).nats.items()} for i in range(3)]


def test_without_a_price_on_labels_a_run_is_the_plain_row() -> None:
    """Labels are drawn apart and cost no random number, so a price of 0 leaves the row as it is, to the bit."""
    free = losses(recipe({"name": "s2_beta_vae", "beta": 2.0, "gamma": 0.0}, {"labels": {"n": 20}}))
    plain = losses(recipe({"name": "beta_vae", "beta": 2.0}))
    assert [{k: v for k, v in row.items() if k != "labels@bce"} for row in free] == plain


def test_labels_are_added_to_any_row_with_a_schedule() -> None:
    price = {"schedule": "stages", "steps": [2], "prices": [0.0, 5.0]}
    plan = recipe("beta_tcvae", {"labels": {"n": 20, "loss": "l2", "price": price}})
    trainer = build_trainer(build_parts(plan, toy_data()))
    assert [trainer.step(i).prices["labels@l2"] for i in range(3)] == [0.0, 0.0, 5.0]


def test_labels_are_learned_and_the_audit_keeps_to_nats(tmp_path) -> None:
    from unbraid.runs.evaluation.auditing import audit
    from unbraid.runs.evaluation.encoding import encode

    plan = recipe({"name": "s2_beta_vae", "gamma": 100.0}, budget={**BUDGET, "steps": 300, "lr": 3e-3, "log_every": 50})
    run = fit(plan, tmp_path / "run", dataset=toy_data(), quiet=True)
    codes = encode(run, toy_data(), quiet=True, save=False)
    for k in range(2):
        assert np.corrcoef(codes.mean[:, k], codes.values[:, k])[0, 1] > 0.95
    assert not [key for key in audit(run, toy_data(), rows=32, quiet=True, save=False)["nats"] if "labels" in key]


def test_tied_runs_are_encoded_by_the_untied_posterior(tmp_path) -> None:
    from unbraid.runs.evaluation.encoding import encode

    run = fit(recipe("ada_gvae", {"pairs": {"k": 1}}), tmp_path / "run", dataset=toy_data(), quiet=True)
    codes = encode(run, toy_data(), quiet=True, save=False)
    import torch

    with torch.no_grad():
        q = run.model.posterior(torch.from_numpy(toy_data().pixels(np.arange(96))))
    np.testing.assert_allclose(codes.mean, q.mean.numpy(), rtol=1e-5, atol=1e-6)


def test_other_labels_are_refused_when_a_run_is_resumed(tmp_path) -> None:
    table = tmp_path / "labels.csv"
    table.write_text("image,size\n" + "".join(f"{i},{i % 3}\n" for i in range(20)))
    plan = recipe("beta_vae", {"labels": {"file": str(table)}})
    fit(plan, tmp_path / "run", dataset=toy_data(), quiet=True)
    longer = plan.set("budget.steps=5")
    table.write_text("image,size\n" + "".join(f"{i},{i % 2}\n" for i in range(20)))
    with pytest.raises(UnbraidError, match="labels: "):
        fit(longer, tmp_path / "run", dataset=toy_data(), quiet=True, resume=True)


def test_validation_leaves_supervised_terms_out(tmp_path) -> None:
    budget = {**BUDGET, "validate_every": 2, "validate_images": 32}
    plan = recipe("slow_vae", {"pairs": {"k": 1}, "labels": {"n": 20}}, budget=budget)
    run = fit(plan, tmp_path / "run", dataset=toy_data(), validation=toy_data(64), quiet=True)
    row = run.validations()[0]
    assert set(row["nats"]) == {"reconstruction", "kl"}


def test_the_command_line_takes_labels(tmp_path) -> None:
    table = tmp_path / "labels.csv"
    table.write_text("image,size\n" + "".join(f"{i},{i % 3}\n" for i in range(0, 4608, 4)) + "99999,1\n")
    line = [
        "train",
        "vae_sprites32",
        "--set",
        "budget.steps=2",
        "--set",
        "data.subsample=200",
        "--set",
        "budget.batch=8",
    ]
    done = CliRunner().invoke(app, [*line, "--labels", str(table), "--out", str(tmp_path / "run"), "--quiet"])
    assert done.exit_code == 0, done.output
    assert "labels@bce" in done.output
    assert "99999" in done.output + done.stderr
    lost = CliRunner().invoke(app, [*line, "--labels", str(tmp_path / "none.csv"), "--out", str(tmp_path / "other")])
    assert lost.exit_code != 0


def test_sweeps_set_supervision(tmp_path) -> None:
    from unbraid.sweeps import sweep

    table = tmp_path / "sweep.toml"
    table.write_text(
        'recipe = "ada_gvae_sprites32"\nseeds = [0]\n[set]\n"budget.steps" = 2\n"budget.batch" = 8\n'
        '[grid]\n"supervision.pairs.k" = [0, 1]\n'
    )
    runs = sweep(table, tmp_path / "sweep", workers=1, quiet=True)
    assert sorted(run.recipe.supervision["pairs"]["k"] for run in runs) == [0, 1]


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_the_estimator_takes_partial_labels(tmp_path) -> None:
    data = toy_data()
    images, y = data.pixels(np.arange(96))[:, 0], np.asarray(data.labels(), float)
    y[::2] = np.nan
    y[1, 0] = np.nan
    model = Disentangler({"name": "s2_beta_vae", "gamma": 50.0}, 4, steps=150, lr=3e-3, nets="mlp", batch=32)
    means = model.fit(images, y).transform(images)
    known = np.isfinite(y[:, 1])
    assert np.corrcoef(means[known, 1], y[known, 1])[0, 1] > 0.8
    assert model.run_.recipe.data["partial"]
    words = np.array(["left", None, "right", *[None] * 45, *["left", "right"] * 24], dtype=object)
    Disentangler("s2_beta_vae", 4, steps=2, nets="mlp", batch=8).fit(images, words)
    with pytest.raises(UnbraidError, match="needs labels"):
        Disentangler("s2_beta_vae", 4, steps=2, nets="mlp").fit(images)
    with pytest.raises(UnbraidError, match="one row of labels"):
        Disentangler("s2_beta_vae", 4, steps=2, nets="mlp").fit(images, y[:10])
    with pytest.raises(UnbraidError, match="missing"):
        Disentangler("s2_beta_vae", 4, steps=2, nets="mlp").fit(images, np.full(96, np.nan))
    plain = Disentangler("vae", 4, steps=2, nets="mlp").fit(images, y)  # y is ignored, as before
    assert "labels" not in plain.run_.recipe.data


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_the_estimator_takes_pairs(tmp_path) -> None:
    data = toy_data()
    images = data.pixels(np.arange(96))[:, 0]
    numbers = np.stack([np.arange(0, 90), np.arange(1, 91)], 1)
    model = Disentangler("ada_gvae", 4, steps=2, nets="mlp", batch=200, out=tmp_path / "run").fit(images, pairs=numbers)
    assert model.run_.recipe.budget.batch == 90
    np.testing.assert_array_equal(np.load(tmp_path / "run" / "pairs.npy"), numbers)
    numbered = Disentangler("ada_gvae", 4, steps=2, nets="mlp", batch=16).fit_transform(
        images, pairs=np.stack([np.arange(95), np.arange(1, 96)], 1)
    )
    assert numbered.shape == (96, 4)
    partners = Disentangler("ada_gvae", 4, steps=2, nets="mlp", batch=16, validation_fraction=0.2)
    partners.fit(images, pairs=images[::-1])
    assert len(partners.run_.dataset()) == 154  # of 96 images and 96 partners, a fifth is held out
    for pairs, words in (
        (None, "needs pairs of images"),
        (numbers[:, 0], "in the shape of X"),
        (numbers + 20, "20 to 110, 96 rows"),
        (images[:5], "in the shape of X"),
    ):
        with pytest.raises(UnbraidError, match=words):
            Disentangler("ada_gvae", 4, steps=2, nets="mlp").fit(images, pairs=pairs)
    with pytest.raises(UnbraidError, match="reads no pairs"):
        Disentangler("vae", 4, steps=2, nets="mlp").fit(images, pairs=numbers)


def test_fit_takes_pairs_of_its_data_and_resumes(tmp_path) -> None:
    images = toy_data().pixels(np.arange(96))[:, 0]
    numbers = np.stack([np.arange(0, 90), np.arange(1, 91)], 1)
    plan = recipe("ada_gvae").model_copy(update={"data": {"name": "images"}})
    whole = fit(plan.set("budget.steps=5"), tmp_path / "whole", dataset=images, pairs=numbers, quiet=True)
    fit(plan, tmp_path / "run", dataset=images, pairs=numbers, quiet=True)
    run = fit(whole.recipe, tmp_path / "run", resume=True, quiet=True)
    for a, b in zip(run.model.parameters(), whole.model.parameters(), strict=True):
        assert (a == b).all()
    with pytest.raises(UnbraidError, match="labels: "):
        fit(plan.set("budget.steps=7"), tmp_path / "run", pairs=numbers[:50], resume=True, quiet=True, force=False)
