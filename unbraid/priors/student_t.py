"""A product of Student-t laws, with degrees of freedom fixed or learned."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from unbraid.core.errors import expect
from unbraid.core.shapes import Float, Tensor
from unbraid.latent import Latent
from unbraid.priors.base import Prior, register_values
from unbraid.priors.gaussian import sum_columns_by_leaf
from unbraid.priors.generalised_gaussian import per_column_values


class StudentT(Prior):
    """p(z) = Π_d t_ν(z_d/σ)/σ; ν one number or one per column, fixed or learned. N(0, σ²) as ν → ∞.

    log p = lgamma((ν+1)/2) − lgamma(ν/2) − ½ log(νπ) − log σ − ½(ν+1) log(1 + z²/(νσ²)).
    Mathieu et al. 2019, Sec. 6 and Fig. 5.

    nu: ν, the degrees of freedom. scale: σ.

    >>> prior = StudentT(Latent.of(1), nu=3.0)
    >>> float(prior.covariance())    # ν/(ν−2)
    3.0
    """

    log_nu: Tensor

    def __init__(self, tree: Latent, nu: float | Sequence[float] = 5.0, learned: bool = False, scale: float = 1.0):
        super().__init__(tree)
        expect(tree.all_real, "prior 'student_t' is for real leaves", found=str(tree))
        degrees = per_column_values(nu, tree.width, "degrees of freedom of prior 'student_t'")
        expect(
            isinstance(scale, int | float) and 0 < scale < math.inf,
            "scale of prior 'student_t' must be positive",
            found=scale,
        )
        self.scale = float(scale)
        register_values(self, "log_nu", degrees.log(), learned)

    @property
    def nu(self) -> Tensor:
        """Degrees of freedom: one number, or one per column."""
        return self.log_nu.exp()

    def log_prob(self, z: Float[Tensor, "*s d"], temperature: float = 1.0) -> Float[Tensor, "*s v"]:
        """See `Prior.log_prob`."""
        nu = self.nu.to(z.dtype)
        constant = ((nu + 1) / 2).lgamma() - (nu / 2).lgamma() - 0.5 * (nu * math.pi).log() - math.log(self.scale)
        columns = constant - 0.5 * (nu + 1) * ((z / self.scale).square() / nu).log1p()
        return self.sum_to_nodes(sum_columns_by_leaf(self.tree, columns))

    def sample(self, n: int, temperature: float = 1.0) -> Float[Tensor, "n d"]:
        """See `Prior.sample`: normal / √(χ²_ν/ν)."""
        half = (self.nu.detach().double() / 2).expand(n, self.tree.width)
        chi = torch._standard_gamma(half.contiguous()) / half
        normal = torch.randn(n, self.tree.width, dtype=torch.float64, device=half.device)
        return (self.scale * normal / chi.clamp_min(1e-300).sqrt()).to(self.log_nu.dtype)

    def covariance(self) -> Float[Tensor, "d d"]:
        """See `Prior.covariance`: σ² ν/(ν−2), which needs ν > 2."""
        nu = self.nu
        expect(
            bool((nu > 2).all()),
            "a Student-t prior has a covariance only for nu above 2",
            found=nu.detach().tolist(),
            do="Raise prior.nu, or leave out the moment terms.",
        )
        return (self.scale**2 * nu / (nu - 2)).expand(self.tree.width).diag()
