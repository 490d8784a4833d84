"""Terms that read a partner or a known variable of each row: `kl@slow` and `kl@given`."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar

import torch

from unbraid.core.errors import UnbraidError, expect
from unbraid.core.shapes import Float, Tensor
from unbraid.latent import Latent
from unbraid.model.draw import Draw
from unbraid.model.posteriors.diagonal import normal_log_prob
from unbraid.terms.critics import Critic
from unbraid.terms.term import CriticRef, Term, make_spec


def laplace_kl(
    mean: Float[Tensor, "*s"], log_scale: Float[Tensor, "*s"], centre: Float[Tensor, "*s"], rate: float
) -> Float[Tensor, "*s"]:
    """KL(N(μ, σ²) ‖ Laplace(m, 1/λ)) of each column.

    log(2/λ) − ½ log(2πeσ²) + λ [σ √(2/π) e^{−d²/2σ²} + d erf(d/(σ√2))], d = μ − m        Klindt et al. 2021

    Args:
        mean: μ.
        log_scale: log σ.
        centre: m.
        rate: λ.

    >>> round(float(laplace_kl(torch.tensor(0.0), torch.tensor(0.0), torch.tensor(0.0), math.sqrt(math.pi / 2))), 4)
    0.0484
    """
    d, scale = mean - centre, log_scale.exp()
    u = d / scale
    distance = math.sqrt(2 / math.pi) * scale * (-0.5 * u.square()).exp() + d * torch.erf(u / math.sqrt(2))
    return math.log(2 / rate) - 0.5 * math.log(2 * math.pi * math.e) - log_scale + rate * distance


@dataclass(frozen=True)
class SlowSpec:
    """`rate` is λ of the Laplace around the partner: the larger, the more columns stand still between two views."""

    rate: float = 6.0
    listed: ClassVar[bool] = False  # a table of needs does not list it: the row needs pairs

    def __post_init__(self) -> None:
        expect(0 < self.rate <= 1e6, "rate must be a positive number", found=self.rate)

    def build(self, tree: Latent, prior: Any, family: Any = None) -> Slow:
        """The term for one tree."""
        return Slow(self)


class Slow(Critic):
    """KL(q(z|x) ‖ Laplace around the partner's mean), the mean of both directions. Klindt et al. 2021.

    It keeps no state. Without a partner, as in a validation, it gives nothing.
    """

    def __init__(self, spec: SlowSpec):
        super().__init__()
        self.spec = spec

    def forward(self, draw: Draw) -> dict[str, Tensor]:
        """See `Critic.forward`."""
        if not draw.partners:
            return {}
        first, second = draw.q, draw.partners[0].q
        ways = ((first, second), (second, first))
        both = [laplace_kl(q.loc, q.scale.log(), other.loc, self.spec.rate).sum(-1) for q, other in ways]
        return {"kl@slow": 0.5 * (both[0] + both[1])}


def kl_given(draw: Draw, node: str = "") -> Float[Tensor, "b"]:
    """KL(q(z|x) ‖ p(z|u)) − log p(u): with the reconstruction a bound on log p(x, u). Khemakhem et al. 2020.

    p(z|u) is the component u of prior 'mixture', so p(z) = Σ_u p(u) p(z|u) is the prior that samples and audits use; or the
    Gaussian of prior 'given_gaussian' at a real u, whose p(u) is not modelled: there the bound is on log p(x|u). In closed
    form for a diagonal q, else log q − log p at the sample.
    """
    prior = draw.model.prior
    if draw.states is None or not prior.conditioned:
        raise UnbraidError(
            "'kl@given' needs prior 'mixture' or 'given_gaussian' and u of each row. See docs/weak_supervision.md."
        )
    loc, log_scale, log_u = (part.to(draw.z) for part in prior.gaussian_given(draw.states))
    q = draw.q
    if q.independent and q.name() == "diagonal":
        ratio = 2 * (q.log_scale - log_scale)  # type: ignore[attr-defined]
        columns = 0.5 * (ratio.exp() + ((q.loc - loc) * (-log_scale).exp()).square() - 1 - ratio)
        return columns.sum(-1) - log_u
    return draw.log_qx[:, 0] - normal_log_prob(draw.z, loc, log_scale).sum(-1) - log_u


TERMS: dict[str, Term] = {
    "kl@slow": Term(
        needs=("pairs", "real"),
        critic=CriticRef("slow", make_spec(SlowSpec)),
        about="KL(q(z|x) ‖ Laplace around the partner's mean), both directions. Klindt et al. 2021.",
    ),
    "kl@given": Term(kl_given, needs=("states", "real", "log p")),
}
