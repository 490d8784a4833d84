"""The table of objectives: one short function per paper returns a row of prices. Nats are per example, summed over pixels.

A docstring is what `unbraid show objective NAME` prints: summary, formula, options, `Use:`, `Not:`. See `catalogue.docstrings`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from unbraid import terms
from unbraid.core.errors import choose
from unbraid.objectives.custom_row import row
from unbraid.objectives.objective import Objective
from unbraid.objectives.row_prices import affine
from unbraid.objectives.supervised_rows import SUPERVISED_ROWS
from unbraid.prices import Capacity, FreeBits, Price
from unbraid.terms.critics import RatioSpec

PAPER_CRITIC = RatioSpec()  # Kim & Mnih's discriminator
SHARED_OPTIONS = {  # descriptions of options that several rows take; those in a docstring have precedence
    "estimator": "what stands for q(z): stratified, mss, mws, naive or memory_bank(ROWS); 'unbraid list estimators'.",
    "critic": "the discriminator: a table of width, depth, lr, betas, steps.",
    "divergence": "D: mmd, mmd_rbf, inclusive_kl, exclusive_kl, ratio or adversary.",
    "rho": "weight of the new batch in the running covariance; 1 takes the batch alone.",
    "gradient": "of the running covariance: literal (ρ times the batch's, as printed; the default of new recipes) or full (the "
    "batch's; the default of stored runs and in Python). At ρ = 1 the two are one.",
}


def vae() -> Objective:
    """The evidence lower bound: every nat of the KL costs one nat.

    reconstruction + KL(q(z|x) ‖ p(z))        Kingma & Welling 2014

    Use: as the baseline of every comparison, and when likelihood is what counts.
    Not: to separate factors; nothing in it asks for that.
    """
    return Objective("vae", {"kl": 1.0}, "Kingma & Welling 2014")


def beta_vae(beta: Price = 4.0) -> Objective:
    """The ELBO with a price on the whole KL: the code carries less information.

    reconstruction + β KL(q(z|x) ‖ p(z))        Higgins et al. 2017

    beta: price of the whole KL; 1 is the VAE.
    Use: as the simplest pressure towards separate factors, and where no estimator of q(z) is wanted.
    Not: when reconstructions must stay sharp: β charges I(x; z) as much as dependence, so leaves die as it grows.
    """
    return Objective("beta_vae", {"kl": beta}, "Higgins et al. 2017")


def beta_svae(beta: Price = 4.0, masses: bool = False) -> Objective:
    """The β-VAE row on a tree with discrete leaves.

    reconstruction + β KL(q(z|x) ‖ p(z))        Esmaeili et al. 2018, Table 2

    beta: price of the whole KL.
    masses: charge discrete leaves by mass where posterior.discrete is density; new recipes charge masses without it.
    Use: as the baseline for trees with one-hot or binary leaves.
    Not: on a tree of real leaves only (it is refused: that is beta_vae).
    """
    key = "kl@categorical" if masses else "kl"
    return Objective("beta_svae", {key: beta}, "Esmaeili et al. 2018, Table 2", mixed=True)


def annealed_vae(gamma: float = 1000.0, capacity: float = 25.0, steps: int = 100_000) -> Objective:
    """The KL is steered to a capacity that grows during training: the price is a function.

    reconstruction + γ |KL(q(z|x) ‖ p(z)) − C(step)|        Burgess et al. 2018

    gamma: how hard the KL is held to the capacity.
    capacity: where C ends, in nats for all leaves together.
    steps: in how many steps C rises from 0 to there, in a line.
    Use: to set how many nats the code carries, whatever the data; leaves come alive one by one.
    Not: with runs much shorter than `steps`, which end before the capacity is reached.
    """
    return Objective("annealed_vae", {"kl": Capacity(gamma, capacity, steps)}, "Burgess et al. 2018")


def free_bits_vae(floor: float = 0.5) -> Objective:
    """The first λ nats of every leaf are free, so that none collapses early.

    reconstruction + Σ_l max(λ, KL_l), KL_l the batch mean of leaf l        Kingma et al. 2016

    floor: λ, the free nats of each leaf.
    Use: if leaves die in the first steps, above all with strong decoders.
    Not: to count leaves in use: every leaf may carry λ nats of noise for nothing.
    """
    return Objective("free_bits_vae", {"kl": FreeBits(floor)}, "Kingma et al. 2016")


def entropy_vae(beta: Price = 4.0) -> Objective:
    """The ELBO with a reward for the posterior's entropy: the β-VAE with its latents rescaled by √β.

    reconstruction + KL(q(z|x) ‖ p(z)) − (β − 1) H[q(z|x)]        Mathieu et al. 2019, Eq. 5

    beta: the β of the β-VAE it matches.
    Use: to see that β acts through the overlap of posteriors, not through the prior's axes.
    Not: with discrete leaves, whose entropy has another form (it is refused).
    """
    return Objective("entropy_vae", {"kl": 1.0, "entropy": affine(beta, -1, 1)}, "Mathieu et al. 2019, Eq. 5")


def factor_vae(gamma: Price = 35.0, critic: RatioSpec = PAPER_CRITIC) -> Objective:
    """The ELBO and a price on total correlation alone, which a discriminator estimates.

    reconstruction + KL(q(z|x) ‖ p(z)) + γ TC(q), TC = KL(q(z) ‖ Π_j q(z_j))        Kim & Mnih 2018, Eq. 2

    gamma: price of the total correlation, on top of the 1 in the KL.
    Use: for independent leaves without charging information; its TC does not depend on the batch's size.
    Not: on two cores and small nets: six layers of 1,000 cost ten times the model (`critic` makes it smaller).
    """
    return _row("factor_vae", {"kl": 1.0, "tc_q@ratio": gamma}, "Kim & Mnih 2018, Eq. 2", critic=critic)


def factor_vae_prior(gamma: Price = 35.0, critic: RatioSpec = PAPER_CRITIC) -> Objective:
    """The ELBO and a price on the distance of q(z) from the prior, by a discriminator.

    reconstruction + KL(q(z|x) ‖ p(z)) + γ KL(q(z) ‖ p(z))        Kim & Mnih 2018, Eq. 12; Kumar et al. 2017, Eq. 4

    gamma: price of KL(q(z) ‖ p(z)), on top of the 1 in the KL.
    Use: when samples from the prior must decode well and leaves must be independent.
    Not: for independence alone: factor_vae charges that and leaves the marginals to the KL.
    """
    return _row("factor_vae_prior", {"kl": 1.0, "agg@ratio": gamma}, "Kim & Mnih 2018, Eq. 12", critic=critic)


def aae(gamma: Price = 1.0, by: str = "ratio", critic: RatioSpec = PAPER_CRITIC) -> Objective:
    """An autoencoder with a discriminator that makes q(z) similar to the prior; information has no price.

    reconstruction + γ KL(q(z) ‖ p(z))        Makhzani et al. 2015; Kim & Mnih 2018, Eq. 7

    gamma: price of the distance.
    by: 'ratio' estimates the KL itself in nats, 'adversary' plays the GAN loss, in a unit of its own.
    Use: for sharp reconstructions with a q(z) that can be sampled from.
    Not: where posteriors should overlap: mi costs nothing, so they may shrink to points.
    """
    how = choose(by, {"ratio": "ratio", "adversary": "adversary"}, "way to compare q(z) with p(z) ('by')")
    return _row("aae", {f"agg@{how}": gamma}, "Makhzani et al. 2015; Kim & Mnih 2018, Eq. 7", critic=critic)


def information_dropout(beta: Price = 1.0, gamma: Price = 1.0, estimator: str = "mss") -> Objective:
    """Information and total correlation have a price, the leaves' own marginals have none.

    reconstruction + β I(x; z) + γ TC(q)        Achille & Soatto 2018; Kim & Mnih 2018, Eqs. 8 and 9

    beta: price of I(x; z).
    gamma: price of the total correlation; 0 is Eq. 8.
    Use: to study an information bottleneck without matching a prior.
    Not: for samples from the prior: nothing makes q(z) similar to p(z).
    """
    cite = "Achille & Soatto 2018; Kim & Mnih 2018, Eq. 9"
    return _row("information_dropout", {"mi": beta, "tc_q": gamma}, cite, estimator)


def beta_tcvae(alpha: Price = 1.0, beta: Price = 6.0, gamma: Price = 1.0, estimator: str = "mss") -> Objective:
    """The KL in three parts: information, total correlation and leaf-wise KL each have a price.

    reconstruction + α I(x; z) + β TC(q) + γ Σ_j KL(q(z_j) ‖ p(z_j))        Chen et al. 2018

    alpha: price of I(x; z).
    beta: price of the total correlation.
    gamma: price of the leaf-wise KL.
    Use: as the first choice for independent leaves: no critic, one extra number, steps cost a fifth more at a batch of 64.
    Not: with batches of thousands (cost grows with B²), or where groups should stay together (hfvae).
    """
    return _row("beta_tcvae", {"mi": alpha, "tc_q": beta, "dw_joint": gamma}, "Chen et al. 2018", estimator)


def hfvae(alpha: Price = 1.0, beta: Price = 4.0, gamma: Price = 3.0, estimator: str = "stratified") -> Objective:
    """Two levels: one price on the dependence between groups, another on the dependence inside them.

    reconstruction + α I(x; z) + β TC between groups + γ Σ_g TC within g + Σ_l KL(q(z_l) ‖ p(z_l))
                                                              Esmaeili et al. 2018, Eq. 9

    alpha: price of I(x; z).
    beta: price of the total correlation between the root's children (tc:root).
    gamma: price of the total correlation inside every other branch.
    Use: when the latent tree has groups, such as a discrete leaf and a style: dependence inside a group is cheaper.
    Not: on a flat tree, where γ charges nothing and beta_tcvae is simpler.
    """
    prices = {"mi": alpha, "tc:root": beta, "tc": gamma, "dw": 1.0}
    return _row("hfvae", prices, "Esmaeili et al. 2018, Eq. 9", estimator)


def four_terms(
    lambda_2: Price = 1.0,
    lambda_3: Price = 1.0,
    lambda_4: Price = 1.0,
    particles: int = 8,
    estimator: str = "stratified",
) -> Objective:
    """HFVAE's four terms with a weight each; ① + ③ is the reconstruction.

    reconstruction + λ2 I(x; z) + λ4 KL(q(z) ‖ p(z)) − (λ3 − 1) log p(x)        Esmaeili et al. 2018, Eq. 7

    lambda_2: price of I(x; z), term ②.
    lambda_3: weight of KL(q(x) ‖ p(x)), term ③; other than 1 it needs log p(x), by an importance-weighted estimate.
    lambda_4: price of KL(q(z) ‖ p(z)), term ④.
    particles: draws behind that estimate, each a pass of the decoder; its bias grows with the gap of q(z|x).
    Use: to study Eq. 7 term by term.
    Not: with lambda_3 other than 1 on large images: each particle decodes the batch once more.
    """
    prices = {"mi": lambda_2, "agg": lambda_4, "evidence@iwae": affine(lambda_3, 1, -1)}
    return _row("four_terms", prices, "Esmaeili et al. 2018, Eq. 7", estimator, particles=particles)


def isa_vae(beta: Price = 1.0) -> Objective:
    """The β-VAE row under an Lp-nested prior, whose subspaces fix which rotations are free.

    reconstruction + β KL(q(z|x) ‖ p(z)), p an Lp-nested prior        Stühmer et al. 2019, Eq. 12

    beta: price of the whole KL.
    Use: when factors have more than one column each: the prior keeps subspaces apart.
    Not: with all exponents at 2, which gives a normal prior.
    """
    return Objective("isa_vae", {"kl": beta}, "Stühmer et al. 2019, Eq. 12", prior=("isa", "lp_nested"))


def isa_tcvae(beta: Price = 2.0, estimator: str = "mss") -> Objective:
    """The β-TCVAE row under an Lp-nested prior, which enters jointly: no marginals needed.

    reconstruction + I(x; z) + β TC(q) + Σ_l log q(z_l) − log p(z)        Stühmer et al. 2019, Sec. 4

    beta: price of the total correlation of q.
    Use: as isa_vae, when β = 1 leaves too much dependence and a larger one too little information.
    Not: to keep dependence inside the prior's subspaces: TC(q) here is over leaves, as in the paper.
    """
    prices: dict[str, Price] = {"mi": 1.0, "tc_q": beta, "dw_joint": 1.0}
    return Objective("isa_tcvae", prices, "Stühmer et al. 2019, Sec. 4", estimator, prior=("isa", "lp_nested"))


def dip_vae_i(
    lambda_od: Price = 10.0, lambda_d: Price | None = None, rho: float = 1.0, gradient: str = "full"
) -> Objective:
    """The ELBO and moment matching: the covariance of the means should be the prior's.

    reconstruction + KL(q(z|x) ‖ p(z)) + λ_od Σ_{i≠j} Cov[μ]²_ij + λ_d Σ_i (Cov[μ]_ii − 1)²
                                                              Kumar et al. 2017, Eq. 6

    lambda_od: price of squares off the diagonal.
    lambda_d: price of squares on the diagonal; left out, 10 λ_od as in the paper.
    Use: for uncorrelated means at the cost of a VAE step, and when leaves should not die: the diagonal keeps them at 1.
    Not: for independence beyond correlation.
    """
    lambda_d = affine(lambda_od, 10) if lambda_d is None else lambda_d
    prices = {"kl": 1.0, "moments_od@mean": lambda_od, "moments_d@mean": lambda_d}
    return _row("dip_vae_i", prices, "Kumar et al. 2017, Eq. 6", rho=rho, gradient=gradient)


def dip_vae_ii(
    lambda_od: Price = 10.0, lambda_d: Price | None = None, rho: float = 1.0, gradient: str = "full"
) -> Objective:
    """As DIP-VAE-I with the covariance of the codes themselves, noise included.

    reconstruction + KL(q(z|x) ‖ p(z)) + λ_od Σ_{i≠j} Cov[z]²_ij + λ_d Σ_i (Cov[z]_ii − 1)², Cov[z] = E[Σ] + Cov[μ]
                                                              Kumar et al. 2017, Eq. 5; Kim & Mnih 2018, Eq. 11

    lambda_od: price of squares off the diagonal.
    lambda_d: price of squares on the diagonal; left out, λ_od.
    Use: like DIP-VAE-I, if leaves may stay unused: noise alone gives such a leaf its variance.
    Not: for independence beyond correlation.
    """
    lambda_d = lambda_od if lambda_d is None else lambda_d
    prices = {"kl": 1.0, "moments_od@code": lambda_od, "moments_d@code": lambda_d}
    return _row("dip_vae_ii", prices, "Kumar et al. 2017, Eq. 5; Kim & Mnih 2018, Eq. 11", rho=rho, gradient=gradient)


def info_vae(
    alpha: float = 0.5,
    lam: float = 10.0,
    divergence: str = "mmd",
    estimator: str = "stratified",
    critic: RatioSpec = PAPER_CRITIC,
) -> Objective:
    """Information at a discount, and a divergence of q(z) from the prior instead.

    reconstruction + (1 − α) KL(q(z|x) ‖ p(z)) + (α + λ − 1) D(q(z), p(z))        Zhao et al. 2017

    alpha: what is taken off the price of information; 1 leaves mi free.
    lam: price of the divergence as the paper counts it (also spelled lambda).
    Use: if the decoder ignores the codes, and q(z) must stay close to the prior.
    Not: to make leaves independent: the divergence is that of the whole q(z).
    """
    prices = {"kl": 1 - alpha, _divergence(divergence): alpha + lam - 1}
    return _row("info_vae", prices, "Zhao et al. 2017", estimator, critic=critic)


def wae(lam: Price = 10.0, divergence: str = "mmd", critic: RatioSpec = PAPER_CRITIC) -> Objective:
    """An autoencoder with a divergence of q(z) from the prior; the posterior itself is free.

    reconstruction + λ D(q(z), p(z))        Tolstikhin et al. 2018, Alg. 2 ('adversary' is its Alg. 1)

    lam: price of the divergence (also spelled lambda).
    Use: for sharp reconstructions and decodable samples; with priors whose density is 0 somewhere, such as uniform.
    Not: for nats: MMD has a unit of its own, and posteriors may shrink to points.
    """
    return _row("wae", {_divergence(divergence): lam}, "Tolstikhin et al. 2018, Alg. 2", "stratified", critic=critic)


def decomposition(
    alpha: Price = 1.0,
    beta: Price = 1.0,
    divergence: str = "mmd",
    estimator: str = "stratified",
    critic: RatioSpec = PAPER_CRITIC,
) -> Objective:
    """Two prices: β for the overlap of posteriors, α for the shape of q(z).

    reconstruction + β KL(q(z|x) ‖ p(z)) + α D(q(z), p(z))        Mathieu et al. 2019, Eq. 7

    alpha: price of the divergence.
    beta: price of the whole KL.
    Use: when structure comes from the prior (clusters, sparsity, subspaces) and q(z) must take its shape.
    Not: with the isotropic normal prior, which no rotation changes.
    """
    prices = {"kl": beta, _divergence(divergence): alpha}
    return _row("decomposition", prices, "Mathieu et al. 2019, Eq. 7", estimator, critic=critic)


def anchor_vae(lam: Price = 1.0, anchors: str = "anchors", estimator: str = "stratified") -> Objective:
    """The ELBO with a reward for the information of some leaves.

    reconstruction + KL(q(z|x) ‖ p(z)) − λ I(x; z_a), a a branch or leaf        Gao et al. 2018; HFVAE's Table 1

    lam: what a nat of the anchors' information earns (also spelled lambda).
    anchors: the name of the branch or leaf.
    Use: to have a chosen group, such as a discrete leaf, carry information.
    Not: with λ above 1 and no other bound: the anchors then earn more than they cost. Nor with a small λ on a one-hot leaf
        charged by mass: it may saturate at one class within ten steps (0.00, 0.04, 0.00 nats at λ = 2). See docs/objectives.md.
    """
    return _row("anchor_vae", {"kl": 1.0, f"mi:{anchors}": affine(lam, -1)}, "Gao et al. 2018", estimator)


def hfs_vae(gamma: Price = 10.0, beta: Price = 1.0) -> Objective:
    """Factors may be correlated, but their values must combine freely: the support is factorised, not the density.

    reconstruction + β KL(q(z|x) ‖ p(z)) + γ Hausdorff(support of q, product of supports)        Roth et al. 2023

    gamma: price of the distance, in units of z.
    beta: price of the whole KL.
    Use: when factors are correlated in the data, so that a price on total correlation pulls them the wrong way.
    Not: at small batches where a step must be cheap: 64 rows and all pairs of columns are compared.
    """
    return Objective("hfs_vae", {"kl": beta, "support": gamma}, "Roth et al. 2023")


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
    **SUPERVISED_ROWS,
    "row": row,
}
