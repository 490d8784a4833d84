"""DCI: each unit matters for one factor."""

from __future__ import annotations

from typing import Any

from unbraid.metrics.estimation.dci_scores import dci_score
from unbraid.metrics.evaluation.records import Score


def dci(codes: Any, factors: Any = None, *, protocol: str = "fast", seed: int = 0, **options: Any) -> Score:
    """Disentanglement: does each unit matter for one factor only? Its table holds completeness and informativeness too.

    P_uk = R_uk / Σ_k R_uk,  D_u = 1 − H_K(P_u·),  D = Σ_u ρ_u D_u,  ρ_u = Σ_k R_uk / Σ R      Eastwood & Williams 2018

    protocol: 'paper' random forest and 'lasso' lasso (ordinal factors as numbers), 'dlib' gradient boosting (all as
    classes), 'fast' histogram boosting, a short fit of 10 rounds at the usual rate of 0.1 (docs/metrics.md: how the two
    agree). Options of the predictor, such as rounds, replace its defaults.

    >>> y = np.stack(np.unravel_index(np.arange(600), (3, 4, 50)), 1)[:, :2]
    >>> round(dci(y.astype(float), y).value, 3)
    1.0
    """
    return dci_score("dci", "disentanglement", codes, factors, protocol, seed, options)
