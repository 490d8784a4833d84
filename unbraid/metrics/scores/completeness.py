"""Completeness, the C of DCI: each factor is captured by one unit."""

from __future__ import annotations

from typing import Any

from unbraid.metrics.estimation.dci_scores import dci_score
from unbraid.metrics.evaluation.records import DciProtocol, Score


def completeness(
    codes: Any, factors: Any = None, *, protocol: DciProtocol = "fast", seed: int = 0, **options: Any
) -> Score:
    """Whether each factor is captured by one unit only.

    C_k = 1 − H_U(R_·k / Σ_u R_uk),  C = Σ_k ρ_k C_k,  ρ_k = Σ_u R_uk / Σ R        Eastwood & Williams 2018, Sec. 2

    Options of the predictor, such as rounds, replace its defaults.

    Args:
        protocol: the predictor behind the importances R, as in `dci`.

    >>> y = np.stack(np.unravel_index(np.arange(600), (3, 4, 50)), 1)[:, :2]
    >>> round(completeness(y.astype(float), y).value, 3)
    1.0
    """
    return dci_score("completeness", "completeness", codes, factors, protocol, seed, options)
