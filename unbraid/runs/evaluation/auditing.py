"""The audit: every term of the decomposition for a finished run, by the exact estimator, whatever the objective.

Audits of different objectives are comparable; training ledgers are not, because each uses the estimator of its paper.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Unpack

import numpy as np
import torch

from unbraid.core.errors import choose
from unbraid.core.files import ensure_writable_folder, write_json
from unbraid.core.hardware import use_threads
from unbraid.core.progress import progress_bar
from unbraid.data.batches import fetch_batch
from unbraid.data.dataset import Dataset
from unbraid.metrics.evaluation.records import to_jsonable
from unbraid.model import closed_form_kl
from unbraid.model.draw import Draw, PosteriorMixture
from unbraid.model.posterior import Posterior
from unbraid.model.vae import Vae
from unbraid.runs.evaluation.audit_result import Audit
from unbraid.runs.evaluation.data_selection import select_data
from unbraid.runs.evaluation.encoding import leaf_kl, posteriors
from unbraid.runs.evaluation.iwae import iwae
from unbraid.runs.evaluation.options import DataSelection
from unbraid.runs.evaluation.prior_divergences import DIVERGENCES
from unbraid.runs.folder.file_names import AUDIT_FILE
from unbraid.runs.run import Run
from unbraid.terms import exact, value_of
from unbraid.terms.estimators import Estimator


def audit(
    run: Run | str | Path,
    data: Dataset | str | Path | None = None,
    *,
    rows: int = 2048,
    components: int = 0,
    chunk_size: int = 32,
    particles: int = 0,
    images: int = 64,
    divergences: str | Sequence[str] = (),
    seed: int = 0,
    quiet: bool = False,
    save: bool = True,
    **selection: Unpack[DataSelection],
) -> Audit:
    """Compute every term in nats per example with its standard error, and the MI and KL of each leaf.

    q(z) is the mixture of all N posteriors, or of a random subset (`components`) in which the posterior of the sample keeps
    its weight of 1/N (Esmaeili et al. 2018, Eq. 13; the remaining bias is Jensen's: mi and tc are too large). The terms are
    averaged over samples z, each from its own random image.

    Args:
        run: a finished run, or its directory.
        data: the images: a data set, its name or a path; None for the training data (see `select_data`).
        rows: the number of samples z.
        components: the number of posteriors in q(z); 0 uses all.
        chunk_size: samples that are compared with all components at a time, which bounds the memory.
        particles: adds the importance-weighted bound on log p(x) with this many particles (Kim & Mnih 2018 use 5000).
        images: the number of images of that bound.
        divergences: adds 'mmd', 'mmd_rbf' or 'inclusive_kl', KL(p‖q), between q(z) and the prior.
        seed: the seed of all draws.
        quiet: show no progress bar.
        save: write audit.json, if these are the last weights of the run.
        selection: `split`, a part of the data, and `leave_out`, factors to drop, which no term uses.

    >>> from unbraid import Recipe, fit
    >>> recipe = Recipe(data={"name": "sprites32", "subsample": 64}, latent=2, nets="mlp", budget={"steps": 2, "batch": 8})
    >>> result = audit(fit(recipe, tmp / "run", quiet=True), rows=32, quiet=True)
    >>> list(result["nats"])[:5], abs(result["balance"]) < 1e-4
    (['reconstruction', 'kl', 'kl@sample', 'mi', 'tc:root'], True)
    """
    run = run if isinstance(run, Run) else Run.load(run)
    extra = [divergences] if isinstance(divergences, str) and divergences else list(divergences)
    for name in extra:
        choose(name, DIVERGENCES, "divergence")
    save = save and run.snapshot is None
    if save:
        ensure_writable_folder(run.path)  # an error before the work, not after it
    dataset, note = select_data(run, data, **selection)
    rng, index = np.random.default_rng(seed), np.arange(len(dataset))
    if 0 < components < len(dataset):
        index = np.sort(rng.permutation(len(dataset))[:components])
    model = run.model_on_device
    with use_threads(run.recipe.budget.threads):
        aggregate = model.charged(posteriors(model, dataset, index, quiet=quiet))
        chosen = rng.permutation(len(index))[: min(rows, len(index))]
        samples = [chosen[start : start + chunk_size] for start in range(0, len(chosen), chunk_size)]
        values, codes = _term_values(model, dataset, aggregate, index, samples, seed, quiet)
        result = Audit(_summary(model, values))
        if particles:
            result["iwae"] = _iwae(model, dataset, index[chosen[:images]], particles, seed, quiet)
        if extra:
            result["also"] = {name: DIVERGENCES[name](model, aggregate, codes, seed) for name in extra}
        kl = to_jsonable(leaf_kl(model, aggregate))
    result |= {
        "leaf_kl": {leaf.name: nats for leaf, nats in zip(model.tree.leaves, kl, strict=True)},
        "how": {"kl": closed_form_kl.kl_method(model.family, model.prior, model.by_mass)},
        "estimator": "exact" if len(index) == len(dataset) else "stratified over a subset",
        "components": len(index),
        "rows": len(chosen),
        "n": len(dataset),
        "seed": seed,
        **{key: value for key, value in note.items() if key != "images"},
    }
    if save:
        write_json(run.path / AUDIT_FILE, result)
    return result


def _term_values(
    model: Vae,
    dataset: Dataset,
    aggregate: Posterior,
    index: np.ndarray,
    samples: list[np.ndarray],
    seed: int,
    quiet: bool,
) -> tuple[dict[str, torch.Tensor], torch.Tensor]:
    """The value of each term for every sample, and the codes; `samples` has chunks of positions in `index`."""
    keys = (*_term_keys(model), *(f"mi:{leaf.name}" for leaf in model.tree.leaves))
    values: dict[str, list[torch.Tensor]] = {key: [] for key in keys}
    codes: list[torch.Tensor] = []
    with (
        torch.no_grad(),
        torch.random.fork_rng(devices=[]),
        progress_bar("auditing", sum(map(len, samples)), quiet) as advance,
    ):
        torch.manual_seed(seed)
        for part in samples:
            q = aggregate.select_rows(torch.from_numpy(part).to(aggregate.loc.device))
            x = fetch_batch(dataset.images, index[part], q.loc.device)
            draw = Draw(model, x, q, q.rsample(), len(dataset), _mixture_estimator(aggregate, part, len(dataset)))
            codes.append(draw.values)
            for key in values:
                values[key].append(value_of(draw, key).cpu().double())
            advance(len(part))
    return {key: torch.cat(found) for key, found in values.items()}, torch.cat(codes)


def _mixture_estimator(posteriors_of_all: Posterior, own_index: np.ndarray, n: int) -> Estimator:
    """q(z) as the mixture of all posteriors; in a subset the sample's own has weight 1/N, and the others share the rest."""
    m = len(posteriors_of_all)
    if m == n:
        return exact(posteriors_of_all)

    def estimator(draw: Draw, n: int) -> PosteriorMixture:
        weights = draw.z.new_full((len(own_index), m), (n - 1) / (n * (m - 1)))
        weights[np.arange(len(own_index)), own_index] = 1 / n
        return posteriors_of_all, weights.log()

    return estimator


def _iwae(model: Vae, dataset: Dataset, index: np.ndarray, particles: int, seed: int, quiet: bool) -> dict[str, Any]:
    """The mean importance-weighted bound on log p(x) of some images, with its standard error."""
    bounds, device = [], next(model.parameters()).device
    with progress_bar(f"IWAE, {particles:,} particles", len(index), quiet) as advance:
        for i in index:
            image = fetch_batch(dataset.images, np.array([i]), device)
            bounds.append(float(iwae(model, image, particles, seed=seed + int(i))))
            advance()
    error = float(np.std(bounds, ddof=1) / len(bounds) ** 0.5) if len(bounds) > 1 else 0.0
    return {"bound": float(np.mean(bounds)), "error": error, "particles": particles, "images": len(bounds)}


def _term_keys(model: Vae) -> list[str]:
    """The terms that are defined for this tree and prior."""
    prior, tree = model.prior, model.tree
    branches = [b.name for b in tree.branches]
    tc = [f"tc:{b}" for b in branches if prior.has_marginal(b) and b not in prior.finest_cut]
    tc_q = [f"tc_q:{b}" for b in branches]
    return ["reconstruction", "kl", "kl@sample", "mi", *tc, "dw", *tc_q, "dw_joint", "agg"]


def _summary(model: Vae, values: dict[str, torch.Tensor]) -> dict[str, Any]:
    keys, leaves = _term_keys(model), [leaf.name for leaf in model.tree.leaves]
    nats = {key: float(values[key].mean()) for key in keys}
    errors = {key: float(values[key].std() / len(values[key]) ** 0.5) if len(values[key]) > 1 else 0.0 for key in keys}
    balance = nats["mi"] + sum(v for k, v in nats.items() if k.startswith("tc:")) + nats["dw"] - nats["kl@sample"]
    return {
        "nats": nats,
        "errors": errors,
        "elbo": -(nats["reconstruction"] + nats["kl"]),
        "balance": balance,
        "leaf_mi": {name: float(values[f"mi:{name}"].mean()) for name in leaves},
    }
