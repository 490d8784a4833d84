"""Modularity and explicitness (Ridgeway & Mozer), and InfoMEC, which does both with usable information."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from unbraid.ground.errors import choose
from unbraid.metrics.gaps import tables
from unbraid.metrics.importances import MOST, split
from unbraid.metrics.information import entropy, factor_entropies, informative, mutual
from unbraid.metrics.inputs import Table, as_table
from unbraid.metrics.score import Score

NEAR = 10_000  # rows among which neighbours are looked for


def modularity(
    codes: Any,
    factors: Any = None,
    *,
    protocol: str = "fast",
    bins: int = 20,
    binning: str = "width",
    seed: int = 0,
    **inputs: Any,
) -> Score:
    """Does each unit carry information about one factor only?

    θ_u = max_k I_uk,  δ_u = Σ_{k ≠ best} I_uk² / (θ_u² (K − 1)),  value = mean_u (1 − δ_u)        Ridgeway & Mozer 2018

    protocol: 'dlib' and 'paper' average over all units, constant ones as 0; 'fast' only over units that say more than
    chance (noise has no best factor, yet scores about one half in the other two), 0 when there are none. (The authors'
    program prints the mean of δ under the name of modularity; the score is 1 − it.)

    >>> y = np.stack(np.unravel_index(np.arange(600), (3, 4, 50)), 1)[:, :2]
    >>> round(modularity(y.astype(float), y).value, 6)
    1.0
    """
    table = as_table(codes, factors, asked="modularity", seed=seed, **inputs)
    choose(protocol, {"paper": 0, "dlib": 0, "fast": 0}, "modularity protocol")
    i = mutual(table, "histogram", bins, binning, seed)
    best = i.max(1)
    others = (i**2).sum(1) - best**2
    theta = best**2 * max(i.shape[1] - 1, 1)
    values = np.where(best > 0, 1 - np.divide(others, theta, out=np.zeros_like(theta), where=theta > 0), 0.0)
    counted = informative(table, i, bins, binning, seed) if protocol == "fast" else np.ones(len(i), bool)
    value = float(values[counted].mean()) if counted.any() else 0.0
    settings = {
        "protocol": protocol,
        "bins": bins,
        "binning": binning,
        "units_counted": int(counted.sum()),
        **table.silence(counted & table.live, "they say no more than chance"),
        **table.notes,
    }
    return Score(
        "modularity",
        value,
        tables(table, i, unit_modularity=values),
        None,
        settings,
        "Ridgeway & Mozer 2018, Learning Deep Disentangled Embeddings with the F-Statistic Loss",
    )


def explicitness(codes: Any, factors: Any = None, *, protocol: str = "fast", seed: int = 0, **inputs: Any) -> Score:
    """Can each value of each factor be told linearly from the whole code?

    value = mean over factors of the mean over their values of AUC, or 2·AUC − 1        Ridgeway & Mozer 2018

    protocol: 'paper' is the authors' program: one logistic regression per factor without penalty (C = 10¹⁰), scored on
    the rows that fitted it, AUC as it is. 'dlib': C = 1, two thirds of the rows fit, one third scores, AUC as it is.
    'fast': the same as 2·AUC − 1, so that chance is 0.

    >>> y = np.stack(np.unravel_index(np.arange(600), (3, 2, 100)), 1)[:, :2]
    >>> round(explicitness(y.astype(float), y[:, 1]).value, 3)
    1.0
    """
    table = as_table(codes, factors, asked="explicitness", seed=seed, **inputs)
    choose(protocol, {"paper": 0, "dlib": 0, "fast": 0}, "explicitness protocol")
    small = table.limited(MOST, seed)
    areas = []
    for k in range(len(table.names)):
        probability, test, classes = logistic(small, k, seed, again=protocol == "paper")
        areas.append([area(probability[:, c], small.y[test, k] == value) for c, value in enumerate(classes)])
    per_factor = np.array([np.nanmean(a) if np.isfinite(a).any() else 0.5 for a in map(np.array, areas)])
    per_factor = 2 * per_factor - 1 if protocol == "fast" else per_factor
    settings = {
        "protocol": protocol,
        "unit": "2 AUC - 1" if protocol == "fast" else "AUC",
        "scored_on": "the rows fitted" if protocol == "paper" else "held-out rows",
        "seed": seed,
        **small.notes,
    }
    return Score(
        "explicitness",
        float(np.clip(per_factor.mean(), 0, 1)),
        {"factors": list(table.names), "explicitness": per_factor},
        None,
        settings,
        "Ridgeway & Mozer 2018, Learning Deep Disentangled Embeddings with the F-Statistic Loss",
    )


def logistic(
    table: Table, k: int, seed: int, again: bool = False, balanced: bool = False
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Class probabilities "m c" of factor k from all columns, the rows, and the classes; fitted once.

    Of held-out rows; or, `again`, without penalty and of the very rows that were fitted, as some authors do.
    """
    from sklearn.linear_model import LogisticRegression

    key = ("logistic", k, seed, again, balanced)
    if key not in table.shared:
        fit, test = (np.flatnonzero(table.y[:, k] >= 0),) * 2 if again else split(table, k, seed)
        y = table.y[:, k]
        classes = np.unique(y[fit])
        if len(classes) < 2:
            table.shared[key] = (np.ones((len(test), 1)), test, classes)
        else:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # 100 iterations are enough for a ranking
                model = LogisticRegression(
                    C=1e10 if again else 1.0,
                    class_weight="balanced" if balanced else None,
                    max_iter=100,
                    random_state=seed,
                ).fit(table.scaled[fit], y[fit])
            table.shared[key] = (model.predict_proba(table.scaled[test]), test, classes)
    return table.shared[key]


def area(score: np.ndarray, positive: np.ndarray) -> float:
    """Area under the ROC curve by ranks (Mann–Whitney); NaN without both classes."""
    from scipy.stats import rankdata

    m, n = int(positive.sum()), int((~positive).sum())
    return float((rankdata(score)[positive].sum() - m * (m + 1) / 2) / (m * n)) if m and n else float("nan")


def info_mec(
    codes: Any, factors: Any = None, *, protocol: str = "fast", seed: int = 0, bins: int = 20, **inputs: Any
) -> Score:
    """InfoMEC: modularity, compactness and explicitness from normalised information; the value is modularity.

    N_uk = I(z_u; y_k) / H(y_k);  M = (mean_u max_k N_uk / Σ_k N_uk − 1/K) / (1 − 1/K);  C likewise over units;
    E = mean_k (H_V(y_k) − H_V(y_k | z)) / H_V(y_k), V = logistic regressions        Hsu et al. 2023, Sec. 4

    protocol: 'paper' is the authors' program: information from 10 nearest neighbours (counted, for discrete units),
    units whose range is below a twentieth of the widest are inactive, E from regressions with balanced classes and no
    penalty, scored on the rows they were fitted to, so that H_V(y_k) is the log of the number of values. 'fast':
    information by bins, units that say no more than chance are inactive, E held-out. `table` holds all three.

    >>> y = np.stack(np.unravel_index(np.arange(600), (3, 4, 50)), 1)[:, :2]
    >>> round(info_mec(y.astype(float), y).value, 6)
    1.0
    """
    table = as_table(codes, factors, asked="info_mec", seed=seed, **inputs)
    choose(protocol, {"paper": 0, "fast": 0}, "InfoMEC protocol")
    if protocol == "paper":
        span = np.ptp(table.z, axis=0)
        active = table.live & np.array([span[list(u.columns)].max() > span.max() / 20 for u in table.units])
        i, why = mutual(table, "knn", seed=seed, most=NEAR, near=10), "they hardly move"
    else:
        i, why = mutual(table, "histogram", bins, seed=seed), "they say no more than chance"
        active = informative(table, i, bins, seed=seed)
    n = i / factor_entropies(table)
    m, c = _concentration(n[active]), _concentration(n[active].T)
    small = table.limited(MOST, seed)
    e = np.array([_usable(small, k, seed, again=protocol == "paper") for k in range(len(table.names))])
    rows = tables(
        table, n, modularity=m, compactness=c, explicitness=float(e.mean()), factor_explicitness=e, active=active
    )
    settings = {
        "protocol": protocol,
        "neighbours": 10 if protocol == "paper" else None,
        "active_units": int(active.sum()),
        "explicitness_on": "the rows fitted" if protocol == "paper" else "held-out rows",
        "seed": seed,
        **table.silence(active, why),
        **small.notes,
    }
    if protocol == "paper" and len(table) > NEAR:
        rest = f"; explicitness {settings['subsampled']}" if "subsampled" in settings else ""
        settings["subsampled"] = f"{NEAR:,} of {len(table):,} rows for neighbours{rest}"
    return Score("info_mec", m, rows, None, settings, "Hsu et al. 2023, Disentanglement via Latent Quantization")


def _concentration(n: np.ndarray) -> float:
    """Mean share of the largest entry of each row, rescaled so that an even row is 0 and a single entry 1."""
    if not n.size or n.shape[1] < 2:
        return 1.0 if n.size and n.max() > 0 else 0.0
    total = n.sum(1)
    share = np.divide(n.max(1), total, out=np.full(len(n), 1 / n.shape[1]), where=total > 0)
    return float((share.mean() - 1 / n.shape[1]) / (1 - 1 / n.shape[1]))


def _usable(table: Table, k: int, seed: int, again: bool) -> float:
    """1 − log-loss of the regression over that of one that sees nothing (which is uniform if classes are balanced)."""
    probability, test, classes = logistic(table, k, seed, again=again, balanced=again)
    known = np.isin(table.y[test, k], classes)
    index = np.searchsorted(classes, table.y[test, k][known])
    if not len(index):
        return 0.0
    loss = -np.log(np.clip(probability[known][np.arange(len(index)), index], 1e-12, 1)).mean()
    h = float(np.log(len(classes))) if again else float(entropy(np.bincount(index)))
    return float(np.clip(1 - loss / h, 0, 1)) if h > 0 else 0.0
