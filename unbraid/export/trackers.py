"""Where tracked numbers and pictures go: TensorBoard, Weights & Biases, MLflow. Each imports its package only when it is opened.

A sink is opened for one run, `sink(path, recipe, step, options)`, and has `numbers`, `picture` and `close`.
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

IDS_FILE = "tracking.json"  # under which names other tools know a run


class TensorBoard:
    """Event files in `tensorboard/` of the run directory (or in `folder`): tensorboard --logdir runs"""

    def __init__(self, path: Path, recipe: dict[str, Any], step: int, options: dict[str, Any]):
        writers = _import_module("torch.utils.tensorboard", "pip install 'unbraid[track]'")
        folder = Path(options.get("folder", path / "tensorboard"))
        self.writer = writers.SummaryWriter(str(folder), purge_step=step + 1 if step else None)
        self.writer.add_text(
            "recipe", "\n".join(f"    {name} = {value}" for name, value in flatten_recipe(recipe).items()), step
        )

    def numbers(self, step: int, values: dict[str, float]) -> None:
        """Numbers by name, after so many steps."""
        for name, value in values.items():
            self.writer.add_scalar(name, value, step)
        self.writer.flush()

    def picture(self, step: int, name: str, pixels: np.ndarray) -> None:
        """One picture "h w 3" of bytes."""
        self.writer.add_image(name, pixels, step, dataformats="HWC")
        self.writer.flush()

    def close(self) -> None:
        """The run is done."""
        self.writer.close()


class Wandb:
    """A run of Weights & Biases; options are those of `wandb.init`. WANDB_MODE=offline keeps it on this machine."""

    def __init__(self, path: Path, recipe: dict[str, Any], step: int, options: dict[str, Any]):
        self.wandb = _import_module("wandb", "pip install wandb")
        known = _stored_id(path, "wandb", step)
        asked = {"project": "unbraid", "name": path.name, "dir": str(path), "config": recipe, "resume": "allow"}
        self.run = self.wandb.init(**{**asked, **({"id": known} if known else {}), **options})
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
    """A run of MLflow, where MLFLOW_TRACKING_URI or the options `uri` and `experiment` say."""

    def __init__(self, path: Path, recipe: dict[str, Any], step: int, options: dict[str, Any]):
        self.mlflow = _import_module("mlflow", "pip install mlflow")
        self.client = self.mlflow.MlflowClient(options.get("uri"))
        known = _stored_id(path, "mlflow", step)
        if not known:
            name = str(options.get("experiment", "unbraid"))
            found = self.client.get_experiment_by_name(name)
            experiment = found.experiment_id if found is not None else self.client.create_experiment(name)
            known = self.client.create_run(experiment, run_name=path.name).info.run_id
            for key, value in flatten_recipe(recipe).items():
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
    """A sink by its package, how to get that, and the options it takes (None: whatever the package takes)."""

    call: Callable[..., Any]
    package: str
    install_hint: str
    options: tuple[str, ...] | None


TRACKERS: dict[str, TrackerKind] = {
    "tensorboard": TrackerKind(TensorBoard, "tensorboard", "pip install 'unbraid[track]'", ("folder",)),
    "wandb": TrackerKind(Wandb, "wandb", "pip install wandb", None),
    "mlflow": TrackerKind(Mlflow, "mlflow", "pip install mlflow", ("uri", "experiment")),
}


def flatten_recipe(table: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """A recipe's tables as one, keys joined by dots.

    >>> flatten_recipe({"seed": 0, "budget": {"steps": 5}})
    {'seed': 0, 'budget.steps': 5}
    """
    found: dict[str, Any] = {}
    for key, value in table.items():
        found |= flatten_recipe(value, f"{prefix}{key}.") if isinstance(value, dict) else {f"{prefix}{key}": value}
    return found


def _import_module(name: str, get: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise UnbraidError(f"{name.split('.')[-1]} cannot be imported ({error}). Install it with: {get}") from error


def _mlflow_name(name: str) -> str:
    """A name as MLflow takes it."""
    return re.sub(r"[^\w\-. :/]", "_", name)


def _stored_id(path: Path, tool: str, step: int) -> str:
    """The name under which a tool knows a run that goes on; a run that begins has none."""
    if not step or not is_file(path / IDS_FILE):
        return ""
    known = read_json(path / IDS_FILE, "tracking")
    expect(isinstance(known, dict), f"{path / IDS_FILE} is damaged", do="Delete it: the tool then begins a new run.")
    return str(known.get(tool, ""))


def _store_id(path: Path, tool: str, name: str) -> None:
    known = read_json(path / IDS_FILE, "tracking") if is_file(path / IDS_FILE) else {}
    write_json(path / IDS_FILE, {**(known if isinstance(known, dict) else {}), tool: str(name)})
