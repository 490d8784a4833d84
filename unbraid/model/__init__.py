"""The model room: posterior, likelihood, nets, draw, vae."""

from unbraid.model.draw import Draw
from unbraid.model.full import FullPosterior
from unbraid.model.likelihood import LIKELIHOODS, Likelihood
from unbraid.model.nets import NETS
from unbraid.model.posterior import Posterior, emit
from unbraid.model.vae import Vae

POSTERIORS: dict[str, type[Posterior]] = {"diagonal": Posterior, "full": FullPosterior}

__all__ = ["LIKELIHOODS", "NETS", "POSTERIORS", "Draw", "FullPosterior", "Likelihood", "Posterior", "Vae", "emit"]
