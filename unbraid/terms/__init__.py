"""Terms by key: functions of a draw (and of a node, for keys `term:node`), in nats per example."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from unbraid.model.pairwise import log_mixture
from unbraid.terms import decomposition, divergence
from unbraid.terms.bank import Bank, BankSpec
from unbraid.terms.critics import Critic, PriorRatio, PriorSpec, Ratio, RatioSpec
from unbraid.terms.estimators import ESTIMATORS, exact
from unbraid.terms.moments import Moments, MomentsSpec

TERMS: dict[str, Callable[..., Any]] = {
    "reconstruction": decomposition.reconstruction,
    "kl": decomposition.kl,
    "kl@sample": decomposition.kl_sampled,
    "kl@categorical": decomposition.kl_categorical,
    "entropy": decomposition.entropy,
    "mi": decomposition.mi,
    "agg": decomposition.agg,
    "agg@mmd": divergence.mmd,
    "agg@mmd_rbf": divergence.mmd_rbf,
    "agg@inclusive_kl": divergence.inclusive_kl,
    "tc": decomposition.tc,
    "tc_q": decomposition.tc_q,
    "dw": decomposition.dw,
    "dw_joint": decomposition.dw_joint,
    "support": divergence.support,
}

# Terms with a memory: a name for the critic, and what makes it from the critic's options and the moments' rho.
CRITICS: dict[str, tuple[str, Callable[[RatioSpec, float], Any]]] = {
    "tc_q@ratio": ("ratio", lambda critic, rho: critic),
    "agg@ratio": ("prior_ratio", lambda critic, rho: PriorSpec("ratio", critic)),
    "agg@adversary": ("adversary", lambda critic, rho: PriorSpec("adversary", critic)),
    "moments_od@mean": ("moments_mean", lambda critic, rho: MomentsSpec("mean", rho)),
    "moments_d@mean": ("moments_mean", lambda critic, rho: MomentsSpec("mean", rho)),
    "moments_od@code": ("moments_code", lambda critic, rho: MomentsSpec("code", rho)),
    "moments_d@code": ("moments_code", lambda critic, rho: MomentsSpec("code", rho)),
}

PAIRWISE = ("mi", "agg", "tc", "tc_q", "dw", "dw_joint")
MOVES_PRIOR = ("kl", "kl@sample", "kl@categorical", "agg", "tc", "dw", "dw_joint")  # they train a learned prior


def critics(keys: Iterable[str], critic: RatioSpec = RatioSpec(), rho: float = 1.0) -> dict[str, Any]:  # noqa: B008
    """The specs of the critics behind some keys, each once.

    >>> list(critics(["kl", "moments_od@mean", "moments_d@mean", "agg@ratio"]))
    ['moments_mean', 'prior_ratio']
    """
    return {CRITICS[key][0]: CRITICS[key][1](critic, rho) for key in keys if key in CRITICS}


__all__ = [
    "CRITICS",
    "ESTIMATORS",
    "MOVES_PRIOR",
    "PAIRWISE",
    "TERMS",
    "Bank",
    "BankSpec",
    "Critic",
    "Moments",
    "MomentsSpec",
    "PriorRatio",
    "PriorSpec",
    "Ratio",
    "RatioSpec",
    "critics",
    "exact",
    "log_mixture",
]
