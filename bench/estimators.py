"""Bias of each estimator of q(z) at B = 64, with and without a memory bank. `python -m bench.estimators`

A static toy (4096 data, 6 columns, means ~ N(0, I), σ = .135), a VAE during training (its earlier posteriors are outdated),
and β-TCVAE trained with each estimator and audited with the exact one.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import torch

from unbraid.latent import Latent
from unbraid.model import Diagonal, Posterior
from unbraid.model.draw import Draw
from unbraid.runs.building.builders import build_parts
from unbraid.runs.evaluation.auditing import audit
from unbraid.runs.evaluation.encoding import posteriors
from unbraid.runs.fitting.trainer import build_trainer, step
from unbraid.runs.fitting.training import fit
from unbraid.runs.recipe import Recipe
from unbraid.terms import ESTIMATORS, Bank, BankSpec, exact, log_mixture

BATCH = 64
NAMES = ("naive", "mws", "mss", "stratified")
MeanEstimates = dict[str, dict[str, float]]


def make_draw(q: Posterior, z: torch.Tensor, n: int) -> Draw:
    """A draw without model and images, which estimators of q(z) do not read.

    Args:
        q: the posteriors.
        z: their samples.
        n: the size of the data set.
    """
    return Draw(None, torch.zeros(len(q), 1, 1, 1), q, z, n)  # type: ignore[arg-type]


def estimate_terms(q: Posterior, z: torch.Tensor, n: int, estimator: Any) -> dict[str, float]:
    """Mean log q(z), mi and tc by one estimator.

    Args:
        q: the posteriors.
        z: their samples.
        n: the size of the data set.
        estimator: the estimator.
    """
    draw = make_draw(q, z, n)
    with torch.no_grad():
        log_q = log_mixture(z, *estimator(draw, n)).double()
        own = q.log_prob(z).double()
    leaves = log_q[:, list(q.tree.leaf_nodes)].sum(1)
    return {
        "log q(z)": float(log_q[:, 0].mean()),
        "mi": float((own[:, 0] - log_q[:, 0]).mean()),
        "tc": float((log_q[:, 0] - leaves).mean()),
    }


def estimate_static(
    n: int = 4096, d: int = 6, sigma: float = 0.135, banks: tuple[int, ...] = (512, 1024, 4032)
) -> MeanEstimates:
    """Mean estimates over one epoch of a fixed encoder; banks fill during the epoch.

    Args:
        n: the number of data.
        d: columns.
        sigma: deviation of every posterior.
        banks: sizes of memory banks.
    """
    torch.manual_seed(0)
    tree = Latent.of(d)
    everything = Diagonal(tree, torch.randn(n, d), torch.full((n, d), sigma).log())
    estimators = {name: ESTIMATORS[name] for name in NAMES} | {"exact": exact(everything)}
    kept = {f"memory_bank({k})": Bank(tree, BankSpec(k)) for k in banks}
    found: dict[str, list[dict[str, float]]] = {}
    for rows in torch.randperm(n).split(BATCH):
        q = everything.select_rows(rows)
        z = q.rsample()
        for name, estimator in estimators.items():
            found.setdefault(name, []).append(estimate_terms(q, z, n, estimator))
        for name, bank in kept.items():
            found.setdefault(name, []).append(estimate_terms(q, z, n, bank.mixture))
            bank.mixture(make_draw(q, z, n), n)
    return {name: {key: sum(m[key] for m in many) / len(many) for key in many[0]} for name, many in found.items()}


def estimate_in_training(steps: int = 800, every: int = 100, banks: tuple[int, ...] = (512, 1024)) -> MeanEstimates:
    """Mean estimates while a VAE trains on sprites32; posteriors in the bank are outdated.

    Args:
        steps: the number of steps.
        every: the interval, and the first step, of the estimates.
        banks: sizes of memory banks.
    """
    recipe = Recipe(data="sprites32", latent=6, nets="mlp", budget={"batch": BATCH, "lr": 1e-3, "steps": steps})
    trainer = build_trainer(build_parts(recipe))
    model, data = trainer.parts.model, trainer.parts.dataset
    kept = {f"memory_bank({k})": Bank(model.tree, BankSpec(k)) for k in banks}
    found: dict[str, list[dict[str, float]]] = {}
    for number in range(steps):
        with torch.no_grad():
            draw = model.draw(trainer.batches(number), len(data))
        if number and number % every == 0:
            everything = posteriors(model, data, quiet=True)
            for name, estimator in {
                **{n: ESTIMATORS[n] for n in NAMES},
                "exact": exact(everything),
                **{n: b.mixture for n, b in kept.items()},
            }.items():
                found.setdefault(name, []).append(estimate_terms(draw.q, draw.z, len(data), estimator))
        for bank in kept.values():
            bank.mixture(draw, len(data))
        step(trainer, number)
    return {name: {key: sum(m[key] for m in many) / len(many) for key in many[0]} for name, many in found.items()}


def train_and_audit(steps: int = 1000, seeds: tuple[int, ...] = (0, 1)) -> MeanEstimates:
    """β-TCVAE (β = 6) on sprites32 with each estimator, then every term by the exact one.

    Args:
        steps: the number of steps.
        seeds: the seeds.
    """
    results = {}
    for estimator in ("mss", "stratified", "memory_bank(1024)"):
        many = []
        for seed in seeds:
            objective = {"name": "beta_tcvae", "estimator": estimator}
            recipe = Recipe(
                data="sprites32",
                latent=6,
                nets="mlp",
                objective=objective,
                seed=seed,
                budget={"batch": BATCH, "steps": steps, "lr": 1e-3, "threads": 1},
            )
            with tempfile.TemporaryDirectory() as folder:
                run = fit(recipe, Path(folder) / "run", quiet=True)
                terms = audit(run, quiet=True)["nats"]
                terms["whole loss"] = terms["reconstruction"] + terms["mi"] + 6 * terms["tc_q:root"] + terms["dw_joint"]
                many.append({key: float(v) for key, v in terms.items()})
        results[estimator] = {key: sum(m[key] for m in many) / len(many) for key in many[0]}
    return results


def rows() -> list[dict[str, Any]]:
    """Bias of the memory bank and of the stratified estimator, on the static toy and during training."""
    table = []
    for name, found in (("still", estimate_static()), ("moving", estimate_in_training())):
        for key in ("mi", "tc"):
            bias = {e: found[e][key] - found["exact"][key] for e in found}
            ours, baseline = abs(bias["memory_bank(1024)"]), abs(bias["stratified"])
            table.append(
                {
                    "name": f"bias of {key}, {name} encoder",
                    "ours": ours,
                    "baseline": baseline,
                    "ratio": ours / baseline,
                    "limit": 1.0,
                    "note": "bank of 1024 and stratified, B = 64, nats",
                }
            )
    return table


def main() -> None:
    """Print the tables of docs/estimators.md."""
    for title, found in (("a still encoder", estimate_static()), ("a VAE in training", estimate_in_training())):
        print(f"\n{title}: estimate (bias), nats")
        for name, terms in found.items():
            cells = (f"{key:>10s} {v:8.2f} ({v - found['exact'][key]:+6.2f})" for key, v in terms.items())
            print(f"{name:20s}" + "".join(cells))
    print("\nβ-TCVAE trained with each estimator, audited with the exact one")
    for name, terms in train_and_audit().items():
        print(f"{name:20s}" + "".join(f"{key:>16s} {v:8.2f}" for key, v in terms.items()))


if __name__ == "__main__":
    main()
