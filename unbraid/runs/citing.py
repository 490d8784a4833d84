"""The papers behind every name in the library."""

from __future__ import annotations

import re
from dataclasses import dataclass

from unbraid.ground.errors import choose


@dataclass(frozen=True)
class Paper:
    """One paper."""

    authors: str
    year: int
    title: str
    venue: str

    @property
    def line(self) -> str:
        """Authors (year). Title. Venue."""
        return f"{self.authors} ({self.year}). {self.title}. {self.venue}."

    def bibtex(self, key: str) -> str:
        """A BibTeX entry."""
        slug = re.sub(r"\W+", "", key.lower())
        fields = {"author": self.authors, "title": self.title, "booktitle": self.venue, "year": self.year}
        return f"@inproceedings{{{slug},\n" + "".join(f"  {k} = {{{v}}},\n" for k, v in fields.items()) + "}"


PAPERS: dict[str, Paper] = {
    "Kingma & Welling 2014": Paper("D. P. Kingma and M. Welling", 2014, "Auto-encoding variational Bayes", "ICLR"),
    "Higgins et al. 2017": Paper(
        "I. Higgins and L. Matthey and A. Pal and C. Burgess and X. Glorot and M. Botvinick and S. Mohamed and A. Lerchner",
        2017,
        "beta-VAE: Learning basic visual concepts with a constrained variational framework",
        "ICLR",
    ),
    "Kumar et al. 2017": Paper(
        "A. Kumar and P. Sattigeri and A. Balakrishnan",
        2018,
        "Variational inference of disentangled latent concepts from unlabeled observations",
        "ICLR",
    ),
    "Burgess et al. 2018": Paper(
        "C. P. Burgess and I. Higgins and A. Pal and L. Matthey and N. Watters and G. Desjardins and A. Lerchner",
        2018,
        "Understanding disentangling in beta-VAE",
        "arXiv:1804.03599",
    ),
    "Kim & Mnih 2018": Paper("H. Kim and A. Mnih", 2018, "Disentangling by factorising", "ICML"),
    "Chen et al. 2018": Paper(
        "R. T. Q. Chen and X. Li and R. Grosse and D. Duvenaud",
        2018,
        "Isolating sources of disentanglement in variational autoencoders",
        "NeurIPS",
    ),
    "Esmaeili et al. 2018": Paper(
        "B. Esmaeili and H. Wu and S. Jain and A. Bozkurt and N. Siddharth and B. Paige and D. H. Brooks and J. Dy "
        "and J.-W. van de Meent",
        2019,
        "Structured disentangled representations (Hierarchical disentangled representations)",
        "AISTATS",
    ),
    "Mathieu et al. 2019": Paper(
        "E. Mathieu and T. Rainforth and N. Siddharth and Y. W. Teh",
        2019,
        "Disentangling disentanglement in variational autoencoders",
        "ICML",
    ),
    "Stühmer et al. 2019": Paper(
        "J. Stühmer and R. E. Turner and S. Nowozin",
        2020,
        "Independent subspace analysis for unsupervised learning of disentangled representations (ISA-VAE)",
        "AISTATS",
    ),
    "Zhao et al. 2017": Paper(
        "S. Zhao and J. Song and S. Ermon", 2019, "InfoVAE: Information maximizing variational autoencoders", "AAAI"
    ),
    "Tolstikhin et al. 2018": Paper(
        "I. Tolstikhin and O. Bousquet and S. Gelly and B. Schölkopf", 2018, "Wasserstein auto-encoders", "ICLR"
    ),
    "Makhzani et al. 2015": Paper(
        "A. Makhzani and J. Shlens and N. Jaitly and I. Goodfellow and B. Frey",
        2016,
        "Adversarial autoencoders",
        "ICLR workshop",
    ),
    "Achille & Soatto 2018": Paper(
        "A. Achille and S. Soatto",
        2018,
        "Information dropout: Learning optimal representations through noisy computation",
        "IEEE TPAMI",
    ),
    "Gao et al. 2018": Paper(
        "S. Gao and R. Brekelmans and G. Ver Steeg and A. Galstyan",
        2019,
        "Auto-encoding total correlation explanation",
        "AISTATS",
    ),
    "Roth et al. 2023": Paper(
        "K. Roth and M. Ibrahim and Z. Akata and P. Vincent and D. Bouchacourt",
        2023,
        "Disentanglement of correlated factors via Hausdorff factorized support",
        "ICLR",
    ),
    "Chen et al. 2016": Paper(
        "X. Chen and Y. Duan and R. Houthooft and J. Schulman and I. Sutskever and P. Abbeel",
        2016,
        "InfoGAN: Interpretable representation learning by information maximizing generative adversarial nets",
        "NeurIPS",
    ),
    "Eastwood & Williams 2018": Paper(
        "C. Eastwood and C. K. I. Williams",
        2018,
        "A framework for the quantitative evaluation of disentangled representations",
        "ICLR",
    ),
    "Matthey et al. 2017": Paper(
        "L. Matthey and I. Higgins and D. Hassabis and A. Lerchner",
        2017,
        "dSprites: Disentanglement testing sprites dataset",
        "GitHub",
    ),
}


def citations(name: str) -> dict[str, str]:
    """What to cite for a name, by what it is: an objective, a metric, a data set, a recipe (one name may be several).

    >>> citations("factor_vae")["objective"]
    'Kim & Mnih 2018, Eq. 2'
    """
    from unbraid.data import DATASETS
    from unbraid.metrics import METRICS
    from unbraid.model.infogan import GANS
    from unbraid.objectives.rows import OBJECTIVES as ROWS
    from unbraid.runs.recipes import RECIPES

    objectives = {**ROWS, **GANS}
    choose(name, {**objectives, **METRICS, **DATASETS, **RECIPES}, "objective, metric, data set or recipe")
    found: dict[str, str] = {}
    if name in objectives:
        found["objective"] = _cited(objectives[name].__doc__)
    if name in METRICS:
        found["metric"] = _cited(METRICS[name].call.__doc__)
    if name in DATASETS:
        found["data set"] = DATASETS[name].cite or "this library"
    if name in RECIPES:
        found["recipe"] = str(RECIPES[name].get("cite", "this library"))
    return found


def _cited(doc: str | None) -> str:
    """The citation in a docstring: from the first author's name to the end of that sentence or line."""
    match = re.search(r"((?:[A-Z][\w\-üöéš]+ (?:& [A-Z]\w+ |et al\. )?)(?:19|20)\d\d[^\n]*)", doc or "")
    return match[1].rstrip(" .") if match else "this library"


def papers_in(line: str) -> list[str]:
    """The papers a citation line names."""
    return [key for key in PAPERS if key in line]
