"""Small models and draws for tests."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
import typer

from unbraid import priors
from unbraid.data.dataset import Dataset, Pixels
from unbraid.data.factors import Factors
from unbraid.latent import Latent
from unbraid.model import NETS, Diagonal, Draw, Posterior, Vae
from unbraid.model.likelihood import Bernoulli
from unbraid.terms import ESTIMATORS


def tiny_model(tree: Latent, shape: tuple[int, int, int] = (1, 2, 2), prior: dict | None = None) -> Vae:
    """A tiny MLP model on any tree.

    Args:
        tree: the tree.
        shape: the shape of images.
        prior: the prior.
    """
    encoder, decoder = NETS["decomposition_table1b"](shape, tree, Diagonal.param_count(tree), shape[0])
    return Vae(tree, encoder, decoder, priors.build(prior or {"name": "gaussian"}, tree), Bernoulli())


def random_posterior(
    tree: Latent, count: int, seed: int = 0, temperature: float = 0.7, spread: float = 1.0
) -> Posterior:
    """Posteriors with random means, logits and scales.

    Args:
        tree: the tree.
        count: how many.
        seed: the seed.
        temperature: of discrete leaves.
        spread: deviation of the means.
    """
    rng = torch.Generator().manual_seed(seed)
    params = spread * torch.randn(count, Diagonal.param_count(tree), generator=rng)
    return Diagonal.from_params(tree, params, temperature)


def random_draw(
    tree: Latent, count: int, seed: int, estimator: str | None, n: int = 100, temperature: float = 0.7
) -> Draw:
    """A draw with random posteriors, without training anything."""
    torch.manual_seed(seed)
    q = random_posterior(tree, count, seed, temperature)
    return Draw(tiny_model(tree), torch.rand(count, 1, 2, 2), q, q.rsample(), n, ESTIMATORS.get(estimator or ""))


def toy_data(n: int = 96, seed: int = 0) -> Dataset:
    """Small grey images with two factors: position and brightness of a bar.

    Args:
        n: how many.
        seed: the seed.
    """
    factors = Factors.of({"place": 8, "light": 4})
    index = np.arange(n) % factors.count
    labels = factors.labels(index)
    images = np.zeros((n, 1, 8, 8), np.uint8)
    for i, (place, light) in enumerate(labels):
        images[i, 0, :, place] = 60 + 60 * light
    return Dataset("toy", Pixels(images), Factors(factors.items, grid=False), labels)


def labelled_codes() -> tuple[np.ndarray, np.ndarray]:
    """400 codes of four columns and three labels: one column each, one shared by two, one of noise."""
    rng = np.random.default_rng(0)
    y = np.column_stack([rng.integers(3, size=400), rng.integers(5, size=400), rng.integers(4, size=400)])
    z = np.column_stack(
        [y[:, 0] + 0.3 * rng.normal(size=400), y[:, 1] + y[:, 2] * 0.5, rng.normal(size=400), y[:, 2] ** 2.0]
    )
    return z, y


def make_app(name: str, command: Callable[..., None]) -> typer.Typer:
    """A command line with one command; the empty callback keeps it a subcommand."""
    app = typer.Typer()
    app.callback()(lambda: None)
    app.command(name)(command)
    return app
