"""Discrete leaves of a posterior, the same for every family: Concrete on one-hot leaves, relaxed bits on binary ones.

Each function walks the leaves in order and asks the family for the real ones by their slice of columns.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from unbraid.core.shapes import Float, Tensor
from unbraid.latent import Latent
from unbraid.priors.discrete import binary_log_prob, binary_sample, concrete_log_prob, concrete_sample

RealLeafFunction = Callable[[slice], Tensor]


def sample(
    tree: Latent, logits: Float[Tensor, "*s d"], temperature: float, real: RealLeafFunction
) -> Float[Tensor, "*s d"]:
    """One draw of every leaf; `real(slice)` draws a real leaf. Noise is drawn leaf by leaf, so a seed keeps its meaning."""
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
    """log q of every leaf "… l"; `real(slice)` is that of a real leaf."""
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
    """Means of real columns, probabilities of discrete ones."""
    if tree.all_real:
        return loc
    pieces = []
    for leaf, s in zip(tree.leaves, tree.slices, strict=True):
        part = loc[..., s]
        pieces.append(part if leaf.kind == "real" else part.softmax(-1) if leaf.kind == "onehot" else part.sigmoid())
    return torch.cat(pieces, -1)


def column_index(tree: Latent, kind: str, like: Tensor) -> Tensor:
    """The columns of one kind of leaf as a tensor, made once for a tree and device."""
    cache = tree.__dict__.setdefault("_columns", {})
    key = (kind, like.device)
    if key not in cache:
        cache[key] = torch.as_tensor(tree.columns_of_kind(kind), dtype=torch.long, device=like.device)
    return cache[key]


def split_params(tree: Latent, params: Float[Tensor, "b p"]) -> tuple[Tensor, Tensor]:
    """An encoder's output as means and logits "b d" and a log-scale "b d" (half a log-square, 0 in discrete columns)."""
    loc, log_square = params.split((tree.width, params.shape[1] - tree.width), 1)  # one op on the way back
    if tree.all_real:
        return loc, 0.5 * log_square
    return loc, torch.zeros_like(loc).index_copy(1, column_index(tree, "real", loc), 0.5 * log_square)


def scale(tree: Latent, log_scale: Float[Tensor, "*s d"]) -> Float[Tensor, "*s d"]:
    """exp of the log-scale in real columns, 0 in discrete ones."""
    if tree.all_real:
        return log_scale.exp()
    real = column_index(tree, "real", log_scale)
    return torch.zeros_like(log_scale).index_copy(-1, real, log_scale.index_select(-1, real).exp())
