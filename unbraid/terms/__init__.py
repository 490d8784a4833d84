"""Terms by key: one record each. To add one: a function and a line in `TERMS`; every other list is worked out from it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from unbraid.ground.shapes import Tensor
from unbraid.model.draw import Draw
from unbraid.model.pairwise import log_mixture
from unbraid.terms import decomposition, divergence
from unbraid.terms.bank import Bank, BankSpec
from unbraid.terms.critics import Critic, PriorRatio, PriorSpec, Ratio, RatioSpec, prior_spec, ratio_spec
from unbraid.terms.estimators import ESTIMATORS, exact
from unbraid.terms.evidence import evidence_spec
from unbraid.terms.moments import Moments, MomentsSpec, moments_spec
from unbraid.terms.term import Behind, Term, plain_key, split_key

Q, P = "q(z)", "log p"
# fmt: off
TERMS: dict[str, Term] = {
    "reconstruction": Term(decomposition.reconstruction, short="rec"),
    "kl": Term(decomposition.kl, leaves=decomposition.kl_leaves, needs=(P,), estimates_kl=True),
    "kl@sample": Term(decomposition.kl_sampled, needs=(P,), estimates_kl=True),
    "kl@categorical": Term(decomposition.kl_categorical, needs=(P, "masses"), estimates_kl=True),
    "entropy": Term(decomposition.entropy, needs=("real",)),
    "mi": Term(decomposition.mi, "kl", per="node", needs=(Q,), estimates_kl=True),
    "agg": Term(decomposition.agg, "kl", needs=(Q, P), estimates_kl=True),
    "agg@mmd": Term(divergence.mmd, "kl"),
    "agg@mmd_rbf": Term(divergence.mmd_rbf, "kl"),
    "agg@inclusive_kl": Term(divergence.inclusive_kl, "kl"),
    "agg@ratio": Term(None, "kl", estimates_kl=True, critic=Behind("prior_ratio", prior_spec("ratio"))),
    "agg@adversary": Term(None, "kl", critic=Behind("adversary", prior_spec("adversary"))),
    "tc": Term(decomposition.tc, "agg", per="branch", needs=(Q, P), estimates_kl=True),
    "tc_q": Term(decomposition.tc_q, "agg", per="branch", needs=(Q,), estimates_kl=True, twin="tc"),
    "tc_q@ratio": Term(None, "agg", estimates_kl=True, twin="tc", critic=Behind("ratio", ratio_spec), short="tc"),
    "dw": Term(decomposition.dw, "agg", needs=(Q, P), estimates_kl=True),
    "dw_joint": Term(decomposition.dw_joint, "agg", needs=(Q, P), estimates_kl=True, twin="dw"),
    "moments_od@mean": Term(critic=Behind("moments_mean", moments_spec("mean"))),
    "moments_d@mean": Term(critic=Behind("moments_mean", moments_spec("mean"))),
    "moments_od@code": Term(critic=Behind("moments_code", moments_spec("code"))),
    "moments_d@code": Term(critic=Behind("moments_code", moments_spec("code"))),
    "support": Term(divergence.support),
    "evidence@iwae": Term(needs=(P,), critic=Behind("evidence", evidence_spec)),
}
# fmt: on


def value_of(draw: Draw, key: str) -> Tensor:
    """A term of a draw by its key, in nats per example; terms with a critic come from that."""
    return TERMS[plain_key(key)](draw, split_key(key)[1])


def needing(need: str) -> tuple[str, ...]:
    """The terms that need something of q or p.

    >>> needing("masses")
    ('kl@categorical',)
    """
    return tuple(key for key, term in TERMS.items() if need in term.needs)


def divergences() -> dict[str, str]:
    """Ways to compare q(z) with p(z), by name: 'exclusive_kl' is the KL of the decomposition itself."""
    return {split_key(key)[2] or "exclusive_kl": key for key in TERMS if split_key(key)[0] == "agg"}


def critics(keys: Iterable[str], given: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The specs of the critics behind some keys, each once, made of a row's own options.

    >>> list(critics(["kl", "moments_od@mean", "moments_d@mean", "agg@ratio"]))
    ['moments_mean', 'prior_ratio']
    """
    found = [TERMS[key].critic for key in keys if key in TERMS]
    return {behind.name: behind.make(given or {}) for behind in found if behind is not None}


__all__ = [
    "ESTIMATORS",
    "TERMS",
    "Bank",
    "BankSpec",
    "Behind",
    "Critic",
    "Moments",
    "MomentsSpec",
    "PriorRatio",
    "PriorSpec",
    "Ratio",
    "RatioSpec",
    "Term",
    "critics",
    "divergences",
    "exact",
    "log_mixture",
    "needing",
    "plain_key",
    "split_key",
    "value_of",
]
