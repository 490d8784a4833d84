"""Families of q(z|x) by name. To add one: a file here and a line in `POSTERIORS`; closed forms go in `model.closed_form_kl`."""

from unbraid.model.posterior import Posterior
from unbraid.model.posteriors.diagonal import Diagonal
from unbraid.model.posteriors.full import Full
from unbraid.model.posteriors.laplace import Laplace

POSTERIORS: dict[str, type[Posterior]] = {"diagonal": Diagonal, "full": Full, "laplace": Laplace}

__all__ = ["POSTERIORS", "Diagonal", "Full", "Laplace", "Posterior"]
