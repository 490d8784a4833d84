"""The model: nets, prior, likelihood and the family of q(z|x)."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from unbraid.core import distributed
from unbraid.core.shapes import Float, Tensor
from unbraid.latent import Latent
from unbraid.model.draw import Draw
from unbraid.model.likelihood import Likelihood
from unbraid.model.posterior import Posterior, to_values
from unbraid.model.posteriors import Diagonal
from unbraid.priors.base import Prior


class Vae(nn.Module):
    """p(x|z) p(z) and q(z|x) over one latent tree. `temperature` relaxes discrete leaves, `family` is q's class.

    `discrete` says how terms charge discrete leaves: by probability "mass" (`discrete_states`), or by relaxed "density".

    >>> from unbraid.model import LIKELIHOODS, NETS
    >>> from unbraid.priors import build
    >>> tree, x = Latent.of(2), torch.rand(4, 1, 8, 8)
    >>> model = Vae(tree, *NETS["mlp"]((1, 8, 8), tree, 4, 1), build({"name": "gaussian"}, tree), LIKELIHOODS["bernoulli"]())
    >>> model.posterior(x).mean.shape, model.sample(3).shape
    (torch.Size([4, 2]), torch.Size([3, 1, 8, 8]))
    """

    def __init__(
        self,
        tree: Latent,
        encoder: nn.Module,
        decoder: nn.Module,
        prior: Prior,
        likelihood: Likelihood,
        family: type[Posterior] = Diagonal,
    ):
        super().__init__()
        self.tree, self.encoder, self.decoder, self.prior, self.likelihood = tree, encoder, decoder, prior, likelihood
        self.family = family
        self.temperature = 1.0
        self.discrete = "density"

    has_elbo = True  # a likelihood and an ELBO: it can be audited and bounded

    @property
    def pixel_range(self) -> tuple[float, float]:
        """The smallest and the largest pixel value that the likelihood accepts."""
        return self.likelihood.low, self.likelihood.high

    @property
    def by_mass(self) -> bool:
        """True when terms charge discrete leaves by probability mass."""
        return self.discrete == "mass" and not self.tree.all_real

    def charged(self, q: Posterior) -> Posterior:
        """The posterior that a bound on log p(x) is made of: hard where discrete leaves are charged by mass."""
        return q.hard() if self.by_mass else q

    def posterior(self, x: Float[Tensor, "b c h w"]) -> Posterior:
        """q(z|x) for a batch."""
        return self.family.from_params(self.tree, self.encoder(x), self.temperature)

    def draw(
        self, x: Float[Tensor, "b c h w"], n: int | None = None, estimator: Any = None, bound: bool = False
    ) -> Draw:
        """A batch, its posterior and one sample of it; of several ranks each gives its images, and q and z are of all.

        Args:
            x: images.
            n: the size of the data set (that of the batch).
            estimator: what stands for q(z).
            bound: decode hard codes where discrete leaves are charged by mass; a relaxed decode with masses bounds nothing.
        """
        q = self.family.from_params(self.tree, distributed.all_gather_rows(self.encoder(x)), self.temperature)
        q = self.charged(q) if bound else q
        return Draw(self, x, q, q.rsample(), len(q) if n is None else n, estimator)

    def decode(self, values: Float[Tensor, "b d"]) -> Tensor:
        """Mean images of codes: real numbers, class probabilities, bits."""
        return self.likelihood.mean(self.decoder(values))

    @torch.no_grad()
    def sample(self, n: int) -> Tensor:
        """Mean images of n codes from the prior."""
        return self.decode(to_values(self.tree, self.prior.sample(n, self.temperature)))
