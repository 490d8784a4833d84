"""Gradient boosting on binned codes that grows the trees of all classes together.

A round of multinomial boosting grows one tree of depth 3 per class. Grown one by one, most of the time is spent in
Python; here a level of all trees is one product of a sparse one-hot matrix of bins with the gradients of all classes.
"""

from __future__ import annotations

from numbers import Integral
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix

from unbraid.core.errors import expect

DEPTH = 3
MIN_HESSIAN = 1e-3  # smallest Hessian of a child
BLOCK = 256  # classes per block, which bounds the memory for thousands of classes


def boost(
    x: np.ndarray,
    y: np.ndarray,
    x_new: np.ndarray,
    classes: bool,
    rounds: int = 10,
    rate: float = 0.1,
    bins: int = 64,
    ridge: float = 1.0,
) -> tuple[np.ndarray, np.ndarray]:
    """Total split gain of each column "d", and predictions for x_new. Friedman 2001; Chen & Guestrin 2016.

    A split of gradients g and Hessians h gains ½ [G_l²/(H_l + λ) + G_r²/(H_r + λ) − G²/(H + λ)]. The ridge λ is needed:
    with many classes the Hessians p(1 − p) of a leaf nearly vanish, and gains without it explode on columns of noise.

    Args:
        x: codes to fit on "n d".
        y: labels "n".
        x_new: codes to predict "m d".
        classes: classify; False regresses.
        rounds: boosting rounds.
        rate: the learning rate.
        bins: bins per column.
        ridge: λ, the L2 penalty of leaf values.

    >>> x = np.random.default_rng(0).normal(size=(500, 3))
    >>> gain, predicted = boost(x, x[:, 1] > 0, x, True)
    >>> (gain / gain.sum()).round(2), (predicted == (x[:, 1] > 0)).mean() > 0.99
    (array([0., 1., 0.]), np.True_)
    """
    _check_options(rounds, rate, bins, ridge)
    n = len(x)
    codes = bin_columns(x, np.concatenate([x, x_new]), bins)  # rows to predict pass through the trees with the others
    grower = _TreeGrower(codes, n, bins, ridge)
    if classes:
        values, label = np.unique(y, return_inverse=True)
        target = (label == np.arange(len(values))[:, None]).astype(np.float32)
        score = np.tile(np.log(target.mean(1, keepdims=True)), len(codes[0]))
    else:
        centre, spread = float(y.mean()), max(float(y.std()), 1e-12)
        target = ((y - centre) / spread).astype(np.float32)[None]
        score = np.zeros((1, codes.shape[1]), np.float32)
    for _ in range(rounds):
        mean = _softmax(score[:, :n]) if classes else score[:, :n]
        for some in (slice(k, k + BLOCK) for k in range(0, len(score), BLOCK)):
            p = mean[some]
            score[some] -= rate * grower.grow(p - target[some], p * (1 - p) if classes else np.ones_like(p))
    return grower.gain, values[score[:, n:].argmax(0)] if classes else score[0, n:].astype(float) * spread + centre


def _check_options(rounds: Any, rate: float, bins: Any, ridge: float) -> None:
    whole = all(isinstance(number, Integral) for number in (rounds, bins))
    expect(
        whole and rounds >= 1 and 2 <= bins <= 256 and 0 < rate <= 1 and 0 < ridge < np.inf,
        "options of boosting must be in range",
        found=f"rounds {rounds}, rate {rate}, bins {bins}, ridge {ridge}",
        allowed="rounds 1 or more, rate in (0, 1], bins 2 to 256 (one byte each), ridge above 0",
    )


def bin_columns(x: np.ndarray, rows: np.ndarray, bins: int) -> np.ndarray:
    """The quantile bin of each entry as "d r": 0 … bins − 1, fewer where values repeat.

    Args:
        x: codes that define the quantiles "n d".
        rows: codes to bin "r d".
        bins: the number of bins.
    """
    grid = np.linspace(0, 1, bins + 1)[1:-1]
    columns = [np.searchsorted(np.unique(np.quantile(a, grid)), b) for a, b in zip(x.T, rows.T, strict=True)]
    return np.stack(columns).astype(np.uint8)


def _softmax(score: np.ndarray) -> np.ndarray:
    p = np.exp(score - score.max(0))
    p /= p.sum(0)
    return p


class _TreeGrower:
    """Trees of depth 3 for all classes at once. Arrays "k r" are classes by rows; the first n rows are fitted."""

    def __init__(self, codes: np.ndarray, n: int, bins: int, ridge: float):
        self.codes, self.n, self.bins, self.ridge = codes, n, bins, ridge
        self.d = len(codes)
        column = (codes[:, :n].T + np.arange(self.d, dtype=np.int32) * bins).ravel()
        ones = np.ones(n * self.d, np.float32)
        by_row = csr_matrix((ones, column, np.arange(0, n * self.d + 1, self.d)), shape=(n, self.d * bins))
        self.one_hot = by_row.T.tocsr()
        self.gain = np.zeros(self.d)

    def grow(self, gradient: np.ndarray, hessian: np.ndarray) -> np.ndarray:
        """Grow one tree per class.

        Args:
            gradient: gradients "k n".
            hessian: Hessians "k n".

        Returns the Newton step Σ g/(Σ h + λ) of the leaf of each row "k r".
        """
        k, rows = len(gradient), self.codes.shape[1]
        both = np.empty((self.n, 2, k), np.float32)  # classes last, for the product below
        both[:, 0], both[:, 1] = gradient.T, hessian.T
        nodes, place = [self._bin_sums(both)], np.zeros((k, rows), np.uint8)  # place: each row's node in each tree
        for level in range(DEPTH):
            right, steps = np.zeros((k, rows), bool), []
            for number, sums in enumerate(nodes):
                column, at, leaves = self._best_split(sums)
                beyond = self.codes[column] > at[:, None]
                right |= beyond & (place == number) if level else beyond
                steps += leaves
            place = 2 * place + right
            if level + 1 < DEPTH:
                nodes = self._child_sums(nodes, both, place)
        flat = place + np.arange(0, k * 2**DEPTH, 2**DEPTH)[:, None]
        return np.stack(steps, 1).ravel().take(flat)

    def _bin_sums(self, both: np.ndarray) -> np.ndarray:
        """Sums of gradients and Hessians in every bin: "d bins 2 k"."""
        return (self.one_hot @ both.reshape(self.n, -1)).reshape(self.d, self.bins, 2, -1)

    def _child_sums(self, nodes: list[np.ndarray], both: np.ndarray, place: np.ndarray) -> list[np.ndarray]:
        """Sums of the next level: of left children by a product, of right ones as parent − left."""
        found = []
        for number, parent in enumerate(nodes):
            inside = np.ascontiguousarray((place[:, : self.n] == 2 * number).T)
            left = self._bin_sums(both * inside[:, None])
            found += [left, parent - left]
        return found

    def _best_split(self, sums: np.ndarray) -> tuple[np.ndarray, np.ndarray, list[np.ndarray]]:
        """The best split of a node in each tree: its column and bin "k", and the steps of both sides. Adds its gain.

        A node without a positive gain is not split.
        """
        left = sums.cumsum(1)
        total = left[:, -1:]  # per column, so that their order does not change the rounding
        right = total - left
        gain = _leaf_score(left, self.ridge) + _leaf_score(right, self.ridge)  # "d bins k"
        gain *= (left[:, :, 1] > MIN_HESSIAN) & (right[:, :, 1] > MIN_HESSIAN)
        flat, each = gain.reshape(-1, gain.shape[-1]), np.arange(gain.shape[-1])
        best = flat.argmax(0)
        column, at = np.divmod(best, self.bins)
        won = np.maximum(0.5 * (flat[best, each] - _leaf_score(total, self.ridge)[column, 0, each]), 0)
        at = np.where(won > 0, at, self.bins - 1)  # no row is above the last bin
        np.add.at(self.gain, column, won)
        sides = [side[column, at, :, each] for side in (left, right)]
        return column, at.astype(np.uint8), [s[:, 0] / (s[:, 1] + self.ridge) for s in sides]


def _leaf_score(sums: np.ndarray, ridge: float) -> np.ndarray:
    return sums[:, :, 0] ** 2 / (sums[:, :, 1] + ridge)
