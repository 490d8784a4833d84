"""A run as a scikit-learn estimator: `fit` trains a recipe in a run directory like any other, there is no second loop."""

from __future__ import annotations

import shutil
import tempfile
import weakref
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_array, check_is_fitted, validate_data

from unbraid.core.errors import TrainingInterrupted, UnbraidError, expect
from unbraid.core.files import is_file, write_bytes, write_npy
from unbraid.export.array_layout import detect_layout, from_nchw, to_nchw
from unbraid.export.estimator_params import build_recipe, seed_from_random_state, to_python_number
from unbraid.runs.folder.file_names import BEST_FILE, LEDGER_FILE, MODEL_FILE, RECIPE_FILE, STATE_FILE
from unbraid.runs.run import Run

DATA_FILE = "data.npy"  # the rows a run was fitted on, beside it, so that report and studio find them
PICKLED_FILES = (RECIPE_FILE, LEDGER_FILE, MODEL_FILE, BEST_FILE, STATE_FILE)  # of a run, that a pickle holds
ELBO = "elbo"


class Disentangler(TransformerMixin, BaseEstimator):
    """Learn a latent code of images or vectors; `transform` gives the posterior means.

    X: images (n, h, w), (n, h, w, c) or (n, c, h, w), bytes, bools or floats in [0, 1]; or rows of numbers (n, d), which
    want a StandardScaler before them. channels: 'last' or 'first' where the shape leaves it open. objective, prior,
    likelihood, nets: a name, or a table such as {"name": "beta_vae", "beta": 6}; unsaid, images get a conv net and a
    Bernoulli, rows an mlp and a Gaussian. latent: a number or a tree. budget: more of a recipe's [budget].
    validation_fraction: the share of X that is held out and validated on, by which `patience` ends a run and `best` keeps
    weights, which are then those used. callbacks: as `fit` takes them. metric: what `score` gives, 'elbo' (the bound on
    log p(x), in nats) or a metric of codes and labels such as 'mig'. out: the run directory; unsaid it is a temporary one
    that goes with `run_`.

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
        prior: Any = "gaussian",
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
        self.validation_fraction, self.channels = validation_fraction, channels
        self.metric, self.callbacks, self.device, self.out = metric, callbacks, device, out
        self.random_state, self.verbose = random_state, verbose

    def fit(self, X: Any, y: Any = None) -> Disentangler:
        """Train on X; y is not looked at. A run in `out` that an estimator made is overwritten, any other refused."""
        from unbraid.runs.fitting.training import fit

        rows = self._check_rows(X, reset=True)
        layout = detect_layout(rows.shape, self.channels)
        folder = Path(tempfile.mkdtemp(prefix="unbraid-")) if self.out is None else Path(self.out).expanduser()
        try:
            recipe = build_recipe(self, rows, layout, folder / DATA_FILE)
            again = is_file(folder / DATA_FILE)
            expect(
                again or not is_file(folder / RECIPE_FILE),
                f"{folder} holds a run that no estimator made",
                do="Choose another out.",
            )
            write_npy(folder / DATA_FILE, rows)
            told = () if self.callbacks is None else self.callbacks
            run = fit(recipe, folder, quiet=not self.verbose, force=again, callbacks=told)
        except BaseException as error:
            if self.out is None:
                shutil.rmtree(folder, ignore_errors=True)
            if isinstance(error, UnbraidError | TrainingInterrupted):
                raise _rephrase_error(error, folder, keeps_folder=self.out is not None) from error
            raise
        self.shape_: tuple[int, ...] = rows.shape[1:]
        self.layout_ = layout
        run = run.best() if is_file(run.path / BEST_FILE) else run
        self.run_ = run if self.out is not None else _delete_with_run(run)
        return self

    def transform(self, X: Any) -> np.ndarray:
        """Posterior means (n, columns); the probabilities of discrete leaves."""
        check_is_fitted(self)
        rows = self._check_rows(X)
        codes = self.run_.encode(to_nchw(rows, self.layout_))
        return codes.astype(rows.dtype if rows.dtype.kind == "f" else np.float32, copy=False)

    def inverse_transform(self, X: Any) -> np.ndarray:
        """Mean images or rows of codes (n, columns), in the layout that was fitted."""
        check_is_fitted(self)
        codes = check_array(X, dtype=(np.float64, np.float32))
        return self._restore_layout(self.run_.decode(codes)).astype(codes.dtype, copy=False)

    def sample(self, n_samples: int = 1, random_state: Any = 0) -> np.ndarray:
        """Mean images or rows of codes drawn from the prior; random_state: a seed, a generator of numpy's, or None."""
        check_is_fitted(self)
        count = to_python_number(n_samples)
        whole = isinstance(count, int) and not isinstance(count, bool) and count > 0
        expect(whole, "n_samples is a whole number above 0", found=repr(n_samples))
        return self._restore_layout(self.run_.sample(count, seed_from_random_state(random_state)))

    def score(self, X: Any, y: Any = None) -> float:
        """By `metric`: the mean bound on log p(x) in nats, by 16 particles (Burda et al. 2016), or a metric of codes and y."""
        check_is_fitted(self)
        if self.metric == ELBO:
            return self._mean_bound(self._check_rows(X))
        from unbraid.metrics import METRICS
        from unbraid.metrics.evaluation.battery import battery, get_metric, parse_metric_names

        names = parse_metric_names(self.metric)
        one = len(names) == 1 and names != ["all"]
        expect(one, "score gives one number, so one metric", found=repr(self.metric), allowed=[ELBO, *METRICS],
               do="For all of them: unbraid.score(model.transform(X), y).")  # fmt: skip
        needs = get_metric(names[0]).needs
        expect(y is not None or needs != "factors", f"metric {self.metric!r} needs labels", do="Pass them as y.")
        codes = np.asarray(self.run_.encode(to_nchw(self._check_rows(X), self.layout_)))
        found = battery(codes, None if y is None else np.asarray(y), metrics=self.metric)
        return float(next(iter(found.values())).value)

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """The names of the code's columns: those of the latent tree."""
        check_is_fitted(self)
        return np.asarray(self.run_.recipe.tree.column_names, dtype=object)

    def _check_rows(self, X: Any, reset: bool = False) -> np.ndarray:
        """Images or rows, checked: as many features and axes as were fitted."""
        rows = validate_data(self, X, reset=reset, allow_nd=True, ensure_min_samples=2 if reset else 1)
        rows = rows.astype(np.float64) if rows.ndim == 2 and rows.dtype.kind != "f" else rows
        expect(
            reset or rows.shape[1:] == self.shape_,
            "X must have the shape that was fitted",
            found=f"n × {rows.shape[1:]}",
            allowed="" if reset else f"n × {self.shape_}",
        )
        return rows

    def _mean_bound(self, rows: np.ndarray, chunk_size: int = 256) -> float:
        import torch

        from unbraid.objectives import GAMES
        from unbraid.runs.evaluation.image_inputs import images_to_float32 as tensor_of
        from unbraid.runs.evaluation.iwae import iwae

        model, game = self.run_.model_on_device, self.run_.recipe.objective.get("name") in GAMES
        expect(not game, "a game has no bound on log p(x)", do="Say metric='mig' or another, and pass labels as y.")
        images = tensor_of(to_nchw(rows, self.layout_)).to(next(model.parameters()).device)
        bounds = [iwae(model, part, 16, seed=number) for number, part in enumerate(images.split(chunk_size))]
        return float(torch.cat(bounds).double().mean())

    def _restore_layout(self, images: np.ndarray) -> np.ndarray:
        """Images "n c h w" as X came: channels last, or no axis for them, or plain rows."""
        return from_nchw(images, self.layout_, self.shape_)

    def __getstate__(self) -> dict[str, Any]:
        """A pickle holds the run's files themselves, but not its data; where it is opened they get a folder of their own."""
        state = dict(super().__getstate__())
        if "run_" in state:
            path = self.run_.path
            state["run_"] = {name: (path / name).read_bytes() for name in PICKLED_FILES if is_file(path / name)}
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        files = state.get("run_")
        if isinstance(files, dict):
            folder = Path(tempfile.mkdtemp(prefix="unbraid-"))
            for name, content in files.items():
                expect(
                    name in PICKLED_FILES,
                    "a pickled estimator holds the files of a run",
                    found=repr(name),
                    allowed=PICKLED_FILES,
                )
                write_bytes(folder / name, content)
            run = Run.load(folder)
            state = {**state, "run_": _delete_with_run(run.best() if BEST_FILE in files else run)}
        super().__setstate__(state)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def _delete_with_run(run: Run) -> Run:
    """A run in a temporary folder, which goes when nobody holds the run any more."""
    weakref.finalize(run, shutil.rmtree, run.path, ignore_errors=True)
    return run


def _rephrase_error(
    error: UnbraidError | TrainingInterrupted, folder: Path, keeps_folder: bool
) -> UnbraidError | TrainingInterrupted:
    """An error about the file that X was written to as one about X; a run that was stopped says if anything is left."""
    if isinstance(error, UnbraidError):
        return type(error)(
            str(error).replace(f"vectors: {folder / DATA_FILE}", "X").replace(str(folder / DATA_FILE), "X")
        )
    told = str(error).partition("; go on with")[0]
    return (
        error
        if keeps_folder
        else TrainingInterrupted(f"{told}; its folder was a temporary one. To keep what is done, say out='runs/mine'.")
    )
