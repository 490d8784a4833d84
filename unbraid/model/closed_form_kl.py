"""KL(q(z|x) ‖ p(z)) in closed form, by the exact classes of family and prior; where there is no entry, it is sampled.

Joint priors ask their parts. Discrete leaves have one as probability masses, that is for a posterior at temperature 0; a KL of
relaxed densities is sampled. Real leaves look up `CLOSED`; a class that derives from one in the
table is another class, so a new family never trains on a form that was made for an old one.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from unbraid.core.shapes import Float, Tensor
from unbraid.model.posterior import Posterior
from unbraid.model.posteriors import Diagonal, Full, Laplace
from unbraid.priors.base import Prior
from unbraid.priors.discrete import mass_kl
from unbraid.priors.full_gaussian import FullGaussian
from unbraid.priors.gaussian import LOG_2PI, Gaussian, sum_columns_by_leaf
from unbraid.priors.hard_codes import LOG_2, HardCodes
from unbraid.priors.joint import Joint


@dataclass(frozen=True)
class ClosedFormKL:
    """`leaves(q, p)` is KL(q(z_l|x) ‖ p(z_l)) "b l"; `whole(q, p)` that of all columns, unless it follows from the leaves."""

    leaves: Callable[[Any, Any], Tensor]
    whole: Callable[[Any, Any], Tensor] | None = None


def leaf_kl(q: Posterior, prior: Prior) -> Float[Tensor, "b l"] | None:
    """KL(q(z_l|x) ‖ p(z_l)) of each leaf, or None where some leaf has no closed form.

    Args:
        q: the posterior of a batch.
        prior: the prior.
    """
    if type(prior) is Joint:
        pieces = [leaf_kl(q.restrict(name), prior.part(name)) for name in prior.part_names]
        known = [piece for piece in pieces if piece is not None]
        return torch.cat(known, -1) if len(known) == len(pieces) else None
    if _by_mass(q, prior):
        return prior.mass_kl(q.loc).unsqueeze(-1) if len(prior.tree.leaves) == 1 else None
    form = CLOSED_FORMS.get((type(q), type(prior)))
    return None if form is None else form.leaves(q, prior)


def joint_kl(q: Posterior, prior: Prior) -> Float[Tensor, "b"] | None:
    """KL(q(z|x) ‖ p(z)), or None: of a prior that factorises, the sum of the parts' and what q binds between them.

    Args:
        q: the posterior of a batch.
        prior: the prior.

    >>> from unbraid.latent import Latent
    >>> tree = Latent.of(2)
    >>> joint_kl(Diagonal(tree, torch.ones(1, 2), torch.zeros(1, 2)), Gaussian(tree))    # ½ ‖μ‖²
    tensor([1.])
    """
    if type(prior) is Joint:
        total: Any = q.dependence(prior.part_names)
        for name in prior.part_names:
            inside = joint_kl(q.restrict(name), prior.part(name))
            if inside is None:
                return None
            total = total + inside
        return total
    if _by_mass(q, prior):
        return prior.mass_kl(q.loc)
    form = CLOSED_FORMS.get((type(q), type(prior)))
    if form is None:
        return None
    if form.whole is not None:
        return form.whole(q, prior)
    leaves, bound = form.leaves(q, prior), q.dependence()
    return leaves.sum(-1) if isinstance(bound, float) else leaves.sum(-1) + bound  # 0.0: q factorises


def kl_method(family: type[Posterior], prior: Prior, mass: bool = False) -> str:
    """'closed' or 'sampled': how `kl` is computed for this family and prior; `mass` where discrete leaves are masses.

    Args:
        family: the class of the posterior.
        prior: the prior.
        mass: discrete leaves are charged by probability mass.

    >>> from unbraid.latent import Latent
    >>> kl_method(Diagonal, Gaussian(Latent.of(2)))
    'closed'
    """
    parts = [prior.part(name) for name in prior.part_names] if type(prior) is Joint else [prior]
    known = [(mass and part.masses) or (family, type(part)) in CLOSED_FORMS for part in parts]
    return "closed" if all(known) else "sampled"


def _by_mass(q: Posterior, prior: Prior) -> bool:
    """True for discrete leaves at temperature 0, whose prior has masses."""
    return q.temperature == 0 and prior.masses and not prior.tree.all_real


def _gaussian_kl(q: Diagonal | Full, p: Gaussian) -> Tensor:
    """½ Σ_d (σ²/v + μ²/v − 1 − log σ²/v) per leaf, and what a full q binds inside a wide leaf."""
    mean, log_scale = q.loc, q.log_scale
    if p.is_standard:
        columns = 0.5 * ((2 * log_scale).exp() + mean.square() - 1) - log_scale
    else:
        log_v = p.log_variance.to(mean.dtype)
        columns = 0.5 * ((2 * log_scale - log_v).exp() + mean.square() * (-log_v).exp() - 1 + log_v) - log_scale
    leaves, bound = sum_columns_by_leaf(p.tree, columns), q.within_leaf_dependence()
    return leaves if isinstance(bound, float) else leaves + bound  # 0.0: q factorises


def _laplace_gaussian_kl(q: Laplace, p: Gaussian) -> Tensor:
    """Σ_d ½ log 2πv + (μ² + 2b²)/2v − 1 − log 2b per leaf: a cross-entropy less an entropy."""
    log_v = p.log_variance.to(q.loc.dtype)
    square = q.loc.square() + 2 * (2 * q.log_width).exp()
    return sum_columns_by_leaf(p.tree, 0.5 * (LOG_2PI + log_v + square * (-log_v).exp()) - 1 - LOG_2 - q.log_width)


def _block_kl(name: str, p: FullGaussian, q: Diagonal | Full) -> Tensor:
    """½ (tr P⁻¹S + μᵀP⁻¹μ − d + log|P|/|S|) at one node, P = L Lᵀ there and S the covariance of q."""
    factor = p.marginal_factor(name).to(q.loc.dtype)
    inverse = torch.linalg.inv(factor)
    mahalanobis = (q.loc @ inverse.T).square().sum(-1)
    root = q.log_scale.exp().diag_embed() if isinstance(q, Diagonal) else q.factor
    log_det = 2 * q.log_scale.sum(-1) if isinstance(q, Diagonal) else q.log_det()
    trace = (inverse @ root).square().sum((-2, -1))
    return 0.5 * (mahalanobis + trace - len(factor)) + factor.diagonal().log().sum() - 0.5 * log_det


def _leaf_block_kl(q: Diagonal | Full, p: FullGaussian) -> Tensor:
    """Of each leaf's marginal, by its block."""
    return torch.stack([_block_kl(leaf.name, p, q.restrict(leaf.name)) for leaf in p.tree.leaves], -1)


def _hard_codes_kl(q: Diagonal, p: HardCodes) -> Tensor:
    """KL(Q(c_l|x) ‖ p(c_l)) with masses; for real columns log 2 − H[Q], which leaves out the tails beyond ±1."""
    columns = []
    for leaf, s in zip(p.tree.leaves, p.tree.slices, strict=True):
        loc = q.loc[:, s]
        if leaf.kind == "real":
            h = q.log_scale[:, s] + 0.5 * math.log(2 * math.pi * math.e)
            columns.append((LOG_2 - h).sum(-1))
        else:
            columns.append(mass_kl(loc, torch.zeros_like(loc), leaf.kind))
    return torch.stack(columns, -1)


def _joint_block_kl(q: Diagonal | Full, p: FullGaussian) -> Tensor:
    return _block_kl("root", p, q)


CLOSED_FORMS: dict[tuple[type[Posterior], type[Prior]], ClosedFormKL] = {
    (Diagonal, Gaussian): ClosedFormKL(_gaussian_kl),
    (Full, Gaussian): ClosedFormKL(_gaussian_kl),
    (Laplace, Gaussian): ClosedFormKL(_laplace_gaussian_kl),
    (Diagonal, FullGaussian): ClosedFormKL(_leaf_block_kl, _joint_block_kl),
    (Full, FullGaussian): ClosedFormKL(_leaf_block_kl, _joint_block_kl),
    (Diagonal, HardCodes): ClosedFormKL(_hard_codes_kl),
}
