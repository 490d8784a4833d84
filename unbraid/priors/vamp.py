"""VampPrior: the mixture of the encoder's own posteriors at learned pseudo-inputs."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import nn

from unbraid.core.errors import expect
from unbraid.core.shapes import Float, Tensor
from unbraid.latent import Latent
from unbraid.priors.base import Images, Prior


class Vamp(Prior):
    """p(z) = (1/K) Σ_k q(z | u_k), u_k images that are learned. Tomczak & Welling 2018.

    The marginal at a node is the mixture of the posteriors' marginals there. Pseudo-inputs begin as images of the data
    and stay in the likelihood's range. The prior holds no second encoder: `attach` (called when the model is built)
    lends it the model's.

    >>> prior = Vamp(Latent.of(2), components=3)
    >>> prior.sample(1)
    Traceback (most recent call last):
        ...
    unbraid.core.errors.UnbraidError: prior 'vamp' has no encoder yet. Build it from a recipe, or call attach(model, shape).
    """

    kinds = ("real", "onehot", "binary")

    def __init__(self, tree: Latent, components: int = 50):
        super().__init__(tree)
        expect(
            isinstance(components, int) and 1 <= components <= 100_000,
            "prior 'vamp' needs between 1 and 100,000 components",
            found=repr(components),
        )
        self.components = components
        self.encode: Any = None
        self.pixel_range = (-math.inf, math.inf)

    def attach(self, model: Any, shape: tuple[int, int, int], images: Images | None = None) -> None:
        """See `Prior.attach`: pseudo-inputs start at training images, repeated where these are too few."""
        self.encode = model.posterior
        self.pixel_range = (model.likelihood.low, model.likelihood.high)
        self.inputs = nn.Parameter(0.5 + 0.05 * torch.randn(self.components, *shape))
        if images is not None:
            found = images(self.components)
            with torch.no_grad():
                self.inputs.copy_(found[torch.arange(self.components) % len(found)])

    def posteriors(self, temperature: float = 1.0) -> Any:
        """q(z | u_k) of all pseudo-inputs.

        Args:
            temperature: the temperature of relaxed discrete leaves.
        """
        expect(
            self.encode is not None,
            "prior 'vamp' has no encoder yet",
            do="Build it from a recipe, or call attach(model, shape).",
        )
        return self.encode(self.inputs.clamp(*self.pixel_range)).with_changes(temperature=temperature)

    def log_prob(self, z: Float[Tensor, "*s d"], temperature: float = 1.0) -> Float[Tensor, "*s v"]:
        """See `Prior.log_prob`."""
        return self.posteriors(temperature).log_prob(z.unsqueeze(-2)).logsumexp(-2) - math.log(self.components)

    @torch.no_grad()
    def sample(self, n: int, temperature: float = 1.0) -> Float[Tensor, "n d"]:
        """See `Prior.sample`."""
        q = self.posteriors(temperature)
        return q.select_rows(torch.randint(self.components, (n,), device=q.loc.device)).rsample()

    def covariance(self) -> Float[Tensor, "d d"]:
        """See `Prior.covariance`: E[Σ_k] + Cov[μ_k]."""
        q = self.posteriors()
        centred = q.mean - q.mean.mean(0)
        return q.mean_covariance() + centred.T @ centred / self.components
