"""The scale of prices, set by the data: how many nats a perfect reconstruction gains over the mean picture.

A leaf is used if the reconstruction gains more nats by it than it costs. The gain grows with the number of pixels that
differ and with their contrast, the cost does not. So a fixed β collapses pictures of low contrast and hardly charges large
ones. Prices are multiples of one scale, D / 150: D nats per picture are to be gained, and 150 is about what MNIST and 32×32
sprites have, for which the papers' β of 2 to 10 were chosen.
"""

from __future__ import annotations

import numpy as np

REFERENCE_NATS = 150.0
VECTOR_SIGMA = 0.5  # of the Gaussian likelihood of standardised vectors
MIN_VARIANCE = 1e-3  # of a pixel that counts as informative
PIXEL_EDGE = 1 / 510  # half a level of grey: log 0 is never needed


def gainable_nats(x: np.ndarray, likelihood: str) -> float:
    """Nats per example that a perfect reconstruction gains over the mean example.

    Bernoulli: Σ KL(x ‖ mean) over pixels; Gaussian with σ = 0.5: Σ var / 2σ².

    Args:
        x: examples "n c h w"; pixels in [0, 1].
        likelihood: 'bernoulli' or 'gaussian'.

    >>> round(gainable_nats(np.array([0.0, 1.0]).reshape(2, 1, 1, 1), "bernoulli"), 2)    # log 2, less the edges
    0.68
    """
    x = x.astype(np.float64)
    if likelihood == "gaussian":
        return float(x.var(0).sum() / (2 * VECTOR_SIGMA**2))
    mean, y = (v.clip(PIXEL_EDGE, 1 - PIXEL_EDGE) for v in (x.mean(0), x))
    return float((y * np.log(y / mean) + (1 - y) * np.log((1 - y) / (1 - mean))).reshape(len(x), -1).sum(1).mean())


def informative_pixels(x: np.ndarray) -> int:
    """The number of pixels (times channels) whose variance is above 0.001.

    Args:
        x: examples "n c h w".
    """
    return int((x.astype(np.float64).var(0) > MIN_VARIANCE).sum())


def scaled_prices(beta: float, scale: float) -> dict[str, float]:
    """Prices of β-TCVAE in units of the data: information and leaf-wise KL cost at most 1, total correlation β × scale.

    Args:
        beta: the price of total correlation on data of scale 1.
        scale: the scale of the data.

    >>> scaled_prices(4, 0.25)
    {'alpha': 0.25, 'beta': 1.0, 'gamma': 0.25}
    >>> scaled_prices(4, 2)
    {'alpha': 1.0, 'beta': 8.0, 'gamma': 1.0}
    """
    base = float(f"{min(1.0, scale):.3g}")
    return {"alpha": base, "beta": float(f"{beta * scale:.3g}"), "gamma": base}
