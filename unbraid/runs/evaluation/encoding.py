"""Encoding: from a run and a data set to `Codes`."""

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
from unbraid.runs.evaluation.options import Split
from unbraid.runs.folder.file_names import CODES_FILE
from unbraid.runs.run import Run


def posteriors(
    model: Vae, dataset: Dataset, index: np.ndarray | None = None, batch: int = 128, quiet: bool = False
) -> Posterior:
    """Return q(z|x) of many images, in bounded memory: two numbers per column and image.

    Args:
        model: the model.
        dataset: the images.
        index: which of them; None for all.
        batch: images per batch.
        quiet: show no progress bar.
    """
    index = np.arange(len(dataset)) if index is None else np.asarray(index)
    device = next(model.parameters()).device
    expect(len(index) > 0, "there must be at least one image to encode", found="none")
    blocks: dict[str, torch.Tensor] = {}
    with torch.no_grad(), progress_bar("encoding", len(index), quiet) as advance:
        for start in range(0, len(index), batch):
            q = model.posterior(fetch_batch(dataset.images, index[start : start + batch], device))
            for name, values in q.tensors.items():
                # one block per tensor: small results between large activations would fragment the heap
                if name not in blocks:
                    blocks[name] = values.new_empty(len(index), *values.shape[1:])
                blocks[name][start : start + batch] = values
            advance(len(q))
    return q.with_changes(**blocks)


def leaf_kl(model: Vae, q: Posterior, samples: int = 16) -> np.ndarray:
    """Return the mean KL(q(z_l|x) ‖ p(z_l)) of each leaf in nats; NaN where p has no marginal for a leaf.

    Args:
        model: the model.
        q: posteriors of many images.
        samples: draws per image where there is no closed form.
    """
    with torch.no_grad():
        q = model.charged(q)
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
    run: Run | str | Path,
    data: Dataset | str | Path | None = None,
    *,
    split: Split = "",
    leave_out: str | Sequence[str] = (),
    max_images: int = 0,
    seed: int = 0,
    quiet: bool = False,
    save: bool = True,
) -> Codes:
    """Encode the training data, a split of them, or another data set.

    Args:
        run: a finished run, or its directory.
        data: the images: a data set, its name or a path; None for the training data (see `select_data`).
        split: a part of the data; "" for the part that the run was trained on.
        leave_out: factors to drop.
        max_images: encode a random subset of this many images; 0 encodes all.
        seed: the seed of the subset.
        quiet: show no progress bar.
        save: write codes.npz, if these are the last weights of the run.

    >>> from unbraid.runs.recipe import Recipe
    >>> from unbraid.runs.fitting.training import fit
    >>> recipe = Recipe(data={"name": "sprites32", "subsample": 64}, latent=2, nets="mlp", budget={"steps": 2, "batch": 8})
    >>> codes = encode(fit(recipe, tmp / "run", quiet=True), quiet=True)
    >>> codes.mean.shape, codes.factors.names
    ((64, 2), ('shape', 'scale', 'x', 'y'))
    """
    run = run if isinstance(run, Run) else Run.load(run)
    save = save and run.snapshot is None
    if save:
        ensure_writable_folder(run.path)  # an error before the work, not after it
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
    """Labels for metrics: data sets mark a missing class by −1, which is an ordinary number in an array."""
    if labels is None:
        return None
    named = np.array([factor.kind != "continuous" for factor in factors.items])
    missing = (labels < 0) & named
    return np.where(missing, np.nan, labels) if missing.any() else labels
