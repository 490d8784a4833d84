"""Scores that are gaps between mutual informations: MIG, MIG-sup, JEMMIG, DCIMIG."""

from __future__ import annotations

from typing import Any

import numpy as np

from unbraid.ground.errors import choose
from unbraid.metrics.information import factor_entropies, informative, mutual, sampled, unit_entropies
from unbraid.metrics.inputs import Table, as_table
from unbraid.metrics.score import Score

ACTIVE = 0.01  # variance of the means above which a unit is in use, as in Li et al.'s code
SILENT = {"variance": f"the variance of their means is below {ACTIVE}", "chance": "they say no more than chance"}
ESTIMATORS = {"dlib": "histogram", "fast": "histogram", "paper": "posterior", "knn": "knn"}


def mig(
    codes: Any,
    factors: Any = None,
    *,
    protocol: str = "dlib",
    bins: int = 20,
    binning: str = "width",
    seed: int = 0,
    **inputs: Any,
) -> Score:
    """Mutual information gap: how much more the best unit knows of a factor than the second best.

    MIG = 1/K Σ_k (I(z_1st; y_k) − I(z_2nd; y_k)) / H(y_k)        Chen et al. 2018, Eq. 6

    protocol: 'dlib' and 'fast' count 20 bins of the means; 'paper' averages over posterior samples (falls back to bins
    without posterior scales, and says so); 'knn' is Ross's estimate without bins.

    >>> y = np.stack(np.unravel_index(np.arange(600), (3, 4, 50)), 1)[:, :2]
    >>> round(mig(y.astype(float), y).value, 6)
    1.0
    """
    table = as_table(codes, factors, asked="mig", seed=seed, **inputs)
    estimator = choose(protocol, ESTIMATORS, "MIG protocol")
    if estimator == "posterior" and table.scale is None:
        estimator = "histogram"
    i, h = mutual(table, estimator, bins, binning, seed), factor_entropies(table)
    first, second = top_two(i)
    gaps = (first - second) / h
    settings = {
        "protocol": protocol,
        "estimator": estimator,
        "bins": bins,
        "binning": binning,
        "seed": seed,
        **table.notes,
        **sampled(table, estimator),
    }
    return Score(
        "mig",
        float(np.clip(gaps.mean(), 0, 1)),
        tables(table, i, gaps=gaps, entropies=h),
        None,
        settings,
        "Chen et al. 2018, Isolating Sources of Disentanglement in VAEs",
    )


def mig_sup(
    codes: Any,
    factors: Any = None,
    *,
    protocol: str = "fast",
    bins: int = 20,
    binning: str = "width",
    seed: int = 0,
    **inputs: Any,
) -> Score:
    """MIG seen from the codes: how much more a unit knows of its best factor than of its second best.

    MIG-sup = 1/D Σ_u (Ĩ(z_u; y_1st) − Ĩ(z_u; y_2nd)),  Ĩ = I / H(y),  over the D units in use        Li et al. 2020

    protocol: 'paper' as the authors' code: posterior samples (bins without scales, and it says so), units in use have
    Var E[z_u|x] > 0.01. 'fast' counts bins, and leaves out units that say no more of any factor than chance would:
    being unused is no entanglement.

    >>> y = np.stack(np.unravel_index(np.arange(600), (3, 4, 50)), 1)[:, :2]
    >>> round(mig_sup(y.astype(float), y).value, 6)
    1.0
    """
    table = as_table(codes, factors, asked="mig_sup", seed=seed, **inputs)
    choose(protocol, {"paper": 0, "fast": 0}, "MIG-sup protocol")
    estimator = "posterior" if protocol == "paper" and table.scale is not None else "histogram"
    raw = mutual(table, estimator, bins, binning, seed)
    i = raw / factor_entropies(table)
    if protocol == "paper":
        used, why = np.array([(table.deviations[list(u.columns)] ** 2).max() > ACTIVE for u in table.units]), "variance"
    else:
        used, why = informative(table, raw, bins, binning, seed), "chance"
    first, second = top_two(i.T)
    gaps = np.where(used, first - second, 0.0)
    value = float(gaps[used].mean()) if used.any() else 0.0
    settings = {
        "protocol": protocol,
        "estimator": estimator,
        "bins": bins,
        "binning": binning,
        "units_by": why,
        "used_units": int(used.sum()),
        **table.silence(used, SILENT[why]),
        **table.notes,
        **sampled(table, estimator),
    }
    return Score(
        "mig_sup",
        value,
        tables(table, i, gaps=gaps),
        None,
        settings,
        "Li et al. 2020, Progressive Learning and Disentanglement of Hierarchical Representations",
    )


def jemmig(
    codes: Any, factors: Any = None, *, bins: int = 20, binning: str = "width", seed: int = 0, **inputs: Any
) -> Score:
    """Joint-entropy-minus-MIG, turned so that 1 is best: the best unit must know the factor and nothing else.

    JEMMIG_k = H(z_1st, y_k) − I(z_1st; y_k) + I(z_2nd; y_k);  value = 1 − mean_k JEMMIG_k / (H(y_k) + log bins)
                                                              Do & Tran 2020

    The authors report JEMMIG_k / (H(y_k) + log bins), less is better; 1 − it is Carbonneau et al.'s (2022) form. They
    spread each q(z|x) over 100 bins of [−4, 4]; here the means are counted in bins of their range.

    >>> y = np.stack(np.unravel_index(np.arange(600), (3, 4, 50)), 1)[:, :2]
    >>> round(jemmig(y.astype(float), y).value, 6)
    1.0
    """
    table = as_table(codes, factors, asked="jemmig", seed=seed, **inputs)
    i, h = mutual(table, "histogram", bins, binning, seed), factor_entropies(table)
    best, (first, second) = i.argmax(0), top_two(i)
    h_z = unit_entropies(table, bins, binning, seed)
    raw = (h_z[best] + h - first) - first + second
    values = 1 - raw / (h + np.log(bins))
    settings = {"bins": bins, "binning": binning, "normalised_by": "H(y) + log bins", **table.notes}
    return Score(
        "jemmig",
        float(np.clip(values.mean(), 0, 1)),
        tables(table, i, nats=raw, factors_scores=values),
        None,
        settings,
        "Do & Tran 2020, Theory and Evaluation Metrics for Learning Disentangled Representations",
    )


def dcimig(
    codes: Any, factors: Any = None, *, bins: int = 20, binning: str = "width", seed: int = 0, **inputs: Any
) -> Score:
    """A unit earns its gap between factors, and each factor keeps its best earner.

    g_u = I(z_u; y_1st) − I(z_u; y_2nd);  S_k = max over units whose best factor is k of g_u;  value = Σ S_k / Σ H(y_k)
                              Sepliarskaia, Kiseleva & de Rijke 2019 (3CharM), as in Carbonneau et al. 2022's code

    >>> y = np.stack(np.unravel_index(np.arange(600), (3, 4, 50)), 1)[:, :2]
    >>> round(dcimig(y.astype(float), y).value, 6)
    1.0
    """
    table = as_table(codes, factors, asked="dcimig", seed=seed, **inputs)
    i, h = mutual(table, "histogram", bins, binning, seed), factor_entropies(table)
    first, second = top_two(i.T)
    owner, earned = i.argmax(1), np.zeros(len(h))
    np.maximum.at(earned, owner, first - second)
    settings = {"bins": bins, "binning": binning, **table.notes}
    return Score(
        "dcimig",
        float(np.clip(earned.sum() / h.sum(), 0, 1)),
        tables(table, i, earned=earned, entropies=h),
        None,
        settings,
        "Sepliarskaia, Kiseleva & de Rijke 2019, How to Not Measure Disentanglement",
    )


def top_two(matrix: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The largest and second largest of each column; the second of a single row is 0."""
    ordered = np.sort(matrix, axis=0)
    return ordered[-1], ordered[-2] if len(ordered) > 1 else np.zeros(matrix.shape[1])


def tables(table: Table, matrix: np.ndarray, **rows: Any) -> dict[str, Any]:
    """A matrix "u k" with the names of its rows and columns, and what was made of it."""
    return {"matrix": matrix, "units": list(table.unit_names), "factors": list(table.names), **rows}
