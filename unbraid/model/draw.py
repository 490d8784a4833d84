"""One draw from a model: a batch, its posterior, a sample, and the quantities that follow from them, computed on first use."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from unbraid.core import distributed
from unbraid.core.errors import UnbraidError
from unbraid.core.shapes import Float, Tensor
from unbraid.latent import Latent
from unbraid.model import discrete_states as states
from unbraid.model.pairwise import log_mixture
from unbraid.model.posterior import Posterior, to_values

if TYPE_CHECKING:
    from unbraid.model.vae import Vae

PosteriorMixture = tuple[Posterior, Tensor]


@dataclass(frozen=True)
class LabelledRows:
    """Posteriors of labelled images, drawn apart from the batch, with the values of their factors.

    Args:
        q: the posteriors.
        values: values of the factors "b k", 0 where they are not known.
        known: which of them are known, booleans "b k".
    """

    q: Posterior
    values: Float[Tensor, "b k"]
    known: Tensor


@dataclass(frozen=True)
class Draw:
    """A batch x with its posterior q(z|x) and one sample z.

    In a run over several ranks (`core.distributed`) q and z are of the global batch, x and `out` this rank's rows of it.

    Args:
        model: the VAE.
        x: the images.
        q: their posterior.
        z: a sample of it.
        n: the number of images in the data set.
        estimator: a function of the draw and n that gives the mixture that stands for q(z).
        partners: draws of other views of the same rows, with ties applied.
        labelled: the labelled rows of the batch.
        states: the value of u in p(z|u) for each row.

    >>> from unbraid.model import LIKELIHOODS, NETS, Vae
    >>> from unbraid.priors import build
    >>> import torch
    >>> tree, x = Latent.of(2), torch.rand(4, 1, 8, 8)
    >>> model = Vae(tree, *NETS["mlp"]((1, 8, 8), tree, 4, 1), build({"name": "gaussian"}, tree), LIKELIHOODS["bernoulli"]())
    >>> draw = model.draw(x)
    >>> draw.z.shape, draw.log_qx.shape, draw.log_p.shape    # nodes: root, z0, z1
    (torch.Size([4, 2]), torch.Size([4, 3]), torch.Size([4, 3]))
    """

    model: Vae
    x: Float[Tensor, "r c h w"]
    q: Posterior
    z: Float[Tensor, "b d"]
    n: int
    estimator: Callable[[Draw, int], PosteriorMixture] | None = None
    partners: tuple[Draw, ...] = ()
    labelled: LabelledRows | None = None
    states: Tensor | None = None

    @property
    def views(self) -> tuple[Draw, ...]:
        """The draw and its partners."""
        return (self, *self.partners)

    @property
    def tree(self) -> Latent:
        """The latent tree."""
        return self.q.tree

    @cached_property
    def values(self) -> Float[Tensor, "b d"]:
        """z as decoders and critics see it."""
        return to_values(self.tree, self.z)

    @cached_property
    def out(self) -> Tensor:
        """The decoder's output at z, for the rows of x."""
        return self.model.decoder(distributed.local_rows(self.values))

    @cached_property
    def log_qx(self) -> Float[Tensor, "b v"]:
        """log q(z_v|x) at every node; by mass, its expectation over discrete states."""
        if self._enumerated:
            return states.expected_log_posterior(self.q, self.z)
        return self._at_sample(lambda z: self.model.charged(self.q).log_prob(z))

    @cached_property
    def log_p(self) -> Float[Tensor, "b v"]:
        """log p(z_v) at every node; by mass, its expectation over discrete states."""
        if self._enumerated:
            return states.expected_log_prior(self.model.prior, self.q, self.z)
        return self._at_sample(lambda z: self.model.prior.log_prob(z, self.model.charged(self.q).temperature))

    @cached_property
    def log_q(self) -> Float[Tensor, "b v"]:
        """log q(z_v), the aggregate posterior at every node, by the draw's estimator; by mass, its expectation."""
        if self.estimator is None:
            raise UnbraidError(
                "this term needs q(z), but no estimator was chosen. Set objective.estimator to stratified, mss or mws."
            )
        q, log_weights = self.estimator(self, self.n)
        rows = distributed.local_rows(log_weights) if len(log_weights) > 1 else log_weights
        if self._enumerated:
            own = self.q.select_rows(distributed.local_slice(len(self.q)))
            return distributed.map_rows(lambda z: states.expected_log_mixture(z, own, q, rows), self.z)
        q = self.model.charged(q) if self.model is not None else q
        return self._at_sample(lambda z: distributed.map_rows(lambda part: log_mixture(part, q, rows), z))

    @property
    def _enumerated(self) -> bool:
        """True when discrete leaves are charged by mass and their joint states are few enough to go through."""
        return self.model is not None and self.model.by_mass and states.state_count(self.tree) <= states.MAX_STATES

    def _at_sample(self, nodes: Callable[[Tensor], Tensor]) -> Tensor:
        """A function of z "b v" at the sample; by mass at the hard sample, with the gradient of its expectation."""
        if self.model is None or not self.model.by_mass:
            return nodes(self.z)
        hard = states.harden(self.tree, self.z)
        return states.score_function(nodes(hard), states.log_mass(self.q, hard))
