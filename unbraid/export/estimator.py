"""A scikit-learn estimator: `fit` trains a recipe in a run directory, with the same training loop as any other run."""

from __future__ import annotations

import shutil
import tempfile
import weakref
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_array, check_is_fitted, validate_data

from unbraid.core.distributed import torchrun_rank_info
from unbraid.core.errors import TrainingInterrupted, UnbraidError, expect
from unbraid.core.files import is_file, write_bytes
from unbraid.data.custom.vectors import column_scaling
from unbraid.export.array_layout import detect_layout, from_nchw, to_nchw
from unbraid.export.estimator_params import (
    build_recipe,
    check_labels,
    check_own_run,
    pair_rows,
    reads_labels,
    seed_from_random_state,
    to_python_number,
)
from unbraid.runs import Recipe, Run
from unbraid.runs.folder import backup
from unbraid.runs.folder.file_names import (
    BEST_FILE,
    LEDGER_FILE,
    MODEL_FILE,
    RECIPE_FILE,
    ROWS_FILE,
    STATE_FILE,
)

TRANSFORM_BATCH = 64  # rows per batch of `transform`, always: a code then does not depend on the other rows
PICKLED_FILES = (RECIPE_FILE, LEDGER_FILE, MODEL_FILE, BEST_FILE, STATE_FILE)  # files of the run in a pickle
ELBO = "elbo"

FEATURE_ATTRIBUTES = ("n_features_in_", "feature_names_in_")  # that scikit-learn sets before the training


class Disentangler(TransformerMixin, BaseEstimator):
    """Learn a latent code of images or vectors; `transform` returns the posterior means.

    X is images (n, h, w), (n, h, w, c) or (n, c, h, w) of bytes, bools or floats in [0, 1]; or vectors (n, d). A fitted
    estimator keeps its weights in memory: another one may overwrite `out`. An objective, prior, likelihood or net is a name,
    or a table such as {"name": "beta_vae", "beta": 6}.

    Args:
        objective: the objective.
        latent: number of latents, or a latent tree.
        steps: number of training steps.
        batch: batch size.
        lr: learning rate.
        nets: encoder and decoder; by default a conv net for images, an mlp for vectors.
        likelihood: the likelihood; by default Bernoulli for images, Gaussian for vectors.
        standardise: scale vectors under a Gaussian likelihood to mean 0 and standard deviation 1 in each column; results
            are in the units of X.
        prior: the prior.
        supervision: a recipe's [supervision]: pairs, options of labels, a tie (docs/weak_supervision.md).
        budget: further fields of a recipe's [budget].
        validation_fraction: fraction of X that is held out for validation; `patience` and `best` of the budget use it.
        channels: 'last' or 'first', where the shape of X is ambiguous.
        metric: what `score` returns: 'elbo', the bound on log p(x) in nats, or a metric of codes and labels such as 'mig'.
        callbacks: callbacks of `fit`.
        device: device to train on.
        out: run directory; by default a temporary one that is deleted with `run_`.
        random_state: seed.
        verbose: whether to show progress.

    >>> X = np.random.default_rng(0).random((40, 8, 8))
    >>> model = Disentangler(latent=3, steps=2, nets="mlp").fit(X)
    >>> model.transform(X).shape, model.inverse_transform(np.zeros((2, 3))).shape, model.sample(5).shape
    ((40, 3), (2, 8, 8), (5, 8, 8))
    >>> print(model.run_.state["status"], *model.get_feature_names_out())
    done z0 z1 z2
    """

    def __init__(
        self,
        objective: Any = "beta_tcvae",
        latent: Any = 10,
        *,
        steps: int = 2000,
        batch: int = 64,
        lr: Any = 1e-3,
        nets: Any = None,
        likelihood: Any = None,
        standardise: bool = True,
        prior: Any = "gaussian",
        supervision: dict[str, Any] | None = None,
        budget: dict[str, Any] | None = None,
        validation_fraction: float = 0.0,
        channels: str = "auto",
        metric: str = ELBO,
        callbacks: Any = None,
        device: str = "auto",
        out: str | Path | None = None,
        random_state: Any = 0,
        verbose: bool = False,
    ):
        self.objective, self.latent, self.steps, self.batch, self.lr = objective, latent, steps, batch, lr
        self.nets, self.likelihood, self.prior, self.budget = nets, likelihood, prior, budget
        self.standardise, self.supervision = standardise, supervision
        self.validation_fraction, self.channels = validation_fraction, channels
        self.metric, self.callbacks, self.device, self.out = metric, callbacks, device, out
        self.random_state, self.verbose = random_state, verbose

    def fit(self, X: Any, y: Any = None, pairs: Any = None) -> Disentangler:
        """Train on X. A run in `out` that an estimator made is overwritten; any other run is an error.

        A fit that fails restores the finished run in `out`, with its data.

        Args:
            X: images or vectors.
            y: labels (n,) or (n, factors), NaN where one is missing, for an objective that reads labels; else ignored.
            pairs: pairs of rows of X for an objective that reads pairs: whole numbers (m, 2), or (m, g) for groups; or an
                array like X that has the partner of every row.
        """
        before = {name: getattr(self, name) for name in FEATURE_ATTRIBUTES if hasattr(self, name)}
        rows = self._check_rows(X, reset=True)
        layout = detect_layout(rows.shape, self.channels)
        alone = torchrun_rank_info().size == 1
        expect(alone, "an estimator trains in one process", do="Use 'unbraid train' with torchrun.")
        folder = Path(tempfile.mkdtemp(prefix="unbraid-")) if self.out is None else Path(self.out).expanduser()
        try:
            labels, views = check_labels(y, len(rows)) if reads_labels(self) else None, None
            if pairs is not None:
                rows, labels, views = pair_rows(pairs, rows, labels)
            recipe = build_recipe(self, rows, layout, folder, labels is not None, views)
            run, files = self._train(recipe, (rows, labels, views), folder)
        except BaseException as error:
            if self.out is None:
                shutil.rmtree(folder, ignore_errors=True)
            if hasattr(self, "run_"):  # the estimator stays as it was fitted before
                for name in FEATURE_ATTRIBUTES:
                    if name in before:
                        setattr(self, name, before[name])
                    elif hasattr(self, name):
                        delattr(self, name)
            if isinstance(error, UnbraidError | TrainingInterrupted):
                raise _rephrase_error(error, folder, keeps_folder=self.out is not None) from error
            raise
        self.shape_: tuple[int, ...] = rows.shape[1:]
        self.layout_ = layout
        self.mean_: np.ndarray | None = None
        self.scale_: np.ndarray | None = None
        if recipe.data.get("standardise"):
            self.mean_, self.scale_ = column_scaling(rows)
        self.run_ = run if self.out is not None else _delete_with_run(run)
        self._files = files
        return self

    def _train(
        self, recipe: Recipe, arrays: tuple[np.ndarray, np.ndarray | None, np.ndarray | None], folder: Path
    ) -> tuple[Run, dict[str, bytes]]:
        """Train in a run directory on rows, labels and pairs; return the run with its model in memory, and its files.

        Everything happens under the lock of the directory, because another process may have the same `out`.
        """
        from unbraid.runs.fitting.callbacks import validate_callbacks
        from unbraid.runs.fitting.trainer import choose_device
        from unbraid.runs.fitting.training import fit_locked
        from unbraid.runs.folder.run_writer import lock_run_folder

        choose_device(recipe.budget.device)  # an error before the folder changes
        callbacks = validate_callbacks(() if self.callbacks is None else self.callbacks)
        with lock_run_folder(folder):
            check_own_run(folder)
            with backup.replace_rows(folder, *arrays):
                run = fit_locked(recipe, folder, callbacks=callbacks, quiet=not self.verbose)
            run = run.best() if is_file(folder / BEST_FILE) else run
            _ = run.state, run.model_on_device  # cached from now on
            return run, {name: (folder / name).read_bytes() for name in PICKLED_FILES if is_file(folder / name)}

    def transform(self, X: Any) -> np.ndarray:
        """Return the posterior means (n, columns); for discrete leaves, the probabilities.

        Args:
            X: images or vectors, as in `fit`.
        """
        check_is_fitted(self)
        rows = self._check_rows(X)
        codes = self._encode(rows)
        return codes.astype(rows.dtype if rows.dtype.kind == "f" else np.float32, copy=False)

    def inverse_transform(self, X: Any) -> np.ndarray:
        """Decode codes to mean images or vectors, in the layout that was fitted.

        Args:
            X: codes (n, columns).
        """
        check_is_fitted(self)
        codes = check_array(X, dtype=(np.float64, np.float32))
        return self._to_x(self.run_.decode(codes)).astype(codes.dtype, copy=False)

    def sample(self, n_samples: int = 1, random_state: Any = 0) -> np.ndarray:
        """Decode samples of the prior to mean images or vectors.

        Args:
            n_samples: number of samples.
            random_state: a seed, a generator of numpy, or None.
        """
        check_is_fitted(self)
        count = to_python_number(n_samples)
        whole = isinstance(count, int) and not isinstance(count, bool) and count > 0
        expect(whole, "n_samples is a positive integer", found=repr(n_samples))
        return self._to_x(self.run_.sample(count, seed_from_random_state(random_state)))

    def score(self, X: Any, y: Any = None) -> float:
        """Return the mean bound on log p(x) in nats, with 16 particles (Burda et al. 2016), or the metric `metric`.

        Args:
            X: images or vectors.
            y: labels, if the metric needs them.
        """
        check_is_fitted(self)
        if self.metric == ELBO:
            return self._mean_bound(self._check_rows(X))
        from unbraid.metrics import METRICS
        from unbraid.metrics.evaluation.battery import battery, get_metric, parse_metric_names

        names = parse_metric_names(self.metric)
        one = len(names) == 1 and names != ["all"]
        expect(one, "score returns one number, so it takes one metric", found=repr(self.metric), allowed=[ELBO, *METRICS],
               do="For all of them: unbraid.score(model.transform(X), y).")  # fmt: skip
        needs = get_metric(names[0]).needs
        expect(y is not None or needs != "factors", f"metric {self.metric!r} needs labels", do="Pass them as y.")
        found = battery(self._encode(self._check_rows(X)), None if y is None else np.asarray(y), metrics=self.metric)
        return float(next(iter(found.values())).value)

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """The names of the columns of the latent tree.

        Args:
            input_features: ignored.
        """
        check_is_fitted(self)
        return np.asarray(self.run_.recipe.tree.column_names, dtype=object)

    def _check_rows(self, X: Any, reset: bool = False) -> np.ndarray:
        """Validate X; after `fit`, its shape must be the one that was fitted."""
        rows = validate_data(self, X, reset=reset, allow_nd=True, ensure_min_samples=2 if reset else 1)
        rows = rows.astype(np.float64) if rows.ndim == 2 and rows.dtype.kind != "f" else rows
        if not reset:
            found, allowed = f"n × {rows.shape[1:]}", f"n × {self.shape_}"
            expect(rows.shape[1:] == self.shape_, "X must have the shape that was fitted", found=found, allowed=allowed)
        return rows

    def _to_images(self, rows: np.ndarray) -> np.ndarray:
        """The images "n c h w" of the run for rows of X, standardised as in training."""
        return to_nchw(rows if self.mean_ is None else (rows - self.mean_) / self.scale_, self.layout_)

    def _to_x(self, images: np.ndarray) -> np.ndarray:
        """The rows of X for images of the run: the inverse of `_to_images`."""
        rows = from_nchw(images, self.layout_, self.shape_)
        return rows if self.mean_ is None else (rows * self.scale_ + self.mean_).astype(rows.dtype)

    def _encode(self, rows: np.ndarray) -> np.ndarray:
        """Posterior means of rows of X, in batches of one size: sums then round in the same way for any subset."""
        images = self._to_images(rows)
        padding = np.repeat(images[:1], -len(images) % TRANSFORM_BATCH, axis=0)
        return self.run_.encode(np.concatenate([images, padding]), TRANSFORM_BATCH)[: len(images)]

    def _mean_bound(self, rows: np.ndarray, chunk_size: int = 256) -> float:
        import torch

        from unbraid.runs.evaluation.image_inputs import images_to_float32
        from unbraid.runs.evaluation.iwae import iwae

        model = self.run_.model_on_device
        do = "Set metric='mig' or another, and pass labels as y."
        expect(model.has_elbo, "a GAN has no bound on log p(x)", do=do)
        images = images_to_float32(self._to_images(rows)).to(next(model.parameters()).device)
        bounds = [iwae(model, part, 16, seed=number) for number, part in enumerate(images.split(chunk_size))]
        mean = float(torch.cat(bounds).double().mean())
        return mean if self.scale_ is None else mean - float(np.log(self.scale_).sum())  # the density of X itself

    def __getstate__(self) -> dict[str, Any]:
        """Replace the run by its files, without the data; unpickling writes them to a temporary folder."""
        state = dict(super().__getstate__())
        if "run_" in state:
            state["run_"] = state.pop("_files")
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        # pickles of version 0.1 have no such parameters
        state, files = ({"standardise": False, "supervision": None, **state}, state.get("run_"))
        if isinstance(files, dict):
            folder = Path(tempfile.mkdtemp(prefix="unbraid-"))
            for name, content in files.items():
                requirement = "a pickled estimator contains the files of a run"
                expect(name in PICKLED_FILES, requirement, found=repr(name), allowed=PICKLED_FILES)
                write_bytes(folder / name, content)
            run = Run.load(folder)
            run = _delete_with_run(run.best() if BEST_FILE in files else run)
            state = {"mean_": None, "scale_": None, **state, "run_": run, "_files": files}
        super().__setstate__(state)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def _delete_with_run(run: Run) -> Run:
    """Delete the temporary folder of a run when the run is garbage-collected."""
    weakref.finalize(run, shutil.rmtree, run.path, ignore_errors=True)
    return run


def _rephrase_error(
    error: UnbraidError | TrainingInterrupted, folder: Path, keeps_folder: bool
) -> UnbraidError | TrainingInterrupted:
    """Rephrase an error about the data file as one about X; say of the run directory what is true after the failure."""
    if isinstance(error, UnbraidError):
        from unbraid.runs.fitting.trainer import NonFiniteLossError

        text = str(error).replace(f"vectors: {folder / ROWS_FILE}", "X").replace(str(folder / ROWS_FILE), "X")
        text, replaced, _ = text.partition(" The finished run that was here")
        if isinstance(error, NonFiniteLossError):
            text = text.partition(". ")[0] + ". Fit again with a lower lr, or with X on a smaller scale."
        kept = replaced and keeps_folder and not backup.backup_hint(folder)
        hint = f" The finished run in {folder} is unchanged." if kept else backup.backup_hint(folder)
        return type(error)(text + hint)
    if keeps_folder:
        return error
    message = str(error).partition("; continue with")[0]
    return TrainingInterrupted(f"{message}; its folder was temporary. To keep a stopped run, set out='runs/mine'.")
