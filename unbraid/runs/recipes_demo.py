"""Recipes of the demo: four objectives on coloured sprites, a minute each on one core; docs/demo.md has the settings."""

from __future__ import annotations

from typing import Any

Plain = dict[str, Any]

# the settings that all recipes of the demo share, and the studies on this data set
SPRITES: Plain = {
    "data": {"name": "colour_sprites"},
    "latent": 5,  # the number of factors: an additional column would take a part of shape or scale
    "nets": {"name": "broadcast", "act": "leaky_relu"},
    "budget": {
        "batch": 64,
        "lr": {"schedule": "linear", "start": 5e-3, "stop": 5e-4, "steps": 2500},
        "steps": 2500,
        "threads": 1,
        "log_every": 25,
    },
}

DEMO: dict[str, Plain] = {
    "vae_colour_sprites": {
        **SPRITES,
        "name": "vae_colour_sprites",
        "about": "A plain VAE on coloured sprites: a minute on one core.",
        "cite": "Kingma & Welling 2014",
        "objective": {"name": "vae"},
    },
    "beta_tcvae_colour_sprites": {
        **SPRITES,
        "name": "beta_tcvae_colour_sprites",
        "about": "β-TCVAE on coloured sprites: most factors find a latent of their own in a minute.",
        "cite": "Chen et al. 2018",
        "objective": {"name": "beta_tcvae", "beta": 6.0},
    },
    "factor_vae_colour_sprites": {
        **SPRITES,
        "name": "factor_vae_colour_sprites",
        "about": "FactorVAE on coloured sprites: a minute or two on one core; successor: factor_vae_colour_sprites_stable.",
        "cite": "Kim & Mnih 2018, Eq. 2",
        "objective": {"name": "factor_vae", "gamma": 6.0, "critic": {"width": 256, "depth": 3, "lr": 2e-3}},
    },
    "factor_vae_colour_sprites_stable": {
        **SPRITES,
        "name": "factor_vae_colour_sprites_stable",
        "about": "FactorVAE on coloured sprites with a faster discriminator: its scores vary less between processors.",
        "cite": "Kim & Mnih 2018, Eq. 2",
        "objective": {"name": "factor_vae", "gamma": 12.0, "critic": {"width": 256, "depth": 3, "lr": 5e-3}},
    },
    "hfvae_colour_sprites": {
        **SPRITES,
        "name": "hfvae_colour_sprites",
        "about": "HFVAE on coloured sprites: a 3-way leaf and four columns.",
        "cite": "Esmaeili et al. 2018, Eq. 9",
        "latent": {"shape": "onehot(3)", "rest": 4},
        "objective": {"name": "hfvae", "beta": 4.0, "gamma": 3.0},
        "posterior": {"temperature": {"schedule": "linear", "start": 1.0, "stop": 0.5, "steps": 2000}},
    },
}
