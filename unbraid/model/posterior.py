"""The posterior q(z|x): a batch of posteriors on the latent tree, abstract. Families are final, one per file in `posteriors`.

Real leaves are the family's; discrete leaves are the same for every family (`relaxed_discrete`): Concrete on one-hot leaves,
relaxed bits on binary ones. z is in the coordinates of `priors.base`: itself, log z on the simplex, or logit z.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import fields, replace
from typing import Any, TypeVar

import torch

from unbraid.core.shapes import Float, Tensor, tree_matrix
from unbraid.latent import Latent
from unbraid.model import relaxed_discrete

Q = TypeVar("Q", bound="Posterior")


class Posterior(ABC):
    """A batch of posteriors q(z|x), one row an example; a family is a frozen dataclass of tensors with a row each.

    `loc` holds the means of real columns and the logits of discrete ones. `independent` says that real columns are
    independent given x; a family whose columns are not also gives `log_prob`, `dependence`, `within_leaf_dependence`,
    `mean_covariance` and `restrict`. `tests/contracts/test_posteriors.py` holds every family to what is said here.

    >>> from unbraid.model import POSTERIORS
    >>> q = POSTERIORS["diagonal"].from_params(Latent.of(2), torch.zeros(3, 4))
    >>> q.rsample().shape, q.mean.shape, q.log_prob(q.rsample()).shape    # nodes: root, z0, z1
    (torch.Size([3, 2]), torch.Size([3, 2]), torch.Size([3, 3]))
    """

    tree: Latent
    loc: Float[Tensor, "*s d"]
    temperature: float
    independent: bool = True

    @staticmethod
    @abstractmethod
    def param_count(tree: Latent) -> int:
        """The number of outputs that an encoder needs.

        Args:
            tree: the latent tree.
        """

    @classmethod
    @abstractmethod
    def from_params(cls: type[Q], tree: Latent, params: Float[Tensor, "b p"], temperature: float = 1.0) -> Q:
        """From an encoder's output; the first d numbers are means and logits.

        Args:
            tree: the latent tree.
            params: the output of the encoder.
            temperature: the temperature of relaxed discrete leaves.
        """

    @abstractmethod
    def rsample(self) -> Float[Tensor, "*s d"]:
        """One reparametrised draw per example."""

    @abstractmethod
    def leaf_log_prob(self, z: Float[Tensor, "*s d"]) -> Tensor:
        """log q(z_l|x) of every leaf; broadcasts, so z "b 1 d" gives all pairs "b m l".

        Args:
            z: codes "… d", in the coordinates of the prior.
        """

    @property
    @abstractmethod
    def scale(self) -> Float[Tensor, "*s d"]:
        """Standard deviations of real columns, 0 in discrete ones."""

    @abstractmethod
    def entropy(self) -> Float[Tensor, "*s"]:
        """H[q(z|x)] of the real columns."""

    def __len__(self) -> int:
        return self.loc.shape[0]

    @classmethod
    def name(cls) -> str:
        """The family's name in recipes."""
        return cls.__name__.lower()

    def log_prob(self, z: Float[Tensor, "... d"]) -> Float[Tensor, "... v"]:
        """log q(z_v|x) at every node v.

        Args:
            z: codes "… d", in the coordinates of the prior.
        """
        leaves = self.leaf_log_prob(z)
        return leaves @ tree_matrix(self.tree, "membership", leaves).T

    @property
    def mean(self) -> Float[Tensor, "*s d"]:
        """What codes hold: means of real columns, probabilities of discrete ones."""
        return relaxed_discrete.code_mean(self.tree, self.loc)

    def mean_covariance(self) -> Float[Tensor, "d d"]:
        """E[Cov(z|x)] over the batch, 0 in discrete columns: what the codes' own noise adds to the covariance of z."""
        return self.scale.square().mean(0).diag()

    def dependence(self, cut: Iterable[str] | None = None) -> Float[Tensor, "*s"] | float:
        """KL(q(z|x) ‖ Π_v q(z_v|x)) over a cut of the tree (the leaves): 0 where columns are independent.

        Args:
            cut: names of nodes that cover every leaf once; None for the leaves.
        """
        assert self.independent
        return 0.0

    def within_leaf_dependence(self) -> Float[Tensor, "*s l"] | float:
        """KL(q(z_l|x) ‖ Π_columns) inside each leaf: 0 where columns are independent."""
        assert self.independent
        return 0.0

    def restrict(self: Q, name: str) -> Q:
        """The posterior of the columns below one node.

        Args:
            name: the name of the node.
        """
        columns = torch.as_tensor(self.tree.columns(name), device=self.loc.device)
        return self._copy(lambda t: t.index_select(-1, columns), tree=self.tree.subtree(name))

    def select_rows(self: Q, index: slice | Tensor) -> Q:
        """Some examples of the batch.

        Args:
            index: the examples.
        """
        return self._copy(lambda t: t[index])

    def hard(self: Q) -> Q:
        """The same posterior at temperature 0: discrete leaves draw hard values, and their log-probabilities are masses."""
        return self.with_changes(temperature=0.0)

    def detach(self: Q) -> Q:
        """The same posterior, constant for the gradient."""
        return self._copy(torch.Tensor.detach)

    @property
    def tensors(self) -> dict[str, Tensor]:
        """The tensors it is made of, by field: a row for each example."""
        found = {field.name: getattr(self, field.name) for field in fields(self)}  # type: ignore[arg-type]
        return {name: value for name, value in found.items() if isinstance(value, Tensor)}

    def with_changes(self: Q, **changes: Any) -> Q:
        """A copy of the same family with some fields changed."""
        return replace(self, **changes)  # type: ignore[type-var]

    def _copy(self: Q, change: Callable[[Tensor], Tensor], **more: Any) -> Q:
        """A copy of the same family with every tensor changed."""
        return self.with_changes(**{name: change(t) for name, t in self.tensors.items()}, **more)


def to_values(tree: Latent, z: Float[Tensor, "*s d"]) -> Float[Tensor, "*s d"]:
    """Coordinates to values: exp for one-hot leaves, sigmoid for binary ones, nothing for real ones.

    Args:
        tree: the latent tree.
        z: codes "… d", in the coordinates of the prior.

    >>> to_values(Latent.of({"on": "binary", "x": 1}), torch.zeros(1, 2))    # sigmoid(0), and 0 as it is
    tensor([[0.5000, 0.0000]])
    """
    return relaxed_discrete.map_discrete_leaves(tree, z, torch.exp, torch.sigmoid)
