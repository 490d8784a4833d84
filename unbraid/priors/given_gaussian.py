"""A Gaussian whose mean and scale are functions of a known real u, such as a measured value or time."""

from __future__ import annotations

import torch
from torch import nn

from unbraid.core.errors import expect
from unbraid.core.shapes import Float, Tensor
from unbraid.latent import Latent
from unbraid.priors.base import Prior
from unbraid.priors.mixture import mixture_covariance, mixture_log_prob

MAX_ANCHORS = 100_000


class GivenGaussian(Prior):
    """p(z|u) = Π_d N(z_d; μ_d(u), σ_d²(u)), μ and log σ from a net with one hidden layer. Khemakhem et al. 2020.

    For samples and audits p(z) = (1/M) Σ_m p(z|u_m), the mean over M `anchors`: values of u in the training data, at equal
    distances in their order.

    inputs: number of columns of u. hidden: width of the net. anchors: M.

    >>> prior = GivenGaussian(Latent.of(2), anchors=8)
    >>> loc, log_scale, log_u = prior.gaussian_given(torch.zeros(5, 1))
    >>> loc.shape, prior.sample(3).shape, float(log_u.sum())
    (torch.Size([5, 2]), torch.Size([3, 2]), 0.0)
    """

    conditioned = True
    anchors: Tensor

    def __init__(self, tree: Latent, inputs: int = 1, hidden: int = 32, anchors: int = 256):
        super().__init__(tree)
        expect(tree.all_real, "prior 'given_gaussian' is for real leaves", found=str(tree))
        sizes = {"inputs": (inputs, 1000), "hidden": (hidden, 10_000), "anchors": (anchors, MAX_ANCHORS)}
        for name, (value, limit) in sizes.items():
            expect(1 <= value <= limit, f"{name} of prior 'given_gaussian' is 1 to {limit:,}", found=value)
        self.hidden = hidden
        self.net = nn.Sequential(nn.Linear(inputs, hidden), nn.Tanh(), nn.Linear(hidden, 2 * tree.width))
        self.register_buffer("anchors", torch.randn(anchors, inputs))

    def gaussian_given(self, u: Float[Tensor, "b k"]) -> tuple[Tensor, Tensor, Tensor]:
        """See `Prior.gaussian_given`; log p(u) is 0, because the distribution of a real u is not modelled."""
        loc, log_scale = self.net(u.to(self.anchors)).chunk(2, -1)
        return loc, log_scale, loc.new_zeros(len(loc))

    def build_shift(self, width: int) -> nn.Module:
        """See `Prior.build_shift`."""
        last = nn.Linear(self.hidden, width)
        nn.init.normal_(last.weight, std=1e-3)
        nn.init.zeros_(last.bias)
        return nn.Sequential(nn.Linear(self.anchors.shape[1], self.hidden), nn.Tanh(), last)

    def mean_shift(self, shift: nn.Module) -> Tensor:
        """See `Prior.mean_shift`."""
        return shift(self.anchors).mean(0)

    def observe(self, u: Tensor) -> None:
        """See `Prior.observe`: choose the anchors."""
        expect(u.ndim == 2, "prior 'given_gaussian' needs a real u", found="states", do="Name the prior in the recipe.")
        expect(
            u.shape[1] == self.anchors.shape[1],
            "prior 'given_gaussian' needs one input for each column of u",
            found=f"inputs {self.anchors.shape[1]}, {u.shape[1]} columns",
            do=f"Set prior.inputs = {u.shape[1]}.",
        )
        order = sorted(range(len(u)), key=u.tolist().__getitem__)
        count = len(self.anchors)
        self.anchors.copy_(u[[order[(2 * i + 1) * len(u) // (2 * count)] for i in range(count)]])

    def log_prob(self, z: Float[Tensor, "*s d"], temperature: float = 1.0) -> Float[Tensor, "*s v"]:
        """See `Prior.log_prob`."""
        loc, log_scale, log_u = self.gaussian_given(self.anchors)
        return mixture_log_prob(self, z, loc, log_scale, log_u)

    @torch.no_grad()
    def sample(self, n: int, temperature: float = 1.0) -> Float[Tensor, "n d"]:
        """See `Prior.sample`."""
        at = torch.randint(len(self.anchors), (n,), device=self.anchors.device)
        loc, log_scale, _ = self.gaussian_given(self.anchors[at])
        return loc + log_scale.exp() * torch.randn_like(loc)

    def covariance(self) -> Float[Tensor, "d d"]:
        """See `Prior.covariance`."""
        return mixture_covariance(*self.gaussian_given(self.anchors))
