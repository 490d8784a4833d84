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
from unbraid.core.errors import expect, join_names
from unbraid.core.files import is_file, read_json, read_toml
from unbraid.runs.building.custom_parts import (
    NO_CUSTOM_PARTS,
    CustomParts,
    check_data,
    check_foreign_parts,
    check_objects,
    import_modules,
)
from unbraid.runs.evaluation.audit_result import Audit
from unbraid.runs.evaluation.image_inputs import images_to_float32, to_host
from unbraid.runs.folder import snapshots
from unbraid.runs.folder.file_names import (
    AUDIT_FILE,
    BACKUP_FOLDER,
    BEST_FILE,
    CODES_FILE,
    DATA_FILE,
    LEDGER_FILE,
    MODEL_FILE,
    RECIPE_FILE,
    SCORES_FILE,
    STATE_FILE,
)
from unbraid.runs.folder.ledger_file import LedgerRows, is_number_table, read_ledger
from unbraid.runs.folder.state_file import read_state
from unbraid.runs.recipe import Recipe

if TYPE_CHECKING:
    from torch import Tensor

    from unbraid.model.vae import Vae
    from unbraid.runs.evaluation.scores import Scores


@dataclass(frozen=True, repr=False)
class Run:
    """A run on disk. `Run.load(path)` reads it; the model is built on first use.

    run.encode(x) → posterior means "n d"; run.decode(z) → images; run.sample(n); run.traverse(…).
    `run.at(step)` is the run as it was after so many steps, for those in `run.snapshots`: all of this, and no
    file is written into its folder; `run.best()` has the weights of the best validation.

    >>> from unbraid.runs.recipe import Recipe
    >>> from unbraid.runs.fitting.training import fit
    >>> recipe = Recipe(data={"name": "sprites32", "subsample": 64}, latent=2, nets="mlp", budget={"steps": 2, "batch": 8})
    >>> run = fit(recipe, tmp / "run", quiet=True)
    >>> run.encode(run.dataset().pixels([0, 1])).shape, run.sample(3).shape, run.ledger()[-1]["step"]
    ((2, 2), (3, 1, 32, 32), 1)
    """

    path: Path
    custom_parts: CustomParts = field(default=NO_CUSTOM_PARTS, repr=False, compare=False)
    snapshot: int | str | None = None
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
            from unbraid.runs.fitting.trainer import choose_device

            choose_device(device)  # refused before any work
        if dataset is not None:
            from unbraid.data.custom.conversion import as_dataset

            dataset = as_dataset(dataset)
        path = Path(path)
        if not (is_file(path / RECIPE_FILE) and is_file(path / STATE_FILE)) and is_file(
            path / BACKUP_FOLDER / STATE_FILE
        ):
            path = path / BACKUP_FOLDER  # a new run was killed before it began: the finished one is all there is
        expect(
            is_file(path / RECIPE_FILE),
            f"{path} is not a run directory",
            found=f"no {RECIPE_FILE} in it",
            do="Make one with 'unbraid train'.",
        )
        run = cls(path, CustomParts(dataset, nets, prior), device=device)
        if nets is not None or prior is not None:
            check_objects(run.recipe, run.custom_parts)
        if dataset is not None:
            check_data(dataset, run.state, path)
        return run

    def __repr__(self) -> str:
        """A few lines: what was trained on what, how far it is, what it scores, and which files there are."""
        from unbraid.runs.describing.run_summary import summary_text

        return summary_text(self)

    def _repr_html_(self) -> str:
        from unbraid.runs.describing.run_summary import summary_html

        return summary_html(self)

    @cached_property
    def recipe(self) -> Recipe:
        """What the run was asked to do."""
        return Recipe.from_dict(read_toml(self.path / RECIPE_FILE), str(self.path / RECIPE_FILE))

    @cached_property
    def state(self) -> dict[str, Any]:
        """What it became: status, step (that of the weights, for a moment), image shape, threads, versions."""
        state = read_state(self.path)
        if self.snapshot is None:
            return state
        return {**state, "step": self._weights_step, "weights": self._weights_path.name}

    @property
    def _weights_step(self) -> int:
        """The steps after which the weights of this moment were kept."""
        from unbraid.core.tensor_files import read_metadata

        return (
            self.snapshot
            if isinstance(self.snapshot, int)
            else int(read_metadata(self._weights_path, "weights").get("step", 0))
        )

    def ledger(self) -> LedgerRows:
        """The rows of `ledger.jsonl` that training wrote; a last line cut off by a crash is left out, other damage an error."""
        return LedgerRows(row for row in self._ledger_rows() if not row.get("validation"))

    def validations(self) -> LedgerRows:
        """The rows of `ledger.jsonl` on held-out images (`budget.validate_every`)."""
        return LedgerRows(row for row in self._ledger_rows() if row.get("validation"))

    def _ledger_rows(self) -> list[dict[str, Any]]:
        rows = read_ledger(self.path / LEDGER_FILE)
        return [row for row in rows if row["step"] < self.snapshot] if isinstance(self.snapshot, int) else rows

    def saved_audit(self) -> Audit | None:
        """What `unbraid audit` wrote, or None."""
        path = self.path / AUDIT_FILE
        if self.snapshot is not None or not is_file(path):
            return None
        found = read_json(path, "audit")
        tables = isinstance(found, dict) and all(is_number_table(found.get(key)) for key in ("nats", "errors"))
        known = tables and {"estimator", "components", "rows", "balance"} <= set(found)
        expect(
            known,
            f"{path} is damaged: it is no audit",
            do=f"Make it again with 'unbraid audit {quote(str(self.path))}'.",
        )
        return Audit(found)

    def scores(self) -> Scores | None:
        """What `unbraid score` wrote, as a record; None where there is nothing, or for another moment's weights."""
        from unbraid.runs.evaluation.scores import Scores

        return Scores.load(self.path) if self.snapshot is None and is_file(self.path / SCORES_FILE) else None

    @property
    def snapshots(self) -> tuple[int, ...]:
        """The steps after which weights were kept (`budget.snapshots`)."""
        return snapshots.list_snapshots(self.path)

    def at(self, step: int) -> Run:
        """The run as it was after so many steps; they must be among `snapshots`."""
        known = self.snapshots
        expect(
            step in known,
            f"{self.path} kept no weights of step {step}",
            found=f"snapshots after {join_names(known)} steps" if known else "no snapshots",
            do="Train with budget.snapshots = a list of steps, or how many to spread over the run.",
        )
        return replace(self, snapshot=step)

    def best(self) -> Run:
        """The run with the weights of its best validation (`budget.best`)."""
        expect(is_file(self.path / BEST_FILE), f"{self.path} kept no best weights", do="Train with budget.best = true.")
        return replace(self, snapshot=BEST_FILE)

    def output_path(self, name: str) -> Path:
        """Where a file made of this run lies unless a place is said: in its folder, if it is made of the last weights."""
        expect(
            self.snapshot is None,
            f"{name} in {self.path} is made of the last weights, and is not overwritten",
            found="weights of a snapshot" if isinstance(self.snapshot, int) else "the best weights",
            do="Say where to write: --out, in Python out=…",
        )
        return self.path / name

    @property
    def _weights_path(self) -> Path:
        """Where the weights should be."""
        if isinstance(self.snapshot, int):
            return snapshots.snapshot_path(self.path, self.snapshot)
        return self.path / (self.snapshot or MODEL_FILE)

    @property
    def weights(self) -> Path:
        """The file of the trained model's weights, or of a snapshot's, or of the best ones."""
        weights = self._weights_path
        before = self.path / BACKUP_FOLDER
        kept = f" The finished run that was here is whole in {before}." if is_file(before / MODEL_FILE) else ""
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

        from unbraid.core.tensor_files import load_into_module, read_tensors
        from unbraid.prices import value_at
        from unbraid.runs.building.builders import build_model

        weights = self.weights
        check_foreign_parts(self.recipe, self.state, self.path)
        tensors, note = read_tensors(weights, "model")
        shape: Any = tuple(self.state["shape"])
        model = build_model(self.recipe, shape, custom=self.custom_parts)
        load_into_module(model, tensors, "", str(weights))
        model.temperature = value_at(self.recipe.temperature, int(note.get("step", self.recipe.budget.steps)))
        # as in training: convolutions on the CPU run twice as fast
        return model.eval().requires_grad_(False).to(memory_format=torch.channels_last)

    @cached_property
    def model_on_device(self) -> Vae:
        """The trained model on the run's device (`budget.device`, or the one given to `load`); `model` is on the host."""
        from unbraid.runs.fitting.trainer import choose_device

        device = choose_device(self.device or self.recipe.budget.device)
        return self.model if device.type == "cpu" else deepcopy(self.model).to(device)

    def _to_device(self, values: Tensor) -> Tensor:
        """Values on the device of `placed`."""
        return values.to(next(self.model_on_device.parameters()).device)

    def dataset(self) -> Any:
        """The data set the run was trained on: given to `load`, mapped from where `fit` had it, or named by the recipe."""
        from unbraid import data

        if self.custom_parts.dataset is not None:
            return self.custom_parts.dataset
        if is_file(self.path / DATA_FILE):
            from unbraid.data.cache import dataset_record

            found = dataset_record.read_record(self.path / DATA_FILE)
            check_data(found, self.state, self.path)
            return found
        table = dict(self.recipe.data)
        name = table.pop("name", "")
        check_foreign_parts(self.recipe, self.state, self.path)
        expect(
            name in data.DATASETS,
            f"{self.path} was trained on data in memory, called {name!r}",
            found=f"{self.state.get('n', '?')} images of {'×'.join(map(str, self.state['shape']))}",
            do="Pass them: Run.load(path, dataset=…), or encode(run, dataset). Known by name: "
            + join_names(data.DATASETS)
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

        images = images_to_float32(x)
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
            pieces = [self.model_on_device.posterior(self._to_device(part)).mean.cpu() for part in images.split(batch)]
        return torch.cat(pieces).numpy() if pieces else np.zeros((0, self.model.tree.width), np.float32)

    def decode(self, z: Any) -> np.ndarray:
        """Mean images "n c h w" of codes "n d" (or "d"); a tensor may carry a gradient, which is left behind."""
        import torch

        codes = torch.as_tensor(np.atleast_2d(np.asarray(to_host(z), dtype=np.float32)))
        d = self.model.tree.width
        expect(
            codes.ndim == 2 and codes.shape[1] == d,
            "codes must have one column per column of the tree",
            found=tuple(codes.shape),
            allowed=f"n × {d}",
        )
        with torch.no_grad():
            return self.model_on_device.decode(self._to_device(codes)).cpu().numpy()

    def sample(self, n: int, seed: int = 0) -> np.ndarray:
        """Mean images of n codes from the prior."""
        import torch

        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            return self.model_on_device.sample(n).cpu().numpy()

    def traverse(self, z: Any, column: int | str, values: Any = None) -> np.ndarray:
        """Images "s c h w" of one code with one column (or a whole one-hot leaf, by name) set to `values`.

        The default is −3 … 3 in 7 steps, as in the papers; for a one-hot leaf each class in turn.
        """
        tree = self.model.tree
        code = np.asarray(to_host(z), dtype=np.float32).reshape(-1)
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
        if self.snapshot is not None:
            from unbraid.runs.evaluation.encoding import encode

            return encode(self, quiet=True)
        expect(
            is_file(self.path / CODES_FILE),
            f"{self.path} has no codes yet",
            do=f"Make them with 'unbraid encode {quote(str(self.path))}'.",
        )
        return Codes.load(self.path / CODES_FILE)
