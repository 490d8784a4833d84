"""Terms by key: one record each. To add one: a function, and a line in the `TERMS` of its file. All lists follow from these."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from unbraid.core.shapes import Tensor
from unbraid.model.draw import Draw
from unbraid.model.pairwise import log_mixture
from unbraid.terms import critics, decomposition, divergence, label_terms, log_evidence, moments, supervised
from unbraid.terms.critics import Critic, PriorRatio, PriorSpec, Ratio, RatioSpec
from unbraid.terms.estimators import ESTIMATORS, exact
from unbraid.terms.memory_bank import Bank, BankSpec
from unbraid.terms.moments import Moments, MomentsSpec
from unbraid.terms.term import CriticRef, Term, plain_key, split_key

TERMS: dict[str, Term] = {
    **decomposition.TERMS,
    **divergence.TERMS,
    **critics.TERMS,
    **moments.TERMS,
    **log_evidence.TERMS,
    **supervised.TERMS,
    **label_terms.TERMS,
}


def value_of(draw: Draw, key: str) -> Tensor:
    """The value of a term for a draw, in nats per example; terms with a critic are computed by the critic.

    Args:
        draw: the batch with its posteriors and samples.
        key: the key of the term, `term[:node][@how]`.

    >>> import torch
    >>> from unbraid.latent import Latent
    >>> from unbraid.model import LIKELIHOODS, NETS, Vae
    >>> from unbraid.priors import build
    >>> tree, x = Latent.of(2), torch.rand(4, 1, 8, 8)
    >>> model = Vae(tree, *NETS["mlp"]((1, 8, 8), tree, 4, 1), build({"name": "gaussian"}, tree), LIKELIHOODS["bernoulli"]())
    >>> value_of(model.draw(x), "kl").shape    # one number for each image
    torch.Size([4])
    """
    return TERMS[plain_key(key)](draw, split_key(key)[1])


def needing(need: str) -> tuple[str, ...]:
    """The terms that need something of q or p.

    Args:
        need: what is needed, such as 'q(z)' or 'log p'.

    >>> needing("masses")
    ('kl@categorical',)
    """
    return tuple(key for key, term in TERMS.items() if need in term.needs)


def divergences() -> dict[str, str]:
    """Ways to compare q(z) with p(z), by name: 'exclusive_kl' is the KL of the decomposition itself.

    >>> divergences()["exclusive_kl"], "mmd" in divergences()
    ('agg', True)
    """
    return {split_key(key)[2] or "exclusive_kl": key for key in TERMS if split_key(key)[0] == "agg"}


def critic_specs(keys: Iterable[str], options: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The specs of the critics of these terms, each once, from the options of a row.

    Args:
        keys: the keys of the terms.
        options: the options of the row.

    >>> list(critic_specs(["kl", "moments_od@mean", "moments_d@mean", "agg@ratio"]))
    ['moments_mean', 'prior_ratio']
    """
    found = [TERMS[key].critic for key in keys if key in TERMS]
    return {behind.name: behind.make(options or {}) for behind in found if behind is not None}


__all__ = [
    "ESTIMATORS",
    "TERMS",
    "Bank",
    "BankSpec",
    "Critic",
    "CriticRef",
    "Moments",
    "MomentsSpec",
    "PriorRatio",
    "PriorSpec",
    "Ratio",
    "RatioSpec",
    "Term",
    "critic_specs",
    "divergences",
    "exact",
    "log_mixture",
    "needing",
    "plain_key",
    "split_key",
    "value_of",
]
