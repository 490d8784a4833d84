"""Validation: the row's terms on held-out images during training, by fixed noise, without a word to the training's chance."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from unbraid.core.errors import expect, join_names
from unbraid.data import DATASETS
from unbraid.data.batches import fetch_batch, permutation
from unbraid.data.dataset import Dataset
from unbraid.metrics.evaluation.battery import battery, get_metric, parse_metric_names
from unbraid.objectives.objective import Objective
from unbraid.prices import FINAL_STEP
from unbraid.runs.evaluation.data_selection import load_full_data
from unbraid.runs.evaluation.encoding import posteriors
from unbraid.runs.fitting.seeding import step_seed

VALIDATION_STREAM = 2000  # of permutations: which of the held-out images are looked at, the same for every seed


def select_validation_data(parts: Any, validation: Dataset | None, in_memory: bool) -> Dataset | None:
    """The images that training does not see: those given, or the test part of the recipe's data; None if nobody asks."""
    budget, table = parts.recipe.budget, dict(parts.recipe.data)
    if not budget.validate_every:
        expect(validation is None, "nothing says how often to validate", do="Set budget.validate_every, such as 1000.")
        return None
    expect(isinstance(parts.objective, Objective), "a game has no validation loss", do="Set budget.validate_every = 0.")
    if validation is None:
        expect(
            not in_memory and table.get("name") in DATASETS,
            "data in memory have no held-out part",
            do="Pass it: fit(…, validation=dataset).",
        )
        options = DATASETS[table["name"]].options
        part = table.get("split", options.get("split", "all"))
        expect(
            part == "train",
            "validation needs images that the run is not trained on",
            found=f"data.split = {part!r}",
            do='Set data.split = "train" (and data.test, the share that is held out), or budget.validate_every = 0.',
        )
        validation = load_full_data({**table, "split": "test"})
    shape = tuple(parts.dataset.shape)
    expect(
        tuple(validation.shape) == shape,
        "held-out images have another shape",
        found=tuple(validation.shape),
        allowed=shape,
    )
    expect(len(validation) > 1, "validation needs two images at least", found=len(validation))
    known = (
        [get_metric(name).needs for name in parse_metric_names(budget.validate_metrics)]
        if budget.validate_metrics
        else []
    )
    expect(
        validation.factors is not None or "factors" not in known,
        f"metrics {join_names(budget.validate_metrics)} need labels",
        found=f"{validation.name} without factors",
    )
    return validation


def validate(trainer: Any, dataset: Dataset, number: int) -> dict[str, Any]:
    """One row of the ledger after step `number`: the terms on fixed held-out images, with the same noise every time.

    The loss is at the prices that the row settles to, so that validations of one run compare. Batches are as large as
    in training, because the estimators of q(z) depend on it; running statistics and chance stay as they are.
    """
    parts, budget = trainer.parts, trainer.parts.recipe.budget
    model, objective = parts.model, parts.objective
    index = permutation(0, VALIDATION_STREAM, 0, len(dataset))[: budget.validate_images].astype(np.int64)
    b = min(budget.batch, len(index))
    also = ("kl",) if not model.prior.bounded else ()
    sums: dict[str, float] = {}
    count = len(index) // b
    modules = parts.modules.eval()
    with torch.no_grad(), torch.random.fork_rng(devices=[] if trainer.device.type == "cpu" else None):
        torch.manual_seed(step_seed(0, -2))
        for k in range(count):
            x = fetch_batch(dataset.images, index[k * b : (k + 1) * b], trainer.device)
            draw = model.draw(x, len(parts.dataset), objective.select_estimator(parts.critics))
            ledger = objective(draw, FINAL_STEP, parts.critics, trainer.prices, also)
            for key, nats in {"loss": ledger.loss, **ledger.nats}.items():
                sums[key] = sums.get(key, 0.0) + float(nats) / count
        scores = _scores(model, dataset, index, budget.validate_metrics)
    modules.train()
    rounded = {key: round(value, 6) for key, value in sums.items() if math.isfinite(value)}
    loss = {"loss": rounded.pop("loss")} if "loss" in rounded else {}
    row = {"step": number, "validation": True, **loss, "nats": rounded, "prices": ledger.prices, "images": count * b}
    return row | ({"scores": scores} if scores else {})


def _scores(model: Any, dataset: Dataset, index: np.ndarray, metrics: list[str]) -> dict[str, float]:
    """Chosen metrics of the means of these images."""
    if not metrics:
        return {}
    mean = posteriors(model, dataset, index, quiet=True).mean.cpu().numpy()
    factors = dataset.factors
    about: dict[str, Any] = (
        {} if factors is None else {"names": factors.names, "kinds": [item.kind for item in factors.items]}
    )
    found = battery(mean, dataset.labels(index), metrics=metrics, groups=_leaf_columns(model.tree), **about)
    return {name: round(float(s.value), 6) for name, s in found.items() if math.isfinite(s.value)}


def _leaf_columns(tree: Any) -> dict[str, list[int]]:
    return {leaf.name: tree.columns(leaf.name) for leaf in tree.leaves}


@dataclass
class EarlyStopping:
    """The best validation so far, and how many came after it without being better; read off the ledger's rows."""

    best_loss: float = math.inf
    best_step: int = 0
    checks_since_best: int = 0

    def update(self, row: dict[str, Any]) -> bool:
        """Take a validation in; whether it is the best."""
        loss = row.get("loss", math.inf)
        better = loss < self.best_loss
        self.best_loss, self.best_step = (loss, row["step"] + 1) if better else (self.best_loss, self.best_step)
        self.checks_since_best = 0 if better else self.checks_since_best + 1
        return better
