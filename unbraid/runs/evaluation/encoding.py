"""Encoding: a run and a data set to `Codes`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from unbraid.codes import Codes
from unbraid.core.errors import expect
from unbraid.core.files import ensure_writable_folder
from unbraid.core.hardware import use_threads
from unbraid.core.progress import progress_bar
from unbraid.data.batches import fetch_batch
from unbraid.data.dataset import Dataset
from unbraid.model import closed_form_kl
from unbraid.model.posterior import Posterior
from unbraid.model.vae import Vae
from unbraid.runs.evaluation.data_selection import select_data
from unbraid.runs.folder.file_names import CODES_FILE
from unbraid.runs.run import Run


def posteriors(
    model: Vae, dataset: Dataset, index: np.ndarray | None = None, batch: int = 128, quiet: bool = False
) -> Posterior:
    """q(z|x) of every image (or of those at `index`), in bounded memory: two numbers per column and image."""
    index = np.arange(len(dataset)) if index is None else np.asarray(index)
    device = next(model.parameters()).device
    expect(len(index) > 0, "there must be an image to encode", found="none")
    blocks: dict[str, torch.Tensor] = {}
    with torch.no_grad(), progress_bar("encoding", len(index), quiet) as advance:
        for start in range(0, len(index), batch):
            q = model.posterior(fetch_batch(dataset.images, index[start : start + batch], device))
            for name, values in q.tensors.items():
                # one block each: small results kept between large activations would leave holes in the heap
                if name not in blocks:
                    blocks[name] = values.new_empty(len(index), *values.shape[1:])
                blocks[name][start : start + batch] = values
            advance(len(q))
    return q.with_changes(**blocks)


def leaf_kl(model: Vae, q: Posterior, samples: int = 16) -> np.ndarray:
    """Mean KL(q(z_l|x) ‖ p(z_l)) of each leaf in nats: closed form, else by sampling; NaN where p has no leaf marginal."""
    with torch.no_grad():
        known = closed_form_kl.leaf_kl(q, model.prior)
        if known is not None:
            return known.mean(0).cpu().double().numpy()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            total = torch.zeros(len(model.tree.leaves), dtype=torch.float64)
            for _ in range(samples):
                z = q.rsample()
                ratio = q.leaf_log_prob(z) - model.prior.leaf_log_prob(z, q.temperature)
                total += ratio.cpu().double().mean(0)
            return (total / samples).numpy()


def encode(
    run: Run,
    data: Dataset | str | Path | None = None,
    *,
    split: str = "",
    leave_out: str | Sequence[str] = (),
    max_images: int = 0,
    seed: int = 0,
    quiet: bool = False,
    save: bool = True,
) -> Codes:
    """Codes of the run's own data, of a `split` of them, or of another set; factors in `leave_out` get no labels.

    See `part_of` for data and split; `most` > 0 takes a random subset of that many images. Written to `codes.npz` in the
    run directory unless `save` is False.

    >>> from unbraid.runs.recipe import Recipe
    >>> from unbraid.runs.fitting.training import fit
    >>> recipe = Recipe(data={"name": "sprites32", "subsample": 64}, latent=2, nets="mlp", budget={"steps": 2, "batch": 8})
    >>> codes = encode(fit(recipe, tmp / "run", quiet=True), quiet=True)
    >>> codes.mean.shape, codes.factors.names
    ((64, 2), ('shape', 'scale', 'x', 'y'))
    """
    save = save and run.snapshot is None
    if save:
        ensure_writable_folder(run.path)  # before the work, not after it
    dataset, notes = select_data(run, data, split, leave_out)
    index = np.arange(len(dataset))
    if 0 < max_images < len(dataset):
        index = np.sort(np.random.default_rng(seed).permutation(len(dataset))[:max_images])
    with use_threads(run.recipe.budget.threads):
        q = posteriors(run.model_on_device, dataset, index, quiet=quiet)
        kl = leaf_kl(run.model_on_device, q)
    labels = _nan_where_missing(dataset.labels(index), dataset.factors)
    if run.recipe.family != "diagonal":
        notes["posterior"] = run.recipe.family
    if run.snapshot is not None:
        notes["step"] = run.state["step"]
    codes = Codes(
        q.mean.cpu().numpy(), run.model.tree, q.scale.cpu().numpy(), labels, dataset.factors, kl, index, notes
    )
    if save:
        codes.save(run.path / CODES_FILE)
    return codes


def _nan_where_missing(labels: np.ndarray | None, factors: Any) -> np.ndarray | None:
    """Labels as metrics take them: data sets mark a missing class by −1, but −1 is a number like any other in an array."""
    if labels is None:
        return None
    named = np.array([factor.kind != "continuous" for factor in factors.items])
    missing = (labels < 0) & named
    return np.where(missing, np.nan, labels) if missing.any() else labels
