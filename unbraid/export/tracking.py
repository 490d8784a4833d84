"""Tracking: a callback that logs the rows of the ledger, and pictures at snapshots, to an experiment tracker.

The run directory stays complete: everything in a tracker can be made again from it.
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
from unbraid.runs import Run
from unbraid.runs.folder.snapshots import SNAPSHOT_FOLDER

FIGURE_NAMES = ("reconstructions", "traversals", "samples")
MAX_ENCODED = 500  # images that are encoded to find the live leaves


@dataclass
class TrackingCallback:
    """A callback of `fit`: logs every ledger row and validation, and pictures at snapshots and at the end.

    Args:
        name: name of the tracker.
        options: its options.
        dataset: the data; by default the run's own.
        pictures: whether to log pictures.
    """

    name: str
    options: dict[str, Any]
    dataset: Any = None
    pictures: bool = True
    _tracker: Any = field(default=None, repr=False)
    _path: Path = field(default=Path(), repr=False)

    def started(self, path: Path, recipe: dict[str, Any], step: int) -> None:
        """See `callbacks`: open the tracker, or continue its run; a failure is an error before the first step."""
        self._path = Path(path)
        try:
            self._tracker = TRACKERS[self.name].call(self._path, recipe, step, self.options)
        except UnbraidError:
            raise
        except Exception as error:  # trackers raise many kinds: no network, no account, no such server
            raise UnbraidError(f"{self.name} cannot start: {type(error).__name__}: {error}.") from error

    def stepped(self, step: int, row: dict[str, Any] | None) -> None:
        """See `callbacks`: log a row of the ledger."""
        if row is not None:
            self._forward("numbers", step, ledger_row_numbers(row))

    def validated(self, step: int, row: dict[str, Any]) -> None:
        """See `callbacks`: log a validation."""
        self._forward("numbers", step, ledger_row_numbers(row))

    def saved(self, step: int, path: Path) -> None:
        """See `callbacks`: log pictures of a snapshot."""
        if Path(path).parent.name == SNAPSHOT_FOLDER:
            self._log_figures(step, snapshot=step)

    def finished(self, step: int, path: Path) -> None:
        """See `callbacks`: log pictures of the trained model, unless it was a snapshot, and close the tracker."""
        if step not in Run(self._path).snapshots:
            self._log_figures(step)
        self._forward("close")

    def _log_figures(self, step: int, snapshot: int | None = None) -> None:
        """Log pictures of the run; when they cannot be drawn, print the reason once."""
        if not self.pictures or self._tracker is None:
            return
        try:
            pictures = render_pictures(self._path, snapshot, self.dataset)
        except UnbraidError as error:
            self.pictures = False
            print(f"{self.name}: no pictures ({error})", file=sys.stderr)
            return
        for name, pixels in pictures.items():
            self._forward("picture", step, name, pixels)

    def _forward(self, method: str, *arguments: Any) -> None:
        """Call a method of the tracker; after a failure tracking ends with a message, and training continues."""
        if self._tracker is None:
            return
        try:
            getattr(self._tracker, method)(*arguments)
        except Exception as error:
            self._tracker = None
            print(f"{self.name} is disabled ({type(error).__name__}: {error}); the ledger is complete", file=sys.stderr)


def tracker(name: str, *, dataset: Any = None, pictures: bool = True, **options: Any) -> TrackingCallback:
    """Make a callback that tracks a run: fit(recipe, callbacks=[tracker("wandb")]).

    Args:
        name: 'tensorboard', 'wandb' or 'mlflow'.
        dataset: the data, if they were passed to `fit` as an object; pictures need them.
        pictures: whether to log pictures.
        options: `folder` of TensorBoard, those of `wandb.init`, or `uri` and `experiment` of MLflow.

    >>> tracker("tensorbord")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    unbraid.core.errors.UnbraidError: unknown tracker 'tensorbord'. Did you mean 'tensorboard'? ...
    """
    kind = choose(name, TRACKERS, "tracker")
    installed, needed = importlib.util.find_spec(kind.package) is not None, f"the package {kind.package!r}"
    expect(installed, f"tracking with {name} needs {needed}", do=f"Install it with: {kind.install_hint}")
    unknown = [key for key in options if kind.options is not None and key not in kind.options]
    expect(not unknown, f"{name} takes no option {''.join(unknown[:1])!r}", allowed=kind.options)
    return TrackingCallback(name, options, dataset, pictures)


def ledger_row_numbers(row: dict[str, Any]) -> dict[str, float]:
    """The numbers of a ledger row, under names that trackers group by.

    Args:
        row: the row.

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
    """Render reconstructions, traversals and samples of a run as bytes "h w 3".

    Args:
        path: the run directory.
        snapshot: step of a snapshot; by default the last weights.
        dataset: the data; by default the run's own.
    """
    from PIL import Image

    from unbraid.figures.drawing import render_figure
    from unbraid.figures.registry import FIGURES, FigureContext, FigureOptions
    from unbraid.runs import encode

    run = Run.load(path, dataset=dataset)
    run = run if snapshot is None else run.at(snapshot)
    data = run.dataset()
    context = FigureContext(run, data, encode(run, data, max_images=MAX_ENCODED, quiet=True, save=False))
    pictures = {}
    for name in FIGURE_NAMES:
        if FIGURES[name].can_draw(context):
            png = render_figure(FIGURES[name].call(context, FigureOptions()), "png", 100)
            with Image.open(io.BytesIO(png), formats=("PNG",)) as image:
                pictures[name] = np.asarray(image.convert("RGB"))
    return pictures
