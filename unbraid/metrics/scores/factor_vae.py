"""The FactorVAE metric: the unit with the least variance votes for the fixed factor."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from unbraid.core.errors import choose, expect
from unbraid.metrics.estimation.fixed_factor_sampling import FixedFactorSampler, fixed_factor_sampler
from unbraid.metrics.evaluation.records import Protocol, Score, wilson_interval
from unbraid.metrics.inputs.pruning import PRUNE_REASONS, active_unit_mask


@dataclass(frozen=True)
class FactorVaeProtocol:
    """Settings of one protocol.

    Args:
        fitted: votes that fit the classifier.
        scored: votes that score it; 0 scores the fitted ones.
        rows: rows per vote.
    """

    fitted: int
    scored: int
    rows: int


PROTOCOLS = {
    "paper": FactorVaeProtocol(800, 0, 100),
    "dlib": FactorVaeProtocol(10_000, 5_000, 64),
    "fast": FactorVaeProtocol(4_000, 4_000, 64),
}


def factor_vae(
    codes: Any,
    factors: Any = None,
    *,
    protocol: Protocol = "dlib",
    prune: str | None = None,
    least: float | None = None,
    votes: int | None = None,
    rows: int | None = None,
    seed: int = 0,
    **inputs: Any,
) -> Score:
    """Accuracy of the majority vote that predicts the fixed factor from the unit of least normalised variance.

    a = argmin_u Var(z_u | y_b fixed) / Var(z_u),  V_uk = #{a = u, b = k},  C(u) = argmax_k V_uk
                                                              Kim & Mnih 2018, Sec. 4 and App. B

    Discrete units vote with the Gini variance (Eq. 4). `codes` may be a function from label rows "m k" to codes "m d",
    with `factors` the rows that it accepts; it is called with at most `chunk_size` rows (1,024) at a time.

    Args:
        protocol: 'paper' takes 800 votes of 100 rows, scored on the same votes. 'dlib' fits 10,000 votes of 64 rows and
            scores 5,000 others. 'fast' fits 4,000 and scores 4,000.
        prune: 'kl' leaves out units whose KL to the prior is below `least` nats, 'variance' units with a standard
            deviation below `least`, 'none' only constants. The default is 'kl' when the codes have KLs, else 'variance'
            under 'dlib' and 'none' otherwise.
        least: the threshold of `prune`; by default 0.01 nats for 'kl' and 0.05 for 'variance'.
        votes: the number of votes, instead of the protocol's.
        rows: rows per vote, instead of the protocol's number.

    >>> y = np.stack(np.unravel_index(np.arange(600), (3, 4, 50)), 1)[:, :2]
    >>> factor_vae(y.astype(float), y, protocol="paper").value
    1.0
    """
    plan = override_protocol(choose(protocol, PROTOCOLS, "FactorVAE protocol"), votes, rows)
    source = fixed_factor_sampler(codes, factors, seed, metric_name="factor_vae", **inputs)
    prune = prune or ("kl" if source.table.kl is not None else "variance" if protocol == "dlib" else "none")
    alive, least = active_unit_mask(source.table, prune, least)
    rng = np.random.default_rng([seed, 1])
    k = len(source.table.names)
    settings = {
        "protocol": protocol,
        "prune": prune,
        "least": least,
        "votes_fitted": plan.fitted,
        "votes_scored": plan.scored or "the same",
        "rows_per_vote": plan.rows,
        "live_units": int(alive.sum()),
        "seed": seed,
        **source.notes,
    }
    cite = "Kim & Mnih 2018"
    if not alive.any():
        settings |= source.table.no_units_note(alive, PRUNE_REASONS[prune].format(least))
        return Score("factor_vae", 0.0, {"votes": np.zeros((len(alive), k), int)}, None, settings, cite)
    fitted = count_votes(source, alive, rng, plan.fitted, plan.rows)
    scored = count_votes(source, alive, rng, plan.scored, plan.rows) if plan.scored else fitted
    hits = int(scored[np.arange(len(scored)), fitted.argmax(1)].sum())
    total = int(scored.sum())
    found, bounds = _vote_table(source, fitted, scored), wilson_interval(hits, total)
    settings["interval"] = "Wilson, of the votes scored"
    return Score("factor_vae", hits / total, found, bounds, settings, cite)


def _vote_table(source: FixedFactorSampler, fitted: np.ndarray, scored: np.ndarray) -> dict[str, Any]:
    """Votes "u k" that fitted the classifier, and the accuracy of each factor."""
    best = fitted.argmax(1)
    hits = np.bincount(best, scored[np.arange(len(scored)), best], fitted.shape[1])
    return {
        "votes": fitted,
        "matrix": fitted / np.maximum(fitted.sum(0), 1),
        "units": list(source.table.unit_names),
        "factors": list(source.table.names),
        "accuracy": hits / np.maximum(scored.sum(0), 1),
        "fitted_accuracy": float(fitted.max(1).sum() / fitted.sum()),
    }


def override_protocol(plan: FactorVaeProtocol, votes: int | None, rows: int | None) -> FactorVaeProtocol:
    """A protocol with other numbers of votes or rows.

    Args:
        plan: the protocol.
        votes: votes to fit and to score, or None.
        rows: rows per vote, or None.
    """
    expect(votes is None or votes >= 1, "votes must be at least 1", found=votes)
    expect(rows is None or rows >= 2, "rows must be at least 2, because each vote computes a variance", found=rows)
    if votes is not None:
        plan = replace(plan, fitted=votes, scored=votes if plan.scored else 0)
    return plan if rows is None else replace(plan, rows=rows)


def count_votes(
    source: FixedFactorSampler, alive: np.ndarray, rng: np.random.Generator, count: int, rows: int
) -> np.ndarray:
    """Votes "u k": how often each unit varied least while each factor was fixed.

    Args:
        source: the sampler of rows that share a factor.
        alive: the mask of units that may vote "u".
        rng: the random generator.
        count: the number of votes.
        rows: rows per vote.
    """
    k = rng.integers(len(source.table.names), size=count)
    out = np.zeros((len(alive), len(source.table.names)), dtype=np.int64)
    np.add.at(out, (source.least_varying_unit(rng, k, rows, alive), k), 1)
    return out
