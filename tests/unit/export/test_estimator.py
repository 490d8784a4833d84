"""The scikit-learn estimator: its contract, and that it trains an ordinary run."""

from __future__ import annotations

import gc
import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator

import unbraid
from tests.toys import toy_data
from unbraid import Disentangler, Run, UnbraidError
from unbraid.core.errors import TrainingInterrupted
from unbraid.studio.run_library import Library

SMALL_OPTIONS = {"steps": 3, "batch": 16, "nets": {"name": "mlp", "width": [8]}, "budget": {"threads": 1}}


def images() -> np.ndarray:
    return toy_data(64).images.array[:, 0]  # type: ignore[attr-defined]


def random_rows(n: int = 60) -> np.ndarray:
    return np.random.default_rng(0).normal(size=(n, 5))


@pytest.fixture(autouse=True)
def _float32():
    """Train in float32, the default of torch."""
    import torch

    torch.set_default_dtype(torch.float32)


def test_scikit_learn_finds_no_fault():
    results = check_estimator(Disentangler("vae", 2, **SMALL_OPTIONS), on_skip=None)
    left = {r["check_name"]: str(r["exception"]) for r in results if r["status"] != "passed"}
    assert len(results) > 40
    assert set(left) <= {"check_array_api_input"}, left  # skipped unless SCIPY_ARRAY_API is set


@pytest.mark.parametrize("steps", [1, 20])
def test_scikit_learn_finds_no_fault_in_the_defaults(steps):
    results = check_estimator(Disentangler(steps=steps), on_skip=None, on_fail=None)
    left = {r["check_name"]: str(r["exception"]) for r in results if r["status"] != "passed"}
    assert len(results) > 40
    assert set(left) <= {"check_array_api_input"}, left


def test_vectors_are_standardised_and_returned_in_their_own_units(tmp_path):
    """X has a large mean, columns of different spread and a constant column."""
    X = 100 + np.hstack([random_rows(200) @ np.diag([1e-3, 1, 10, 1, 100]), np.full((200, 1), 0.1)])
    how = SMALL_OPTIONS | {"steps": 20, "lr": 0.01}
    model = Disentangler("vae", 5, out=tmp_path / "run", **how).fit(X)
    rows = (X - X.mean(0)) / np.where(X.std(0) > 1e-9, X.std(0), 1)
    plain = Disentangler("vae", 5, standardise=False, **how).fit(rows)
    np.testing.assert_allclose(model.transform(X), plain.transform(rows), atol=1e-4)
    scale = np.append(X[:, :5].std(0), 1)
    codes = 3 * random_rows(20)
    for found, expected in (
        (model.inverse_transform(codes), plain.inverse_transform(codes)),
        (model.sample(20), plain.sample(20)),
    ):
        np.testing.assert_allclose((found - X.mean(0)) / scale, expected, atol=0.02)  # float32 of 100 ± 0.001
    density = plain.score(rows) - np.log(X[:, :5].std(0)).sum()
    assert model.score(X) == pytest.approx(density, abs=1e-2), "the density of X, not of standardised rows"
    assert Run.load(tmp_path / "run").recipe.data["standardise"] is True
    np.testing.assert_allclose(
        unbraid.encode(Run.load(tmp_path / "run"), quiet=True).mean, model.transform(X), atol=1e-5
    )
    assert np.array_equal(pickle.loads(pickle.dumps(model)).inverse_transform(np.zeros((1, 5))),
                          model.inverse_transform(np.zeros((1, 5))))  # fmt: skip
    binary = Disentangler("vae", 2, likelihood="bernoulli", **SMALL_OPTIONS).fit((X > 100).astype(float))
    assert binary.scale_ is None


@pytest.mark.parametrize("objective", ["beta_tcvae", "hfvae"])
def test_unscaled_rows_do_not_break_pairwise_terms(objective):
    latent = {"a": {"x": 3, "y": 3}, "b": {"u": 3, "v": 3}}
    model = Disentangler(objective, latent, steps=60, standardise=False, budget={"threads": 1, "log_every": 1})
    losses = [row["loss"] for row in model.fit(100 + random_rows(200)).run_.ledger()]
    assert np.isfinite(losses).all()
    assert losses[-1] < 0.1 * losses[0]


@pytest.mark.parametrize("data", [images(), random_rows(150)], ids=["images", "rows"])
def test_codes_do_not_depend_on_the_other_rows(data):
    nets = {} if data.ndim == 2 else {"nets": {"name": "conv", "channels": [8, 16], "hidden": 32}}
    model = Disentangler("vae", 4, **({**SMALL_OPTIONS, "nets": "mlp"} | nets)).fit(data)
    codes = model.transform(data)
    assert np.array_equal(np.concatenate([model.transform(data[i : i + 1]) for i in range(len(data))]), codes)
    order = np.random.default_rng(0).permutation(len(data))
    assert np.array_equal(model.transform(data[order]), codes[order])


def test_it_trains_the_recipe_that_fit_trains(tmp_path):
    model = Disentangler({"name": "beta_tcvae", "beta": 3}, 2, out=tmp_path / "one", random_state=7, **SMALL_OPTIONS)
    model.fit(images())
    recipe = model.run_.recipe
    assert (recipe.seed, recipe.objective["beta"], recipe.budget.steps, recipe.budget.batch) == (7, 3, 3, 16)
    again = unbraid.fit(recipe, tmp_path / "two", quiet=True)
    assert np.array_equal(again.encode(images()[:, None]), model.transform(images()))


@pytest.mark.parametrize("axes", [(8, 8), (8, 8, 1), (8, 8, 3), (8, 6, 2), (5,)])
def test_layouts_come_back_as_they_went_in(axes):
    X = np.random.default_rng(0).random((20, *axes))
    nets = {} if len(axes) == 1 else {"nets": {"name": "conv", "channels": [4], "hidden": 8}}
    model = Disentangler("vae", 2, **(SMALL_OPTIONS | nets)).fit(X)
    assert model.transform(X).shape == (20, 2)
    assert model.inverse_transform(model.transform(X)).shape == X.shape
    assert model.sample(4).shape == (4, *axes)
    with pytest.raises(ValueError, match="shape that was fitted|X has 6 features"):
        model.transform(np.zeros((3, *axes[:-1], axes[-1] + 1)))


def test_channels_keep_their_places():
    """Red images are reconstructed as red after enough steps: no axes are swapped."""
    X = np.zeros((64, 6, 4, 3))
    X[..., 0] = 1.0
    model = Disentangler("vae", 1, **(SMALL_OPTIONS | {"steps": 60, "lr": 0.03})).fit(X)
    back = model.inverse_transform(model.transform(X[:1]))[0]
    assert back[..., 0].min() > 0.8
    assert back[..., 1:].max() < 0.2


def test_its_run_opens_in_report_and_studio(tmp_path):
    model = Disentangler("vae", 2, out=tmp_path / "runs" / "mine", **SMALL_OPTIONS).fit(images())
    codes = unbraid.encode(Run.load(model.run_.path), quiet=True)
    np.testing.assert_allclose(codes.mean, model.transform(images()), atol=1e-6)
    page = unbraid.report(model.run_)
    assert "Reconstructions" in page.read_text()
    library = Library(tmp_path / "runs")
    assert library.run("mine").state["status"] == "done"
    assert library.explorer("mine") is not None
    model.set_params(random_state=1).fit(images())  # fit starts again
    assert Run.load(tmp_path / "runs" / "mine").recipe.seed == 1


def test_a_run_of_somebody_else_is_left_alone(tmp_path):
    unbraid.fit(unbraid.Recipe(data="sprites32", nets="small32", budget={"steps": 1}), tmp_path / "theirs", quiet=True)
    before = (tmp_path / "theirs" / "model.safetensors").read_bytes()
    with pytest.raises(UnbraidError, match="no estimator made"):
        Disentangler("vae", 2, out=tmp_path / "theirs", **SMALL_OPTIONS).fit(images())
    assert (tmp_path / "theirs" / "model.safetensors").read_bytes() == before


def test_temporary_folders_go_with_the_run():
    model = Disentangler("vae", 2, **SMALL_OPTIONS).fit(images())
    run = model.run_
    del model
    gc.collect()
    assert run.sample(1).shape == (1, 1, 8, 8), "whoever holds the run can use it"
    path = run.path
    del run
    gc.collect()
    assert not path.exists()


def test_a_pickle_is_whole_without_the_folder():
    model = Disentangler("vae", 2, **SMALL_OPTIONS).fit(images())
    codes, stored = model.transform(images()), pickle.dumps(model)
    del model
    gc.collect()
    back = pickle.loads(stored)
    assert np.array_equal(back.transform(images()), codes)


def test_pipeline_pandas_and_names():
    import pandas

    frame = pandas.DataFrame(random_rows(), columns=list("abcde"))
    tree = {"pose": {"x": 1, "y": 1}, "look": 2}
    flow = make_pipeline(StandardScaler(), Disentangler("vae", tree, **SMALL_OPTIONS)).set_output(transform="pandas")
    out = flow.fit_transform(frame)
    assert list(out.columns) == list(flow[-1].get_feature_names_out()) == list(flow[-1].run_.recipe.tree.column_names)
    assert list(out.index) == list(frame.index)
    assert flow.inverse_transform(out).shape == frame.shape
    assert list(flow[-1].feature_names_in_) == list("abcde")


def test_clone_and_search_choose_by_the_bound_or_by_a_metric():
    grid = {"objective": [{"name": "beta_vae", "beta": 1}, {"name": "beta_vae", "beta": 1e4}]}
    base = Disentangler(latent=2, **(SMALL_OPTIONS | {"steps": 80, "lr": 0.01}))
    assert clone(base).get_params() == base.get_params()
    found = GridSearchCV(base, grid, cv=2).fit(images())
    assert found.best_params_["objective"]["beta"] == 1, "with a price of 10,000 per nat nothing is encoded"
    labels = toy_data(64).labels()
    by_metric = GridSearchCV(clone(base).set_params(metric="mig"), grid, cv=2).fit(images(), labels)
    assert np.isfinite(by_metric.cv_results_["mean_test_score"]).all()
    assert 0 <= by_metric.score(images(), labels) <= 1


def test_score_is_the_bound_of_the_run():
    model = Disentangler("vae", 2, **SMALL_OPTIONS).fit(random_rows())
    bits = [model.score(random_rows()) for _ in range(2)]
    assert bits[0] == bits[1]
    assert model.score(random_rows() * 10) < bits[0], "what is far from the data is less likely"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"objective": "beta_tcv"}, "Did you mean 'beta_tcvae'"),
        ({"latent": 0}, "latent"),
        ({"steps": 0}, "budget.steps"),
        ({"budget": {"steppes": 1}}, "no field 'budget.steppes'"),
        ({"device": "warp"}, "device 'warp'"),
    ],
)
def test_errors_leave_no_files(change, message, tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with pytest.raises(UnbraidError, match=message):
        Disentangler("vae", 2, **SMALL_OPTIONS).set_params(**change).fit(images())
    assert not list(tmp_path.iterdir())


def test_a_failed_refit_of_another_width_leaves_the_estimator_as_it_was(monkeypatch):
    first, second = random_rows(), np.concatenate([random_rows()] * 2, 1)
    model = Disentangler("vae", 2, **SMALL_OPTIONS).fit(first)
    codes = model.transform(first)
    with pytest.raises(UnbraidError):
        model.set_params(objective="beta_tcv").fit(second)
    np.testing.assert_array_equal(model.transform(first), codes)


def test_metrics_need_labels_and_images_must_be_in_range():
    model = Disentangler("vae", 2, metric="mig", **SMALL_OPTIONS).fit(images())
    with pytest.raises(UnbraidError, match="needs labels"):
        model.score(images())
    with pytest.raises(UnbraidError, match=r"\[0, 1\]"):
        Disentangler("vae", 2, **SMALL_OPTIONS).fit(images() / 10)


def test_a_game_has_codes_but_no_bound():
    model = Disentangler("info_gan", 2, **(SMALL_OPTIONS | {"nets": "info_gan_small"})).fit(images())
    assert model.transform(images()).shape == (64, 2)
    with pytest.raises(UnbraidError, match="no bound on log p"):
        model.score(images())


def test_a_share_of_x_is_held_out_and_decides():
    model = Disentangler("vae", 2, validation_fraction=0.25, **SMALL_OPTIONS).fit(images())
    assert (len(model.run_.dataset()), len(model.run_.validations()), model.run_.snapshot) == (48, 3, None)
    how = {"steps": 40, "lr": 0.3, "budget": {"threads": 1, "validate_every": 2, "patience": 2, "best": True}}
    model = Disentangler("vae", 2, validation_fraction=0.25, **(SMALL_OPTIONS | how)).fit(images())
    losses = [row["loss"] for row in model.run_.validations()]
    assert model.run_.state["step"] < 40 or len(losses) == 20, "patience ends it"
    assert np.array_equal(model.transform(images()), Run.load(model.run_.path).best().encode(images()[:, None]))
    codes = model.transform(images())
    assert np.array_equal(pickle.loads(pickle.dumps(model)).transform(images()), codes), "the best weights are kept"
    for wrong in (1.0, -0.1, "half", True):
        with pytest.raises(UnbraidError, match="validation_fraction is a fraction of X"):
            Disentangler("vae", 2, validation_fraction=wrong, **SMALL_OPTIONS).fit(images())
    with pytest.raises(UnbraidError, match="at least two rows of X"):
        Disentangler("vae", 2, validation_fraction=0.01, **SMALL_OPTIONS).fit(images())
    with pytest.raises(UnbraidError, match="Set validation_fraction"):
        Disentangler("vae", 2, **(SMALL_OPTIONS | {"budget": {"validate_every": 2}})).fit(images())


def test_callbacks_are_called_and_may_stop(tmp_path):
    class Counts:
        def __init__(self, stop=-1):
            self.stop, self.steps = stop, []

        def stepped(self, step, row):
            self.steps.append(step)
            return step == self.stop

    counts = Counts()
    model = Disentangler("vae", 2, callbacks=[counts], **SMALL_OPTIONS).fit(images())
    assert counts.steps == [1, 2, 3]
    assert clone(model).callbacks[0].steps == [1, 2, 3]
    with pytest.raises(TrainingInterrupted, match=r"after step 1 of 3; its folder was temporary.*out="):
        Disentangler("vae", 2, callbacks=Counts(stop=1), **SMALL_OPTIONS).fit(images())
    with pytest.raises(TrainingInterrupted, match="continue with: fit.*resume=True"):
        Disentangler("vae", 2, callbacks=Counts(stop=1), out=tmp_path / "run", **SMALL_OPTIONS).fit(images())
    assert Run.load(tmp_path / "run").state["status"] == "stopped"


def test_one_metric_is_a_score_and_all_are_named():
    model = Disentangler("vae", 2, metric="all", **SMALL_OPTIONS).fit(images())
    for names in ("all", "mig,dci"):
        with pytest.raises(UnbraidError, match=r"one metric: found '.*allowed: elbo,.* mig,.*unbraid.score"):
            model.set_params(metric=names).score(images(), toy_data(64).labels())


def test_numbers_and_chance_of_numpy_are_welcome():
    how = SMALL_OPTIONS | {"batch": np.int64(16), "steps": np.int32(3), "lr": np.float32(1e-3)}
    model = Disentangler("vae", np.int64(2), random_state=np.random.default_rng(1), **how).fit(images())
    assert model.sample(np.int64(3)).shape == (3, 8, 8)
    assert np.array_equal(model.sample(2, np.random.RandomState(3)), model.sample(2, np.random.RandomState(3)))
    assert np.array_equal(model.sample(2, np.random.default_rng(3)), model.sample(2, np.random.default_rng(3)))
    assert np.array_equal(model.sample(2, np.int64(5)), model.sample(2, 5))
    assert not np.array_equal(model.sample(2, None), model.sample(2, None))
    for wrong in (0, True, 2.5):
        with pytest.raises(UnbraidError, match="n_samples is a positive integer"):
            model.sample(wrong)


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (np.full((20, 8, 8), 7.0), r"^X: float pixels must lie in \[0, 1\]: found 7 to 7. Divide by 255"),
        (np.zeros((20, 8, 8), np.int64), "^X: pixels must be bool, uint8 or float: found int64"),
        (np.full((20, 5), 1e300), "^X holds numbers too large for float32"),
    ],
)
def test_errors_speak_of_x(X, message):
    with pytest.raises(UnbraidError, match=message) as raised:
        Disentangler("vae", 2, **SMALL_OPTIONS).fit(X)
    assert "data.npy" not in str(raised.value)


def test_channels_first_is_inferred_or_set():
    X = np.zeros((64, 3, 6, 5))
    X[:, 0] = 1.0
    model = Disentangler("vae", 1, **(SMALL_OPTIONS | {"steps": 60, "lr": 0.03})).fit(X)
    assert model.run_.state["shape"] == [3, 6, 5]
    back = model.inverse_transform(model.transform(X[:1]))
    assert back.shape == (1, 3, 6, 5)
    assert back[0, 0].min() > 0.8
    assert back[0, 1:].max() < 0.2
    assert model.sample(2).shape == (2, 3, 6, 5)
    for shape in ((20, 3, 8, 3), (20, 8, 8, 8)):
        with pytest.raises(UnbraidError, match=r"not clear which axis of X.*Set channels='last' or channels='first'"):
            Disentangler("vae", 1, **SMALL_OPTIONS).fit(np.zeros(shape))
    for channels, shape in (("last", [8, 8, 5]), ("first", [8, 8, 5])):
        X = np.zeros((20, 8, 5, 8) if channels == "last" else (20, 8, 8, 5))
        assert Disentangler("vae", 1, channels=channels, **SMALL_OPTIONS).fit(X).run_.state["shape"] == shape
    with pytest.raises(UnbraidError, match="last or first"):
        Disentangler("vae", 1, channels="middle", **SMALL_OPTIONS).fit(X)
