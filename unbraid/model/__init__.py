"""The model: posteriors, KLs in closed form, likelihoods, nets, draws and the VAE."""

from unbraid.model.draw import Draw
from unbraid.model.likelihood import LIKELIHOODS, Likelihood
from unbraid.model.nets import NETS
from unbraid.model.posterior import Posterior, to_values
from unbraid.model.posteriors import POSTERIORS, Diagonal, Full, Laplace
from unbraid.model.vae import Vae

__all__ = [
    "LIKELIHOODS",
    "NETS",
    "POSTERIORS",
    "Diagonal",
    "Draw",
    "Full",
    "Laplace",
    "Likelihood",
    "Posterior",
    "Vae",
    "to_values",
]
