"""Recipes of the settings that the papers print: HFVAE, FactorVAE and InfoGAN here, DIP-VAE and the priors in their own module.

docs/printed_settings.tsv compares each printed number with its recipe and gives the reason for every difference. Values that a
paper does not print are ours; `about` or a comment names them. One recipe stands for a grid: set the other values with --set.
"""

from __future__ import annotations

from typing import Any

from unbraid.runs.recipe_tables import Plain, plain_recipe
from unbraid.runs.recipes_printed_priors import DIP_AND_PRIORS

# net and steps of each set
_HFVAE_SETS = {
    "dsprites": ("hfvae_table4_printed", 30_000),
    "mnist": ("hfvae_table3_printed", 20_000),
    "fashion_mnist": ("hfvae_table3_printed", 20_000),
    "celeba": ("hfvae_table5_printed", 20_000),
}
_SHAPE: Plain = {"c": "onehot(3)", "n": 10}
_DIGIT: Plain = {"digit": "onehot(10)", "style": 10}
_BITS: Plain = {"style": 20, "a": "binary", "b": "binary"}
_HFVAE: Plain = {"name": "hfvae", "beta": 4.0, "gamma": 3.0}
_BETA_VAE: Plain = {"name": "beta_vae", "beta": 4.0}
_BETA_SVAE: Plain = {"name": "beta_svae", "beta": 4.0}
# Sec. 6.4 removes "7s with a high stroke thickness and 0s with a narrow character width"; the limits, in pixels, are ours.
_PRUNED = [{"class": "7", "thickness": {"min": 3.5}}, {"class": "0", "width": {"max": 13.0}}]


def _hfvae(
    name: str, about: str, place: str, where: str, latent: Plain | int, objective: Plain, data: Plain | None = None
) -> Plain:
    """Esmaeili et al. 2018: Adam 1e-3 and batches of 512 to 1024 are printed; which batch size, and steps, are ours.

    The paper prints no temperature. 0.66 is that of the authors' notebooks.
    """
    nets, steps = _HFVAE_SETS[where]
    discrete = {"posterior": {"temperature": 0.66, "discrete": "mass"}} if isinstance(latent, dict) else {}
    budget = {"batch": 512, "lr": 1e-3, "steps": steps, "log_every": 200}
    cite = f"Esmaeili et al. 2018, {place}"
    return plain_recipe(name, about, cite, data or where, latent, nets, objective, budget, **discrete)


# fmt: off
HFVAE_PAPER = (
    _hfvae("hfvae_dsprites_printed", "HFVAE (β 4, γ 3) on dSprites: net as printed, masses.", "Table 2 and App. B",
        "dsprites", _SHAPE, _HFVAE),
    _hfvae("beta_vae_dsprites_hfvae", "β-VAE (4) of HFVAE's Table 2; its VAE: --set objective.name=vae.", "Table 2",
        "dsprites", 10, _BETA_VAE),
    _hfvae("beta_svae_dsprites", "β-SVAE (4) of HFVAE's Table 2: the β-VAE row on its mixed tree.", "Table 2",
        "dsprites", _SHAPE, _BETA_SVAE),
    _hfvae("beta_tcvae_dsprites_hfvae", "β-TCVAE (4) of HFVAE's Table 2.", "Table 2", "dsprites", 10,
        {"name": "beta_tcvae", "beta": 4.0}),
    _hfvae("hfvae_mnist_printed",
        "HFVAE on MNIST: net as printed, masses; β 4, γ 3 are Table 2's, not printed for MNIST.",
        "Figs. 5–7 and App. B", "mnist", _DIGIT, _HFVAE),
    _hfvae("hfvae_mnist_pruned", "HFVAE on MNIST without thick 7s and narrow 0s; the limits are ours.",
        "Sec. 6.4 and Fig. 9", "mnist", _DIGIT, _HFVAE, {"name": "mnist", "hold_out": _PRUNED}),
    _hfvae("beta_vae_mnist_hfvae", "β-VAE on MNIST as HFVAE compares it; β 4 is ours.", "Fig. 7", "mnist", 10,
        _BETA_VAE),
    _hfvae("beta_svae_mnist", "β-SVAE on MNIST: the β-VAE row with a digit code; β 4 is ours.", "Fig. 7", "mnist",
        _DIGIT, _BETA_SVAE),
    _hfvae("hfvae_fashion_mnist_printed", "HFVAE on Fashion-MNIST: net as printed, masses; β 4, γ 3 are Table 2's.",
        "Fig. 11 and App. B", "fashion_mnist", {"item": "onehot(10)", "style": 10}, _HFVAE),
    _hfvae("hfvae_celeba", "HFVAE (β 5, γ 3) on CelebA: 20 columns and two bits.", "Fig. 8 and Table 5", "celeba",
        _BITS, {"name": "hfvae", "beta": 5.0, "gamma": 3.0}),
    _hfvae("beta_vae_celeba_hfvae", "β-VAE (8) on CelebA with 20 columns, as HFVAE compares it.", "Fig. 8", "celeba",
        20, {"name": "beta_vae", "beta": 8.0}),
)
# fmt: on

# columns, net, rate of the discriminator and steps of each set; Sec. 6 prints 1e6 steps on 3D Shapes, App. A 5e5.
# Kim & Mnih count 239,840 faces, which is no multiple of the 21 × 11 × 11 views that `faces3d` needs.
_KIM_SETS = {
    "dsprites": (10, "factor_vae_table1_bare", 1e-4, 300_000),
    "shapes3d": (6, "factor_vae_table2_bare", 1e-5, 1_000_000),
    "faces3d": (10, "factor_vae_table3_bare", 1e-4, 1_000_000),
    "chairs": (10, "factor_vae_table2_bare", 1e-5, 1_000_000),
    "celeba": (10, "factor_vae_table2_bare", 1e-5, 1_000_000),
}


def _kim(name: str, about: str, place: str, where: str, objective: Plain) -> Plain:
    """Kim & Mnih 2018, App. A: batch 64, Adam 1e-4 (0.9, 0.999), Bernoulli.

    A row with γ has the discriminator: six hidden layers of 1000, Adam (0.5, 0.9). The tables print no ReLU after the encoder's
    FC, and these nets have none.
    """
    latent, nets, lr, steps = _KIM_SETS[where]
    critic = {"critic": {"width": 1000, "depth": 6, "lr": lr, "betas": [0.5, 0.9]}} if "gamma" in objective else {}
    snapshots = {"snapshots": [500_000]} if where == "shapes3d" else {}
    budget = {"batch": 64, "lr": 1e-4, "steps": steps, **snapshots, "log_every": 500, "checkpoint_every": 10_000}
    return plain_recipe(name, about, f"Kim & Mnih 2018, {place}", where, latent, nets, {**objective, **critic}, budget)


_BEST = "Figs. 5, 6 and Table 1"
# fmt: off
FACTOR_VAE_PAPER = (
    _kim("vae_2dshapes_printed", "VAE on 2D Shapes: net as printed.", "Fig. 4 and Table 1", "dsprites",
        {"name": "vae"}),
    _kim("beta_vae_2dshapes_printed", "β-VAE (4) on 2D Shapes, the best mean and run: net as printed.", _BEST,
        "dsprites", _BETA_VAE),
    _kim("factor_vae_2dshapes_printed",
        "FactorVAE (35) on 2D Shapes, the best run: net as printed; the best mean is at γ 40.", _BEST, "dsprites",
        {"name": "factor_vae", "gamma": 35.0}),
    _kim("aae_2dshapes", "AAE by the density ratio on 2D Shapes; γ 10 is ours.", "Eq. 7 and Fig. 23", "dsprites",
        {"name": "aae", "gamma": 10.0}),
    _kim("factor_vae_prior_2dshapes", "FactorVAE with p(z) for the product of marginals on 2D Shapes; γ 10 is ours.",
        "Eq. 12 and Fig. 23", "dsprites", {"name": "factor_vae_prior", "gamma": 10.0}),
    _kim("beta_vae_shapes3d", "β-VAE (32) on 3D Shapes, the best run; the best mean is at β 24.",
        "Figs. 10, 11 and Table 2", "shapes3d", {"name": "beta_vae", "beta": 32.0}),
    _kim("factor_vae_shapes3d", "FactorVAE (7) on 3D Shapes, the best run; the best mean is at γ 36.",
        "Figs. 10, 11 and Table 2", "shapes3d", {"name": "factor_vae", "gamma": 7.0}),
    # the text prints no β and no γ for the sets without factors: those of 2D Shapes
    *(
        _kim(f"{objective['name']}_{where}", f"{method} on {title}, a million steps.", place, where, objective)
        for where, title, place in (
            ("faces3d", "3D Faces (--set data.path=FILE)", "Figs. 12, 14 and Table 3"),
            ("chairs", "3D Chairs", "Figs. 13, 38 and Table 2"),
            ("celeba", "CelebA", "Figs. 15, 39 and Table 2"),
        )
        for method, objective in (
            ("β-VAE (4, ours)", _BETA_VAE),
            ("FactorVAE (35, ours)", {"name": "factor_vae", "gamma": 35.0}),
        )
    ),
)
# fmt: on

_GAN_STEPS = {"mnist": 50_000, "dsprites": 300_000}
_CODES: Plain = {"shape": "onehot(3)", "rest": 4}
_INFO_GAN: Plain = {"name": "info_gan", "lambda": 1.0, "noise": 62}
_WGAN: Plain = {"name": "info_wgan_gp", "lambda": 0.2, "noise": 5, "penalty": 10.0, "critic_steps": 5}


def _gan(name: str, about: str, place: str, where: str, table: int, latent: Any, objective: Plain) -> Plain:
    """Kim & Mnih 2018, App. H: Adam (0.5, 0.999), 1e-3 for G and 1e-4 for D; batch, steps and critic steps are ours."""
    mixed = {"posterior": {"discrete": "mass"}} if isinstance(latent, dict) else {}
    budget = {"batch": 64, "lr": 1e-3, "betas": [0.5, 0.999], "steps": _GAN_STEPS[where], "log_every": 100}
    cite, nets = f"Kim & Mnih 2018, {place}", f"info_gan_table{table}_printed"
    return plain_recipe(name, about, cite, where, latent, nets, {**objective, "critic_lr": 1e-4}, budget, **mixed)


def _digits(name: str, about: str, place: str, categories: int, codes: int) -> Plain:
    """InfoGAN on MNIST with some number of categories and continuous codes."""
    latent = {"digit": f"onehot({categories})", "style": codes}
    return _gan(name, f"InfoGAN on MNIST with {about}; λ 1 is ours.", place, "mnist", 4, latent, _INFO_GAN)


# fmt: off
INFO_GAN_PAPER = (
    _digits("info_gan_mnist", "a 10-way code, two continuous ones and 62 noise variables", "Table 4 and Fig. 25",
        10, 2),
    _digits("info_gan_mnist_3codes", "a 10-way code and three continuous ones", "App. H and Fig. 27", 10, 3),
    _digits("info_gan_mnist_2way", "two categories", "App. H and Figs. 28, 30", 2, 2),
    _digits("info_gan_mnist_20way", "twenty categories", "App. H and Figs. 29, 31", 20, 2),
    _gan("info_gan_2dshapes", "InfoGAN on 2D Shapes: a 3-way code, four continuous ones; λ 0.2 is InfoWGAN-GP's.",
        "Table 5 and App. H", "dsprites", 5, _CODES, {"name": "info_gan", "lambda": 0.2, "noise": 5}),
    _gan("info_wgan_gp_2dshapes", "InfoWGAN-GP (λ 0.2) on 2D Shapes, the best run of Table 5's net.",
        "Table 5 and Figs. 8, 9", "dsprites", 5, _CODES, _WGAN),
    _gan("info_wgan_gp_2dshapes_flat",
        "InfoWGAN-GP on 2D Shapes with five continuous codes and no category; λ 0.2 is ours.", "Sec. 6", "dsprites", 5,
        5, _WGAN),
    _gan("info_wgan_gp_2dshapes_big",
        "InfoWGAN-GP (λ 0.6) on 2D Shapes, the best run of the bigger net, 128 noise variables.",
        "Table 6 and Figs. 34, 35", "dsprites", 6, _CODES, {**_WGAN, "lambda": 0.6, "noise": 128}),
)
# fmt: on

PRINTED: dict[str, Plain] = {
    recipe["name"]: recipe for recipe in (*HFVAE_PAPER, *FACTOR_VAE_PAPER, *INFO_GAN_PAPER, *DIP_AND_PRIORS)
}
