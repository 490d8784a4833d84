"""A run directory: what it holds, and how a finished run is used.

recipe.toml → ledger.jsonl → model.safetensors (+ checkpoint.safetensors) → codes.npz → scores.json → report.html
"""

from __future__ import annotations

from collections.abc import Iterable
from copy import deepcopy
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

import numpy as np

from unbraid.codes import Codes
from unbraid.ground.errors import expect, listing
from unbraid.ground.files import is_file, read_json, read_toml
from unbraid.runs import snapshots
from unbraid.runs.books import Audit
from unbraid.runs.own import NONE, Own, check_data, check_objects, check_parts, import_modules
from unbraid.runs.recipe import Recipe
from unbraid.runs.rows import Rows, numbers, read_rows
from unbraid.runs.taken import as_images, plain

if TYPE_CHECKING:
    from torch import Tensor

    from unbraid.model.vae import Vae
    from unbraid.runs.scores import Scores

RECIPE, STATE, LEDGER, CHECKPOINT = "recipe.toml", "run.json", "ledger.jsonl", "checkpoint.safetensors"
BEST = "best.safetensors"  # the weights of the best validation
DATA = "data.npz"  # where data that `unbraid.data.of` made lie, and their labels
MODEL, CODES, AUDIT, SCORES = "model.safetensors", "codes.npz", "audit.json", "scores.json"
PICTURE, REPORT, LOCK = "scores.png", "report.html", ".lock"
OVER = ("over_training.json", "over_training.png")  # what snapshots were made into
OUTCOME = "outcome.json"  # what became of a run of a sweep
BEFORE = "before"  # where a run that is overwritten waits until the new one is done
SCHEMA = 2  # of run.json: 2 has this number and the recipe's hash; 1, which says no number, has not


@dataclass(frozen=True, repr=False)
class Run:
    """A run on disk. `Run.load(path)` reads it; the model is built on first use.

    run.encode(x) → posterior means "n d"; run.decode(z) → images; run.sample(n); run.traverse(…).
    `run.at(step)` is the run as it was after so many steps, for those in `run.snapshots`: all of this, and no
    file is written into its folder; `run.best()` has the weights of the best validation.

    >>> from unbraid.runs.recipe import Recipe
    >>> from unbraid.runs.training import fit
    >>> recipe = Recipe(data={"name": "sprites32", "subsample": 64}, latent=2, nets="mlp", budget={"steps": 2, "batch": 8})
    >>> run = fit(recipe, tmp / "run", quiet=True)
    >>> run.encode(run.dataset().pixels([0, 1])).shape, run.sample(3).shape, run.ledger()[-1]["step"]
    ((2, 2), (3, 1, 32, 32), 1)
    """

    path: Path
    own: Own = field(default=NONE, repr=False, compare=False)
    moment: int | str | None = None
    device: str = ""

    @classmethod
    def load(
        cls,
        path: str | Path,
        *,
        imports: str | Iterable[str] = (),
        dataset: Any = None,
        nets: Any = None,
        prior: Any = None,
        device: str = "",
    ) -> Run:
        """A run directory written by `fit` or `unbraid train`.

        imports: modules that add the parts it was trained with to the dicts. dataset, nets, prior: the objects that `fit`
        was given; data must be the same images, nets and prior of the same classes (docs/extending.md).
        device: where it is computed, if not on the device of its recipe.
        """
        import_modules(imports)
        if device:
            from unbraid.runs.trainer import choose_device

            choose_device(device)  # refused before any work
        if dataset is not None:
            from unbraid.data.streams import as_dataset

            dataset = as_dataset(dataset)
        path = Path(path)
        if not (is_file(path / RECIPE) and is_file(path / STATE)) and is_file(path / BEFORE / STATE):
            path = path / BEFORE  # a new run was killed before it began: the finished one is all there is
        expect(
            is_file(path / RECIPE),
            f"{path} is not a run directory",
            found=f"no {RECIPE} in it",
            do="Make one with 'unbraid train'.",
        )
        run = cls(path, Own(dataset, nets, prior), device=device)
        if nets is not None or prior is not None:
            check_objects(run.recipe, run.own)
        if dataset is not None:
            check_data(dataset, run.state, path)
        return run

    def __repr__(self) -> str:
        """A few lines: what was trained on what, how far it is, what it scores, and which files there are."""
        from unbraid.runs.shown import text

        return text(self)

    def _repr_html_(self) -> str:
        from unbraid.runs.shown import html

        return html(self)

    @cached_property
    def recipe(self) -> Recipe:
        """What the run was asked to do."""
        return Recipe.of(read_toml(self.path / RECIPE), str(self.path / RECIPE))

    @cached_property
    def state(self) -> dict[str, Any]:
        """What it became: status, step (that of the weights, for a moment), image shape, threads, versions."""
        state = read_json(self.path / STATE, "run state")
        expect(
            _is_state(state),
            f"{self.path / STATE} is damaged",
            do="The recipe, the ledger and the weights may be whole.",
        )
        schema = state.get("schema", 1)
        expect(
            isinstance(schema, int) and 1 <= schema <= SCHEMA,
            f"{self.path} was written by a later version of unbraid",
            found=f"schema {schema!r} in {STATE}",
            allowed=f"at most {SCHEMA}",
            do="Update unbraid.",
        )
        if self.moment is None:
            return state
        return {**state, "step": self._step, "weights": self._file.name}

    @property
    def _step(self) -> int:
        """The steps after which the weights of this moment were kept."""
        from unbraid.ground.tensors import read_note

        return self.moment if isinstance(self.moment, int) else int(read_note(self._file, "weights").get("step", 0))

    def ledger(self) -> Rows:
        """The rows of `ledger.jsonl` that training wrote; a last line cut off by a crash is left out, other damage an error."""
        return Rows(row for row in self._rows() if not row.get("validation"))

    def validations(self) -> Rows:
        """The rows of `ledger.jsonl` on held-out images (`budget.validate_every`)."""
        return Rows(row for row in self._rows() if row.get("validation"))

    def _rows(self) -> list[dict[str, Any]]:
        rows = read_rows(self.path / LEDGER)
        return [row for row in rows if row["step"] < self.moment] if isinstance(self.moment, int) else rows

    def audited(self) -> Audit | None:
        """What `unbraid audit` wrote, or None."""
        path = self.path / AUDIT
        if self.moment is not None or not is_file(path):
            return None
        found = read_json(path, "audit")
        tables = isinstance(found, dict) and all(numbers(found.get(key)) for key in ("nats", "errors"))
        known = tables and {"estimator", "components", "rows", "balance"} <= set(found)
        expect(
            known,
            f"{path} is damaged: it is no audit",
            do=f"Make it again with 'unbraid audit {quote(str(self.path))}'.",
        )
        return Audit(found)

    def scores(self) -> Scores | None:
        """What `unbraid score` wrote, as a record; None where there is nothing, or for another moment's weights."""
        from unbraid.runs.scores import Scores

        return Scores.load(self.path) if self.moment is None and is_file(self.path / SCORES) else None

    @property
    def snapshots(self) -> tuple[int, ...]:
        """The steps after which weights were kept (`budget.snapshots`)."""
        return snapshots.found(self.path)

    def at(self, step: int) -> Run:
        """The run as it was after so many steps; they must be among `snapshots`."""
        known = self.snapshots
        expect(
            step in known,
            f"{self.path} kept no weights of step {step}",
            found=f"snapshots after {listing(known)} steps" if known else "no snapshots",
            do="Train with budget.snapshots = a list of steps, or how many to spread over the run.",
        )
        return replace(self, moment=step)

    def best(self) -> Run:
        """The run with the weights of its best validation (`budget.best`)."""
        expect(is_file(self.path / BEST), f"{self.path} kept no best weights", do="Train with budget.best = true.")
        return replace(self, moment=BEST)

    def place(self, name: str) -> Path:
        """Where a file made of this run lies unless a place is said: in its folder, if it is made of the last weights."""
        expect(
            self.moment is None,
            f"{name} in {self.path} is made of the last weights, and is not overwritten",
            found="weights of a snapshot" if isinstance(self.moment, int) else "the best weights",
            do="Say where to write: --out, in Python out=…",
        )
        return self.path / name

    @property
    def _file(self) -> Path:
        """Where the weights should be."""
        if isinstance(self.moment, int):
            return snapshots.file_of(self.path, self.moment)
        return self.path / (self.moment or MODEL)

    @property
    def weights(self) -> Path:
        """The file of the trained model's weights, or of a snapshot's, or of the best ones."""
        weights = self._file
        before = self.path / BEFORE
        kept = f" The finished run that was here is whole in {before}." if is_file(before / MODEL) else ""
        expect(
            is_file(weights),
            f"{self.path} has no trained model yet",
            found=f"status {self.state['status']!r}",
            do=f"Finish it with 'unbraid train --resume --out {quote(str(self.path))}'.{kept}",
        )
        return weights

    @cached_property
    def model(self) -> Vae:
        """The trained model, for use."""
        import torch

        from unbraid.ground.schedule import value
        from unbraid.ground.tensors import fill, read_tensors
        from unbraid.runs.assemble import build_model

        weights = self.weights
        check_parts(self.recipe, self.state, self.path)
        tensors, note = read_tensors(weights, "model")
        shape: Any = tuple(self.state["shape"])
        model = build_model(self.recipe, shape, own=self.own)
        fill(model, tensors, "", str(weights))
        model.temperature = value(self.recipe.temperature, int(note.get("step", self.recipe.budget.steps)))
        # as in training: convolutions on the CPU run twice as fast
        return model.eval().requires_grad_(False).to(memory_format=torch.channels_last)

    @cached_property
    def placed(self) -> Vae:
        """The trained model on the run's device (`budget.device`, or the one given to `load`); `model` is on the host."""
        from unbraid.runs.trainer import choose_device

        device = choose_device(self.device or self.recipe.budget.device)
        return self.model if device.type == "cpu" else deepcopy(self.model).to(device)

    def _here(self, values: Tensor) -> Tensor:
        """Values on the device of `placed`."""
        return values.to(next(self.placed.parameters()).device)

    def dataset(self) -> Any:
        """The data set the run was trained on: given to `load`, mapped from where `fit` had it, or named by the recipe."""
        from unbraid import data

        if self.own.dataset is not None:
            return self.own.dataset
        if is_file(self.path / DATA):
            from unbraid.data import record

            found = record.read(self.path / DATA)
            check_data(found, self.state, self.path)
            return found
        table = dict(self.recipe.data)
        name = table.pop("name", "")
        check_parts(self.recipe, self.state, self.path)
        expect(
            name in data.DATASETS,
            f"{self.path} was trained on data in memory, called {name!r}",
            found=f"{self.state.get('n', '?')} images of {'×'.join(map(str, self.state['shape']))}",
            do="Pass them: Run.load(path, dataset=…), or encode(run, dataset). Known by name: "
            + listing(data.DATASETS)
            + ".",
        )
        found = data.load(name, **table)
        check_data(found, self.state, self.path)
        return found

    def encode(self, x: Any, batch: int = 128) -> np.ndarray:
        """Posterior means "n d" of images "n c h w" (or "c h w"); probabilities for discrete leaves.

        Bytes (uint8) are divided by 255 and bools are 0 and 1, as in training; values must be in the likelihood's range.
        """
        import torch

        from unbraid.objectives import GAMES

        images = as_images(x)
        images = images.unsqueeze(0) if images.ndim == 3 else images
        shape = tuple(self.state["shape"])
        expect(
            tuple(images.shape[1:]) == shape,
            "images must have the shape the run was trained on",
            found=tuple(images.shape),
            allowed=f"n × {shape}",
        )
        expect(
            bool(images.isfinite().all()), "images must be numbers", found="NaN or infinity", do="Mend or drop those."
        )
        low, high = 0.0, 1.0
        if self.recipe.objective.get("name") not in GAMES:  # an InfoGAN has no likelihood
            low, high = self.model.likelihood.low, self.model.likelihood.high
        if images.numel():
            least, most = float(images.min()), float(images.max())
            expect(
                low <= least and most <= high,
                f"images must have values in [{low:g}, {high:g}], as in training",
                found=f"{least:g} to {most:g}",
                do="Pass bytes as uint8, or divide by 255." if most > 1 else "Scale them as the training images were.",
            )
        with torch.no_grad():
            pieces = [self.placed.posterior(self._here(part)).mean.cpu() for part in images.split(batch)]
        return torch.cat(pieces).numpy() if pieces else np.zeros((0, self.model.tree.width), np.float32)

    def decode(self, z: Any) -> np.ndarray:
        """Mean images "n c h w" of codes "n d" (or "d"); a tensor may carry a gradient, which is left behind."""
        import torch

        codes = torch.as_tensor(np.atleast_2d(np.asarray(plain(z), dtype=np.float32)))
        d = self.model.tree.width
        expect(
            codes.ndim == 2 and codes.shape[1] == d,
            "codes must have one column per column of the tree",
            found=tuple(codes.shape),
            allowed=f"n × {d}",
        )
        with torch.no_grad():
            return self.placed.decode(self._here(codes)).cpu().numpy()

    def sample(self, n: int, seed: int = 0) -> np.ndarray:
        """Mean images of n codes from the prior."""
        import torch

        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            return self.placed.sample(n).cpu().numpy()

    def traverse(self, z: Any, column: int | str, values: Any = None) -> np.ndarray:
        """Images "s c h w" of one code with one column (or a whole one-hot leaf, by name) set to `values`.

        The default is −3 … 3 in 7 steps, as in the papers; for a one-hot leaf each class in turn.
        """
        tree = self.model.tree
        code = np.asarray(plain(z), dtype=np.float32).reshape(-1)
        one = len(code) == tree.width
        expect(one, "a traversal starts from one code", found=f"{len(code)} numbers", allowed=tree.width)
        columns = tree.columns(column) if isinstance(column, str) else [column]
        expect(
            all(-tree.width <= c < tree.width for c in columns),
            "there is no such column",
            found=column,
            allowed=f"0 … {tree.width - 1}",
        )
        if len(columns) > 1:
            settings = np.eye(len(columns), dtype=np.float32)
        else:
            settings = np.asarray(np.linspace(-3, 3, 7) if values is None else values, dtype=np.float32).reshape(-1, 1)
        codes = np.repeat(code[None], len(settings), 0)
        codes[:, columns] = settings
        return self.decode(codes)

    def codes(self) -> Codes:
        """The codes written by `unbraid encode`; those of an earlier moment are made on the spot."""
        if self.moment is not None:
            from unbraid.runs.encoding import encode

            return encode(self, quiet=True)
        expect(
            is_file(self.path / CODES),
            f"{self.path} has no codes yet",
            do=f"Make them with 'unbraid encode {quote(str(self.path))}'.",
        )
        return Codes.load(self.path / CODES)


def _is_state(state: Any) -> bool:
    """Whether some JSON has what every run.json has."""
    if not isinstance(state, dict) or not isinstance(state.get("status"), str):
        return False
    sizes = [state.get("step"), *(state["shape"] if isinstance(state.get("shape"), list) else [None])]
    return len(sizes) == 4 and all(isinstance(n, int) and not isinstance(n, bool) and 0 <= n < 1 << 40 for n in sizes)
