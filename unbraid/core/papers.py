"""The table of papers; its keys appear in docstrings and in the field `cite` of records."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass


@dataclass(frozen=True)
class Paper:
    """A paper, data set or program.

    Args:
        authors: separated by " and ", as in BibTeX.
        year: the year of publication.
        title: the title.
        venue: the conference, journal or repository.
    """

    authors: str
    year: int
    title: str
    venue: str

    @property
    def reference(self) -> str:
        """Authors (year). Title. Venue."""
        authors = self.authors.replace(" and ", ", ").strip("{}")
        return f"{authors} ({self.year}). {self.title}. {self.venue}."

    def bibtex(self, key: str) -> str:
        """A BibTeX entry.

        Args:
            key: the citation key; accents, spaces and capitals are removed.
        """
        plain = unicodedata.normalize("NFKD", key).encode("ascii", "ignore").decode()
        loose = re.match(r"arXiv|GitHub|software|UCI|technical", self.venue)
        kind, place = ("misc", "howpublished") if loose else ("inproceedings", "booktitle")
        if re.search(r"Journal|Transactions|Quarterly|Proceedings of the IEEE|IEEE T", self.venue):
            kind, place = "article", "journal"
        fields = {"author": self.authors, "title": f"{{{self.title}}}", place: self.venue, "year": self.year}
        body = "".join(f"  {name} = {{{value}}},\n" for name, value in fields.items()).replace("&", "\\&")
        return f"@{kind}{{{re.sub(r'[^a-z0-9]', '', plain.lower())},\n{body}}}"


# fmt: off
PAPERS: dict[str, Paper] = {
    # objectives
    "Kingma & Welling 2014": Paper("D. P. Kingma and M. Welling", 2014, "Auto-encoding variational Bayes", "ICLR"),
    "Higgins et al. 2017": Paper(
        "I. Higgins and L. Matthey and A. Pal and C. Burgess and X. Glorot and M. Botvinick and S. Mohamed and A. Lerchner",
        2017, "beta-VAE: Learning basic visual concepts with a constrained variational framework", "ICLR"),
    "Kumar et al. 2017": Paper("A. Kumar and P. Sattigeri and A. Balakrishnan", 2018,
        "Variational inference of disentangled latent concepts from unlabeled observations", "ICLR"),
    "Burgess et al. 2018": Paper(
        "C. P. Burgess and I. Higgins and A. Pal and L. Matthey and N. Watters and G. Desjardins and A. Lerchner",
        2018, "Understanding disentangling in beta-VAE", "arXiv:1804.03599"),
    "Kim & Mnih 2018": Paper("H. Kim and A. Mnih", 2018, "Disentangling by factorising", "ICML"),
    "Chen et al. 2018": Paper("R. T. Q. Chen and X. Li and R. Grosse and D. Duvenaud", 2018,
        "Isolating sources of disentanglement in variational autoencoders", "NeurIPS"),
    "Esmaeili et al. 2018": Paper(
        "B. Esmaeili and H. Wu and S. Jain and A. Bozkurt and N. Siddharth and B. Paige and D. H. Brooks and J. Dy and "
        "J.-W. van de Meent", 2019, "Structured disentangled representations", "AISTATS"),
    "Mathieu et al. 2019": Paper("E. Mathieu and T. Rainforth and N. Siddharth and Y. W. Teh", 2019,
        "Disentangling disentanglement in variational autoencoders", "ICML"),
    "Stühmer et al. 2019": Paper("J. Stühmer and R. E. Turner and S. Nowozin", 2020,
        "Independent subspace analysis for unsupervised learning of disentangled representations", "AISTATS"),
    "Zhao et al. 2017": Paper("S. Zhao and J. Song and S. Ermon", 2019,
        "InfoVAE: Balancing learning and inference in variational autoencoders", "AAAI"),
    "Tolstikhin et al. 2018": Paper("I. Tolstikhin and O. Bousquet and S. Gelly and B. Schölkopf", 2018,
        "Wasserstein auto-encoders", "ICLR"),
    "Makhzani et al. 2015": Paper("A. Makhzani and J. Shlens and N. Jaitly and I. Goodfellow and B. Frey", 2015,
        "Adversarial autoencoders", "arXiv:1511.05644"),
    "Achille & Soatto 2018": Paper("A. Achille and S. Soatto", 2018,
        "Information dropout: Learning optimal representations through noisy computation",
        "IEEE Transactions on Pattern Analysis and Machine Intelligence"),
    "Gao et al. 2018": Paper("S. Gao and R. Brekelmans and G. Ver Steeg and A. Galstyan", 2019,
        "Auto-encoding total correlation explanation", "AISTATS"),
    "Roth et al. 2023": Paper("K. Roth and M. Ibrahim and Z. Akata and P. Vincent and D. Bouchacourt", 2023,
        "Disentanglement of correlated factors via Hausdorff factorized support", "ICLR"),
    "Hosoya 2019": Paper("H. Hosoya", 2019,
        "Group-based learning of disentangled representations with generalizability for novel contents", "IJCAI"),
    "Bouchacourt et al. 2018": Paper("D. Bouchacourt and R. Tomioka and S. Nowozin", 2018,
        "Multi-level variational autoencoder: Learning disentangled representations from grouped observations", "AAAI"),
    "Locatello et al. 2020": Paper(
        "F. Locatello and B. Poole and G. Rätsch and B. Schölkopf and O. Bachem and M. Tschannen", 2020,
        "Weakly-supervised disentanglement without compromises", "ICML"),
    "Locatello et al. 2020b": Paper(
        "F. Locatello and M. Tschannen and S. Bauer and G. Rätsch and B. Schölkopf and O. Bachem", 2020,
        "Disentangling factors of variation using few labels", "ICLR"),
    "Klindt et al. 2021": Paper(
        "D. A. Klindt and L. Schott and Y. Sharma and I. Ustyuzhaninov and W. Brendel and M. Bethge and D. Paiton", 2021,
        "Towards nonlinear disentanglement in natural data with temporal sparse coding", "ICLR"),
    "Khemakhem et al. 2020": Paper("I. Khemakhem and D. P. Kingma and R. P. Monti and A. Hyvärinen", 2020,
        "Variational autoencoders and nonlinear ICA: A unifying framework", "AISTATS"),
    "Chen et al. 2016": Paper(
        "X. Chen and Y. Duan and R. Houthooft and J. Schulman and I. Sutskever and P. Abbeel", 2016,
        "InfoGAN: Interpretable representation learning by information maximizing generative adversarial nets", "NIPS"),
    "Gulrajani et al. 2017": Paper("I. Gulrajani and F. Ahmed and M. Arjovsky and V. Dumoulin and A. Courville", 2017,
        "Improved training of Wasserstein GANs", "NIPS"),
    "Kingma et al. 2016": Paper(
        "D. P. Kingma and T. Salimans and R. Jozefowicz and X. Chen and I. Sutskever and M. Welling", 2016,
        "Improved variational inference with inverse autoregressive flow", "NIPS"),
    "Fu et al. 2019": Paper("H. Fu and C. Li and X. Liu and J. Gao and A. Celikyilmaz and L. Carin", 2019,
        "Cyclical annealing schedule: A simple approach to mitigating KL vanishing", "NAACL"),
    # priors, posteriors, likelihoods, estimators, optimisers
    "Tomczak & Welling 2018": Paper("J. M. Tomczak and M. Welling", 2018, "VAE with a VampPrior", "AISTATS"),
    "Sinz & Bethge 2010": Paper("F. Sinz and M. Bethge", 2010, "Lp-nested symmetric distributions",
        "Journal of Machine Learning Research"),
    "Maddison et al. 2017": Paper("C. J. Maddison and A. Mnih and Y. W. Teh", 2017,
        "The Concrete distribution: A continuous relaxation of discrete random variables", "ICLR"),
    "Loaiza-Ganem & Cunningham 2019": Paper("G. Loaiza-Ganem and J. P. Cunningham", 2019,
        "The continuous Bernoulli: fixing a pervasive error in variational autoencoders", "NeurIPS"),
    "Burda et al. 2016": Paper("Y. Burda and R. Grosse and R. Salakhutdinov", 2016,
        "Importance weighted autoencoders", "ICLR"),
    "He et al. 2016": Paper("K. He and X. Zhang and S. Ren and J. Sun", 2016,
        "Deep residual learning for image recognition", "CVPR"),
    "Watters et al. 2019": Paper("N. Watters and L. Matthey and C. P. Burgess and A. Lerchner", 2019,
        "Spatial broadcast decoder: A simple architecture for learning disentangled representations in VAEs",
        "arXiv:1901.07017"),
    "Zaremba et al. 2013": Paper("W. Zaremba and A. Gretton and M. Blaschko", 2013,
        "B-tests: Low variance kernel two-sample tests", "NIPS"),
    "Kingma & Ba 2015": Paper("D. P. Kingma and J. Ba", 2015, "Adam: A method for stochastic optimization", "ICLR"),
    "Reddi et al. 2018": Paper("S. J. Reddi and S. Kale and S. Kumar", 2018, "On the convergence of Adam and beyond", "ICLR"),
    # metrics
    "Eastwood & Williams 2018": Paper("C. Eastwood and C. K. I. Williams", 2018,
        "A framework for the quantitative evaluation of disentangled representations", "ICLR"),
    "Li et al. 2020": Paper("Z. Li and J. V. Murkute and P. K. Gyawali and L. Wang", 2020,
        "Progressive learning and disentanglement of hierarchical representations", "ICLR"),
    "Do & Tran 2020": Paper("K. Do and T. Tran", 2020,
        "Theory and evaluation metrics for learning disentangled representations", "ICLR"),
    "Sepliarskaia et al. 2019": Paper("A. Sepliarskaia and J. Kiseleva and M. de Rijke", 2019,
        "How to not measure disentanglement", "arXiv:1910.05587"),
    "Carbonneau et al. 2022": Paper("M.-A. Carbonneau and J. Zaïdi and J. Boilard and G. Gagnon", 2022,
        "Measuring disentanglement: A review of metrics",
        "IEEE Transactions on Neural Networks and Learning Systems"),
    "Cao et al. 2022": Paper("J. Cao and R. Nai and Q. Yang and J. Huang and Y. Gao", 2022,
        "An empirical study on disentanglement of negative-free contrastive learning", "NeurIPS"),
    "Ridgeway & Mozer 2018": Paper("K. Ridgeway and M. C. Mozer", 2018,
        "Learning deep disentangled embeddings with the F-statistic loss", "NeurIPS"),
    "Suter et al. 2019": Paper("R. Suter and Đ. Miladinović and B. Schölkopf and S. Bauer", 2019,
        "Robustly disentangled causal mechanisms: Validating deep representations for interventional robustness", "ICML"),
    "Hsu et al. 2023": Paper("K. Hsu and W. Dorrell and J. C. R. Whittington and J. Wu and C. Finn", 2023,
        "Disentanglement via latent quantization", "NeurIPS"),
    "Eastwood et al. 2023": Paper(
        "C. Eastwood and A. L. Nicolicioiu and J. von Kügelgen and A. Kekić and F. Träuble and A. Dittadi and B. Schölkopf",
        2023, "DCI-ES: An extended disentanglement framework with connections to identifiability", "ICLR"),
    "Hyvärinen & Morioka 2016": Paper("A. Hyvärinen and H. Morioka", 2016,
        "Unsupervised feature extraction by time-contrastive learning and nonlinear ICA", "NIPS"),
    "Breiman et al. 1984": Paper("L. Breiman and J. H. Friedman and R. A. Olshen and C. J. Stone", 1984,
        "Classification and regression trees", "Wadsworth"),
    "Jamieson & Talwalkar 2016": Paper("K. Jamieson and A. Talwalkar", 2016,
        "Non-stochastic best arm identification and hyperparameter optimization", "AISTATS"),
    "Kuhn 1955": Paper("H. W. Kuhn", 1955, "The Hungarian method for the assignment problem",
        "Naval Research Logistics Quarterly"),
    "Hurley & Rickard 2009": Paper("N. Hurley and S. Rickard", 2009, "Comparing measures of sparsity",
        "IEEE Transactions on Information Theory"),
    "Watanabe 1960": Paper("S. Watanabe", 1960, "Information theoretical analysis of multivariate correlation",
        "IBM Journal of Research and Development"),
    "Duan et al. 2020": Paper(
        "S. Duan and L. Matthey and A. Saraiva and N. Watters and C. P. Burgess and A. Lerchner and I. Higgins", 2020,
        "Unsupervised model selection for variational disentangled representation learning", "ICLR"),
    "Locatello et al. 2019": Paper(
        "F. Locatello and S. Bauer and M. Lucic and G. Rätsch and S. Gelly and B. Schölkopf and O. Bachem", 2019,
        "Challenging common assumptions in the unsupervised learning of disentangled representations", "ICML"),
    # data sets
    "Matthey et al. 2017": Paper("L. Matthey and I. Higgins and D. Hassabis and A. Lerchner", 2017,
        "dSprites: Disentanglement testing Sprites dataset", "GitHub, deepmind/dsprites-dataset"),
    "Burgess & Kim 2018": Paper("C. Burgess and H. Kim", 2018, "3D Shapes dataset", "GitHub, deepmind/3dshapes-dataset"),
    "Paysan et al. 2009": Paper("P. Paysan and R. Knothe and B. Amberg and S. Romdhani and T. Vetter", 2009,
        "A 3D face model for pose and illumination invariant face recognition", "AVSS"),
    "Reed et al. 2015": Paper("S. E. Reed and Y. Zhang and Y. Zhang and H. Lee", 2015, "Deep visual analogy-making", "NIPS"),
    "LeCun et al. 2004": Paper("Y. LeCun and F. J. Huang and L. Bottou", 2004,
        "Learning methods for generic object recognition with invariance to pose and lighting", "CVPR"),
    "Gondal et al. 2019": Paper(
        "M. W. Gondal and M. Wüthrich and Đ. Miladinović and F. Locatello and M. Breidt and V. Volchkov and J. Akpo and "
        "O. Bachem and B. Schölkopf and S. Bauer", 2019,
        "On the transfer of inductive bias from simulation to the real world: a new disentanglement dataset", "NeurIPS"),
    "Aubry et al. 2014": Paper("M. Aubry and D. Maturana and A. A. Efros and B. C. Russell and J. Sivic", 2014,
        "Seeing 3D chairs: Exemplar part-based 2D-3D alignment using a large dataset of CAD models", "CVPR"),
    "Yang et al. 2015": Paper("J. Yang and S. E. Reed and M.-H. Yang and H. Lee", 2015,
        "Weakly-supervised disentangling with recurrent transformations for 3D view synthesis", "NIPS"),
    "Dosovitskiy et al. 2015": Paper("A. Dosovitskiy and J. T. Springenberg and T. Brox", 2015,
        "Learning to generate chairs with convolutional neural networks", "CVPR"),
    "Liu et al. 2015": Paper("Z. Liu and P. Luo and X. Wang and X. Tang", 2015,
        "Deep learning face attributes in the wild", "ICCV"),
    "LeCun et al. 1998": Paper("Y. LeCun and L. Bottou and Y. Bengio and P. Haffner", 1998,
        "Gradient-based learning applied to document recognition", "Proceedings of the IEEE"),
    "Castro et al. 2019": Paper("D. C. Castro and J. Tan and B. Kainz and E. Konukoglu and B. Glocker", 2019,
        "Morpho-MNIST: Quantitative assessment and diagnostics for representation learning",
        "Journal of Machine Learning Research"),
    "Xiao et al. 2017": Paper("H. Xiao and K. Rasul and R. Vollgraf", 2017,
        "Fashion-MNIST: a novel image dataset for benchmarking machine learning algorithms", "arXiv:1708.07747"),
    "Alpaydin & Kaynak 1998": Paper("E. Alpaydin and C. Kaynak", 1998, "Optical recognition of handwritten digits",
        "UCI Machine Learning Repository"),
    "Samaria & Harter 1994": Paper("F. S. Samaria and A. C. Harter", 1994,
        "Parameterisation of a stochastic model for human face identification",
        "IEEE Workshop on Applications of Computer Vision"),
    "Nene et al. 1996": Paper("S. A. Nene and S. K. Nayar and H. Murase", 1996, "Columbia Object Image Library (COIL-20)",
        "technical report CUCS-005-96, Columbia University"),
    "Johnson et al. 2016": Paper("M. J. Johnson and D. Duvenaud and A. B. Wiltschko and S. R. Datta and R. P. Adams", 2016,
        "Composing graphical models with neural networks for structured representations and fast inference", "NIPS"),
    "Pedregosa et al. 2011": Paper("F. Pedregosa and others", 2011, "Scikit-learn: Machine learning in Python",
        "Journal of Machine Learning Research"),
    # parts without a paper
    "this library": Paper("{The unbraid authors}", 2026,
        "unbraid: learn, measure and explore disentangled latent representations", "software"),
}
# fmt: on


def papers_in(text: str | None) -> tuple[str, ...]:
    """The keys of the papers that a text names, in the order of the table.

    Args:
        text: a docstring or a citation.

    >>> papers_in("reconstruction + γ KL(q(z) ‖ p(z)). Makhzani et al. 2015; Kim & Mnih 2018, Eq. 7")
    ('Kim & Mnih 2018', 'Makhzani et al. 2015')
    """
    return tuple(key for key in PAPERS if re.search(rf"{re.escape(key)}(?![a-z])", text or ""))  # 2020 is not 2020b
