"""A joint prior: independent priors on different branches of one tree."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from unbraid.core.errors import expect, join_names
from unbraid.core.shapes import Float, Tensor
from unbraid.latent import Latent
from unbraid.priors.base import Images, Prior
from unbraid.priors.gaussian import PCA_IMAGES, Gaussian, principal_variances


class Joint(Prior):
    """p(z) = Π_parts p(z_part), each part a prior on the subtree below one node.

    >>> from unbraid.priors import Discrete, Gaussian
    >>> tree = Latent.of({"digit": "onehot(10)", "style": 2})
    >>> parts = {"digit": Discrete(tree.subtree("digit")), "style": Gaussian(tree.subtree("style"))}
    >>> Joint(tree, parts).sample(4).shape
    torch.Size([4, 12])
    """

    def __init__(self, tree: Latent, parts: dict[str, Prior]):
        expect(
            tree.is_cut(parts),
            "the parts of a joint prior must hold every leaf once",
            found=join_names(parts),
            allowed=f"a cut of {tree}",
        )
        finest = tuple(name for part in parts for name in _lift(tree, part, parts[part].finest_cut))
        super().__init__(tree, finest)
        self.bounded = any(part.bounded for part in parts.values())
        self.masses = all(part.masses or part.tree.all_real for part in parts.values())
        ordered = sorted(parts, key=tree.index)
        self.parts = nn.ModuleDict({name.replace(".", "/"): parts[name] for name in ordered})
        self.part_names = tuple(ordered)

    def part(self, name: str) -> Prior:
        """The prior below one node of the cut.

        Args:
            name: the name of the node.
        """
        part = self.parts[name.replace(".", "/")]
        assert isinstance(part, Prior)
        return part

    def log_prob(self, z: Float[Tensor, "*s d"], temperature: float = 1.0) -> Float[Tensor, "*s v"]:
        """See `Prior.log_prob`: inside a part its own node densities, above it their sums."""
        node: dict[str, Tensor] = {}
        for name in self.part_names:
            part = self.part(name)
            inside = part.log_prob(z[..., self.tree.columns(name)], temperature)
            node.update(zip(part.tree.names[1:], inside.unbind(-1)[1:], strict=True))
            node[name] = inside[..., 0]
        for above in reversed(self.tree.branches):
            if above.name not in node:
                node[above.name] = sum(node[c.name] for c in above.children)  # type: ignore[assignment]
        return torch.stack([node[name] for name in self.tree.names], -1)

    def sample(self, n: int, temperature: float = 1.0) -> Float[Tensor, "n d"]:
        """See `Prior.sample`."""
        return torch.cat([self.part(name).sample(n, temperature) for name in self.part_names], -1)

    def covariance(self) -> Float[Tensor, "d d"]:
        """See `Prior.covariance`."""
        return torch.block_diag(*(self.part(name).covariance() for name in self.part_names))

    def attach(self, model: Any, shape: tuple[int, int, int], images: Images | None = None) -> None:
        """See `Prior.attach`: parts with principal variances of the data share them, the leading ones first."""
        sharing = [part for part in map(self.part, self.part_names) if isinstance(part, Gaussian) and part.from_data]
        for name in self.part_names:
            part = self.part(name)
            part.attach(_Restricted(model, name), shape, None if part in sharing else images)
        if sharing and images is not None:
            widths = [part.tree.width for part in sharing]
            shares = principal_variances(images(PCA_IMAGES), sum(widths)).split(widths)
            for gaussian, variances in zip(sharing, shares, strict=True):
                gaussian.set_variances(variances)


@dataclass
class _Restricted:
    """A model seen from one node: a record, so that a copy of the model carries a copy of this with it."""

    model: Any
    name: str

    @property
    def likelihood(self) -> Any:
        return self.model.likelihood

    def posterior(self, x: Tensor) -> Any:
        return self.model.posterior(x).restrict(self.name)


def _lift(tree: Latent, part: str, finest: tuple[str, ...]) -> tuple[str, ...]:
    """A part's 'root' is the node it hangs from."""
    return tuple(part if name == "root" else name for name in finest)
