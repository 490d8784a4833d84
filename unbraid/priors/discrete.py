"""Discrete leaves: one-hot and binary, relaxed at a positive temperature, with uniform, given or learned probabilities.

A temperature of 0 is the discrete variable itself: its samples are hard and its log-probabilities are masses.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import torch
from torch import nn

from unbraid.core.errors import expect
from unbraid.core.shapes import Float, Tensor
from unbraid.latent import Latent, Leaf
from unbraid.priors.base import Prior, register_values


def concrete_log_prob(y: Float[Tensor, "*s k"], logits: Float[Tensor, "*r k"], temperature: float) -> Tensor:
    """The Concrete density of y = log z, on the simplex in log coordinates.

    log p(y) = log Γ(K) + (K−1) log τ + Σ_k (a_k − τ y_k) − K log Σ_k exp(a_k − τ y_k),  a = log-probabilities.

    Maddison et al. 2017 (ExpConcrete); finite in float32 at any temperature because z itself never appears. At temperature
    0 it is the log-mass of a hard z, Σ_k z_k a_k.

    Args:
        y: log z "… k".
        logits: logits of the classes or bits.
        temperature: the temperature of relaxed discrete leaves.
    """
    if temperature == 0:
        return (y.exp() * logits).sum(-1)
    k = y.shape[-1]
    score = logits - temperature * y
    return math.lgamma(k) + (k - 1) * math.log(temperature) + score.sum(-1) - k * score.logsumexp(-1)


def binary_log_prob(y: Tensor, logits: Tensor, temperature: float) -> Tensor:
    """The relaxed Bernoulli density of y = logit z (a logistic law): log τ + u − 2 softplus(u), u = a − τ y.

    At temperature 0 it is the log-mass of a hard bit z: z log σ(a) + (1 − z) log σ(−a).

    Args:
        y: logit z.
        logits: logits of the classes or bits.
        temperature: the temperature of relaxed discrete leaves.
    """
    if temperature == 0:
        z = y.sigmoid()
        return z * nn.functional.logsigmoid(logits) + (1 - z) * nn.functional.logsigmoid(-logits)
    u = logits - temperature * y
    return math.log(temperature) + u - 2 * nn.functional.softplus(u)


def concrete_sample(logits: Tensor, temperature: float) -> Tensor:
    """log z of one Concrete draw: log-softmax((a + Gumbel)/τ); at temperature 0 the one-hot arg max, an exact draw.

    Args:
        logits: logits of the classes or bits.
        temperature: the temperature of relaxed discrete leaves.
    """
    gumbel = -torch.empty_like(logits).exponential_().clamp_min_(torch.finfo(logits.dtype).tiny).log()
    if temperature == 0:
        return hard_coordinates(logits + gumbel, "onehot")
    return ((logits + gumbel) / temperature).log_softmax(-1)


def binary_sample(logits: Tensor, temperature: float) -> Tensor:
    """logit z of one relaxed Bernoulli draw: (a + Logistic)/τ; at temperature 0 a hard bit, an exact draw.

    Args:
        logits: logits of the classes or bits.
        temperature: the temperature of relaxed discrete leaves.
    """
    u = torch.rand_like(logits).clamp(torch.finfo(logits.dtype).eps, 1 - torch.finfo(logits.dtype).eps)
    noisy = logits + u.log() - (-u).log1p()
    return hard_coordinates(noisy, "binary") if temperature == 0 else noisy / temperature


def hard_coordinates(y: Tensor, kind: str) -> Tensor:
    """The nearest hard value in the same coordinates: log of the one-hot arg max, or ±∞ for a bit; constant for the gradient.

    Args:
        y: log z or logit z.
        kind: the kind of leaf.
    """
    if kind == "onehot":
        return nn.functional.one_hot(y.detach().argmax(-1), y.shape[-1]).to(y.dtype).log()
    return torch.where(y.detach() > 0, torch.inf, -torch.inf).to(y.dtype)


def mass_kl(a: Float[Tensor, "b k"], b: Tensor, kind: str) -> Float[Tensor, "b"]:
    """KL between probability masses, from logits: Σ_k π_k log π_k/p_k for a one-hot leaf, the sum over bits for a binary one.

    Args:
        a: logits of π.
        b: logits of p.
        kind: the kind of leaf.
    """
    if kind == "onehot":
        log_q, log_p = a.log_softmax(-1), b.log_softmax(-1)
        return (log_q.exp() * (log_q - log_p)).sum(-1)
    log = nn.functional.logsigmoid
    on, off = a.sigmoid() * (log(a) - log(b)), (-a).sigmoid() * (log(-a) - log(-b))
    return (on + off).sum(-1)


def leaf_states(leaf: Leaf) -> int:
    """The number of states of a discrete leaf.

    Args:
        leaf: the leaf.
    """
    return leaf.width if leaf.kind == "onehot" else 2**leaf.width


def joint_weights(weights: Iterable[Float[Tensor, "*s k"]], like: Float[Tensor, "*s d"]) -> Float[Tensor, "*s states"]:
    """The weight of every joint state of some variables, the last one fastest; one state without variables.

    Args:
        weights: the weights of the states of each variable.
        like: a tensor with as many rows.
    """
    joint = like.new_ones(*like.shape[:-1], 1)
    for each in weights:
        joint = (joint.unsqueeze(-1) * each.unsqueeze(-2)).flatten(-2)
    return joint


class Discrete(Prior):
    """p of one discrete leaf, uniform, given or learned: masses at temperature 0, else a relaxed density.

    Maddison et al. 2017; Esmaeili et al. 2018, Sec. 6: "a discrete variable with 10 classes". The prior has the
    temperature of the posterior, so both are masses (`posterior.discrete = "mass"`) or densities of the same kind.

    >>> prior = Discrete(Latent.of({"digit": "onehot(3)"}), probabilities=[0.5, 0.25, 0.25])
    >>> prior.sample(4, temperature=0.5).shape
    torch.Size([4, 3])
    """

    kinds = ("onehot", "binary")
    masses = True
    logits: Tensor

    def __init__(self, tree: Latent, probabilities: Sequence[float] | None = None, learned: bool = False):
        super().__init__(tree)
        leaf = tree.leaves[0]
        expect(
            len(tree.leaves) == 1 and leaf.kind != "real", "prior 'discrete' is for one discrete leaf", found=str(tree)
        )
        self.kind = leaf.kind
        uniform = 1 / leaf.width if leaf.kind == "onehot" else 0.5
        p = torch.as_tensor(
            [uniform] * leaf.width if probabilities is None else list(probabilities), dtype=torch.get_default_dtype()
        )
        expect(
            p.shape == (leaf.width,),
            "prior 'discrete' needs one probability per column",
            found=len(p),
            allowed=leaf.width,
        )
        expect(bool(((p > 0) & (p < 1)).all()), "probabilities must lie strictly between 0 and 1", found=p.tolist())
        expect(
            leaf.kind == "binary" or abs(float(p.sum()) - 1) < 1e-4,
            "probabilities of a one-hot leaf must sum to 1",
            found=float(p.sum()),
        )
        logits = p.log() if leaf.kind == "onehot" else p.logit()
        register_values(self, "logits", logits, learned)

    @property
    def normalised_logits(self) -> Tensor:
        """log-probabilities of a one-hot leaf, logits of a binary one."""
        return self.logits.log_softmax(-1) if self.kind == "onehot" else self.logits

    def log_prob(self, z: Float[Tensor, "*s d"], temperature: float = 1.0) -> Float[Tensor, "*s v"]:
        """See `Prior.log_prob`."""
        logits = self.normalised_logits.to(z.dtype)
        if self.kind == "onehot":
            leaf = concrete_log_prob(z, logits, temperature)
        else:
            leaf = binary_log_prob(z, logits, temperature).sum(-1)
        return self.sum_to_nodes(leaf.unsqueeze(-1))

    def mass_kl(self, logits: Float[Tensor, "b d"]) -> Float[Tensor, "b"]:
        """See `Prior.mass_kl`."""
        return mass_kl(logits, self.normalised_logits.to(logits), self.kind)

    def sample(self, n: int, temperature: float = 1.0) -> Float[Tensor, "n d"]:
        """See `Prior.sample`."""
        logits = self.normalised_logits.detach().expand(n, -1)
        return concrete_sample(logits, temperature) if self.kind == "onehot" else binary_sample(logits, temperature)

    def covariance(self) -> Float[Tensor, "d d"]:
        """See `Prior.covariance`: of the hard values, diag p − p pᵀ for a one-hot leaf and p(1−p) for bits."""
        p = self.normalised_logits.exp() if self.kind == "onehot" else self.normalised_logits.sigmoid()
        return p.diag() - p.outer(p) if self.kind == "onehot" else (p * (1 - p)).diag()
