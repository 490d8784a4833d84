"""THE TABLE: one short function per paper; each returns a row of prices.

All prices are in nats per example, with sums over pixels and columns, so a paper's β is our β.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import Any

from unbraid import terms
from unbraid.ground import options
from unbraid.ground.errors import choose
from unbraid.ground.schedule import Capacity, FreeBits, Price, read
from unbraid.objectives.objective import Objective
from unbraid.objectives.prices import affine
from unbraid.terms.critics import RatioSpec

PAPER = RatioSpec()  # Kim & Mnih's discriminator


def vae() -> Objective:
    """ELBO: reconstruction + KL. Kingma & Welling 2014."""
    return Objective("vae", {"kl": 1.0}, "Kingma & Welling 2014")


def beta_vae(beta: Price = 4.0) -> Objective:
    """reconstruction + β KL. Higgins et al. 2017."""
    return Objective("beta_vae", {"kl": beta}, "Higgins et al. 2017")


def beta_svae(beta: Price = 4.0, masses: bool = False) -> Objective:
    """The β-VAE row on a tree with discrete leaves; `masses` takes their KL between probabilities, not densities.

    Esmaeili et al. 2018, Table 2.
    """
    key = "kl@categorical" if masses else "kl"
    return Objective("beta_svae", {key: beta}, "Esmaeili et al. 2018, Table 2", mixed=True)


def annealed_vae(gamma: float = 1000.0, capacity: float = 25.0, steps: int = 100_000) -> Objective:
    """reconstruction + γ |KL − C(step)|: the price is a function. Burgess et al. 2018."""
    return Objective("annealed_vae", {"kl": Capacity(gamma, capacity, steps)}, "Burgess et al. 2018")


def free_bits_vae(floor: float = 0.5) -> Objective:
    """reconstruction + Σ_l max(λ, KL_l): the first λ nats of every leaf are free. Kingma et al. 2016."""
    return Objective("free_bits_vae", {"kl": FreeBits(floor)}, "Kingma et al. 2016")


def entropy_vae(beta: Price = 4.0) -> Objective:
    """ELBO + (β−1) H[q(z|x)]: the β-VAE with its latents rescaled by √β. Mathieu et al. 2019, Eq. 5."""
    return Objective("entropy_vae", {"kl": 1.0, "entropy": affine(beta, -1, 1)}, "Mathieu et al. 2019, Eq. 5")


def factor_vae(gamma: Price = 35.0, critic: RatioSpec = PAPER) -> Objective:
    """ELBO − γ TC(q), the TC by a density-ratio critic. Kim & Mnih 2018, Eq. 2."""
    return _row("factor_vae", {"kl": 1.0, "tc_q@ratio": gamma}, "Kim & Mnih 2018, Eq. 2", critic=critic)


def factor_vae_prior(gamma: Price = 35.0, critic: RatioSpec = PAPER) -> Objective:
    """ELBO − γ KL(q(z) ‖ p(z)) by a density-ratio critic. Kim & Mnih 2018, Eq. 12; Kumar et al. 2017, Eq. 4."""
    return _row("factor_vae_prior", {"kl": 1.0, "agg@ratio": gamma}, "Kim & Mnih 2018, Eq. 12", critic=critic)


def aae(gamma: Price = 1.0, by: str = "ratio", critic: RatioSpec = PAPER) -> Objective:
    """reconstruction + γ KL(q(z) ‖ p(z)) by density 'ratio', or the GAN loss ('adversary').

    Makhzani et al. 2015; Kim & Mnih 2018, Eq. 7.
    """
    how = choose(by, {"ratio": "ratio", "adversary": "adversary"}, "way to compare q(z) with p(z) ('by')")
    return _row("aae", {f"agg@{how}": gamma}, "Makhzani et al. 2015; Kim & Mnih 2018, Eq. 7", critic=critic)


def information_dropout(beta: Price = 1.0, gamma: Price = 1.0, estimator: str = "mss") -> Objective:
    """reconstruction + β I(x;z) + γ TC(q); γ = 0 is Eq. 8. Achille & Soatto 2018; Kim & Mnih 2018, Eqs. 8 and 9."""
    cite = "Achille & Soatto 2018; Kim & Mnih 2018, Eq. 9"
    return _row("information_dropout", {"mi": beta, "tc_q": gamma}, cite, estimator)


def beta_tcvae(alpha: Price = 1.0, beta: Price = 6.0, gamma: Price = 1.0, estimator: str = "mss") -> Objective:
    """reconstruction + α MI + β TC(q) + γ dimension-wise KL. Chen et al. 2018."""
    return _row("beta_tcvae", {"mi": alpha, "tc_q": beta, "dw_joint": gamma}, "Chen et al. 2018", estimator)


def hfvae(alpha: Price = 1.0, beta: Price = 4.0, gamma: Price = 3.0, estimator: str = "stratified") -> Objective:
    """reconstruction + α MI + β TC between groups + γ TC within them + leaf-wise KL. Esmaeili et al. 2018, Eq. 9."""
    prices = {"mi": alpha, "tc:root": beta, "tc": gamma, "dw": 1.0}
    return _row("hfvae", prices, "Esmaeili et al. 2018, Eq. 9", estimator)


def four_terms(
    lambda_2: Price = 1.0,
    lambda_3: Price = 1.0,
    lambda_4: Price = 1.0,
    particles: int = 8,
    estimator: str = "stratified",
) -> Objective:
    """① + λ2 ② + λ3 ③ + λ4 ④ as costs: reconstruction + λ2 mi + λ4 KL(q(z) ‖ p(z)) − (λ3 − 1) log p(x).

    ① + ③ is the reconstruction, so a weight on ③ = KL(q(x) ‖ p(x)) alone needs log p(x): here an importance-weighted
    estimate, whose bias grows with the gap between q(z|x) and the true posterior. Esmaeili et al. 2018, Eq. 7.
    """
    prices = {"mi": lambda_2, "agg": lambda_4, "evidence@iwae": affine(lambda_3, 1, -1)}
    return _row("four_terms", prices, "Esmaeili et al. 2018, Eq. 7", estimator, particles=particles)


def isa_vae(beta: Price = 1.0) -> Objective:
    """The β-VAE row under an Lp-nested prior. Stühmer et al. 2019, Eq. 12."""
    return Objective("isa_vae", {"kl": beta}, "Stühmer et al. 2019, Eq. 12", prior=("isa", "lp_nested"))


def isa_tcvae(beta: Price = 2.0, estimator: str = "mss") -> Objective:
    """The β-TCVAE row under an Lp-nested prior, which enters jointly: no marginals needed. Stühmer et al. 2019."""
    prices: dict[str, Price] = {"mi": 1.0, "tc_q": beta, "dw_joint": 1.0}
    return Objective("isa_tcvae", prices, "Stühmer et al. 2019, Sec. 4", estimator, prior=("isa", "lp_nested"))


def dip_vae_i(lambda_od: Price = 10.0, lambda_d: Price | None = None, rho: float = 1.0) -> Objective:
    """ELBO + λ_od Σ_{i≠j} Cov[μ]²_ij + λ_d Σ_i (Cov[μ]_ii − 1)², λ_d = 10 λ_od. Kumar et al. 2017, Eq. 6."""
    lambda_d = affine(lambda_od, 10) if lambda_d is None else lambda_d
    prices = {"kl": 1.0, "moments_od@mean": lambda_od, "moments_d@mean": lambda_d}
    return _row("dip_vae_i", prices, "Kumar et al. 2017, Eq. 6", rho=rho)


def dip_vae_ii(lambda_od: Price = 10.0, lambda_d: Price | None = None, rho: float = 1.0) -> Objective:
    """As DIP-VAE-I with Cov[z] = E[Σ] + Cov[μ], λ_d = λ_od. Kumar et al. 2017, Eq. 5; Kim & Mnih 2018, Eq. 11."""
    lambda_d = lambda_od if lambda_d is None else lambda_d
    prices = {"kl": 1.0, "moments_od@code": lambda_od, "moments_d@code": lambda_d}
    return _row("dip_vae_ii", prices, "Kumar et al. 2017, Eq. 5; Kim & Mnih 2018, Eq. 11", rho=rho)


def info_vae(
    alpha: float = 0.5,
    lam: float = 10.0,
    divergence: str = "mmd",
    estimator: str = "stratified",
    critic: RatioSpec = PAPER,
) -> Objective:
    """reconstruction + (1−α) KL + (α+λ−1) D(q(z), p(z)); α = 1 leaves mi free. Zhao et al. 2017."""
    prices = {"kl": 1 - alpha, _divergence(divergence): alpha + lam - 1}
    return _row("info_vae", prices, "Zhao et al. 2017", estimator, critic=critic)


def wae(lam: Price = 10.0, divergence: str = "mmd", critic: RatioSpec = PAPER) -> Objective:
    """reconstruction + λ MMD²(q(z), p(z)). Tolstikhin et al. 2018, Alg. 2 ('adversary' is its Alg. 1)."""
    return _row("wae", {_divergence(divergence): lam}, "Tolstikhin et al. 2018, Alg. 2", "stratified", critic=critic)


def decomposition(
    alpha: Price = 1.0,
    beta: Price = 1.0,
    divergence: str = "mmd",
    estimator: str = "stratified",
    critic: RatioSpec = PAPER,
) -> Objective:
    """reconstruction + β KL + α D(q(z), p(z)). Mathieu et al. 2019, Eq. 7."""
    prices = {"kl": beta, _divergence(divergence): alpha}
    return _row("decomposition", prices, "Mathieu et al. 2019, Eq. 7", estimator, critic=critic)


def anchor_vae(lam: Price = 1.0, anchors: str = "anchors", estimator: str = "stratified") -> Objective:
    """ELBO + λ I(x; z_a): the information of the anchors is paid for, not charged. Gao et al. 2018; HFVAE's Table 1."""
    return _row("anchor_vae", {"kl": 1.0, f"mi:{anchors}": affine(lam, -1)}, "Gao et al. 2018", estimator)


def hfs_vae(gamma: Price = 10.0, beta: Price = 1.0) -> Objective:
    """reconstruction + β KL + γ Hausdorff distance of q's support to a product of supports. Roth et al. 2023."""
    return Objective("hfs_vae", {"kl": beta, "support": gamma}, "Roth et al. 2023")


def row(
    prices: dict,
    estimator: str = "stratified",
    critic: RatioSpec = PAPER,
    rho: float = 1.0,
    critics: dict[str, dict] | None = None,
) -> Objective:
    """Any row of your own: `prices = {"mi" = 1, "tc:root" = 4, "tc" = 2, "dw" = 1}`; `critics` sets those behind its terms.

    `critic` and `rho` are short for options of the density-ratio critics and of the running covariance. This library.
    """
    known = {key: read(p, f"price {key!r}") for key, p in prices.items()}
    specs = terms.critic_specs(known, {"critic": critic, "rho": rho})
    for name, table in (critics or {}).items():
        spec = choose(name, specs, "critic of this row")
        stated = {f.name: getattr(spec, f.name) for f in fields(spec)}
        specs[name] = options.record(type(spec), {**stated, **table}, f"critic {name!r}")
    return Objective("row", known, "this library", estimator, specs)


def _row(name: str, prices: dict[str, Any], cite: str, estimator: str = "", **given: Any) -> Objective:
    """A row whose critics take what they know of the options given."""
    return Objective(name, prices, cite, estimator, terms.critic_specs(prices, given))


def _divergence(name: str) -> str:
    return choose(name, terms.divergences(), "divergence")


ROWS: dict[str, Callable[..., Objective]] = {
    "vae": vae,
    "beta_vae": beta_vae,
    "beta_svae": beta_svae,
    "annealed_vae": annealed_vae,
    "free_bits_vae": free_bits_vae,
    "entropy_vae": entropy_vae,
    "factor_vae": factor_vae,
    "factor_vae_prior": factor_vae_prior,
    "aae": aae,
    "information_dropout": information_dropout,
    "beta_tcvae": beta_tcvae,
    "hfvae": hfvae,
    "four_terms": four_terms,
    "isa_vae": isa_vae,
    "isa_tcvae": isa_tcvae,
    "dip_vae_i": dip_vae_i,
    "dip_vae_ii": dip_vae_ii,
    "info_vae": info_vae,
    "wae": wae,
    "decomposition": decomposition,
    "anchor_vae": anchor_vae,
    "hfs_vae": hfs_vae,
    "row": row,
}
