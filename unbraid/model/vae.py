"""The model: nets, prior, likelihood and the family of q(z|x)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
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
from unbraid.model.ties import Tie
from unbraid.priors.base import Prior


class Vae(nn.Module):
    """p(x|z) p(z) and q(z|x) over one latent tree.

    The attribute `temperature` relaxes discrete leaves. `discrete` says how terms charge discrete leaves: by probability
    "mass" (`discrete_states`), or by relaxed "density".

    Args:
        tree: the latent tree.
        encoder: images to parameters of the posterior.
        decoder: codes to the output that the likelihood reads.
        prior: the prior.
        likelihood: p(x|z).
        family: the class of the posterior.

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
        self.state_shift: nn.Module | None = None  # what a known u adds to the encoder's output

    has_elbo = True  # a likelihood and an ELBO: it can be audited and bounded

    @property
    def pixel_range(self) -> tuple[float, float]:
        """The smallest and the largest pixel value that the likelihood accepts."""
        return self.likelihood.low, self.likelihood.high

    @property
    def decoding_parts(self) -> tuple[nn.Module, Tensor | None, Likelihood | None]:
        """What `decode` computes: the net, the constant inputs that it takes after the codes, and the likelihood."""
        return self.decoder, None, self.likelihood

    @property
    def by_mass(self) -> bool:
        """True when terms charge discrete leaves by probability mass."""
        return self.discrete == "mass" and not self.tree.all_real

    def charged(self, q: Posterior) -> Posterior:
        """The posterior that a bound on log p(x) is made of: hard where discrete leaves are charged by mass.

        Args:
            q: the posterior.
        """
        return q.hard() if self.by_mass else q

    def posterior(self, x: Float[Tensor, "b c h w"]) -> Posterior:
        """q(z|x) for a batch.

        Args:
            x: images "b c h w".
        """
        return self.family.from_params(self.tree, self._shift(self.encoder(x)), self.temperature)

    def _shift(self, params: Tensor, states: Tensor | None = None) -> Tensor:
        """The encoder's output with what u adds to it; where u is not known, the mean over p(u)."""
        if self.state_shift is None:
            return params
        if states is None:
            return params + self.prior.mean_shift(self.state_shift)
        u = distributed.local_rows(states)
        u = u.to(next(self.state_shift.parameters())) if u.is_floating_point() else u
        return params + self.state_shift(u)

    def draw(
        self,
        x: Float[Tensor, "b c h w"],
        n: int | None = None,
        estimator: Any = None,
        bound: bool = False,
        states: Tensor | None = None,
    ) -> Draw:
        """A batch, its posterior and one sample of it; of several ranks each gives its images, and q and z are of all.

        Args:
            x: images.
            n: the size of the data set (that of the batch).
            estimator: what stands for q(z).
            bound: decode hard codes where discrete leaves are charged by mass; a relaxed decode with masses bounds nothing.
            states: u of each row, of all ranks, where p(z|u) is trained.
        """
        params = distributed.all_gather_rows(self._shift(self.encoder(x), states))
        q = self.family.from_params(self.tree, params, self.temperature)
        q = self.charged(q) if bound else q
        return Draw(self, x, q, q.rsample(), len(q) if n is None else n, estimator, states=states)

    def draw_views(
        self,
        views: Sequence[Float[Tensor, "b c h w"]],
        n: int | None = None,
        estimator: Any = None,
        tie: Tie | None = None,
        changed: Tensor | None = None,
    ) -> Draw:
        """A draw of the first view with the others as partners; each view has its own sample, and q(z) from its own rows.

        Args:
            views: images of the views, row by row of the same things; one pass of the encoder serves all.
            n: the size of the data set (that of the batch).
            estimator: what stands for q(z).
            tie: what the views share.
            changed: which factors differ "b k", where the pairs say so.
        """
        params = self._shift(self.encoder(torch.cat(list(views)))).chunk(len(views))
        qs = [self.family.from_params(self.tree, distributed.all_gather_rows(p), self.temperature) for p in params]
        tied = qs if tie is None else tie(qs, changed)
        draws = [
            Draw(self, x, q, q.rsample(), len(q) if n is None else n, estimator)
            for x, q in zip(views, tied, strict=True)
        ]
        return replace(draws[0], partners=tuple(draws[1:]))

    def decode(self, values: Float[Tensor, "b d"]) -> Tensor:
        """Mean images of codes: real numbers, class probabilities, bits.

        Args:
            values: codes "b d".
        """
        return self.likelihood.mean(self.decoder(values))

    @torch.no_grad()
    def sample(self, n: int) -> Tensor:
        """Mean images of n codes from the prior.

        Args:
            n: how many.
        """
        return self.decode(self.sample_codes(n))

    @torch.no_grad()
    def sample_codes(self, n: int) -> Float[Tensor, "n d"]:
        """n codes from the prior as values; discrete leaves that are charged by mass are hard, as in the bound on log p(x).

        Args:
            n: how many.
        """
        return to_values(self.tree, self.prior.sample(n, 0.0 if self.by_mass else self.temperature))
