"""A product of generalised Gaussians (exponential power laws), with exponents fixed or learned."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from unbraid.core.errors import expect
from unbraid.core.shapes import Float, Tensor
from unbraid.latent import Latent
from unbraid.priors.base import Prior, register_values
from unbraid.priors.gaussian import sum_columns_by_leaf

NAMED_SCALES = {"standard": 2.0, "paper": 1.0}
MAX_LOG_POWER = 80.0  # |z|^p/s is held below e^80, so that float32 stays finite for any exponent


class GeneralisedGaussian(Prior):
    """p(z) ∝ exp(−Σ_d |z_d|^p/s); p one number or one per column, fixed or learned.

    p = 1 is Laplace, p = 2 normal, p → ∞ uniform on [−1, 1]. `scale` s = 2 (`"standard"`) makes p = 2 the standard
    normal; `"paper"` is s = 1, the authors' default. Stühmer et al. 2019, Eq. 5, with τ = 1/s.

    >>> prior = GeneralisedGaussian(Latent.of(1), p=2.0)
    >>> round(float(prior.log_prob(torch.zeros(1))[0]), 4)    # −½ log 2π
    -0.9189
    """

    log_p: Tensor

    def __init__(
        self, tree: Latent, p: float | Sequence[float] = 1.0, learned: bool = False, scale: float | str = "standard"
    ):
        super().__init__(tree)
        expect(tree.all_real, "prior 'generalised_gaussian' is for real leaves", found=str(tree))
        exponents = per_column_values(p, tree.width, "exponents of prior 'generalised_gaussian'")
        self.scale = resolve_scale(scale)
        register_values(self, "log_p", exponents.log(), learned)

    @property
    def p(self) -> Tensor:
        """The exponents: one number, or one per column."""
        return self.log_p.exp()

    def log_prob(self, z: Float[Tensor, "*s d"], temperature: float = 1.0) -> Float[Tensor, "*s v"]:
        """See `Prior.log_prob`."""
        p = self.p.to(z.dtype)
        power = (p * log_abs(z) - math.log(self.scale)).clamp_max(MAX_LOG_POWER).exp()
        columns = p.log() - math.log(2) - (1 / p).lgamma() - math.log(self.scale) / p - power
        return self.sum_to_nodes(sum_columns_by_leaf(self.tree, columns))

    def sample(self, n: int, temperature: float = 1.0) -> Float[Tensor, "n d"]:
        """See `Prior.sample`: |z| = (s·Gamma(1/p))^{1/p} with a random sign."""
        p = self.p.detach().double().expand(n, self.tree.width)
        size = ((sample_log_gamma(1 / p) + math.log(self.scale)) / p).exp()
        return (size * random_signs(size)).to(self.log_p.dtype)

    def covariance(self) -> Float[Tensor, "d d"]:
        """See `Prior.covariance`: s^{2/p} Γ(3/p)/Γ(1/p)."""
        p = self.p
        return (2 * math.log(self.scale) / p + (3 / p).lgamma() - (1 / p).lgamma()).exp().expand(self.tree.width).diag()


def per_column_values(value: float | Sequence[float], d: int, what: str) -> Tensor:
    """One positive number, or one per column, as a tensor.

    Args:
        value: one number, or one per column.
        d: the number of columns.
        what: what it is, for errors.
    """
    numbers = torch.as_tensor(value, dtype=torch.get_default_dtype())
    expect(
        numbers.shape in ((), (d,)),
        f"{what} are one number, or one per column",
        found=tuple(numbers.shape),
        allowed=f"a number or {d}",
    )
    expect(
        bool((numbers > 0).all() and numbers.isfinite().all()),
        f"{what} must be positive numbers",
        found=numbers.tolist(),
    )
    return numbers


def resolve_scale(scale: float | str) -> float:
    """The scale s of exp(−f^p/s): a number, or 'standard' (2) or 'paper' (1).

    Args:
        scale: the number or name.
    """
    number = NAMED_SCALES.get(scale, scale) if isinstance(scale, str) else scale
    ok = isinstance(number, int | float) and not isinstance(number, bool) and 0 < number < math.inf
    expect(ok, "scale must be a positive number or a name", found=repr(scale), allowed=NAMED_SCALES)
    return float(number)


def log_abs(z: Tensor) -> Tensor:
    """log |z|, finite and with a finite gradient at 0 too.

    Args:
        z: the values.
    """
    return z.abs().clamp_min(torch.finfo(z.dtype).tiny).log()


def sample_log_gamma(shape: Tensor) -> Tensor:
    """log of Gamma(shape) draws: Gamma(a) = Gamma(a+1)·U^{1/a}, so that small shapes do not underflow to 0.

    Args:
        shape: the shapes a.
    """
    uniform = torch.rand_like(shape).clamp_min(torch.finfo(shape.dtype).tiny)
    return torch._standard_gamma(shape + 1).log() + uniform.log() / shape


def random_signs(like: Tensor) -> Tensor:
    """Independent fair signs.

    Args:
        like: a tensor of the type and device to use.
    """
    return torch.randint_like(like, 0, 2) * 2 - 1
