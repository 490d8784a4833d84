"""UDR: models trained alike should agree, up to order, sign and unused columns. No labels needed."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from itertools import combinations
from typing import Any

import numpy as np

from unbraid.errors import choose, expect
from unbraid.metrics.inputs import Table, as_table
from unbraid.metrics.matching import ranks
from unbraid.metrics.score import Score
from unbraid.metrics.votes import KL_LEAST


def udr(
    runs: Sequence[Any],
    factors: Any = None,
    *,
    similarity: str = "spearman",
    least: float = KL_LEAST,
    most: int = 10_000,
    seed: int = 0,
    **inputs: Any,
) -> Score:
    """Unsupervised disentanglement ranking of several models' codes of the same examples, in the same order.

    UDR_ij = (Σ_b r_b² / Σ_a R_ab · I(b) + Σ_a r_a² / Σ_b R_ab · I(a)) / (d_a + d_b),  r = the largest of R in that row
    or column, d = the number of informative columns; a model's score is the median over its partners, the value is the
    mean of the models' scores        Duan et al. 2020, Eq. 3

    similarity: 'spearman' |rank correlation| or 'lasso' |weights| of predicting one model's columns from the other's.
    Columns whose KL is below `least` nats are uninformative (without KLs: constant columns). Sizes may differ.

    >>> z = np.random.default_rng(0).normal(size=(500, 3))
    >>> round(udr([z, -z[:, [2, 0, 1]]]).value, 2) > 0.8
    True
    """
    del factors
    how = choose(similarity, {"spearman": _spearman, "lasso": _lasso}, "similarity")
    expect(
        isinstance(runs, list | tuple) and len(runs) >= 2,
        "UDR compares at least two models",
        found=f"{len(runs) if isinstance(runs, list | tuple) else type(runs).__name__}",
        do="Give a list of codes.",
    )
    tables_ = [as_table(r, needs_factors=False, **inputs) for r in runs]
    expect(
        len({len(t) for t in tables_}) == 1, "all models must encode the same examples", found=[len(t) for t in tables_]
    )
    small = [t.limited(most, seed) for t in tables_]
    used = [t.live if t.kl is None else t.live & (t.kl >= least) for t in tables_]
    pairwise = np.full((len(runs), len(runs)), np.nan)
    for i, j in combinations(range(len(runs)), 2):
        pairwise[i, j] = pairwise[j, i] = agreement(how(small[i], small[j]), used[i], used[j])
    per_model = np.nanmedian(pairwise, 1)
    settings = {"similarity": similarity, "least_kl": least, "models": len(runs), "seed": seed, **small[0].notes}
    rows = {
        "pairwise": np.nan_to_num(pairwise, nan=1.0),
        "models": per_model,
        "informative": [int(u.sum()) for u in used],
    }
    return Score(
        "udr",
        float(per_model.mean()),
        rows,
        None,
        settings,
        "Duan et al. 2020, Unsupervised Model Selection for Variational Disentangled Representation Learning",
    )


def agreement(r: np.ndarray, used_a: np.ndarray, used_b: np.ndarray) -> float:
    """UDR of one pair from similarities "a b": how near R is to a permutation, on the informative columns."""
    if not used_a.any() or not used_b.any():
        return 0.0
    by_a = np.divide(r.max(1) ** 2, r.sum(1), out=np.zeros(len(r)), where=r.sum(1) > 0)
    by_b = np.divide(r.max(0) ** 2, r.sum(0), out=np.zeros(r.shape[1]), where=r.sum(0) > 0)
    return float((by_a[used_a].sum() + by_b[used_b].sum()) / (used_a.sum() + used_b.sum()))


def _spearman(a: Table, b: Table) -> np.ndarray:
    def scaled(t: Table) -> np.ndarray:
        z = ranks(t.z).astype(np.float64)
        z -= z.mean(0)
        return np.where(t.deviations > 0, z / np.maximum(z.std(0), 1e-12), 0.0)

    columns = np.abs(scaled(a).T @ scaled(b)) / len(a)
    return _grouped(columns, a, b)


def _lasso(a: Table, b: Table) -> np.ndarray:
    """Each column of b from all of a, cross-checked the other way round by symmetry of the score."""
    from sklearn.linear_model import Lasso

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        columns = np.stack(
            [
                np.abs(Lasso(alpha=0.1).fit(a.scaled, t).coef_) if s > 0 else np.zeros(a.z.shape[1])
                for t, s in zip(b.scaled.T, b.deviations)
            ],
            1,
        )
    return _grouped(columns, a, b)


def _grouped(columns: np.ndarray, a: Table, b: Table) -> np.ndarray:
    """Similarities of units: the largest over the columns of each pair of groups."""
    return np.array([[columns[np.ix_(u.columns, w.columns)].max() for w in b.units] for u in a.units])
