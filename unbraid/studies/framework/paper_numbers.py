"""Numbers printed in the papers, each with its location; paper effects of claims are computed from them.

The available texts have no page numbers, so a location is a table, figure, section or appendix.
"""

from __future__ import annotations

from dataclasses import dataclass

KIM, KUMAR = "Kim & Mnih 2018", "Kumar et al. 2017"
ESMAEILI, MATHIEU, STUEHMER = "Esmaeili et al. 2018", "Mathieu et al. 2019", "Stühmer et al. 2019"
PIXEL_ERROR = "reconstruction error per pixel"


@dataclass(frozen=True)
class PaperNumber:
    """One number of one paper.

    Args:
        value: the number.
        paper: authors and year.
        location: table, figure, section or appendix.
        description: what the number is.
    """

    value: float
    paper: str
    location: str
    description: str

    @property
    def source(self) -> str:
        """Paper and location, such as 'Kim & Mnih 2018, Fig. 5'."""
        return f"{self.paper}, {self.location}"


def _paper_numbers(
    paper: str, location: str, description: str, prefix: str = "", **values: float
) -> dict[str, PaperNumber]:
    """Numbers of one table by name; the prefix tells two numbers of one method apart."""
    named = {prefix + name: value for name, value in values.items()}
    return {name: PaperNumber(value, paper, location, f"{description}: {name}") for name, value in named.items()}


# FactorVAE on 2D Shapes (dSprites): the metric of Sec. 4 and reconstruction in nats
FACTOR_VAE: dict[str, PaperNumber] = {
    **_paper_numbers(KIM, "Sec. 6, on Fig. 5", "best mean score", factor_vae_40=0.82, beta_vae_4=0.73),
    **_paper_numbers(KIM, "Sec. 6, on Fig. 5", "reconstruction of both best means", reconstruction=45.0),
    **_paper_numbers(KIM, "Fig. 6", "best single score", best_factor_vae_35=0.889, best_beta_vae_4=0.814),
    **_paper_numbers(KIM, "Sec. 6", "correlation of the two metrics", pearson=0.404, kendall=0.310, spearman=0.444),
    **_paper_numbers(KIM, "App. E", "IWAE bound", iwae_vae=-43.3, iwae_beta_vae=-46.1, iwae_factor_vae=-51.9),
}

# FactorVAE on 3D Shapes: reconstruction and bound of 64×64 colour images, in nats
SHAPES_3D: dict[str, PaperNumber] = {
    **_paper_numbers(
        KIM, "Sec. 6, on Fig. 10", "reconstruction at the best mean score", factor_vae_36=3515.0, beta_vae_24=3570.0
    ),
    **_paper_numbers(KIM, "Fig. 11", "best single score", best_beta_vae_32=1.0, best_factor_vae_7=1.0),
    **_paper_numbers(KIM, "App. E", "IWAE bound", iwae_vae=-3517.0, iwae_beta_vae=-3534.0, iwae_factor_vae=-3520.0),
}

# DIP-VAE: Higgins' metric as accuracy, reconstruction error per pixel on the test set
DIP_VAE: dict[str, PaperNumber] = {
    **_paper_numbers(KUMAR, "Table 1", "Higgins' metric", vae=0.813, beta_4=0.807, beta_60=0.957, dip=0.987),
    **_paper_numbers(KUMAR, "Table 1", PIXEL_ERROR, "error_", vae=0.0017, beta_4=0.0032, beta_60=0.0113, dip=0.0018),
}

# the same on CelebA, with 40 attributes in place of factors
DIP_CELEBA: dict[str, PaperNumber] = {
    **_paper_numbers(KUMAR, "Table 1", "Higgins' metric, CelebA", vae=0.075, beta_4=0.081, beta_8=0.071, dip=0.1131),
    **_paper_numbers(
        KUMAR, "Table 1", f"{PIXEL_ERROR}, CelebA", "error_", vae=0.0876, beta_4=0.0937, beta_8=0.1065, dip=0.0911
    ),
}

# DIP-VAE on CelebA: accuracy of twelve attributes, arched eyebrows to wearing lipstick; claims take the mean of a row
ATTRIBUTES: dict[str, tuple[float, ...]] = {
    "vae": (71.8, 73.0, 89.8, 78.0, 88.9, 79.6, 83.9, 76.3, 87.3, 70.2, 95.8, 83.0),
    "beta_2": (71.6, 72.6, 90.6, 79.3, 89.1, 79.3, 83.5, 76.1, 86.9, 67.8, 95.9, 82.4),
    "beta_4": (71.6, 72.6, 90.0, 76.6, 88.9, 77.8, 82.3, 75.7, 85.3, 66.8, 95.8, 80.6),
    "beta_8": (71.6, 71.7, 90.0, 76.0, 87.2, 76.2, 80.5, 73.1, 85.3, 63.7, 95.8, 79.6),
    "dip": (73.7, 73.2, 90.9, 80.6, 91.9, 81.5, 85.9, 75.9, 85.3, 71.5, 96.2, 84.7),
}
DIP_ATTRIBUTES: dict[str, PaperNumber] = {
    name: PaperNumber(round(sum(row) / len(row) / 100, 4), KUMAR, "Table 2", f"mean accuracy of 12 attributes: {name}")
    for name, row in ATTRIBUTES.items()
}

# ISA-VAE on dSprites: MIG (shape left out) and log p(x|z) of *representative* runs, chosen by the authors
ISA_VAE: dict[str, PaperNumber] = {
    **_paper_numbers(STUEHMER, "Fig. 8", "MIG, β = 1", vae_1=0.14, isa_1=0.20),
    **_paper_numbers(STUEHMER, "Fig. 11", "MIG, β = 2", beta_vae_2=0.28, beta_tcvae_2=0.30, isa_2=0.41),
    **_paper_numbers(STUEHMER, "Fig. 14", "MIG, β = 3", beta_vae_3=0.47, beta_tcvae_3=0.43, isa_3=0.48),
    **_paper_numbers(STUEHMER, "Fig. 8", "log p(x|z), β = 1", log_vae_1=-21.99, log_isa_1=-20.93),
    **_paper_numbers(
        STUEHMER, "Fig. 11", "log p(x|z), β = 2", "log_", beta_vae_2=-29.40, beta_tcvae_2=-27.15, isa_2=-25.86
    ),
}

# ISA-VAE on 3D Faces: most frequent learned exponents of three groups, p1 < p2 < p3; p3 is always above p0
EXPONENTS: dict[str, PaperNumber] = _paper_numbers(
    STUEHMER, "App. A.2 and Fig. 7", "most frequent learned exponent", p1=1.95, p2=1.98, p3=2.17, p0=2.1
)

# HFVAE on dSprites: FactorVAE metric, and Eastwood & Williams' disentanglement with a random forest
HFVAE: dict[str, PaperNumber] = {
    **_paper_numbers(
        ESMAEILI, "Table 2", "FactorVAE metric", vae=0.71, beta_vae=0.72, beta_svae=0.47, beta_tcvae=0.71, hfvae=0.78
    ),
    **_paper_numbers(
        ESMAEILI,
        "Table 2",
        "disentanglement",
        "dci_",
        vae=0.40,
        beta_vae=0.71,
        beta_svae=0.19,
        beta_tcvae=0.31,
        hfvae=0.74,
    ),
    **_paper_numbers(ESMAEILI, "Sec. 6.1 and Fig. 6", "columns on MNIST, of 10", kept=7, pruned=3),
}
