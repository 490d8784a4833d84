"""Two combinations that no paper tested: a subspace prior with prices on its tree, and a memory bank instead of a large batch."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from unbraid.studies.framework import study_plots
from unbraid.studies.framework.effects import Effect, paired_difference, within_margin
from unbraid.studies.framework.results import Results
from unbraid.studies.framework.shared_settings import COLOUR_SPRITES, kim_settings
from unbraid.studies.framework.study import Arm, Claim, Study

if TYPE_CHECKING:
    from unbraid.runs.run import Run

GROUPS = {"a": 2, "b": 2, "c": 1}  # five columns, as in the tournament
ISA = {"prior": {"name": "isa", "p0": 2.1, "exponents": 2.2}}
PRICE_BETWEEN, PRICE_WITHIN = 6.0, 3.0  # the demo's price of TC between groups, and half of it within
TREE_ARMS = ("plain", "isa", "tree", "isa_tree")
BANK_ARMS = ("small", "bank", "large")
BATCHES = {"tiny": (32, 128), "cpu": (64, 2048), "paper": (64, 2048)}
STEPS = {"tiny": 20, "cpu": 800, "paper": 300_000}  # of the bank arms: one large batch costs as much as 32 small ones
FEW_SEEDS = 4  # seeds of the arm that costs as much as all others combined
OWN_QUESTION = "our question"


def arms(scale: str) -> list[Arm]:
    """Prior × prices on one tree; then one row with a small batch, with a memory bank and with a large batch, at equal steps.

    Args:
        scale: 'tiny', 'cpu' or 'paper'.
    """
    base = kim_settings() if scale == "paper" else COLOUR_SPRITES[scale]
    groups = {f"g{i}": 2 for i in range(5)} if scale == "paper" else GROUPS
    prices = {"mi": 1.0, "tc_q:root": PRICE_BETWEEN, "tc_q": PRICE_WITHIN, "dw_joint": 1.0}
    tree = {"name": "row", "prices": prices, "estimator": "mss"}
    rows: dict[str, dict[str, Any]] = {
        "plain": {"objective": {"name": "vae"}},
        "isa": {"objective": {"name": "isa_vae", "beta": 1.0}, **ISA},
        "tree": {"objective": tree},
        "isa_tree": {"objective": tree, **ISA},
    }
    made = [Arm(label, {**base, "latent": groups, **own}, "tree") for label, own in rows.items()]
    return made + [_bank_arm(label, scale, base) for label in BANK_ARMS]


def _bank_arm(label: str, scale: str, base: dict[str, Any]) -> Arm:
    """β-TCVAE (β = 6) at one batch size; all such arms train for the same number of steps."""
    small, large = BATCHES[scale]
    batch, steps = large if label == "large" else small, STEPS[scale]
    estimator = f"memory_bank({large - small})" if label == "bank" else "stratified"
    rate = base["budget"]["lr"]
    rate = {**rate, "steps": steps} if isinstance(rate, dict) else rate
    budget = {**base["budget"], "batch": batch, "steps": steps, "lr": rate, "log_every": max(1, steps // 40)}
    objective = {"name": "beta_tcvae", "beta": PRICE_BETWEEN, "estimator": estimator}
    latent = 10 if scale == "paper" else 5
    few = FEW_SEEDS if label == "large" and scale == "cpu" else 0
    return Arm(label, {**base, "latent": latent, "objective": objective, "budget": budget}, "bank", batch, few)


def measure(run: Run) -> dict[str, float]:
    """Three metrics, the exact total correlation over all leaves and between groups, and its estimate in the ledger.

    Args:
        run: the run.
    """
    from unbraid import metrics
    from unbraid.runs.evaluation.auditing import audit
    from unbraid.runs.evaluation.encoding import encode

    codes = encode(run, max_images=20_000, quiet=True)
    nats = audit(run, quiet=True)["nats"]
    found = {
        "mig": metrics.mig(codes).value,
        "dci": metrics.dci(codes).value,
        "factor_vae": metrics.factor_vae(codes, protocol="paper").value,
        "reconstruction": nats["reconstruction"],
        "tc": _total_correlation(nats),
        "tc_between": nats["tc_q:root"],
    }
    told = [
        _total_correlation(row["nats"])
        for row in run.ledger()[-10:]
        if any(key.startswith("tc_q") for key in row["nats"])
    ]
    if told:
        found["tc_told"] = float(np.mean(told))
        found["tc_error"] = abs(found["tc_told"] - found["tc"])
    return {name: float(value) for name, value in found.items()}


def _total_correlation(nats: dict[str, float]) -> float:
    """Total correlation over all leaves: Σ of tc_q over the branches."""
    return sum(value for key, value in nats.items() if key.startswith("tc_q"))


def gain_over_both(quantity: str, combination: str, first: str, second: str) -> Effect:
    """Quantity of a combination minus the better of its two parts, at the same seed.

    Args:
        quantity: name of the measured number.
        combination: label of the combined arm.
        first: label of the first part.
        second: label of the second part.
    """

    def effect(results: Results, seed: int) -> float | None:
        found = [results.value(arm, seed, quantity) for arm in (combination, first, second)]
        known = [value for value in found if value is not None]
        return known[0] - max(known[1:]) if len(known) == 3 else None

    return effect


def figures(results: Results, runs: Path, out: Path) -> Sequence[str]:
    """Plot MIG and the exact total correlation of both parts, one dot per seed.

    Args:
        results: the results.
        runs: folder of the runs.
        out: folder for the figures.
    """
    drawn, axes = study_plots.create_figure(4, 3.1)
    for each, (chosen, quantity) in zip(
        axes, ((a, q) for a in (TREE_ARMS, BANK_ARMS) for q in ("mig", "tc")), strict=True
    ):
        study_plots.plot_boxes(each, results, [arm for arm in chosen if arm in results.arms], quantity)
        each.set_ylabel({"mig": "MIG", "tc": "TC by the exact q(z), nats"}[quantity])
    axes[0].set_title("prior and prices on one tree", fontsize=10, loc="left")
    axes[2].set_title("batch and memory bank", fontsize=10, loc="left")
    drawn.savefig(out / "combinations.png", dpi=110)
    return ["combinations.png"]


def _claim(
    name: str,
    text: str,
    effect: Effect,
    min_effect: float = 0.05,
    unit: str = "MIG",
    headline: bool = True,
    max_seeds: int = 0,
) -> Claim:
    return Claim(
        name, text, OWN_QUESTION, effect, min_effect=min_effect, unit=unit, headline=headline, max_seeds=max_seeds
    )


STUDY = Study(
    about="ISA prior with prices on its own tree; a memory bank against a large batch",
    cite="unbraid",
    cost={"tiny": "10 s", "cpu": "90 min", "paper": "8 runs × 12 h–2 weeks a seed"},
    claims=(
        _claim("both", "the ISA prior with prices on its tree scores above either alone",
               gain_over_both("mig", "isa_tree", "isa", "tree")),
        _claim("prior_helps", "under the prices the ISA prior raises MIG", paired_difference("mig", "isa_tree", "tree")),
        _claim("prices_help", "under the ISA prior the prices raise MIG", paired_difference("mig", "isa_tree", "isa")),
        _claim("prices_lower_tc", "and lower the exact total correlation",
               paired_difference("tc", "isa_tree", "isa", -1), unit="nats", headline=False),
        _claim("bank_raises", "at B = 64 a bank of 1,984 posteriors raises MIG", paired_difference("mig", "bank", "small")),
        _claim("bank_lowers_tc", "and lowers the exact total correlation", paired_difference("tc", "bank", "small", -1),
               unit="nats"),
        _claim("bank_estimates", "and its estimate of the total correlation is closer to the exact one",
               paired_difference("tc_error", "bank", "small", -1), unit="nats", headline=False),
        _claim("near_large", "the bank at B = 64 comes within .05 of B = 2,048 at equal steps",
               within_margin("mig", "bank", "large", 0.05), min_effect=0.01, max_seeds=FEW_SEEDS),
        _claim("large_raises", "B = 2,048 is above B = 64 at equal steps, so that there is something to come near to",
               paired_difference("mig", "large", "small"), max_seeds=FEW_SEEDS),
    ),
    arms=arms,
    seeds={"tiny": (0,), "cpu": tuple(range(20, 30)), "paper": tuple(range(10))},
    measure=measure,
    figures=figures,
    deviations="Prices are the demo's (6) between groups and half inside; the part on banks has 800 steps: a batch of 2,048 "
    "costs 32 small ones, so that arm has four seeds where the others have ten.",
)  # fmt: skip
