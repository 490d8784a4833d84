"""Discrete leaves of a posterior, the same for every family: Concrete on one-hot leaves, relaxed bits on binary ones.

Each function goes through the leaves in order and calls the family for real ones, with their slice of columns.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from unbraid.core.shapes import Float, Tensor
from unbraid.latent import Latent
from unbraid.priors.discrete import binary_log_prob, binary_sample, concrete_log_prob, concrete_sample

RealLeafFunction = Callable[[slice], Tensor]
MIN_LOG_SCALE = -20.0  # σ = 2e-9: float32 cannot add less to a mean of order 1


def sample(
    tree: Latent, logits: Float[Tensor, "*s d"], temperature: float, real: RealLeafFunction
) -> Float[Tensor, "*s d"]:
    """One draw of every leaf; `real(slice)` draws a real leaf. Noise is drawn leaf by leaf, so a seed keeps its meaning.

    Args:
        tree: the latent tree.
        logits: logits of the classes or bits.
        temperature: the temperature of relaxed discrete leaves.
        real: draws the real leaf of a slice of columns.
    """
    pieces = []
    for leaf, s in zip(tree.leaves, tree.slices, strict=True):
        if leaf.kind == "real":
            pieces.append(real(s))
        elif leaf.kind == "onehot":
            pieces.append(concrete_sample(logits[..., s].log_softmax(-1), temperature))
        else:
            pieces.append(binary_sample(logits[..., s], temperature))
    return torch.cat(pieces, -1)


def log_prob(tree: Latent, z: Tensor, logits: Tensor, temperature: float, real: RealLeafFunction) -> Tensor:
    """log q of every leaf "… l"; `real(slice)` is that of a real leaf.

    Args:
        tree: the latent tree.
        z: codes "… d", in the coordinates of the prior.
        logits: logits of the classes or bits.
        temperature: the temperature of relaxed discrete leaves.
        real: the log density of the real leaf of a slice of columns.
    """
    pieces = []
    for leaf, s in zip(tree.leaves, tree.slices, strict=True):
        if leaf.kind == "real":
            pieces.append(real(s))
        elif leaf.kind == "onehot":
            pieces.append(concrete_log_prob(z[..., s], logits[..., s].log_softmax(-1), temperature))
        else:
            pieces.append(binary_log_prob(z[..., s], logits[..., s], temperature).sum(-1))
    return torch.stack(torch.broadcast_tensors(*pieces), -1)


def code_mean(tree: Latent, loc: Float[Tensor, "*s d"]) -> Float[Tensor, "*s d"]:
    """Means of real columns, probabilities of discrete ones.

    Args:
        tree: the latent tree.
        loc: means and logits.
    """
    return map_discrete_leaves(tree, loc, lambda logits: logits.softmax(-1), torch.sigmoid)


def map_discrete_leaves(
    tree: Latent, z: Float[Tensor, "*s d"], onehot: Callable[[Tensor], Tensor], binary: Callable[[Tensor], Tensor]
) -> Float[Tensor, "*s d"]:
    """Apply a function to the columns of every one-hot leaf and another to those of binary leaves; real columns stay.

    Args:
        tree: the latent tree.
        z: a number per column.
        onehot: the function of a one-hot leaf's columns.
        binary: the function of a binary leaf's columns.
    """
    if tree.all_real:
        return z
    functions: dict[str, Callable[[Tensor], Tensor]] = {"real": lambda y: y, "onehot": onehot, "binary": binary}
    return torch.cat([functions[leaf.kind](z[..., s]) for leaf, s in zip(tree.leaves, tree.slices, strict=True)], -1)


def column_index(tree: Latent, kind: str, like: Tensor) -> Tensor:
    """The columns of one kind of leaf as a tensor, made once for a tree and device.

    Args:
        tree: the latent tree.
        kind: the kind of leaf.
        like: a tensor of the type and device to use.
    """
    cache = tree.__dict__.setdefault("_columns", {})
    key = (kind, like.device)
    if key not in cache:
        cache[key] = torch.as_tensor(tree.columns_of_kind(kind), dtype=torch.long, device=like.device)
    return cache[key]


def split_params(tree: Latent, params: Float[Tensor, "b p"]) -> tuple[Tensor, Tensor]:
    """An encoder's output as means and logits "b d" and a log-scale "b d" (half a log-square, 0 in discrete columns).

    Args:
        tree: the latent tree.
        params: the output of the encoder.
    """
    loc, log_square = params.split((tree.width, params.shape[1] - tree.width), 1)  # one operation in the backward pass
    log_scale = bound_log_scale(0.5 * log_square)
    if tree.all_real:
        return loc, log_scale
    return loc, torch.zeros_like(loc).index_copy(1, column_index(tree, "real", loc), log_scale)


def bound_log_scale(log_scale: Tensor) -> Tensor:
    """Bound log σ from below by `MIN_LOG_SCALE`; values above it keep their bits.

    Pairwise densities contain ((z − μ)/σ)², which overflows float32 where σ underflows; its gradient is then NaN. The
    gradient passes the bound unchanged, so that a price on the KL leads log σ back.

    Args:
        log_scale: log σ of real columns.

    >>> bound_log_scale(torch.tensor([-47.0, -3.0]))
    tensor([-20.,  -3.])
    """
    value = log_scale.detach()
    return log_scale + (value.clamp(min=MIN_LOG_SCALE) - value)


def scale(tree: Latent, log_scale: Float[Tensor, "*s d"]) -> Float[Tensor, "*s d"]:
    """exp of the log-scale in real columns, 0 in discrete ones.

    Args:
        tree: the latent tree.
        log_scale: log standard deviations.
    """
    if tree.all_real:
        return log_scale.exp()
    real = column_index(tree, "real", log_scale)
    return torch.zeros_like(log_scale).index_copy(-1, real, log_scale.index_select(-1, real).exp())
