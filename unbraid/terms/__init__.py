"""Terms by key: functions of a draw (and of a node, for keys `term:node`), in nats per example."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from unbraid.terms import decomposition
from unbraid.terms.critics import Critic, Ratio, RatioSpec
from unbraid.terms.estimators import ESTIMATORS, exact
from unbraid.terms.moments import Moments, MomentsSpec
from unbraid.terms.pairwise import log_mixture

TERMS: dict[str, Callable[..., Any]] = {
    "reconstruction": decomposition.reconstruction,
    "kl": decomposition.kl,
    "kl@sample": decomposition.kl_sampled,
    "entropy": decomposition.entropy,
    "mi": decomposition.mi,
    "agg": decomposition.agg,
    "tc": decomposition.tc,
    "tc_q": decomposition.tc_q,
    "dw": decomposition.dw,
    "dw_joint": decomposition.dw_joint,
}

CRITICS: dict[str, type] = {"tc_q@ratio": RatioSpec, "moments_od@mean": MomentsSpec, "moments_d@mean": MomentsSpec,
                            "moments_od@code": MomentsSpec, "moments_d@code": MomentsSpec}

PAIRWISE = ("mi", "agg", "tc", "tc_q", "dw", "dw_joint")

__all__ = ["CRITICS", "ESTIMATORS", "PAIRWISE", "TERMS", "Critic", "Moments", "MomentsSpec", "Ratio", "RatioSpec", "exact", "log_mixture"]
