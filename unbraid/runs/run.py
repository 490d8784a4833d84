"""A run directory: reading its files, and using the trained model.

recipe.toml → ledger.jsonl → model.safetensors (+ checkpoint.safetensors) → codes.npz → scores.json → report.html
"""

from __future__ import annotations

from collections.abc import Iterable
from copy import deepcopy
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from unbraid.codes import Codes
from unbraid.core.errors import command_or_python, expect, join_names
from unbraid.core.files import is_file, read_toml
from unbraid.runs.building.custom_parts import (
    NO_CUSTOM_PARTS,
    CustomParts,
    check_data,
    check_foreign_parts,
    check_objects,
    import_modules,
)
from unbraid.runs.evaluation.audit_result import Audit, read_audit
from unbraid.runs.evaluation.image_inputs import check_images, to_host
from unbraid.runs.evaluation.options import Device
from unbraid.runs.folder import backup, snapshots
from unbraid.runs.folder.file_names import (
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
from unbraid.runs.folder.ledger_file import LedgerRows, read_ledger
from unbraid.runs.folder.moved_data import relocate_data
from unbraid.runs.folder.state_file import read_state
from unbraid.runs.recipe import Recipe

if TYPE_CHECKING:
    from torch import Tensor

    from unbraid.model.vae import Vae
    from unbraid.runs.evaluation.scores import Scores


@dataclass(frozen=True, repr=False)
class Run:
    """A run on disk. `Run.load(path)` reads it; the model is built on first use.

    run.encode(x) → posterior means "n d"; run.decode(z) → images; run.sample(n); run.traverse(…). `run.at(step)` is the
    run with the weights of a snapshot, and `run.best()` that with the weights of the best validation. They write no file
    into the run directory.

    Args:
        path: the run directory.
        custom_parts: parts that were passed as objects.
        snapshot: the step of a snapshot, or the file of the best weights; None for the last weights.
        device: the device of the model, by default that of the recipe.

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
    device: Device = ""

    @classmethod
    def load(
        cls,
        path: str | Path,
        *,
        imports: str | Iterable[str] = (),
        dataset: Any = None,
        nets: Any = None,
        prior: Any = None,
        device: Device = "",
    ) -> Run:
        """Open a run directory written by `fit` or `unbraid train`.

        Args:
            path: the run directory.
            imports: modules that add the parts of the run to the registries.
            dataset: the training data, if they were passed to `fit`.
            nets: encoder and decoder, if they were passed to `fit`: the same classes with tensors of the same shapes.
            prior: the prior, if it was passed to `fit`.
            device: the device of the model, by default that of the recipe.
        """
        import_modules(imports)
        if device:
            from unbraid.runs.fitting.trainer import choose_device

            choose_device(device)  # an error before any work
        if dataset is not None:
            from unbraid.data.custom.conversion import as_dataset

            dataset = as_dataset(dataset)
        path = Path(path)
        complete = is_file(path / RECIPE_FILE) and is_file(path / STATE_FILE)
        if not complete and is_file(path / BACKUP_FOLDER / STATE_FILE):
            path = path / BACKUP_FOLDER  # a new run was killed before its first files: only the finished run is here
        expect(
            is_file(path / RECIPE_FILE),
            f"{path} is not a run directory",
            found=f"no {RECIPE_FILE} in it",
            do=f"Give {path / 'best'}, the chosen run of this discovery."
            if is_file(path / "best" / RECIPE_FILE)
            else f"Make one with {command_or_python('unbraid train', 'unbraid.fit')}.",
        )
        run = cls(path, CustomParts(dataset, nets, prior), device=device)
        if nets is not None or prior is not None:
            check_objects(run.recipe, run.custom_parts, run.state, quiet=False)
        if dataset is not None:
            check_data(dataset, run.state, path)
        return run

    def __repr__(self) -> str:
        """A summary in a few lines: objective, data, status, scores and files."""
        from unbraid.runs.describing.run_summary import summary_text

        return summary_text(self)

    def _repr_html_(self) -> str:
        from unbraid.runs.describing.notebook_view import notebook_html

        return notebook_html(self)

    @cached_property
    def recipe(self) -> Recipe:
        """The recipe of the run."""
        return Recipe.from_dict(read_toml(self.path / RECIPE_FILE), str(self.path / RECIPE_FILE))

    @cached_property
    def state(self) -> dict[str, Any]:
        """The contents of run.json: status, steps done (those of the weights in use), image shape, threads, versions."""
        state = read_state(self.path)
        if self.snapshot is None:
            return state
        if isinstance(self.snapshot, int):
            step = self.snapshot
        else:
            from unbraid.core.tensor_files import read_metadata

            step = int(read_metadata(self._weights_path, "weights").get("step", 0))
        return {**state, "step": step, "weights": self._weights_path.name}

    def ledger(self) -> LedgerRows:
        """Return the rows of `ledger.jsonl` from training; a last line cut off by a crash is left out."""
        return LedgerRows(row for row in self._ledger_rows() if not row.get("validation"))

    def validations(self) -> LedgerRows:
        """Return the rows of `ledger.jsonl` from validation (`budget.validate_every`)."""
        return LedgerRows(row for row in self._ledger_rows() if row.get("validation"))

    def _ledger_rows(self) -> list[dict[str, Any]]:
        rows = read_ledger(self.path / LEDGER_FILE)
        return [row for row in rows if row["step"] < self.snapshot] if isinstance(self.snapshot, int) else rows

    def saved_audit(self) -> Audit | None:
        """Return the audit in audit.json, or None if there is none for these weights."""
        return read_audit(self.path) if self.snapshot is None else None

    def scores(self) -> Scores | None:
        """Return the scores in scores.json, or None if there are none for these weights."""
        from unbraid.runs.evaluation.scores import Scores

        return Scores.load(self.path) if self.snapshot is None and is_file(self.path / SCORES_FILE) else None

    @property
    def snapshots(self) -> tuple[int, ...]:
        """The steps of the snapshots (`budget.snapshots`)."""
        return snapshots.list_snapshots(self.path)

    def at(self, step: int) -> Run:
        """Return the run with the weights of a snapshot.

        Args:
            step: the step of the snapshot, one of `snapshots`.
        """
        known = self.snapshots
        expect(
            step in known,
            f"{self.path} has no snapshot of step {step}",
            found=f"snapshots after {join_names(known)} steps" if known else "no snapshots",
            do="Train with budget.snapshots = a list of steps, or a number to spread over the run.",
        )
        return replace(self, snapshot=step)

    def best(self) -> Run:
        """Return the run with the weights of its best validation (`budget.best`)."""
        expect(is_file(self.path / BEST_FILE), f"{self.path} has no best weights", do="Train with budget.best = true.")
        return replace(self, snapshot=BEST_FILE)

    def output_path(self, name: str) -> Path:
        """Return the default path of an output file, which is in the run directory; only the last weights have one.

        Args:
            name: the file name.
        """
        expect(
            self.snapshot is None,
            f"{name} in {self.path} is made of the last weights, and is not overwritten",
            found="weights of a snapshot" if isinstance(self.snapshot, int) else "the best weights",
            do=f"State where to write: {command_or_python('--out', 'out=…')}.",
        )
        path = self.path / name
        linked = path.is_symlink() and path.is_dir()  # a linked file is replaced, a folder would be written into
        expect(not linked, f"{path} is a link to a folder", do="Delete it; links are not followed.")
        return path

    @property
    def _weights_path(self) -> Path:
        """The path of the weights, which may not exist."""
        if isinstance(self.snapshot, int):
            return snapshots.snapshot_path(self.path, self.snapshot)
        return self.path / (self.snapshot or MODEL_FILE)

    @property
    def weights(self) -> Path:
        """The file of the weights in use."""
        weights = self._weights_path
        path = str(self.path)
        finish = command_or_python(f"'unbraid train --resume --out {quote(path)}'", f"fit(…, {path!r}, resume=True)")
        found, do = f"status {self.state['status']!r}", f"Finish it with {finish}.{backup.backup_hint(self.path)}"
        expect(is_file(weights), f"{path} has no trained model yet", found=found, do=do)
        return weights

    @cached_property
    def model(self) -> Vae:
        """The trained model on the CPU; an InfoGAN has the interface of a VAE, without likelihood and ELBO."""
        import torch

        from unbraid.core.tensor_files import load_into_module, read_tensors
        from unbraid.prices import value_at
        from unbraid.runs.building.builders import build_model

        weights = self.weights
        check_foreign_parts(self.recipe, self.state, self.path)
        tensors, note = read_tensors(weights, "model")
        broken = [name for name, tensor in tensors.items() if not torch.isfinite(tensor).all()]
        expect(
            not broken,
            f"the weights in {weights} are not finite",
            found=f"NaN or infinity in {len(broken)} tensors, first {broken[:1]}",
            do="Use another copy, a snapshot or the best weights, or train again.",
        )
        shape: Any = tuple(self.state["shape"])
        model = cast("Vae", build_model(self.recipe, shape, self.custom_parts))
        load_into_module(model, tensors, "", str(weights))
        step = note.get("step", self.recipe.budget.steps)
        expect(isinstance(step, int), f"{weights} is damaged: its step cannot be read", do="Use another copy.")
        model.temperature = value_at(self.recipe.temperature, step)
        # as in training: convolutions on the CPU are twice as fast
        return model.eval().requires_grad_(False).to(memory_format=torch.channels_last)  # type: ignore[call-overload]

    @cached_property
    def model_on_device(self) -> Vae:
        """The trained model on the device of the run: that of the recipe, or that passed to `load`."""
        from unbraid.runs.fitting.trainer import choose_device

        device = choose_device(self.device or self.recipe.budget.device)
        return self.model if device.type == "cpu" else deepcopy(self.model).to(device)

    def _to_device(self, values: Tensor) -> Tensor:
        """Values on the device of `model_on_device`."""
        return values.to(next(self.model_on_device.parameters()).device)

    def dataset(self) -> Any:
        """Return the training data: passed to `load`, found by data.npz, or named by the recipe."""
        from unbraid import data

        if self.custom_parts.dataset is not None:
            return self.custom_parts.dataset
        if is_file(self.path / DATA_FILE):
            from unbraid.data.cache import dataset_record

            found = dataset_record.read_record(self.path / DATA_FILE)
            check_data(found, self.state, self.path)
            return found
        table = relocate_data(self.path, dict(self.recipe.data))
        name = table.pop("name", "")
        check_foreign_parts(self.recipe, self.state, self.path)
        expect(
            name in data.DATASETS,
            f"{self.path} was trained on data in memory, called {name!r}",
            found=f"{self.state.get('n', '?')} images of {'×'.join(map(str, self.state['shape']))}",
            do=f"Pass them: Run.load(path, dataset=…), or encode(run, dataset). Data sets: {join_names(data.DATASETS)}.",
        )
        found = data.load(name, **table)
        check_data(found, self.state, self.path)
        return found

    def encode(self, x: Any, batch: int = 128) -> np.ndarray:
        """Return posterior means "n d" of images; probabilities for discrete leaves.

        Args:
            x: images "n c h w" or "c h w"; bytes (uint8) are divided by 255 and bools are 0 and 1, as in training.
            batch: images per batch.
        """
        import torch

        images = check_images(x, tuple(self.state["shape"]), self.model.pixel_range)
        with torch.no_grad():
            pieces = [self.model_on_device.posterior(self._to_device(part)).mean.cpu() for part in images.split(batch)]
        return torch.cat(pieces).numpy() if pieces else np.zeros((0, self.model.tree.width), np.float32)

    def decode(self, z: Any) -> np.ndarray:
        """Return mean images "n c h w" of codes.

        Args:
            z: codes "n d" or "d"; gradients of a tensor are dropped.
        """
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
        """Return mean images of n codes from the prior.

        Args:
            n: how many.
            seed: the seed of the draw.
        """
        import torch

        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            return self.model_on_device.sample(n).cpu().numpy()

    def traverse(self, z: Any, column: int | str, values: Any = None) -> np.ndarray:
        """Return images "s c h w" of one code with one column, or a whole one-hot leaf, set to different values.

        Args:
            z: the code "d".
            column: a column, or the name of a leaf.
            values: the values, by default −3 … 3 in 7 steps, as in the papers; a one-hot leaf takes each class in turn.
        """
        tree = self.model.tree
        code = np.asarray(to_host(z), dtype=np.float32).reshape(-1)
        expect(
            len(code) == tree.width,
            "a traversal starts from one code",
            found=f"{len(code)} numbers",
            allowed=tree.width,
        )
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
        """Return the codes in codes.npz; those of a snapshot or of the best weights are computed now."""
        if self.snapshot is not None:
            from unbraid.runs.evaluation.encoding import encode

            return encode(self, quiet=True)
        advice = command_or_python(f"'unbraid encode {quote(str(self.path))}'", "unbraid.encode(run)")
        expect(is_file(self.path / CODES_FILE), f"{self.path} has no codes yet", do=f"Make them with {advice}.")
        return Codes.load(self.path / CODES_FILE)
