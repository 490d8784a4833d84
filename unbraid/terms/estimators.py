"""Estimators of the aggregate posterior q(z) = (1/N) Σ_n q(z|x_n).

Each maps a draw and the size N of the data set to a mixture: posteriors "m" and log weights "b m". Their laws:
the diagonal is 1/N and rows sum to 1 (mws is the known exception: its rows sum to 1/N). Batches are drawn
without replacement; with replacement even the right weights are biased.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

import torch

from unbraid.core.errors import expect
from unbraid.core.shapes import Float, Tensor
from unbraid.model.draw import Draw, PosteriorMixture
from unbraid.model.posterior import Posterior

Estimator = Callable[[Draw, int], PosteriorMixture]


@lru_cache(maxsize=16)
def _weights(name: str, b: int, n: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    expect(
        2 <= b <= n,
        f"estimator {name!r} needs a batch of at least 2 and at most the data set",
        found=f"batch {b}, {n} data",
    )
    return WEIGHTS[name](b, n).log().to(dtype=dtype, device=device)


def stratified_weights(b: int, n: int) -> Float[Tensor, "b b"]:
    """1/N on the diagonal, (N−1)/(N(B−1)) elsewhere. Esmaeili et al. 2018, Eq. 13."""
    weights = torch.full((b, b), (n - 1) / (n * (b - 1)), dtype=torch.float64)
    return weights.fill_diagonal_(1 / n)


def mss_weights(b: int, n: int) -> Float[Tensor, "b b"]:
    """Minibatch stratified sampling, Chen et al. 2018, App. C.2, with the diagonal where it belongs.

    With M = B−1: W_ii = 1/N, W_{i,(i+1)%B} = (N−M)/(NM), the rest 1/M. Public code writes these through a flat stride
    of B, which fills column 0 instead of the diagonal; all rows but one still sum to 1, so nothing looks wrong.
    """
    m = b - 1
    weights = torch.full((b, b), 1 / m, dtype=torch.float64)
    rows = torch.arange(b)
    weights[rows, (rows + 1) % b] = (n - m) / (n * m)
    return weights.fill_diagonal_(1 / n)


def mws_weights(b: int, n: int) -> Float[Tensor, "b b"]:
    """Minibatch weighted sampling: 1/(NB) everywhere. Chen et al. 2018 (rows sum to 1/N)."""
    return torch.full((b, b), 1 / (n * b), dtype=torch.float64)


def naive_weights(b: int, n: int) -> Float[Tensor, "b b"]:
    """1/B everywhere: the batch taken for the data set. Kim & Mnih 2018, App. D, shows how it fails."""
    return torch.full((b, b), 1 / b, dtype=torch.float64)


WEIGHTS: dict[str, Callable[[int, int], Tensor]] = {
    "stratified": stratified_weights,
    "mss": mss_weights,
    "mws": mws_weights,
    "naive": naive_weights,
}


def _minibatch(name: str) -> Estimator:
    def estimator(draw: Draw, n: int) -> PosteriorMixture:
        return draw.q, _weights(name, len(draw.q), n, draw.z.dtype, draw.z.device)

    return estimator


ESTIMATORS: dict[str, Estimator] = {name: _minibatch(name) for name in WEIGHTS}


def exact(all_posteriors: Posterior) -> Estimator:
    """q(z) over the whole data set: every posterior with weight 1/N.

    Args:
        all_posteriors: the posteriors of all images.

    >>> from unbraid.latent import Latent
    >>> from unbraid.model import Diagonal
    >>> tree = Latent.of(2)
    >>> q = Diagonal.from_params(tree, torch.zeros(5, Diagonal.param_count(tree)))
    >>> mixture, log_weights = exact(q)(Draw(None, torch.zeros(5, 1, 1, 1), q, q.rsample(), 5), 5)
    >>> len(mixture), round(float(log_weights.exp()), 3)
    (5, 0.2)
    """

    def estimator(draw: Draw, n: int) -> PosteriorMixture:
        expect(
            len(all_posteriors) == n,
            "the exact estimator needs the posterior of every datum",
            found=f"{len(all_posteriors)} of {n}",
        )
        return all_posteriors, draw.z.new_full((1, 1), -math.log(n))

    return estimator
