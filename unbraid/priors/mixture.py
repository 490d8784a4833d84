"""A mixture of diagonal Gaussians, fixed or learned."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn

from unbraid.core.errors import expect
from unbraid.core.shapes import Float, Tensor
from unbraid.latent import Latent
from unbraid.priors.base import Prior, register_values
from unbraid.priors.gaussian import LOG_2PI, sum_columns_by_leaf

NAMED_MEANS = {
    "text": [[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]],
    "figure": [[0.0, 1.0], [0.0, -1.0], [1.0, 0.0], [-1.0, 0.0]],
}


class Mixture(Prior):
    """p(z) = Σ_c π_c Π_d N(z_d; μ_cd, v_cd). The marginal of a node is the mixture of the components' marginals.

    `means` is a table, a number of components (then drawn from N(0, I), to be learned), or one of two readings of the
    four clusters in 2-D: `"text"` prints μ ∈ {0,1}², `"figure"` shows (0, ±1), (±1, 0). Mathieu et al. 2019, Eq. 9 and
    Fig. 6, with v = 0.03.

    variance: v, one number or a table like the means. weights: π, one per component; equal when left out.

    >>> Mixture(Latent.of(2), means="figure").covariance()
    tensor([[0.5300, 0.0000],
            [0.0000, 0.5300]])
    """

    def __init__(
        self,
        tree: Latent,
        means: str | int | Sequence[Sequence[float]] = "text",
        variance: float | Sequence[Sequence[float]] = 0.03,
        weights: Sequence[float] | None = None,
        learned: bool = False,
    ):
        super().__init__(tree)
        expect(tree.all_real, "prior 'mixture' is for real leaves", found=str(tree))
        d, dtype = tree.width, torch.get_default_dtype()
        loc = _means(means, d)
        v = torch.as_tensor(variance, dtype=dtype)
        expect(
            v.shape in ((), loc.shape),
            "variance of prior 'mixture' is one number or a table like the means",
            found=tuple(v.shape),
        )
        expect(bool((v > 0).all()), "variances must be positive", found=v.tolist())
        pi = torch.full((len(loc),), 1 / len(loc)) if weights is None else torch.as_tensor(list(weights), dtype=dtype)
        expect(
            pi.shape == (len(loc),), "prior 'mixture' needs one weight per component", found=len(pi), allowed=len(loc)
        )
        expect(
            bool((pi > 0).all()) and abs(float(pi.sum()) - 1) < 1e-4,
            "weights must be positive and sum to 1",
            found=pi.tolist(),
        )
        for name, value in (("loc", loc), ("log_scale", 0.5 * v.log().expand(loc.shape).clone()), ("logits", pi.log())):
            register_values(self, name, value, learned)

    conditioned = True
    loc: Tensor
    log_scale: Tensor
    logits: Tensor

    def log_prob(self, z: Float[Tensor, "*s d"], temperature: float = 1.0) -> Float[Tensor, "*s v"]:
        """See `Prior.log_prob`."""
        return mixture_log_prob(self, z, self.loc, self.log_scale, self.logits)

    def sample(self, n: int, temperature: float = 1.0) -> Float[Tensor, "n d"]:
        """See `Prior.sample`."""
        at = self.logits.detach().softmax(-1).multinomial(n, replacement=True)
        loc, scale = self.loc.detach()[at], self.log_scale.detach()[at].exp()
        return loc + scale * torch.randn_like(loc)

    def covariance(self) -> Float[Tensor, "d d"]:
        """See `Prior.covariance`."""
        return mixture_covariance(self.loc, self.log_scale, self.logits)

    def gaussian_given(self, u: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """See `Prior.gaussian_given`: u is the number of a component."""
        return self.loc[u], self.log_scale[u], self.logits.log_softmax(-1)[u]

    def build_shift(self, width: int) -> nn.Module:
        """See `Prior.build_shift`."""
        shift = nn.Embedding(len(self.loc), width)
        nn.init.zeros_(shift.weight)
        return shift

    def mean_shift(self, shift: nn.Module) -> Tensor:
        """See `Prior.mean_shift`."""
        return self.logits.softmax(-1) @ shift(torch.arange(len(self.loc), device=self.loc.device))

    def observe(self, u: Tensor) -> None:
        """See `Prior.observe`: there is a component for each state."""
        count = int(u.max()) + 1
        expect(
            len(self.loc) == count,
            "prior 'mixture' needs one component for each state of u",
            found=f"{len(self.loc)} components, {count} states",
            do=f"Set prior.means = {count}, prior.variance = 1.0 and prior.learned = true.",
        )


def mixture_log_prob(
    prior: Prior,
    z: Float[Tensor, "*s d"],
    loc: Float[Tensor, "c d"],
    log_scale: Float[Tensor, "c d"],
    logits: Float[Tensor, "c"],
) -> Float[Tensor, "*s v"]:
    """log Σ_c π_c Π_d N(z_d; μ_cd, σ²_cd) at every node of a prior's tree.

    Args:
        prior: the prior.
        z: where.
        loc: means μ.
        log_scale: log σ.
        logits: log π up to a constant.
    """
    log_scale = log_scale.to(z.dtype)
    u = (z.unsqueeze(-2) - loc.to(z.dtype)) * (-log_scale).exp()
    components = prior.sum_to_nodes(sum_columns_by_leaf(prior.tree, -0.5 * (u.square() + LOG_2PI) - log_scale))
    return (components + logits.log_softmax(-1).to(z.dtype).unsqueeze(-1)).logsumexp(-2)


def mixture_covariance(
    loc: Float[Tensor, "c d"], log_scale: Float[Tensor, "c d"], logits: Float[Tensor, "c"]
) -> Float[Tensor, "d d"]:
    """Σ_c π_c (diag v_c + μ_c μ_cᵀ) − m mᵀ.

    Args:
        loc: means μ.
        log_scale: ½ log v.
        logits: log π up to a constant.
    """
    pi = logits.softmax(-1)
    centred = loc - pi @ loc
    return (pi @ (2 * log_scale).exp()).diag() + (centred * pi.unsqueeze(-1)).T @ centred


def _means(means: str | int | Sequence[Sequence[float]], d: int) -> Tensor:
    if isinstance(means, int) and not isinstance(means, bool):
        expect(1 <= means <= 10_000, "prior 'mixture' needs between 1 and 10,000 components", found=means)
        return torch.randn(means, d)
    if isinstance(means, str):
        expect(
            means in NAMED_MEANS,
            "means of prior 'mixture' are a table, a number of components or a name",
            found=repr(means),
            allowed=NAMED_MEANS,
        )
        expect(
            d == 2,
            f"means {means!r} are four clusters in two columns",
            found=f"{d} columns",
            do="Give a table, or a number of components.",
        )
        return torch.tensor(NAMED_MEANS[means])
    table = torch.as_tensor(means, dtype=torch.get_default_dtype())
    expect(
        table.ndim == 2 and table.shape[1] == d,
        "means of prior 'mixture' are one row of columns per component",
        found=tuple(table.shape),
        allowed=f"components × {d}",
    )
    return table
