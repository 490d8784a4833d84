"""The model room: posterior, likelihood, nets, draw, vae."""

from unbraid.model.draw import Draw
from unbraid.model.likelihood import LIKELIHOODS, Likelihood
from unbraid.model.nets import NETS
from unbraid.model.posterior import Posterior, emit
from unbraid.model.vae import Vae

__all__ = ["LIKELIHOODS", "NETS", "Draw", "Likelihood", "Posterior", "Vae", "emit"]
