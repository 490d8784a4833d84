"""Discrete leaves charged by probability mass: expectations of node log-probabilities, exact over joint states.

Given x the discrete leaves are independent of each other and of the real ones. A term of the KL is linear in log q(z_v|x),
log q(z_v) and log p(z_v), so it needs only their expectations over the discrete states s ~ q(s|x), at a sample of the real
columns. Up to `MAX_STATES` joint states are enumerated: no sampling noise, exact gradients, for every estimator of q(z).
Beyond that the hard sample is used, with the score-function gradient (`score_function`): unbiased, but noisy.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from itertools import product

import torch
from torch import nn

from unbraid.core.shapes import Float, Tensor, tree_matrix
from unbraid.latent import Latent, Leaf
from unbraid.model.pairwise import map_row_pieces
from unbraid.model.posterior import Posterior
from unbraid.model.relaxed_discrete import map_discrete_leaves
from unbraid.priors.base import Prior
from unbraid.priors.discrete import hard_coordinates, joint_weights, leaf_states

MAX_STATES = 64


def state_count(tree: Latent) -> int:
    """The number of joint states of a tree's discrete leaves.

    Args:
        tree: the latent tree.

    >>> state_count(Latent.of({"digit": "onehot(10)", "bits": "binary(2)", "style": 3}))
    40
    """
    return math.prod(leaf_states(leaf) for leaf in tree.leaves if leaf.kind != "real")


def joint_states(tree: Latent, like: Tensor) -> Float[Tensor, "s d"]:
    """Every joint state of the discrete leaves in coordinates (log of a one-hot, ±∞ for a bit), 0 in real columns.

    States are in the order of `itertools.product` over the leaves, the last leaf fastest.

    Args:
        tree: the latent tree.
        like: a tensor of the wanted type and device.
    """
    cache, key = tree.__dict__.setdefault("_states", {}), (like.dtype, like.device)
    if key not in cache:
        cache[key] = _joint_states(tree, like)
    return cache[key]


def _joint_states(tree: Latent, like: Tensor) -> Tensor:
    leaves = [(leaf, s) for leaf, s in zip(tree.leaves, tree.slices, strict=True) if leaf.kind != "real"]
    choices = [_leaf_coordinates(leaf, like) for leaf, _ in leaves]
    states = like.new_zeros(state_count(tree), tree.width)
    for row, chosen in enumerate(product(*(range(len(each)) for each in choices))):
        for (_, s), coordinates, state in zip(leaves, choices, chosen, strict=True):
            states[row, s] = coordinates[state]
    return states


def state_probabilities(q: Posterior, node: str = "root") -> Float[Tensor, "b s"]:
    """q(s|x) of the joint states of the discrete leaves below a node, in the order of `joint_states`.

    Args:
        q: a batch of posteriors.
        node: a node of the tree with at least one discrete leaf below it.

    >>> from unbraid.model import Diagonal
    >>> q = Diagonal.from_params(Latent.of({"a": "onehot(3)", "b": "binary", "x": 1}), torch.zeros(2, 6))
    >>> state_probabilities(q)[0]
    tensor([0.1667, 0.1667, 0.1667, 0.1667, 0.1667, 0.1667])
    """
    return joint_weights((_leaf_probabilities(leaf, q.loc[:, s]) for leaf, s in _discrete_below(q.tree, node)), q.loc)


def expected_log_posterior(q: Posterior, z: Float[Tensor, "b d"]) -> Float[Tensor, "b v"]:
    """E_s log q(z_v, s_v|x) at every node: the density of the real columns of z, less the entropy of the discrete leaves.

    Args:
        q: a batch of posteriors.
        z: a sample of each; only its real columns are used.
    """
    entropies = [_negative_entropy(leaf, q.loc[:, s]) for leaf, s in zip(q.tree.leaves, q.tree.slices, strict=True)]
    discrete = torch.stack(entropies, -1)
    return real_log_prob(q, z) + discrete @ tree_matrix(q.tree, "membership", discrete).T


def expected_log_prior(prior: Prior, q: Posterior, z: Float[Tensor, "b d"]) -> Float[Tensor, "b v"]:
    """E_s log p(z_v, s_v) at every node, s ~ q(s|x), by going through every joint state.

    Args:
        prior: the prior; its discrete leaves are masses at temperature 0.
        q: a batch of posteriors.
        z: a sample of each; only its real columns are used.
    """
    states = joint_states(q.tree, z)
    real = torch.zeros(q.tree.width, dtype=torch.bool, device=z.device)
    real[q.tree.columns_of_kind("real")] = True
    every = torch.where(real, z.unsqueeze(1), states)
    nodes = prior.log_prob(every, 0.0)
    unknown = torch.tensor([not prior.has_marginal(name) for name in q.tree.names], device=z.device)
    # a NaN that no term uses would still spoil the gradient of the probabilities
    expected = (state_probabilities(q).unsqueeze(-1) * nodes.masked_fill(unknown, 0.0)).sum(1)
    return expected.masked_fill(unknown, math.nan)


def expected_log_mixture(
    z: Float[Tensor, "b d"], own: Posterior, q: Posterior, log_weights: Tensor
) -> Float[Tensor, "b v"]:
    """E_s log Σ_m w_bm q(z_b,v, s_v | x_m) at every node, s ~ own(s|x_b): `pairwise.log_mixture` over discrete states.

    For a node with discrete leaves the mixture is one matrix product, Σ_m [w_bm q(z_b|x_m)] q(s|x_m), of b × m by m × s.

    Args:
        z: rows; only their real columns are used.
        own: the posteriors that the rows were drawn from.
        q: the components of the mixture.
        log_weights: log weights "b m", or "1 1" when all are the same.
    """

    def piece(part: slice, weights: Tensor) -> Tensor:
        return _expected_log_mixture(z[part], own.select_rows(part), q, weights)

    return map_row_pieces(piece, len(z), len(q), log_weights)


def _expected_log_mixture(z: Tensor, own: Posterior, q: Posterior, log_weights: Tensor) -> Tensor:
    pairs = real_log_prob(q, z.unsqueeze(1)) + log_weights.unsqueeze(-1)
    nodes = []
    for i, name in enumerate(q.tree.names):
        if not _discrete_below(q.tree, name):
            nodes.append(pairs[..., i].logsumexp(1))
            continue
        shift = pairs[..., i].detach().amax(1, keepdim=True)
        total = (pairs[..., i] - shift).exp() @ state_probabilities(q, name)
        log_total = total.clamp_min(torch.finfo(total.dtype).tiny).log() + shift
        nodes.append((state_probabilities(own, name) * log_total).sum(-1))
    return torch.stack(nodes, -1)


def real_log_prob(q: Posterior, z: Float[Tensor, "... d"]) -> Float[Tensor, "... v"]:
    """log q(z_v|x) of the real columns alone at every node; broadcasts like `Posterior.log_prob`.

    Args:
        q: a batch of posteriors of any family.
        z: samples; discrete columns are ignored.
    """
    tree = q.tree
    discrete = torch.ones(tree.width, dtype=torch.bool, device=z.device)
    discrete[tree.columns_of_kind("real")] = False
    uniform = q.with_changes(loc=q.loc.masked_fill(discrete, 0.0), temperature=0.0)
    first = joint_states(tree, z)[0]
    constant = z.new_tensor([math.log(leaf_states(leaf)) if leaf.kind != "real" else 0.0 for leaf in tree.leaves])
    return uniform.log_prob(torch.where(discrete, first, z)) + constant @ tree_matrix(tree, "membership", z).T


def harden(tree: Latent, z: Float[Tensor, "b d"]) -> Float[Tensor, "b d"]:
    """z with the discrete leaves at their arg max, in coordinates; of a relaxed draw that is an exact discrete draw.

    Args:
        tree: the latent tree.
        z: relaxed samples.
    """
    onehot, binary = (partial(hard_coordinates, kind=kind) for kind in ("onehot", "binary"))
    return map_discrete_leaves(tree, z, onehot, binary)


def score_function(nodes: Float[Tensor, "b v"], log_mass: Float[Tensor, "b"]) -> Float[Tensor, "b v"]:
    """The same numbers with the gradient of their expectation over the hard sample: ∂f + (f − f̄) ∂ log q(s|x).

    f̄ is the mean over the other rows. The estimate is unbiased; its variance grows with the number of states. A node that is
    NaN, because the prior has no marginal there, stays NaN and adds no gradient.

    Args:
        nodes: a function of the hard sample, for each row and node.
        log_mass: log q(s|x) of the sample.
    """
    others = (nodes.sum(0) - nodes) / max(len(nodes) - 1, 1)
    advantage = (nodes - others).detach().masked_fill(nodes.isnan(), 0.0)
    return nodes + advantage * (log_mass - log_mass.detach()).unsqueeze(-1)


def log_mass(q: Posterior, hard: Float[Tensor, "b d"]) -> Float[Tensor, "b"]:
    """log q(s|x) of the discrete leaves at a hard sample.

    Args:
        q: a batch of posteriors.
        hard: a hard sample of each.
    """
    return q.hard().log_prob(hard)[:, 0] - real_log_prob(q, hard)[:, 0]


def _discrete_below(tree: Latent, node: str) -> list[tuple[Leaf, slice]]:
    below = set(tree.subtree_names(node))
    pairs = zip(tree.leaves, tree.slices, strict=True)
    return [(leaf, s) for leaf, s in pairs if leaf.kind != "real" and leaf.name in below]


def _leaf_coordinates(leaf: Leaf, like: Tensor) -> Sequence[Tensor]:
    """The coordinates of each state of a leaf."""
    if leaf.kind == "onehot":
        return list(torch.eye(leaf.width, dtype=like.dtype, device=like.device).log())
    bits = torch.tensor(list(product((-torch.inf, torch.inf), repeat=leaf.width)), dtype=like.dtype, device=like.device)
    return list(bits)


def _leaf_probabilities(leaf: Leaf, logits: Float[Tensor, "b k"]) -> Float[Tensor, "b s"]:
    """The probability of each state of a leaf."""
    if leaf.kind == "onehot":
        return logits.softmax(-1)
    return joint_weights((torch.stack([(-bit).sigmoid(), bit.sigmoid()], -1) for bit in logits.unbind(-1)), logits)


def _negative_entropy(leaf: Leaf, logits: Float[Tensor, "b k"]) -> Float[Tensor, "b"]:
    """Σ_s π_s log π_s of a discrete leaf; 0 of a real one."""
    if leaf.kind == "real":
        return logits.new_zeros(len(logits))
    if leaf.kind == "onehot":
        log_p = logits.log_softmax(-1)
        return (log_p.exp() * log_p).sum(-1)
    log = nn.functional.logsigmoid
    return (logits.sigmoid() * log(logits) + (-logits).sigmoid() * log(-logits)).sum(-1)
