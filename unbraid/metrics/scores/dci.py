"""The three scores of DCI: disentanglement, completeness and informativeness."""

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


def informativeness(
    codes: Any, factors: Any = None, *, protocol: DciProtocol = "fast", seed: int = 0, **options: Any
) -> Score:
    """How well factors are predicted on held-out rows: accuracy for classes, 1 − NRMSE (at least 0) for numbers.

    `settings['informativeness_is']` names the measure. The paper reports the error, which is `table['error']`.
    Eastwood & Williams 2018, Sec. 2. Options of the predictor, such as rounds, replace its defaults.

    Args:
        protocol: the predictor, as in `dci`.

    >>> y = np.stack(np.unravel_index(np.arange(600), (3, 4, 50)), 1)[:, :2]
    >>> informativeness(y.astype(float), y).value
    1.0
    """
    return dci_score("informativeness", "informativeness", codes, factors, protocol, seed, options)
