"""Letters of tensor axes in annotations, and the matrices of the latent tree as tensors.

b batch · m mixture components · n data · d columns of z · l leaves · v nodes · k factors · c h w image ·
s samples · p parameters of q. `Float[Tensor, "b d"]` in a signature is checked only in tests.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from jaxtyping import Float, Int
from torch import Tensor

if TYPE_CHECKING:
    from unbraid.latent import Latent

__all__ = ["Float", "Int", "Tensor", "tree_matrix"]


def tree_matrix(tree: Latent, name: str, like: Tensor) -> Tensor:
    """A matrix of the tree as a tensor, cached by type and device.

    Args:
        tree: the latent tree.
        name: "membership" or "incidence".
        like: a tensor with the type and device of the result.
    """
    cache = tree.__dict__.setdefault("_tensors", {})
    key = (name, like.dtype, like.device)
    if key not in cache:
        cache[key] = torch.as_tensor(getattr(tree, name), dtype=like.dtype, device=like.device)
    return cache[key]
