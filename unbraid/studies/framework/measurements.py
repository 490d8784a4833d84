"""Numbers that several studies measure on a run, most of them for gates."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from unbraid.codes import Codes
    from unbraid.runs import Run


def mean_image_nats(run: Run, max_images: int = 4000) -> float:
    """Nats of reconstruction of a model that knows only the mean image: Σ over pixels of the cross-entropy.

    Args:
        run: a run with Bernoulli likelihood.
        max_images: number of images.
    """
    images = _sample_images(run, max_images)
    return _cross_entropy(images, images.mean(0))


def unexplained_share(run: Run, reconstruction: float, max_images: int = 4000) -> float:
    """Share of the nats between a perfect model and the mean image that a reconstruction leaves: 0 is perfect.

    Grey levels have an entropy of their own under a Bernoulli likelihood, so the ratio of the nats says little about them.

    Args:
        run: a run with Bernoulli likelihood.
        reconstruction: nats of its reconstructions.
        max_images: number of images.
    """
    images = _sample_images(run, max_images)
    floor = _cross_entropy(images, images)
    return (reconstruction - floor) / (_cross_entropy(images, images.mean(0)) - floor)


def _sample_images(run: Run, max_images: int) -> np.ndarray:
    """The same random images of a run's data for every run, "n pixels"."""
    dataset = run.dataset()
    index = np.sort(np.random.default_rng(0).permutation(len(dataset))[:max_images])
    return dataset.pixels(index).reshape(len(index), -1).astype(np.float64)


def _cross_entropy(images: np.ndarray, predicted: np.ndarray) -> float:
    """Σ over pixels of −x log p − (1 − x) log(1 − p), averaged over images."""
    p = np.clip(predicted, 1e-6, 1 - 1e-6)
    return float(-(images * np.log(p) + (1 - images) * np.log(1 - p)).sum(1).mean())


def active_columns(codes: Codes, threshold: float = 0.1) -> np.ndarray:
    """Mask of the columns whose posterior mean deviates by more than a threshold over the data.

    Args:
        codes: the codes.
        threshold: smallest standard deviation of an active column.
    """
    return codes.mean.std(0) > threshold


def gate_numbers(run: Run, codes: Codes) -> dict[str, float]:
    """The numbers that gates look at: active columns, the ceiling that they put on the FactorVAE metric, the mean image.

    A factor without an active column is never predicted by the FactorVAE metric, so k active columns for n factors that vary
    allow a score of min(1, k/n).

    Args:
        run: the run.
        codes: its codes.
    """
    active = float(active_columns(codes).sum())
    found = {"active": active, "mean_image": mean_image_nats(run)}
    if codes.factors is not None:
        found["ceiling"] = min(1.0, active / len(codes.factors.names))
    return found
