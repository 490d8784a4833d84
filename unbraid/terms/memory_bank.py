"""A memory bank of past posteriors: q(z) over more than the batch, at the price of staleness."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch

from unbraid.core.errors import expect
from unbraid.core.shapes import Float, Tensor
from unbraid.latent import Latent
from unbraid.model.draw import Draw, PosteriorMixture
from unbraid.model.posterior import Posterior
from unbraid.model.posteriors import Diagonal
from unbraid.terms.critics import Critic


@dataclass(frozen=True)
class BankSpec:
    """`rows` past posteriors are kept: the last rows / batch batches of this epoch.

    >>> BankSpec(512).build(Latent.of(2), None).loc.shape
    torch.Size([512, 2])
    """

    rows: int = 1024
    name: ClassVar[str] = "memory_bank"

    def __post_init__(self) -> None:
        expect(1 <= self.rows <= 10**7, "a memory bank keeps between 1 and 10,000,000 posteriors", found=self.rows)

    def build(self, tree: Latent, prior: Any, family: type[Posterior] = Diagonal) -> Bank:
        """See `RatioSpec.build`: an empty bank."""
        return Bank(tree, self, family)


def bank_weights(b: int, k: int, n: int, like: Tensor) -> Float[Tensor, "b m"]:
    """Log weights of a batch of b and a bank of k: 1/N for one's own posterior, (N−1)/(N(B−1+K)) for each other.

    With K = 0 it is the stratified form of Esmaeili et al. 2018, Eq. 13.

    Args:
        b: rows of the batch.
        k: rows of the bank.
        n: images in the data set.
        like: a tensor of the type and device to use.

    >>> bank_weights(3, 2, 10, torch.zeros(())).exp().sum(1)
    tensor([1., 1., 1.])
    """
    weights = torch.full((b, b + k), (n - 1) / (n * max(b - 1 + k, 1)), dtype=torch.float64)
    weights.diagonal().fill_(1 / n)
    return weights.log().to(dtype=like.dtype, device=like.device)


class Bank(Critic):
    """The last posteriors of this epoch, constant for the gradient, in addition to those of the batch.

    Past batches of one epoch share no datum with the present one (batches are drawn without replacement), so the
    weights stay right; at the end of an epoch the bank is emptied. Stale posteriors are those of a slightly
    different encoder: that is its bias. Its contents are buffers, so a resumed run gives the same bits.

    >>> from unbraid.objectives import build
    >>> build({"name": "beta_tcvae", "estimator": "memory_bank(512)"}).critics["memory_bank"].rows
    512
    """

    count: Tensor

    def __init__(self, tree: Latent, spec: BankSpec, family: type[Posterior]):
        super().__init__()
        self.tree, self.spec = tree, spec
        one = family.from_params(tree, torch.zeros(1, family.param_count(tree)))
        for name, tensor in one.tensors.items():
            self.register_buffer(name, torch.zeros(spec.rows, *tensor.shape[1:]))
        self.register_buffer("count", torch.zeros(2, dtype=torch.int64))  # posteriors filed this epoch, batches ever

    def forward(self, draw: Draw) -> dict[str, Tensor]:
        """See `Critic.forward`: no terms."""
        return {}

    def mixture(self, draw: Draw, n: int) -> PosteriorMixture:
        """The batch and the bank as one mixture; in training, the batch is then added to the bank (`Draw` calls this only once).

        Args:
            draw: the batch with its posteriors and samples.
            n: images in the data set.
        """
        q = draw.q
        filed, batches = (int(c) for c in self.count)
        if batches % max(n // len(q), 1) == 0:
            filed = 0  # a new epoch: past data may come again
        k = min(filed, self.spec.rows)
        both = {name: torch.cat([t, getattr(self, name)[:k].to(t)]) for name, t in q.tensors.items()}
        if self.training and torch.is_grad_enabled():
            self._store(q, filed, batches)
        return q.with_changes(**both), bank_weights(len(q), k, n, q.loc)

    @torch.no_grad()
    def _store(self, q: Posterior, filed: int, batches: int) -> None:
        keep = min(len(q), self.spec.rows)
        place = (filed + torch.arange(keep, device=self.count.device)) % self.spec.rows
        for name, tensor in q.tensors.items():
            kept = getattr(self, name)
            kept[place] = tensor[:keep].to(kept)
        self.count.copy_(torch.tensor([filed + keep, batches + 1]))
