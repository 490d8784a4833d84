"""Validation during training: the objective on held-out images with fixed noise, and early stopping.

Validation does not change the random state of training.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from unbraid.core.errors import UnbraidError, expect, join_names
from unbraid.data import DATASETS
from unbraid.data.batches import fetch_batch, permutation
from unbraid.data.dataset import Dataset
from unbraid.metrics.evaluation.battery import battery, get_metric, parse_metric_names
from unbraid.metrics.inputs.validation import as_table
from unbraid.prices import FINAL_STEP
from unbraid.runs.building.supervision import without_supervision
from unbraid.runs.evaluation.data_selection import load_full_data
from unbraid.runs.evaluation.encoding import posteriors
from unbraid.runs.fitting.protocols import Parts
from unbraid.runs.fitting.seeding import step_seed

if TYPE_CHECKING:
    from unbraid.model.vae import Vae
    from unbraid.runs.fitting.trainer import VaeTrainer

VALIDATION_STREAM = 2000  # permutation stream that selects held-out images, the same for every seed


def select_validation_data(parts: Parts, validation: Dataset | None, in_memory: bool) -> Dataset | None:
    """Return the held-out images of a run: those passed, or the test split of its data; None without validation.

    Args:
        parts: the parts of the run.
        validation: images that were passed to `fit`, or None.
        in_memory: the training data were passed to `fit`, so they have no test split.
    """
    budget, table = parts.recipe.budget, dict(parts.recipe.data)
    if not budget.validate_every:
        expect(
            validation is None,
            "validation data need a validation interval",
            found="budget.validate_every = 0",
            do="Set budget.validate_every, for example to 1000.",
        )
        return None
    if validation is None:
        expect(
            not in_memory and table.get("name") in DATASETS,
            "data in memory have no test split",
            do="Pass held-out images: fit(…, validation=dataset).",
        )
        options = DATASETS[table["name"]].options
        part = table.get("split", options.get("split", "all"))
        expect(
            part == "train",
            "validation needs images outside of the training data",
            found=f"data.split = {part!r}",
            do='Set data.split = "train" (and data.test, the held-out fraction), or budget.validate_every = 0.',
        )
        validation = load_full_data({**table, "split": "test"})
    shape = tuple(parts.dataset.shape)
    expect(
        tuple(validation.shape) == shape,
        "held-out images must have the shape of the training images",
        found=tuple(validation.shape),
        allowed=shape,
    )
    expect(len(validation) > 1, "validation needs at least two images", found=len(validation))
    metrics = parse_metric_names(budget.validate_metrics) if budget.validate_metrics else []
    needs = {name: get_metric(name).needs for name in metrics if name != "all"}
    other = [name for name, need in needs.items() if need in ("runs", "images")]
    expect(not other, "these metrics do not score codes of one run, so training cannot compute them", found=other)
    expect(
        validation.factors is not None or "factors" not in needs.values(),
        f"metrics {join_names(budget.validate_metrics)} need labels",
        found=f"{validation.name} without factors",
    )
    return validation


def validate(trainer: VaeTrainer, dataset: Dataset, number: int) -> dict[str, Any]:
    """Return the ledger row of a validation: all terms on fixed held-out images, with the same noise every time.

    The loss uses the final prices of the schedules, so that validations of one run are comparable. Batches have the size of
    training batches, because estimators of q(z) depend on it. Running statistics and the random state do not change.

    Args:
        trainer: the trainer.
        dataset: held-out images.
        number: the last step done, counted from 0.
    """
    parts, budget = trainer.parts, trainer.parts.recipe.budget
    model, objective = parts.model, parts.objective
    index = permutation(0, VALIDATION_STREAM, 0, len(dataset))[: budget.validate_images].astype(np.int64)
    b = min(budget.batch, len(index))
    also = ("kl",) if not model.prior.bounded else ()
    prices = trainer.prices if parts.supervision is None else without_supervision(trainer.prices)
    sums: dict[str, float] = {}
    count = len(index) // b
    modules = parts.modules.eval()
    with torch.no_grad(), torch.random.fork_rng(devices=[] if trainer.device.type == "cpu" else None):
        torch.manual_seed(step_seed(0, -2))
        for k in range(count):
            x = fetch_batch(dataset.images, index[k * b : (k + 1) * b], trainer.device)
            draw = model.draw(x, len(parts.dataset), objective.select_estimator(parts.critics), bound=True)
            ledger = objective(draw, FINAL_STEP, parts.critics, prices, also)
            for key, nats in {"loss": ledger.loss, **ledger.nats}.items():
                sums[key] = sums.get(key, 0.0) + float(nats) / count
        scores = _scores(model, dataset, index, budget.validate_metrics)
    modules.train()
    rounded = {key: round(value, 6) for key, value in sums.items() if math.isfinite(value)}
    loss = {"loss": rounded.pop("loss")} if "loss" in rounded else {}
    row = {"step": number, "validation": True, **loss, "nats": rounded, "prices": ledger.prices, "images": count * b}
    return row | ({"scores": scores} if scores else {})


def _scores(model: Vae, dataset: Dataset, index: np.ndarray, metrics: list[str]) -> dict[str, float]:
    """The scores of the posterior means of these images."""
    if not metrics:
        return {}
    mean = posteriors(model, dataset, index, quiet=True).mean.cpu().numpy()
    about: dict[str, Any] = {"groups": {leaf.name: model.tree.columns(leaf.name) for leaf in model.tree.leaves}}
    if dataset.factors is not None:
        about |= {"names": dataset.factors.names, "kinds": [item.kind for item in dataset.factors.items]}
    table = as_table(mean, dataset.labels(index), metric_name="validation", needs_factors=False, **about)
    found: dict[str, float] = {}
    for metric in metrics:  # one that cannot score these images ends neither the training nor the other scores
        try:
            found |= {name: float(score.value) for name, score in battery(table, metrics=metric).items()}
        except UnbraidError as error:
            warnings.warn(f"validation without {metric}: {error}", stacklevel=2)
    return {name: round(float(value), 6) for name, value in found.items() if math.isfinite(value)}


@dataclass
class EarlyStopping:
    """The best validation so far, and the number of validations since then; restored from the rows of the ledger."""

    best_loss: float = math.inf
    checks_since_best: int = 0

    def update(self, row: dict[str, Any]) -> bool:
        """Record a validation and return whether it is the best.

        Args:
            row: the ledger row of the validation.
        """
        loss = row.get("loss", math.inf)
        better = loss < self.best_loss
        self.best_loss = min(loss, self.best_loss)
        self.checks_since_best = 0 if better else self.checks_since_best + 1
        return better
