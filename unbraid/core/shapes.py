"""Axis letters, fixed once, and the tree's matrices as tensors.

b batch · m mixture components · n data · d columns of z · l leaves · v nodes · k factors · c h w image ·
s samples · p parameters of q. `Float[Tensor, "b d"]` in a signature is checked only under test.
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
    """`tree.membership` or `tree.incidence` as a tensor of the type and device of `like`, made once."""
    cache = tree.__dict__.setdefault("_tensors", {})
    key = (name, like.dtype, like.device)
    if key not in cache:
        cache[key] = torch.as_tensor(getattr(tree, name), dtype=like.dtype, device=like.device)
    return cache[key]
