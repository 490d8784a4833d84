"""Rows that read pairs of images, labels of some images, or a known variable u of every image."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from unbraid import terms
from unbraid.core.errors import choose
from unbraid.model.ties import TIES, Tie
from unbraid.objectives.objective import Objective
from unbraid.objectives.row_prices import affine
from unbraid.prices import Price
from unbraid.terms.critics import RatioSpec
from unbraid.terms.label_terms import LOSSES

PAPER_CRITIC = RatioSpec()


def gvae(beta: Price = 1.0, shared: str | Sequence[str] = "changed") -> Objective:
    """Two views share leaves: the mean of their means, the mean of their variances.

    reconstruction + β KL(q̃(z|x) ‖ p(z)) over both views, q̃ tied on shared leaves        Hosoya 2019

    beta: price of the whole KL.
    shared: 'changed' (the pairs say which factors differ), 'adaptive', or names of nodes that all views share.
    Use: when it is known what two images have in common.
    Not: when only pairs are known; ada_gvae finds what they share.
    """
    return Objective("gvae", {"kl": beta}, "Hosoya 2019", tie=_tie("group", shared))


def ml_vae(beta: Price = 1.0, tie: str = "ml", shared: str | Sequence[str] = "changed") -> Objective:
    """Views share leaves: the product of their Gaussians, for two views or larger groups.

    reconstruction + β KL(q̃(z|x) ‖ p(z)) over all views, q̃ tied on shared leaves        Bouchacourt et al. 2018

    beta: price of the whole KL.
    tie: 'ml' renormalises the product so that equal posteriors stay as they are; 'product' is the plain product.
    shared: as in gvae.
    Use: as gvae, where a sure view should count more than an unsure one.
    Not: with 'product' and large groups that differ in nothing: each view halves the variance again.
    """
    return Objective("ml_vae", {"kl": beta}, "Bouchacourt et al. 2018", tie=_tie(tie, shared))


def ada_gvae(beta: Price = 1.0) -> Objective:
    """Pairs that differ in some factors, unknown which: leaves with a small KL between the views are averaged.

    reconstruction + β KL(q̃(z|x) ‖ p(z)) over both views; leaf l is shared if δ_l < ½ (max δ + min δ),
    δ_l = KL(q(z_l|x₁) ‖ q(z_l|x₂))        Locatello et al. 2020

    beta: price of the whole KL.
    Use: as the first choice with pairs: it needs no labels and no number of changes.
    Not: where partners differ in nothing or in everything; the rule always shares some leaves and not others.
    """
    return Objective("ada_gvae", {"kl": beta}, "Locatello et al. 2020", tie=Tie("group"))


def ada_ml_vae(beta: Price = 1.0, tie: str = "ml") -> Objective:
    """As Ada-GVAE with a product of Gaussians on the leaves that the views share.

    reconstruction + β KL(q̃(z|x) ‖ p(z)) over both views, shared leaves as in ada_gvae        Locatello et al. 2020

    beta: price of the whole KL.
    tie: 'ml' (renormalised) or 'product'.
    Use: as ada_gvae, where views are unequally clear.
    Not: as a first choice; the paper finds the two alike.
    """
    return Objective("ada_ml_vae", {"kl": beta}, "Locatello et al. 2020", tie=_tie(tie, "adaptive"))


def slow_vae(beta: Price = 1.0, gamma: Price = 10.0, rate: float = 6.0) -> Objective:
    """Consecutive frames: a code moves seldom and then far, as a Laplace around the code of the other frame says.

    reconstruction + β KL(q(z|x) ‖ p(z)) + γ KL(q(z|x) ‖ Laplace(μ(x′), 1/λ))        Klindt et al. 2021

    beta: price of the KL to the prior.
    gamma: price of the KL to the partner, the mean of both directions.
    rate: λ of the Laplace.
    Use: for videos, and for pairs in which few factors change at once.
    Not: where all factors change between partners.
    """
    prices = {"kl": beta, "kl@slow": gamma}
    return Objective("slow_vae", prices, "Klindt et al. 2021", critics=terms.critic_specs(prices, {"rate": rate}))


def s2_beta_vae(beta: Price = 1.0, gamma: Price = 10.0, loss: str = "bce") -> Objective:
    """The β-VAE row and a price on the labels of some images.

    reconstruction + β KL(q(z|x) ‖ p(z)) + γ R(μ(x_l), y_l), x_l drawn from labelled images        Locatello et al. 2020b

    beta: price of the whole KL.
    gamma: price of the label term.
    loss: R: bce, l2, cov or embed (`unbraid show term labels@bce`).
    Use: when some hundred images have labels.
    Not: to choose among trained models; for that, score them on the labelled images.
    """
    return _labelled("s2_beta_vae", {"kl": beta}, gamma, loss, "Locatello et al. 2020b")


def s2_factor_vae(
    gamma: Price = 35.0, lam: Price = 10.0, loss: str = "bce", critic: RatioSpec = PAPER_CRITIC
) -> Objective:
    """The FactorVAE row and a price on the labels of some images.

    reconstruction + KL(q(z|x) ‖ p(z)) + γ TC(q) + λ R(μ(x_l), y_l)        Kim & Mnih 2018, Eq. 2; Locatello et al. 2020b

    gamma: price of the total correlation, on top of the 1 in the KL.
    lam: price of the label term (also spelled lambda).
    loss: R, as in s2_beta_vae.
    Use: as s2_beta_vae, with independent leaves.
    Not: on two cores and small nets, as factor_vae.
    """
    prices = {"kl": 1.0, "tc_q@ratio": gamma}
    return _labelled(
        "s2_factor_vae", prices, lam, loss, "Kim & Mnih 2018, Eq. 2; Locatello et al. 2020b", critic=critic
    )


def s2_beta_tcvae(
    alpha: Price = 1.0, beta: Price = 6.0, lam: Price = 10.0, loss: str = "bce", estimator: str = "mss"
) -> Objective:
    """The β-TCVAE row and a price on the labels of some images.

    reconstruction + α I(x; z) + β TC(q) + Σ_j KL(q(z_j) ‖ p(z_j)) + λ R(μ(x_l), y_l)
                                                              Chen et al. 2018; Locatello et al. 2020b

    alpha: price of I(x; z).
    beta: price of the total correlation.
    lam: price of the label term (also spelled lambda).
    loss: R, as in s2_beta_vae.
    Use: as the first choice with labels and independent leaves.
    Not: with batches of thousands, as beta_tcvae.
    """
    prices: dict[str, Any] = {"mi": alpha, "tc_q": beta, "dw_joint": 1.0}
    return _labelled("s2_beta_tcvae", prices, lam, loss, "Chen et al. 2018; Locatello et al. 2020b", estimator)


def s2_dip_vae(
    lambda_od: Price = 10.0,
    lambda_d: Price | None = None,
    gamma: Price = 10.0,
    loss: str = "bce",
    rho: float = 1.0,
    gradient: str = "full",
) -> Objective:
    """The DIP-VAE-I row and a price on the labels of some images.

    reconstruction + KL(q(z|x) ‖ p(z)) + λ_od Σ_{i≠j} Cov[μ]²_ij + λ_d Σ_i (Cov[μ]_ii − 1)² + γ R(μ(x_l), y_l)
                                                              Kumar et al. 2017, Eq. 6; Locatello et al. 2020b

    lambda_od: price of squares off the diagonal.
    lambda_d: price of squares on the diagonal; left out, 10 λ_od.
    gamma: price of the label term.
    loss: R, as in s2_beta_vae.
    Use: as s2_beta_vae, with uncorrelated means.
    Not: for independence beyond correlation.
    """
    lambda_d = affine(lambda_od, 10) if lambda_d is None else lambda_d
    prices = {"kl": 1.0, "moments_od@mean": lambda_od, "moments_d@mean": lambda_d}
    cite = "Kumar et al. 2017, Eq. 6; Locatello et al. 2020b"
    return _labelled("s2_dip_vae", prices, gamma, loss, cite, rho=rho, gradient=gradient)


def i_vae(beta: Price = 1.0) -> Objective:
    """A prior that depends on a known u, labels or time, which makes the codes identifiable.

    reconstruction + β [KL(q(z|x) ‖ p(z|u)) − log p(u)], p(z|u) a component of prior 'mixture' for a discrete u, or the
    Gaussian of prior 'given_gaussian' for a real u (without log p(u))        Khemakhem et al. 2020

    beta: price of the KL and of u.
    Use: when each image comes with a class, a context or a time; `mcc` is its metric.
    Not: when u varies little between images: then it says little about z.
    """
    return Objective("i_vae", {"kl@given": beta}, "Khemakhem et al. 2020", prior=("mixture", "given_gaussian"))


def _tie(method: str, shared: str | Sequence[str]) -> Tie:
    choose(method, TIES, "tie")
    named = shared if isinstance(shared, str) and shared in ("adaptive", "changed") else None
    return Tie(method, named or ((shared,) if isinstance(shared, str) else tuple(shared)))


def _labelled(
    name: str, prices: dict[str, Any], price: Price, loss: str, cite: str, estimator: str = "", **given: Any
) -> Objective:
    """A row with a price on labels; its critics take what they know of the options given."""
    choose(loss, LOSSES, "loss of labels")
    prices = {**prices, f"labels@{loss}": price}
    return Objective(name, prices, cite, estimator, terms.critic_specs(prices, given))


SUPERVISED_ROWS: dict[str, Callable[..., Objective]] = {
    "gvae": gvae,
    "ml_vae": ml_vae,
    "ada_gvae": ada_gvae,
    "ada_ml_vae": ada_ml_vae,
    "slow_vae": slow_vae,
    "s2_beta_vae": s2_beta_vae,
    "s2_factor_vae": s2_factor_vae,
    "s2_beta_tcvae": s2_beta_tcvae,
    "s2_dip_vae": s2_dip_vae,
    "i_vae": i_vae,
}
