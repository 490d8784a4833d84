"""Trackers: TensorBoard, Weights & Biases and MLflow. Each imports its package only when it is opened.

A tracker is opened for one run, `tracker(path, recipe, step, options)`, and has the methods `numbers`, `picture` and `close`.
"""

from __future__ import annotations

import importlib
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from unbraid.core.errors import UnbraidError, expect
from unbraid.core.files import is_file, read_json, write_json
from unbraid.runs.recipe_fields import flatten_table

IDS_FILE = "tracking.json"  # ids of the run in other tools


class TensorBoard:
    """Event files in `tensorboard/` of the run directory, or in `folder`; view them with `tensorboard --logdir runs`.

    Args:
        path: the run directory.
        recipe: the recipe as a table.
        step: number of steps so far.
        options: `folder`.
    """

    def __init__(self, path: Path, recipe: dict[str, Any], step: int, options: dict[str, Any]):
        writers = _import_module("torch.utils.tensorboard", "pip install 'unbraid[track]'")
        folder = Path(options.get("folder", path / "tensorboard"))
        self.writer = writers.SummaryWriter(str(folder), purge_step=step + 1 if step else None)
        text = "\n".join(f"    {name} = {value}" for name, value in flatten_table(recipe).items())
        self.writer.add_text("recipe", text, step)

    def numbers(self, step: int, values: dict[str, float]) -> None:
        """Log numbers.

        Args:
            step: number of steps so far.
            values: numbers by name.
        """
        for name, value in values.items():
            self.writer.add_scalar(name, value, step)
        self.writer.flush()

    def picture(self, step: int, name: str, pixels: np.ndarray) -> None:
        """Log a picture.

        Args:
            step: number of steps so far.
            name: name of the picture.
            pixels: bytes "h w 3".
        """
        self.writer.add_image(name, pixels, step, dataformats="HWC")
        self.writer.flush()

    def close(self) -> None:
        """End the run."""
        self.writer.close()


class Wandb:
    """A run of Weights & Biases; WANDB_MODE=offline keeps it on this machine.

    Args:
        path: the run directory.
        recipe: the recipe as a table.
        step: number of steps so far.
        options: options of `wandb.init`.
    """

    def __init__(self, path: Path, recipe: dict[str, Any], step: int, options: dict[str, Any]):
        self.wandb = _import_module("wandb", "pip install wandb")
        known = _stored_id(path, "wandb", step)
        defaults = {"project": "unbraid", "name": path.name, "dir": str(path), "config": recipe, "resume": "allow"}
        self.run = self.wandb.init(**{**defaults, **({"id": known} if known else {}), **options})
        _store_id(path, "wandb", self.run.id)

    def numbers(self, step: int, values: dict[str, float]) -> None:
        """See `TensorBoard.numbers`."""
        self.run.log(values, step=step)

    def picture(self, step: int, name: str, pixels: np.ndarray) -> None:
        """See `TensorBoard.picture`."""
        self.run.log({name: self.wandb.Image(pixels)}, step=step)

    def close(self) -> None:
        """See `TensorBoard.close`."""
        self.run.finish()


class Mlflow:
    """A run of MLflow.

    Args:
        path: the run directory.
        recipe: the recipe as a table.
        step: number of steps so far.
        options: `uri` of the tracking server (by default MLFLOW_TRACKING_URI) and `experiment`.
    """

    def __init__(self, path: Path, recipe: dict[str, Any], step: int, options: dict[str, Any]):
        self.mlflow = _import_module("mlflow", "pip install mlflow")
        self.client = self.mlflow.MlflowClient(options.get("uri"))
        known = _stored_id(path, "mlflow", step)
        if not known:
            name = str(options.get("experiment", "unbraid"))
            existing = self.client.get_experiment_by_name(name)
            experiment = existing.experiment_id if existing is not None else self.client.create_experiment(name)
            known = self.client.create_run(experiment, run_name=path.name).info.run_id
            for key, value in flatten_table(recipe).items():
                self.client.log_param(known, _mlflow_name(key), str(value)[:500])
            _store_id(path, "mlflow", known)
        self.id = known
        self.client.update_run(self.id, status="RUNNING")

    def numbers(self, step: int, values: dict[str, float]) -> None:
        """See `TensorBoard.numbers`."""
        now, metric = int(time.time() * 1000), self.mlflow.entities.Metric
        self.client.log_batch(self.id, [metric(_mlflow_name(key), value, now, step) for key, value in values.items()])

    def picture(self, step: int, name: str, pixels: np.ndarray) -> None:
        """See `TensorBoard.picture`."""
        self.client.log_image(self.id, pixels, artifact_file=f"{_mlflow_name(name)}/{step:010d}.png")

    def close(self) -> None:
        """See `TensorBoard.close`."""
        self.client.set_terminated(self.id)


@dataclass(frozen=True)
class TrackerKind:
    """An entry of `TRACKERS`.

    Args:
        call: opens the tracker.
        package: the package that it needs.
        install_hint: command that installs the package.
        options: names of its options; None for those of the package.
    """

    call: Callable[..., Any]
    package: str
    install_hint: str
    options: tuple[str, ...] | None


TRACKERS: dict[str, TrackerKind] = {
    "tensorboard": TrackerKind(TensorBoard, "tensorboard", "pip install 'unbraid[track]'", ("folder",)),
    "wandb": TrackerKind(Wandb, "wandb", "pip install wandb", None),
    "mlflow": TrackerKind(Mlflow, "mlflow", "pip install mlflow", ("uri", "experiment")),
}


def _import_module(name: str, install: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise UnbraidError(f"{name.split('.')[-1]} cannot be imported ({error}). Install it with: {install}") from error


def _mlflow_name(name: str) -> str:
    """Replace the characters that MLflow does not allow in names."""
    return re.sub(r"[^\w\-. :/]", "_", name)


def _stored_id(path: Path, tool: str, step: int) -> str:
    """The id of a resumed run in a tool; "" for a new run."""
    if not step or not is_file(path / IDS_FILE):
        return ""
    known = read_json(path / IDS_FILE, "tracking")
    expect(isinstance(known, dict), f"{path / IDS_FILE} is damaged", do="Delete it: the tool then starts a new run.")
    return str(known.get(tool, ""))


def _store_id(path: Path, tool: str, name: str) -> None:
    known = read_json(path / IDS_FILE, "tracking") if is_file(path / IDS_FILE) else {}
    write_json(path / IDS_FILE, {**(known if isinstance(known, dict) else {}), tool: str(name)})
