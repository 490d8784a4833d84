"""UDR: agreement of models of one setting up to order, sign and unused columns. No labels needed."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from itertools import permutations
from typing import Any

import numpy as np

from unbraid.core.errors import choose, expect
from unbraid.metrics.estimation.unit_correlations import mutual_correlation_ratios, rank_columns
from unbraid.metrics.evaluation.records import Score
from unbraid.metrics.inputs.pruning import KL_THRESHOLD
from unbraid.metrics.inputs.validation import Table, as_table


def udr(
    runs: Sequence[Any],
    factors: Any = None,
    *,
    similarity: str = "spearman",
    average: str = "columns",
    least: float = KL_THRESHOLD,
    most: int = 10_000,
    seed: int = 0,
    **inputs: Any,
) -> Score:
    """Unsupervised disentanglement ranking of several models' codes of the same examples, in the same order.

    UDR_ij = (Σ_b r_b² / Σ_a R_ab + Σ_a r_a² / Σ_b R_ab) / (d_a + d_b),  r = the largest of R in that row or column,
    sums over the d_a and d_b informative columns only; a model's score is the median over its partners
                                                              Duan et al. 2020, Sec. 4

    The value is the mean of the models' scores, which the paper does not define: rank models by `table['models']`.
    Models may differ in size.

    Args:
        similarity: 'spearman' takes |rank correlation|, 'lasso' the |weights| (α = 0.1, scaled codes) of predicting the
            columns of the scored model from those of its partner. 'ratio' is ours: how far two columns are functions of
            each other (`mutual_correlation_ratios`), which also sees a cyclic factor that each model cuts open elsewhere.
        average: 'columns' is the formula above. 'models' is the authors' code, the mean of the two models' means, which
            differs only when the numbers of informative columns do.
        least: columns with a KL of at most this many nats are uninformative (without KLs, constant columns are).
        most: the largest number of rows used.

    >>> z = np.random.default_rng(0).normal(size=(500, 3))
    >>> round(udr([z, -z[:, [2, 0, 1]]]).value, 2) > 0.8
    True
    """
    del factors
    compare = choose(similarity, {"spearman": _spearman, "lasso": _lasso, "ratio": _ratio}, "similarity")
    choose(average, {"columns": 0, "models": 0}, "average")
    expect(
        isinstance(runs, list | tuple) and len(runs) >= 2,
        "UDR needs at least two models",
        found=f"{len(runs) if isinstance(runs, list | tuple) else type(runs).__name__}",
        do="Pass a list of codes.",
    )
    tables = [as_table(r, needs_factors=False, metric_name="udr", seed=seed, **inputs) for r in runs]
    expect(
        len({len(t) for t in tables}) == 1, "all models must encode the same examples", found=[len(t) for t in tables]
    )
    small = [t.subsample(most, seed) for t in tables]
    used = [t.live if t.kl is None else t.live & (t.kl > least) for t in tables]
    pairwise = np.full((len(runs), len(runs)), np.nan)
    for i, j in permutations(range(len(runs)), 2):
        r = compare(small[i], small[j], used[i])
        pairwise[i, j] = pair_agreement(r, used[i], used[j], average)
    per_model = np.nanmedian(pairwise, 0)
    settings = {
        "similarity": similarity,
        "average": average,
        "least_kl": least,
        "informative_by": ["constant columns" if t.kl is None else "KL" for t in tables],
        "models": len(runs),
        "seed": seed,
        **small[0].notes,
    }
    empty = [i for i, u in enumerate(used) if not u.any()]
    if empty:
        settings["note"] = f"no informative column in model {', '.join(map(str, empty))}: its agreement is 0"
    rows = {
        "pairwise": np.nan_to_num(pairwise, nan=1.0),
        "models": per_model,
        "informative": [int(u.sum()) for u in used],
    }
    return Score("udr", float(per_model.mean()), rows, None, settings, "Duan et al. 2020")


def pair_agreement(r: np.ndarray, used_a: np.ndarray, used_b: np.ndarray, average: str = "columns") -> float:
    """UDR of one pair of models: how close R is to a permutation, on the informative columns.

    Args:
        r: similarities "a b".
        used_a: the mask of informative columns of the first model.
        used_b: the mask of informative columns of the second model.
        average: 'columns' or 'models'.

    >>> r = np.array([[1.0, 0.0, 0.4], [0.0, 0.5, 0.4]])
    >>> pair_agreement(r, np.array([True, True]), np.array([True, True, False]))
    0.75
    """
    if not used_a.any() or not used_b.any():
        return 0.0
    r = r[used_a][:, used_b]
    by_a = np.divide(r.max(1) ** 2, r.sum(1), out=np.zeros(len(r)), where=r.sum(1) > 0)
    by_b = np.divide(r.max(0) ** 2, r.sum(0), out=np.zeros(r.shape[1]), where=r.sum(0) > 0)
    if average == "models":
        return float((by_a.mean() + by_b.mean()) / 2)
    return float((by_a.sum() + by_b.sum()) / (len(by_a) + len(by_b)))


def _spearman(a: Table, b: Table, used: np.ndarray) -> np.ndarray:
    def scaled(t: Table) -> np.ndarray:
        z = rank_columns(t.z).astype(np.float64)
        z -= z.mean(0)
        return np.where(t.deviations > 0, z / np.maximum(z.std(0), 1e-12), 0.0)

    columns = np.abs(scaled(a).T @ scaled(b)) / len(a)
    return _unit_similarities(columns, a, b)


def _lasso(a: Table, b: Table, used: np.ndarray) -> np.ndarray:
    """|weights| of each column of b, predicted from the informative columns of a."""
    from sklearn.linear_model import Lasso

    x = a.scaled * ((a.unit_of_column >= 0) & used[a.unit_of_column])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        columns = np.stack(
            [
                np.abs(Lasso(alpha=0.1).fit(x, t).coef_) if s > 0 else np.zeros(a.z.shape[1])
                for t, s in zip(b.scaled.T, b.deviations, strict=True)
            ],
            1,
        )
    return _unit_similarities(columns, a, b)


def _ratio(a: Table, b: Table, used: np.ndarray) -> np.ndarray:
    varies = np.outer(a.deviations > 0, b.deviations > 0)
    return _unit_similarities(np.where(varies, mutual_correlation_ratios(a.z, b.z), 0.0), a, b)


def _unit_similarities(columns: np.ndarray, a: Table, b: Table) -> np.ndarray:
    """Similarities of units: the largest over the columns of each pair of groups."""
    return np.array([[columns[np.ix_(u.columns, w.columns)].max() for w in b.units] for u in a.units])
