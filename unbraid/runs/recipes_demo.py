"""Recipes of the demo: four objectives on coloured sprites, a minute each on one core; docs/demo.md has the settings."""

from __future__ import annotations

from unbraid.runs.recipe_tables import Plain, linear, plain_recipe

# the settings that all recipes of the demo share, and the studies on this data set
SPRITES: Plain = {
    "data": {"name": "colour_sprites"},
    "latent": 5,  # the number of factors: an additional column would take a part of shape or scale
    "nets": {"name": "broadcast", "act": "leaky_relu"},
    "budget": {"batch": 64, "lr": linear(5e-3, 5e-4, 2500), "steps": 2500, "threads": 1, "log_every": 25},
}

# fmt: off
DEMO = (
    plain_recipe("vae_colour_sprites", "A plain VAE on coloured sprites: a minute on one core.",
        "Kingma & Welling 2014", **SPRITES, objective="vae"),
    plain_recipe("beta_tcvae_colour_sprites",
        "β-TCVAE on coloured sprites: most factors find a latent of their own in a minute.", "Chen et al. 2018",
        **SPRITES, objective={"name": "beta_tcvae", "beta": 6.0}),
    plain_recipe("factor_vae_colour_sprites",
        "FactorVAE on coloured sprites: a minute or two on one core.",
        "Kim & Mnih 2018, Eq. 2", **SPRITES,
        objective={"name": "factor_vae", "gamma": 6.0, "critic": {"width": 256, "depth": 3, "lr": 2e-3}}),
    plain_recipe("factor_vae_colour_sprites_stable",
        "FactorVAE on coloured sprites with a faster discriminator: its scores vary more, see factor_vae_colour_sprites.",
        "Kim & Mnih 2018, Eq. 2", **SPRITES,
        objective={"name": "factor_vae", "gamma": 12.0, "critic": {"width": 256, "depth": 3, "lr": 5e-3}}),
    plain_recipe("hfvae_colour_sprites", "HFVAE on coloured sprites: a 3-way leaf and four columns.",
        "Esmaeili et al. 2018, Eq. 9", **{**SPRITES, "latent": {"shape": "onehot(3)", "rest": 4}},
        objective={"name": "hfvae", "beta": 4.0, "gamma": 3.0}, posterior={"temperature": linear(1.0, 0.5, 2000)}),
)
# fmt: on
