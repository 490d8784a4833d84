"""The one abstract class of priors: a density on the nodes of the tree, and a sampler.

Coordinates. A real leaf is itself; a one-hot leaf is log z on the simplex; a binary leaf is the logit of z.
Densities of discrete leaves are taken in those coordinates, for prior and posterior alike, so that their
ratios are those of the relaxed variables and float32 does not overflow at low temperature.
"""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from unbraid.core.shapes import Float, Tensor, tree_matrix
from unbraid.latent import Latent

Images = Callable[[int], Tensor]


def register_values(module: nn.Module, name: str, values: Tensor, learned: bool) -> None:
    """Register a tensor of a module: a parameter if it is learned, else a buffer, which checkpoints hold too.

    Args:
        module: the module.
        name: the attribute.
        values: the tensor.
        learned: the optimiser changes it.
    """
    if learned:
        module.register_parameter(name, nn.Parameter(values))
    else:
        module.register_buffer(name, values)


class Prior(nn.Module):
    """p(z) on a tree. `finest_cut` names the finest cut whose marginals are known in closed form.

    `kinds` are the leaves it can be given, `bounded` says that its density is 0 somewhere, `masses` that its discrete
    leaves have probability masses (`mass_kl`), `conditioned` that it has a p(z|u) (`gaussian_given`), and `lr` is a learning
    rate of its own for learned parameters (a recipe's `prior.lr`; None for the model's).

    >>> from unbraid.priors import build
    >>> prior = build({"name": "student_t"}, Latent.of(2))
    >>> prior.sample(3).shape, prior.log_prob(torch.zeros(3, 2)).shape, prior.finest_cut    # nodes: root, z0, z1
    (torch.Size([3, 2]), torch.Size([3, 3]), ('z0', 'z1'))
    """

    tree: Latent
    finest_cut: tuple[str, ...]
    kinds: tuple[str, ...] = ("real",)
    bounded: bool = False
    masses: bool = False
    conditioned: bool = False
    lr: float | None = None

    def __init__(self, tree: Latent, finest_cut: tuple[str, ...] | None = None):
        super().__init__()
        self.tree = tree
        self.name = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", type(self).__name__).lower()  # or the name it is built by
        self.finest_cut = tuple(leaf.name for leaf in tree.leaves) if finest_cut is None else finest_cut

    @abstractmethod
    def log_prob(self, z: Float[Tensor, "*s d"], temperature: float = 1.0) -> Float[Tensor, "*s v"]:
        """log p(z_v) at every node v; NaN where the marginal is not known in closed form.

        Args:
            z: codes "… d", in the coordinates of the prior.
            temperature: the temperature of relaxed discrete leaves.
        """

    @abstractmethod
    def sample(self, n: int, temperature: float = 1.0) -> Float[Tensor, "n d"]:
        """n draws from p, in the coordinates above.

        Args:
            n: how many.
            temperature: the temperature of relaxed discrete leaves.
        """

    def leaf_log_prob(self, z: Float[Tensor, "*s d"], temperature: float = 1.0) -> Float[Tensor, "*s l"]:
        """log p(z_l) of every leaf for reports, by numbers where there is no closed form; no gradient is promised.

        Args:
            z: codes "… d", in the coordinates of the prior.
            temperature: the temperature of relaxed discrete leaves.
        """
        return self.log_prob(z, temperature)[..., list(self.tree.leaf_nodes)]

    def covariance(self) -> Float[Tensor, "d d"]:
        """The covariance of p over all columns: what moment matching aims at (the identity unless overridden)."""
        return torch.eye(self.tree.width, device=next(iter(self.parameters()), torch.empty(0)).device)

    def mass_kl(self, logits: Float[Tensor, "b d"]) -> Float[Tensor, "b"]:
        """KL of a product of discrete masses, by their logits, to p's masses; only where `masses`.

        Args:
            logits: logits "b d" of the posterior.
        """
        raise NotImplementedError

    def gaussian_given(self, u: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Mean and log-scale "b d" of a Gaussian p(z|u), and log p(u) "b"; only where `conditioned`.

        Args:
            u: the known variable of each image.
        """
        raise NotImplementedError

    def build_shift(self, width: int) -> nn.Module:
        """A module of u for an encoder that sees u, with outputs about 0 at first; only where `conditioned`.

        Args:
            width: number of outputs.
        """
        raise NotImplementedError

    def mean_shift(self, shift: nn.Module) -> Tensor:
        """The mean over p(u) of a module of u, for images whose u is not known; only where `conditioned`.

        Args:
            shift: the module.
        """
        raise NotImplementedError

    def observe(self, u: Tensor) -> None:
        """Check u of the training images, and keep what p(z) needs of it; called before training, only where `conditioned`.

        Args:
            u: the known variable of all training images.
        """
        raise NotImplementedError

    def attach(self, model: Any, shape: tuple[int, int, int], images: Images | None = None) -> None:
        """Complete the prior: called once, for priors that use the encoder or are initialised from the data.

        Args:
            model: the model, with its nets.
            shape: channels, height and width of the images.
            images: images(n) returns up to n training images; None when a trained model is opened.
        """

    def sum_to_nodes(self, leaf_log_prob: Float[Tensor, "*s l"]) -> Float[Tensor, "*s v"]:
        """Node log-densities of a prior that factorises over leaves: membership sums the leaves.

        Args:
            leaf_log_prob: log densities of the leaves.
        """
        return leaf_log_prob @ tree_matrix(self.tree, "membership", leaf_log_prob).T

    def has_marginal(self, node: str) -> bool:
        """True when the marginal of this node is known: it is in the finest cut or above it.

        Args:
            node: the name of the node.
        """
        below = set(self.tree.subtree_names(node))
        return bool(below & set(self.finest_cut))
