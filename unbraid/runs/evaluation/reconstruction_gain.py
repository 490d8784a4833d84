"""How much better reconstructions are than the mean picture; a model below it has learned nothing yet."""

from __future__ import annotations

from typing import Any

import numpy as np

from unbraid.core.errors import UnbraidError
from unbraid.runs.run import Run

MIN_EXPLAINED = 0.05  # share of the variance of the pixels
CHECKED_IMAGES = 256


def explained_share(run: Run, dataset: Any = None) -> float:
    """1 − (squared error of reconstructions) / (squared error of the mean picture), on some images of the data.

    Args:
        run: the run.
        dataset: the data; by default those of training.

    >>> from unbraid import pretrained
    >>> explained_share(pretrained("beta_tcvae_colour_sprites")) > 0.5
    True
    """
    dataset = run.dataset() if dataset is None else dataset
    x = dataset.pixels(np.unique(np.linspace(0, len(dataset) - 1, min(CHECKED_IMAGES, len(dataset))).astype(int)))
    baseline = float(((x - x.mean(0)) ** 2).sum())
    error = float(((x - run.decode(run.encode(x))) ** 2).sum())
    return 1 - error / baseline if baseline > 0 else 0.0


def reconstruction_warning(run: Run, dataset: Any = None) -> str:
    """A sentence for a run whose reconstructions are no better than the mean picture, else "".

    Args:
        run: the run.
        dataset: the data; by default those of training.
    """
    if not run.model.has_elbo:
        return ""
    try:
        share = explained_share(run, dataset)
    except UnbraidError:  # the data are not available
        return ""
    if share >= MIN_EXPLAINED:
        return ""
    return (
        f"Reconstructions are no better than the mean picture ({100 * max(share, 0):.0f}% of the variance): after "
        f"{run.state['step']:,} steps no leaf means anything. Train longer, or lower the prices of the objective."
    )
