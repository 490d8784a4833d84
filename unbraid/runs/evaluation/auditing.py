"""The audit: every term of the decomposition for a finished run, by the exact estimator, whatever row was trained.

Only then do methods share units: training ledgers use each paper's own estimator.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from unbraid.core.errors import choose
from unbraid.core.files import ensure_writable_folder, write_json
from unbraid.core.hardware import use_threads
from unbraid.core.progress import progress_bar
from unbraid.data.batches import fetch_batch
from unbraid.data.dataset import Dataset
from unbraid.model import closed_form_kl
from unbraid.model.draw import Draw, PosteriorMixture
from unbraid.model.posterior import Posterior
from unbraid.runs.evaluation.audit_result import Audit
from unbraid.runs.evaluation.data_selection import select_data
from unbraid.runs.evaluation.encoding import leaf_kl, posteriors
from unbraid.runs.evaluation.iwae import iwae
from unbraid.runs.evaluation.prior_divergences import DIVERGENCES
from unbraid.runs.folder.file_names import AUDIT_FILE
from unbraid.runs.run import Run
from unbraid.terms import exact, value_of
from unbraid.terms.estimators import Estimator


def audit(
    run: Run,
    data: Dataset | str | Path | None = None,
    *,
    split: str = "",
    leave_out: str | Sequence[str] = (),
    rows: int = 2048,
    components: int = 0,
    chunk_size: int = 32,
    particles: int = 0,
    images: int = 64,
    divergences: str | Sequence[str] = (),
    seed: int = 0,
    quiet: bool = False,
    save: bool = True,
) -> Audit:
    """Every term in nats per example with its standard error, and the MI and KL of each leaf.

    data and split choose the images (see `part_of`), leave_out drops labels, which no term looks at. q(z) is the mixture
    over all N posteriors, or over a stated random subset of `components`, where the sample's own keeps its weight of 1/N
    (Esmaeili et al. 2018, Eq. 13; what is left of the bias is Jensen's: mi and tc come out high). The terms are averaged
    over `rows` samples z, each from its own random image. With `particles` the importance-weighted bound on log p(x) of
    some `images` is added (Kim & Mnih 2018 use 5000); `also` adds 'mmd', 'mmd_rbf' or 'inclusive_kl', KL(p‖q), of q(z)
    and the prior. Written to `audit.json` unless `save` is False.

    >>> from unbraid import Recipe, fit
    >>> recipe = Recipe(data={"name": "sprites32", "subsample": 64}, latent=2, nets="mlp", budget={"steps": 2, "batch": 8})
    >>> books = audit(fit(recipe, tmp / "run", quiet=True), rows=32, quiet=True)
    >>> list(books["nats"])[:5], abs(books["balance"]) < 1e-4
    (['reconstruction', 'kl', 'kl@sample', 'mi', 'tc:root'], True)
    """
    more = _check_divergences(divergences)
    save = save and run.snapshot is None
    if save:
        ensure_writable_folder(run.path)  # before the work, not after it
    dataset, note = select_data(run, data, split, leave_out)
    rng, index = np.random.default_rng(seed), np.arange(len(dataset))
    if 0 < components < len(dataset):
        index = np.sort(rng.permutation(len(dataset))[:components])
    model = run.model_on_device
    with use_threads(run.recipe.budget.threads):
        everything = posteriors(model, dataset, index, quiet=quiet)
    chosen = rng.permutation(len(index))[: min(rows, len(index))]
    keys = _term_keys(model)
    leaves = [leaf.name for leaf in model.tree.leaves]
    sums: dict[str, list[torch.Tensor]] = {key: [] for key in (*keys, *(f"mi:{name}" for name in leaves))}
    codes: list[torch.Tensor] = []
    with (
        torch.no_grad(),
        use_threads(run.recipe.budget.threads),
        torch.random.fork_rng(devices=[]),
        progress_bar("auditing", len(chosen), quiet) as advance,
    ):
        torch.manual_seed(seed)
        for start in range(0, len(chosen), chunk_size):
            part = chosen[start : start + chunk_size]
            q = everything.select_rows(torch.from_numpy(part).to(everything.loc.device))
            x = fetch_batch(dataset.images, index[part], q.loc.device)
            draw = Draw(model, x, q, q.rsample(), len(dataset), _mixture_estimator(everything, part, len(dataset)))
            codes.append(draw.values)
            for key in sums:
                sums[key].append(value_of(draw, key).cpu().double())
            advance(len(part))
    values = {key: torch.cat(found) for key, found in sums.items()}
    result = Audit(_summary(values, keys, leaves))
    with use_threads(run.recipe.budget.threads):
        if particles:
            result["iwae"] = _iwae(model, dataset, index[chosen[:images]], particles, seed, quiet)
        if more:
            result["also"] = {name: DIVERGENCES[name](model, everything, torch.cat(codes), seed) for name in more}
        kl = leaf_kl(model, everything)
    result |= {
        "leaf_kl": dict(zip(leaves, _finite_or_none(kl), strict=True)),
        "how": {"kl": closed_form_kl.kl_method(model.family, model.prior)},
        **_settings(len(index), len(chosen), len(dataset), seed, note),
    }
    if save:
        write_json(run.path / AUDIT_FILE, result)
    return result


def _check_divergences(requested: str | Sequence[str]) -> list[str]:
    """The divergences asked for beside the terms; an unknown one is a named error."""
    more = [requested] if isinstance(requested, str) and requested else list(requested)
    for name in more:
        choose(name, DIVERGENCES, "divergence")
    return more


def _settings(components: int, rows: int, n: int, seed: int, note: dict[str, Any]) -> dict[str, Any]:
    """By what q(z), samples and data the terms were worked out."""
    estimator = "exact" if components == n else "stratified over a subset"
    plain = {key: value for key, value in note.items() if key != "images"}
    return {"estimator": estimator, "components": components, "rows": rows, "n": n, "seed": seed, **plain}


def _mixture_estimator(posteriors_of_all: Posterior, own_index: np.ndarray, n: int) -> Estimator:
    """q(z) over all posteriors; over a subset of them the own one of each draw weighs 1/N, the others share the rest."""
    m = len(posteriors_of_all)
    if m == n:
        return exact(posteriors_of_all)

    def estimator(draw: Draw, n: int) -> PosteriorMixture:
        weights = draw.z.new_full((len(own_index), m), (n - 1) / (n * (m - 1)))
        weights[np.arange(len(own_index)), own_index] = 1 / n
        return posteriors_of_all, weights.log()

    return estimator


def _iwae(model: Any, dataset: Dataset, index: np.ndarray, particles: int, seed: int, quiet: bool) -> dict[str, Any]:
    """The importance-weighted bound on log p(x) over some images, with its standard error."""
    bounds, device = [], next(model.parameters()).device
    with progress_bar(f"IWAE, {particles:,} particles", len(index), quiet) as advance:
        for i in index:
            bounds.append(
                float(iwae(model, fetch_batch(dataset.images, np.array([i]), device), particles, seed=seed + int(i)))
            )
            advance()
    error = float(np.std(bounds, ddof=1) / len(bounds) ** 0.5) if len(bounds) > 1 else 0.0
    return {"bound": float(np.mean(bounds)), "error": error, "particles": particles, "images": len(bounds)}


def _term_keys(model: Any) -> list[str]:
    """The terms that exist for this tree and prior."""
    prior, tree = model.prior, model.tree
    branches = [b.name for b in tree.branches]
    above = [b for b in branches if prior.has_marginal(b) and b not in prior.finest_cut]
    return [
        "reconstruction",
        "kl",
        "kl@sample",
        "mi",
        *(f"tc:{b}" for b in above),
        "dw",
        *(f"tc_q:{b}" for b in branches),
        "dw_joint",
        "agg",
    ]


def _summary(values: dict[str, torch.Tensor], keys: list[str], leaves: list[str]) -> dict[str, Any]:
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


def _finite_or_none(numbers: np.ndarray) -> list[float | None]:
    return [float(x) if np.isfinite(x) else None for x in numbers]
