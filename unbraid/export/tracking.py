"""Tracking: a callback that hands the ledger's rows, and pictures at snapshots, to a tool that draws them.

The run directory remains the truth: what a tool shows can be made again from it.
"""

from __future__ import annotations

import importlib.util
import io
import math
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from unbraid.core.errors import UnbraidError, choose, expect
from unbraid.export.trackers import TRACKERS
from unbraid.runs.folder.snapshots import SNAPSHOT_FOLDER
from unbraid.runs.run import Run

FIGURE_NAMES = ("reconstructions", "traversals", "samples")
MAX_ENCODED = 500  # images that are encoded to know which leaves carry something


@dataclass
class TrackingCallback:
    """A callback of `fit`: numbers of every logged row and validation, pictures at snapshots and at the end."""

    name: str
    options: dict[str, Any]
    dataset: Any = None
    pictures: bool = True
    _tracker: Any = field(default=None, repr=False)
    _path: Path = field(default=Path(), repr=False)

    def started(self, path: Path, recipe: dict[str, Any], step: int) -> None:
        """Open the tool's own run, or go on with it; a tool that cannot begin is an error before the first step."""
        self._path = Path(path)
        try:
            self._tracker = TRACKERS[self.name].call(self._path, recipe, step, self.options)
        except UnbraidError:
            raise
        except Exception as error:  # whatever a tool raises: no network, no account, no such server
            raise UnbraidError(f"{self.name} cannot begin: {type(error).__name__}: {error}.") from error

    def stepped(self, step: int, row: dict[str, Any] | None) -> None:
        """Hand on a row of the ledger."""
        if row is not None:
            self._forward("numbers", step, ledger_row_numbers(row))

    def validated(self, step: int, row: dict[str, Any]) -> None:
        """Hand on a validation."""
        self._forward("numbers", step, ledger_row_numbers(row))

    def saved(self, step: int, path: Path) -> None:
        """Draw a snapshot."""
        if Path(path).parent.name == SNAPSHOT_FOLDER:
            self._log_figures(step, snapshot=step)

    def finished(self, step: int, path: Path) -> None:
        """Draw the trained model, unless a snapshot was it, and close."""
        if step not in Run(self._path).snapshots:
            self._log_figures(step)
        self._forward("close")

    def _log_figures(self, step: int, snapshot: int | None = None) -> None:
        """Pictures of the run as it is; where data or parts are not at hand that is said once."""
        if not self.pictures or self._tracker is None:
            return
        try:
            found = render_pictures(self._path, snapshot, self.dataset)
        except UnbraidError as error:
            self.pictures = False
            print(f"{self.name}: no pictures ({error})", file=sys.stderr)
            return
        for name, pixels in found.items():
            self._forward("picture", step, name, pixels)

    def _forward(self, method: str, *arguments: Any) -> None:
        """Hand something on; a tool that fails on the way is given up, aloud, and the run goes on."""
        if self._tracker is None:
            return
        try:
            getattr(self._tracker, method)(*arguments)
        except Exception as error:
            self._tracker = None
            print(f"{self.name} is given up ({type(error).__name__}: {error}); the ledger has it all", file=sys.stderr)


def tracker(name: str, *, dataset: Any = None, pictures: bool = True, **options: Any) -> TrackingCallback:
    """A callback that tracks a run in 'tensorboard', 'wandb' or 'mlflow': fit(recipe, callbacks=[tracker("wandb")]).

    dataset: the data, if `fit` was given them as an object; pictures need them. options: `folder` for TensorBoard, those of
    `wandb.init` for Weights & Biases, `uri` and `experiment` for MLflow.

    >>> tracker("tensorbord")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    unbraid.core.errors.UnbraidError: unknown tracker 'tensorbord'. Did you mean 'tensorboard'? ...
    """
    kind = choose(name, TRACKERS, "tracker")
    here = importlib.util.find_spec(kind.package) is not None
    expect(here, f"tracking by {name} needs the package {kind.package!r}", do=f"Install it with: {kind.install_hint}")
    odd = [key for key in options if kind.options is not None and key not in kind.options]
    expect(not odd, f"{name} takes no option {''.join(odd[:1])!r}", allowed=kind.options)
    return TrackingCallback(name, options, dataset, pictures)


def ledger_row_numbers(row: dict[str, Any]) -> dict[str, float]:
    """A row of the ledger under the names that tools group by.

    >>> ledger_row_numbers({"step": 0, "loss": 3.0, "nats": {"kl": 1.0}, "prices": {"kl": 2.0}, "lr": 0.1})
    {'train/loss': 3.0, 'train/kl': 1.0, 'price/kl': 2.0, 'train/lr': 0.1}
    """
    part = "validation" if row.get("validation") else "train"
    found = {f"{part}/loss": row["loss"]} if "loss" in row else {}
    found |= {f"{part}/{key}": value for key, value in row["nats"].items()}
    if part == "train":
        found |= {f"price/{key}": value for key, value in row["prices"].items()}
    found |= {f"scores/{key}": value for key, value in row.get("scores", {}).items()}
    found |= {f"train/{key}": row[key] for key in ("lr", "gradient") if key in row}
    return {key: float(value) for key, value in found.items() if math.isfinite(value)}


def render_pictures(path: Path, snapshot: int | None = None, dataset: Any = None) -> dict[str, np.ndarray]:
    """Reconstructions, traversals and samples of a run (after `moment` steps) as pictures "h w 3" of bytes."""
    from PIL import Image

    from unbraid.figures.drawing import render_figure
    from unbraid.figures.registry import FIGURES, FigureContext, FigureOptions
    from unbraid.runs.evaluation.encoding import encode

    run = Run.load(path, dataset=dataset)
    run = run if snapshot is None else run.at(snapshot)
    data = run.dataset()
    seen = FigureContext(run, data, encode(run, data, max_images=MAX_ENCODED, quiet=True, save=False))
    found = {}
    for name in FIGURE_NAMES:
        if FIGURES[name].can_draw(seen):
            with Image.open(io.BytesIO(render_figure(FIGURES[name].call(seen, FigureOptions()), "png", 100))) as image:
                found[name] = np.asarray(image.convert("RGB"))
    return found
