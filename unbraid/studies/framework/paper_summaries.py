"""One sentence per paper on what stands, each tied to the verdicts that it rests on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from unbraid.studies import STUDIES
from unbraid.studies.framework.verdicts import Verdict

HOLDS, FAILS, OPEN, UNTESTED = "holds", "does not hold", "undecided", "not tested here"


@dataclass(frozen=True)
class PaperSummary:
    """A sentence and the verdicts that it rests on.

    Args:
        text: the sentence.
        rests_on: decision by "study.claim"; the sentence is printed only while all of them are current.
    """

    text: str
    rests_on: Mapping[str, str] = field(default_factory=dict)


SUMMARIES: dict[str, PaperSummary] = {
    "Esmaeili et al. 2018": PaperSummary(
        "With a price for each branch the discrete code learns the digit, samples of one code show one digit, and most digits "
        "of unseen combinations are reconstructed, if fewer than by a plain VAE; the printed prices leave the code unused at "
        "our budget; on sprites, where it stays unused too, HFVAE is above β-SVAE by disentanglement (by the FactorVAE metric "
        "that is undecided) and not told apart from β-VAE and β-TCVAE.",
        {
            "hfvae_discrete.digit_in_code": HOLDS,
            "hfvae_discrete.samples": HOLDS,
            "hfvae_zero_shot.generalises": HOLDS,
            "hfvae_zero_shot.better_than_vae": FAILS,
            "hfvae_discrete.printed_prices": UNTESTED,
            "hfvae_table2.dci_svae_below": HOLDS,
            "hfvae_table2.svae_below": OPEN,
            "hfvae_table2.above_beta_vae": OPEN,
            "hfvae_table2.above_tcvae": OPEN,
            "hfvae_table2.dci_above_beta_vae": OPEN,
            "hfvae_table2.dci_above_tcvae": OPEN,
        },
    ),
    "Kim & Mnih 2018": PaperSummary(
        "At equal reconstruction FactorVAE is above β-VAE by MIG, in every seed; by its own metric the gap has the same sign "
        "and is undecided; its critic underestimates the true total correlation, as the paper says.",
        {
            "factor_vae_tradeoff.equal_reconstruction_mig": HOLDS,
            "factor_vae_tradeoff.equal_reconstruction": OPEN,
            "factor_vae_tradeoff.underestimates": HOLDS,
        },
    ),
    "Kumar et al. 2017": PaperSummary(
        "On strokes one direction of DIP-VAE's code tells attributes better than one of the VAE's or of β-VAE's (4), in every "
        "seed, as in Table 2; DIP-VAE removes correlations between latents and, on sprites, reconstructs better than β-VAE (4); "
        "that it also scores higher by Higgins' metric is undecided, with gaps of a fraction of the printed ones; that β-VAE "
        "tells attributes worse as β grows does not show by plain accuracy.",
        {
            "dip_attributes.above_vae": HOLDS,
            "dip_attributes.above_beta": HOLDS,
            "dip_attributes.worse_with_beta": FAILS,
            "dip_table1.less_correlated": HOLDS,
            "dip_table1.cheaper_than_beta4": HOLDS,
            "dip_table1.above_vae": OPEN,
            "dip_table1.above_beta4": OPEN,
        },
    ),
    "Locatello et al. 2020; Locatello et al. 2020b": PaperSummary(
        "On 32×32 sprites pairs that differ in one factor raise MIG and DCI, and so do 100 labels; by the FactorVAE metric, "
        "and for pairs with a random number of changed factors, the gaps have the same sign and five seeds do not decide.",
        {
            "weak_supervision.pairs_mig": HOLDS,
            "weak_supervision.pairs_dci": HOLDS,
            "weak_supervision.labels100_mig": HOLDS,
            "weak_supervision.labels100_dci": HOLDS,
            "weak_supervision.pairs_factor_vae": OPEN,
            "weak_supervision.labels100_factor_vae": OPEN,
            "weak_supervision.random_mig": OPEN,
            "weak_supervision.random_dci": OPEN,
            "weak_supervision.random_factor_vae": OPEN,
        },
    ),
    "Mathieu et al. 2019": PaperSummary(
        "On the pinwheel β widens the posteriors and α improves the match with the prior at β = .5; a sparse prior makes "
        "standardised codes sparser and raw codes not, and α costs less reconstruction than β; on sprites β > 1 gains nothing "
        "with an isotropic prior, as claimed, and that principal or learned variances score higher at equal reconstruction "
        "has the same sign and is undecided (gaps of .04, where ten seeds see .1).",
        {
            "pinwheel.overlap": HOLDS,
            "pinwheel.match": HOLDS,
            "pinwheel.match_exclusive": HOLDS,
            "pinwheel.always": OPEN,
            "sparsity.prior_scaled": HOLDS,
            "sparsity.prior_raw": FAILS,
            "sparsity.beta_costs": HOLDS,
            "decomposition_priors.no_gain_from_beta": HOLDS,
            "decomposition_priors.pca": OPEN,
            "decomposition_priors.learned": OPEN,
        },
    ),
    "Stühmer et al. 2019": PaperSummary(
        "On 32×32 sprites the ISA prior changes neither MIG nor reconstruction measurably: the 95% interval at equal "
        "reconstruction lies within a quarter of the printed gap; at β = 1 and 2 MIG is too close to its floor to be read, and "
        "whether the exponent turns position to the axes is undecided.",
        {
            "isa_tradeoff.equal_reconstruction": OPEN,
            "isa_tradeoff.reconstruction": OPEN,
            "isa_tradeoff.beta1": UNTESTED,
            "isa_tradeoff.beta2": UNTESTED,
            "isa_orientation.platykurtic": OPEN,
        },
    ),
}


def summary_of(paper: str, verdicts_by_study: Mapping[str, Sequence[Verdict]]) -> str:
    """The sentence of a paper; "" if there is none, or if a verdict that it rests on is another one now.

    Args:
        paper: the citation, such as "Kim & Mnih 2018".
        verdicts_by_study: verdicts in the order of the claims, by study.
    """
    summary = SUMMARIES.get(paper)
    return summary.text if summary is not None and not outdated(summary, verdicts_by_study) else ""


def outdated(summary: PaperSummary, verdicts_by_study: Mapping[str, Sequence[Verdict]]) -> list[str]:
    """The "study.claim" whose verdict is not the one that a sentence rests on.

    Args:
        summary: the sentence.
        verdicts_by_study: verdicts in the order of the claims, by study.
    """
    current = {
        f"{name}.{claim.name}": verdict.decision
        for name, verdicts in verdicts_by_study.items()
        for claim, verdict in zip(STUDIES[name].claims, verdicts, strict=True)
    }
    return [key for key, decision in summary.rests_on.items() if current.get(key) != decision]
