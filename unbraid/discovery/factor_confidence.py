"""Confidence of factors: each leaf of the chosen run is matched with the leaves of every other seed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from unbraid.codes import Codes
from unbraid.comparing.statistics import t_interval
from unbraid.metrics.estimation.unit_correlations import mutual_correlation_ratios, rank_columns
from unbraid.runs.evaluation.leaf_summary import DEAD_NATS

FOUND_CORRELATION = (
    0.7  # of two leaves that show the same factor: each explains half of the variance of the other's ranks
)
MAX_SECOND = 0.5  # of the correlation: another leaf with more means that the seeds are rotated against each other
CLEAR_CORRELATION = 0.9  # cos θ of a rotation whose second leaf has less than that: a second leaf repeats the factor
STABLE_SHARE = 2 / 3  # of the other seeds that must find a stable factor
MIN_FACTOR_NATS = 0.2  # a leaf with less hardly changes the picture, so it is weak however often it is found
STABLE, PARTLY, UNSTABLE, WEAK, UNKNOWN = "stable", "partly stable", "unstable", "weak", "not compared"
PRELIMINARY = "preliminary"  # stable so far, after too few steps to rely on it


@dataclass(frozen=True)
class FactorConfidence:
    """How far one leaf can be trusted.

    Args:
        leaf: the leaf.
        found: other seeds that have one leaf like it, and that are not rotated against this one.
        seeds: other seeds.
        correlations: correlation with the matched leaf of each other seed; 0 where no leaf is left to match.
        correlation: their mean; NaN without other seeds.
        low: lower end of its 95% interval over seeds.
        high: upper end.
        nats: information of the leaf; None if it is not known.
        reordered: seeds that found it but order its values differently: a cyclic factor, or kinds without an order.
        divided: seeds whose match agrees, but a second leaf agrees too: they rotate the leaves against ours.
    """

    leaf: str
    found: int
    seeds: int
    correlations: tuple[float, ...]
    correlation: float
    low: float
    high: float
    nats: float | None = None
    reordered: int = 0
    divided: int = 0

    @property
    def status(self) -> str:
        """'stable', 'partly stable' or 'unstable'; 'weak' below 0.2 nats; 'not compared' without other seeds."""
        if not self.seeds:
            return UNKNOWN
        if self.nats is not None and self.nats < MIN_FACTOR_NATS:
            return WEAK
        if not self.found:
            return UNSTABLE
        return STABLE if self.found >= STABLE_SHARE * self.seeds - 1e-9 else PARTLY


def factor_confidences(chosen: Codes, others: Sequence[Codes]) -> list[FactorConfidence]:
    """The confidence of every active leaf of a run, by runs of the same setting with other seeds.

    Leaves are matched one to one, so that the sum of the correlations is largest (Kuhn 1955). A leaf is found in another
    seed if the correlation with its match is at least 0.7 and no other leaf of the same kind reaches half of it. Without the
    second condition two leaves that every seed rotates by another angle would always be found: max(|cos|, |sin|) ≥ 0.7. From
    0.9 the condition is dropped: there tan θ < 1/2, so a second leaf that agrees as much repeats the factor, such as its fold.

    Args:
        chosen: codes of the run.
        others: codes of the same examples by the other runs.

    >>> from unbraid.latent import Latent
    >>> noise = np.random.default_rng(0)
    >>> z = noise.normal(size=(400, 2))
    >>> other = np.stack([-z[:, 1], noise.normal(size=400)], 1)
    >>> [(c.leaf, c.found, c.status) for c in factor_confidences(Codes(z, Latent.of(2)), [Codes(other, Latent.of(2))])]
    [('z0', 0, 'unstable'), ('z1', 1, 'stable')]
    """
    own = active_leaves(chosen)
    matched = np.array([_match(chosen, own, other) for other in others]).reshape(len(others), 3, len(own))
    return [
        _summarise(chosen.tree.leaves[i].name, of_leaf, None if chosen.kl is None else float(chosen.kl[i]))
        for i, of_leaf in zip(own, matched.transpose(2, 1, 0), strict=True)
    ]


def active_leaves(codes: Codes) -> list[int]:
    """Positions of the leaves with at least 0.05 nats; of codes without KLs, those that vary.

    Args:
        codes: the codes.
    """
    if codes.kl is not None and np.isfinite(codes.kl).all():
        return [i for i, nats in enumerate(codes.kl) if nats >= DEAD_NATS]
    return [i for i, columns in enumerate(codes.tree.slices) if codes.mean[:, columns].std(0).max() > 1e-6]


def leaf_similarity(a: Codes, i: int, b: Codes, j: int) -> float:
    """Similarity of two leaves in [0, 1].

    Two real leaves: how far each is a function of the other, so that a cyclic factor is recognised although every seed cuts
    it open elsewhere. A real and a discrete leaf: the correlation ratio η. Two discrete leaves: √(MI / smaller entropy).

    Args:
        a: codes of one run.
        i: its leaf.
        b: codes of the same examples by another run.
        j: its leaf.
    """
    kinds = (a.tree.leaves[i].kind == "real", b.tree.leaves[j].kind == "real")
    x, y = a.mean[:, a.tree.slices[i]], b.mean[:, b.tree.slices[j]]
    if all(kinds):
        return float(mutual_correlation_ratios(x, y).max())
    if not any(kinds):
        return _shared_classes(_classes(x), _classes(y))
    return _correlation_ratio(x, _classes(y)) if kinds[0] else _correlation_ratio(y, _classes(x))


def _match(chosen: Codes, own: Sequence[int], other: Codes) -> np.ndarray:
    """For each of our leaves: similarity to its match in another run, the largest to others of the match's kind, |rank ρ|."""
    from scipy.optimize import linear_sum_assignment

    theirs = active_leaves(other)
    matched = np.zeros((3, len(own)))
    if own and theirs:
        table = np.array([[leaf_similarity(chosen, i, other, j) for j in theirs] for i in own])
        kinds = np.array([other.tree.leaves[j].kind for j in theirs])
        for row, column in zip(*linear_sum_assignment(-table), strict=True):
            rest = kinds == kinds[column]
            rest[column] = False
            order = _order_similarity(chosen, own[row], other, theirs[column])
            matched[:, row] = table[row, column], table[row, rest].max(initial=0.0), order
    return matched


def _summarise(name: str, matched: np.ndarray, nats: float | None) -> FactorConfidence:
    correlations, seconds, orders = matched
    agree = correlations >= FOUND_CORRELATION
    found = agree & ((seconds <= MAX_SECOND * correlations) | (correlations >= CLEAR_CORRELATION))
    reordered, divided = int((found & (orders < FOUND_CORRELATION)).sum()), int((agree & ~found).sum())
    mean, low, high = (float(correlations.mean()) if len(correlations) else math.nan), math.nan, math.nan
    if len(correlations) > 1:
        interval = t_interval(correlations)
        low, high = max(0.0, interval.low), min(1.0, interval.high)
    values = tuple(round(float(v), 4) for v in correlations)
    return FactorConfidence(
        name, int(found.sum()), len(correlations), values, mean, low, high, nats, reordered, divided
    )


def _order_similarity(a: Codes, i: int, b: Codes, j: int) -> float:
    """|rank correlation| of two real leaves of one column; 1 for others, whose values have no order."""
    x, y = a.mean[:, a.tree.slices[i]], b.mean[:, b.tree.slices[j]]
    if not all(leaf.kind == "real" and leaf.width == 1 for leaf in (a.tree.leaves[i], b.tree.leaves[j])):
        return 1.0
    return float(abs(np.corrcoef(rank_columns(np.hstack([x, y])), rowvar=False)[0, 1]))


def _classes(x: np.ndarray) -> np.ndarray:
    """Class of each row of a discrete leaf: the largest probability, or the number that bits spell."""
    return x.argmax(1) if x.shape[1] > 1 else (x[:, 0] > 0.5).astype(int)


def _correlation_ratio(x: np.ndarray, classes: np.ndarray) -> float:
    """η: root of the share of the variance of the ranks of x that lies between classes."""
    ranks = rank_columns(x).astype(np.float64)
    ranks -= ranks.mean(0)
    total = (ranks**2).sum(0)
    between = sum(((classes == c).sum() * ranks[classes == c].mean(0) ** 2) for c in np.unique(classes))
    return float(np.sqrt(np.max(between / np.maximum(total, 1e-12))))


def _shared_classes(a: np.ndarray, b: np.ndarray) -> float:
    joint = np.zeros((a.max() + 1, b.max() + 1))
    np.add.at(joint, (a, b), 1 / len(a))
    p, q = joint.sum(1), joint.sum(0)
    on = joint > 0
    shared = float((joint[on] * np.log(joint[on] / np.outer(p, q)[on])).sum())
    smaller = min(float(-(m[m > 0] * np.log(m[m > 0])).sum()) for m in (p, q))
    return math.sqrt(max(0.0, min(1.0, shared / smaller))) if smaller > 1e-9 else 0.0
