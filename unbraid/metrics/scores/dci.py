"""DCI disentanglement: each unit is important for one factor."""

from __future__ import annotations

from typing import Any

from unbraid.metrics.estimation.dci_scores import dci_score
from unbraid.metrics.evaluation.records import DciProtocol, Score


def dci(codes: Any, factors: Any = None, *, protocol: DciProtocol = "fast", seed: int = 0, **options: Any) -> Score:
    """Whether each unit is important for one factor only; `table` also holds completeness and informativeness.

    P_uk = R_uk / Σ_k R_uk,  D_u = 1 − H_K(P_u·),  D = Σ_u ρ_u D_u,  ρ_u = Σ_k R_uk / Σ R      Eastwood & Williams 2018

    Options of the predictor, such as rounds, replace its defaults.

    Args:
        protocol: 'paper' uses a random forest and 'lasso' a lasso, with ordinal factors as numbers. 'dlib' uses
            gradient boosting, with all factors as classes. 'fast' uses histogram boosting, 10 rounds at a rate of 0.1
            (docs/metrics.md compares it with 'dlib').

    >>> y = np.stack(np.unravel_index(np.arange(600), (3, 4, 50)), 1)[:, :2]
    >>> round(dci(y.astype(float), y).value, 3)
    1.0
    """
    return dci_score("dci", "disentanglement", codes, factors, protocol, seed, options)
