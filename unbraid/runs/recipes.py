"""RECIPES by name, one per experiment of a paper. Values that a paper does not print are ours; `about` or a comment names them.

The meaning of a name never changes (tests pin every hash): a corrected recipe gets a new name.
"""

from __future__ import annotations

from unbraid.runs.recipe_tables import Plain, linear, plain_recipe
from unbraid.runs.recipes_demo import DEMO
from unbraid.runs.recipes_printed import PRINTED
from unbraid.runs.recipes_printed_priors import PINWHEEL
from unbraid.runs.recipes_supervised import CRITIC, SPRITES32, SUPERVISED

_LARGE_BATCH: Plain = {**SPRITES32, "budget": {**SPRITES32["budget"], "batch": 256}}
_HFVAE: Plain = {"name": "hfvae", "beta": 4.0, "gamma": 3.0}
_BETA_TCVAE: Plain = {"name": "beta_tcvae", "beta": 4.0}
_BROADCAST: Plain = {"name": "broadcast", "channels": [32, 32, 64, 64], "act": "leaky_relu"}
_DIGIT: Plain = {"digit": "onehot(10)", "style": 10}
# Printed: codes, noise, η = 10, Adam (0.5, 0.999), 1e-3 and 1e-4. λ = 1 (Fig. 32). Ours: batch, steps, and
# five critic steps a step.
_MNIST_GAN: Plain = {
    "data": "mnist",
    "latent": {"digit": "onehot(10)", "style": 2},
    "objective": {"name": "info_wgan_gp", "lambda": 1.0, "noise": 62},
    "budget": {"batch": 64, "lr": 1e-3, "betas": [0.5, 0.999], "steps": 50_000, "log_every": 100},
}


def _kim(name: str, about: str, objective: Plain, cite: str = "Kim & Mnih 2018, App. A") -> Plain:
    """Kim & Mnih 2018, App. A: batch 64, Adam 1e-4, 3e5 steps, Bernoulli; the ReLU after the encoder's FC is ours."""
    budget = {"batch": 64, "lr": 1e-4, "steps": 300_000, "log_every": 500, "checkpoint_every": 10_000}
    return plain_recipe(name, about, cite, "dsprites", 10, "factor_vae_table1", objective, budget)


def _hfvae(name: str, about: str, data: str, nets: str, latent: Plain, steps: int) -> Plain:
    """Esmaeili et al. 2018, Sec. 6 and App. B: Adam 1e-3, batches of 512 to 1024, one Gaussian and one discrete variable.

    Steps, temperature and the choice of batch size are ours, since none are printed; α = 1.
    """
    cite, budget = "Esmaeili et al. 2018, App. B", {"batch": 512, "lr": 1e-3, "steps": steps, "log_every": 200}
    return plain_recipe(name, about, cite, data, latent, nets, _HFVAE, budget, posterior={"temperature": 0.66})


def _code_first(data: str, leaf: str, style_price: float) -> Plain:
    """A price for each branch: information of the style is dear at first, so the discrete code takes the classes.

    The temperature falls too: at 1 the decoder reads shades of the relaxed code, an information that no term charges.
    """
    prices = {f"mi:{leaf}": 3.0, "mi:style": linear(style_price, 1.0, 3500), "tc:style": 1.0, "dw": 1.0}
    return plain_recipe(
        f"hfvae_{data}_code_first",
        f"A row of HFVAE's terms on {data}: a discrete code that learns the class, and 10 columns of style.",
        "Esmaeili et al. 2018, Eq. 9 (prices by branch are ours)",
        data={"name": data, "split": "train"},
        latent={leaf: "onehot(10)", "style": 10},
        nets="hfvae_table3_code_to_style",
        posterior={"temperature": linear(1.0, 0.2, 3000), "discrete": "mass"},
        objective={"name": "row", "prices": prices},
        budget={"batch": 64, "lr": 1e-3, "steps": 4000, "threads": 1, "log_every": 100},
    )


# fmt: off
_OTHERS = (
    plain_recipe("vae_sprites32", "A plain VAE on 32×32 sprites: a minute on one core.", "Kingma & Welling 2014",
        **SPRITES32, objective="vae"),
    plain_recipe("factor_vae_sprites32", "FactorVAE on 32×32 sprites: a minute or two on one core.",
        "Kim & Mnih 2018, Eq. 2", **SPRITES32, objective={"name": "factor_vae", "gamma": 10.0, "critic": CRITIC}),
    plain_recipe("hfvae_sprites32", "HFVAE on 32×32 sprites: a 3-way code and a 6-column one.",
        "Esmaeili et al. 2018, Eq. 9", **{**_LARGE_BATCH, "latent": {"shape": "onehot(3)", "rest": 6}},
        objective=_HFVAE, posterior={"temperature": 0.66}),
    plain_recipe("beta_tcvae_sprites32", "β-TCVAE on 32×32 sprites.", "Chen et al. 2018", **_LARGE_BATCH,
        objective={"name": "beta_tcvae", "beta": 6.0}),
    plain_recipe("dip_vae_sprites32", "DIP-VAE-II on 32×32 sprites.",
        "Kumar et al. 2017, Eq. 5; Kim & Mnih 2018, Eq. 11", **SPRITES32,
        objective={"name": "dip_vae_ii", "lambda_od": 10.0}),
    _kim("vae_2dshapes",
        "VAE on dSprites (2D Shapes), Kim & Mnih's net and a ReLU they do not print; successor: vae_2dshapes_printed.",
        {"name": "vae"}),
    _kim("beta_vae_2dshapes",
        "β-VAE (4) on dSprites, their best mean; a ReLU in the net is not printed; successor: beta_vae_2dshapes_printed.",
        {"name": "beta_vae", "beta": 4.0}),
    _kim("factor_vae_2dshapes",
        "FactorVAE (35) on dSprites, their best run; a ReLU in the net is not printed; successor: factor_vae_2dshapes_printed.",
        {"name": "factor_vae", "gamma": 35.0, "critic": {"width": 1000, "depth": 6, "lr": 1e-4}}),
    plain_recipe("beta_tcvae_dsprites",
        "β-TCVAE (4) on all of dSprites with a broadcast decoder: 25 minutes on one core. Settings are ours.",
        "Chen et al. 2018; decoder: Watters et al. 2019",
        data="dsprites", latent=10, nets=_BROADCAST, objective=_BETA_TCVAE,
        budget={"batch": 64, "lr": linear(1e-3, 1e-4, 9000), "steps": 9000, "threads": 1, "log_every": 100,
            "checkpoint_every": 500}),
    plain_recipe("beta_tcvae_shapes3d",
        "β-TCVAE (8) in the rooms of 3D Shapes at 32×32, six columns: half an hour on one core. Settings are ours.",
        "Chen et al. 2018",
        data={"name": "shapes3d", "size": 32}, latent=6, objective={"name": "beta_tcvae", "beta": 8.0},
        nets={"name": "conv", "channels": [32, 32, 64], "hidden": 256, "act": "leaky_relu"},
        budget={"batch": 64, "lr": linear(1e-3, 1e-4, 40_000), "steps": 40_000, "threads": 1, "log_every": 200,
            "checkpoint_every": 5000}),
    # our settings: the net of the dSprites run with fewer steps, since users' data sets are mostly small
    plain_recipe("beta_tcvae_images",
        "β-TCVAE (4) on your own pictures at 64×64: over an hour on a CPU; successor: beta_tcvae_pictures.",
        "Chen et al. 2018; decoder: Watters et al. 2019",
        data={"name": "images", "size": 64}, latent=10, nets=_BROADCAST, objective=_BETA_TCVAE,
        budget={"batch": 64, "lr": linear(1e-3, 1e-4, 5000), "steps": 5000, "log_every": 50, "checkpoint_every": 500}),
    # our settings: a net of a few milliseconds a step in place of the one of beta_tcvae_images
    plain_recipe("beta_tcvae_pictures",
        "β-TCVAE (4) on your own pictures at 32×32, a few minutes on a CPU: give --set data.path=FOLDER.",
        "Chen et al. 2018",
        data={"name": "images", "size": 32}, latent=10, objective=_BETA_TCVAE,
        nets={"name": "conv", "channels": [16, 32, 32], "hidden": 128, "act": "leaky_relu"},
        budget={"batch": 64, "lr": linear(2e-3, 2e-4, 5000), "steps": 5000, "log_every": 50, "checkpoint_every": 500}),
    _hfvae("hfvae_dsprites",
        "HFVAE (β 4, γ 3) on dSprites: 3-way code and 10 columns (Table 2); successor: hfvae_dsprites_printed.",
        "dsprites", "hfvae_table4", {"c": "onehot(3)", "n": 10}, 30_000),
    _hfvae("hfvae_mnist",
        "HFVAE on MNIST: digit code, 10 columns of style (Figs. 5–7); successors: hfvae_mnist_printed, hfvae_mnist_code_first.",
        "mnist", "hfvae_table3", _DIGIT, 20_000),
    _hfvae("hfvae_fashion_mnist",
        "HFVAE on Fashion-MNIST (Fig. 11); successors: hfvae_fashion_mnist_printed, hfvae_fashion_mnist_code_first.",
        "fashion_mnist", "hfvae_table3", {"item": "onehot(10)", "style": 10}, 20_000),
    # Eq. 6 with λ_d = 10 λ_od and a running covariance, as Kumar et al. train. Ours, since they are not printed:
    # which λ_od of {1, 2, 5, 10, 20, 50} is Table 1's, ρ, and batch, rate and steps (Kim & Mnih's); nets "as in Higgins
    # et al."
    _kim("dip_vae_i_2dshapes",
        "DIP-VAE on dSprites: Eq. 6, λ_d = 10 λ_od; λ_od 10, ρ 0.1 ours; successor: dip_vae_i_2dshapes_printed.",
        {"name": "dip_vae_i", "lambda_od": 10.0, "lambda_d": 100.0, "rho": 0.1},
        "Kumar et al. 2017, Eq. 6 and Table 1"),
    # not Kumar et al.'s Table 1, which is dip_vae_i_2dshapes: λ_d = λ_od and the covariance of each batch alone are
    # ours
    _kim("dip_vae_2dshapes",
        "DIP-VAE-II (λ_od = λ_d = 10, ours) on dSprites with Kim & Mnih's net; successor: dip_vae_ii_2dshapes.",
        {"name": "dip_vae_ii", "lambda_od": 10.0}, "Kumar et al. 2017, Eq. 5; Kim & Mnih 2018, Eq. 11"),
    # Table 1 and App. A.4: 20 columns, batch 2048, Adam 1e-3, 20 epochs. The scale s of Eq. 11 is never printed: the
    # prior's default s = 2 is ours, because all exponents 2 then give N(0, I); scale = "paper" is s = 1, the authors'
    # default in their program. It changes what β means.
    plain_recipe("isa_vae_dsprites",
        'ISA-VAE (β 2, five groups of 4, p0 2.1, p1 2.2) on dSprites; s = 2 is ours, prior.scale = "paper" is 1.',
        "Stühmer et al. 2019, Sec. 5 and App. A",
        data="dsprites", latent={f"g{i}": 4 for i in range(5)}, prior={"name": "isa", "p0": 2.1, "exponents": 2.2},
        nets="isa_vae_a4", objective={"name": "isa_vae", "beta": 2.0},
        budget={"batch": 2048, "lr": 1e-3, "steps": 7200, "log_every": 100}),  # 20 epochs
    # α, β are one cell of Fig. 3's grid, our choice. Text: radial 0.1, tangential 0.3 and means {0, 1}²; here, as in
    # the authors' program and figure: radial 0.3, tangential 0.1 and means (0, ±1), (±1, 0).
    plain_recipe("decomposition_pinwheel",
        "Pinwheel, mixture prior and inclusive KL (Fig. 3); as the text prints it: decomposition_pinwheel_printed.",
        "Mathieu et al. 2019, App. B", data="pinwheel", prior={"name": "mixture", "means": "figure"}, **PINWHEEL),
    # Table 4 prints batch norm after the activation, this net has it before
    plain_recipe("info_wgan_gp_mnist",
        "InfoWGAN-GP on MNIST: a 10-way code and two continuous ones; successor: info_wgan_gp_mnist_printed.",
        "Kim & Mnih 2018, App. G and H", nets="info_gan_table4", **_MNIST_GAN),
    plain_recipe("info_wgan_gp_mnist_printed",
        "InfoWGAN-GP on MNIST with batch norm where Table 4 prints it, after the activation (batch, steps ours).",
        "Kim & Mnih 2018, App. G and H", nets="info_gan_table4_printed", **_MNIST_GAN),
)
# fmt: on
_CODE_FIRST = (_code_first("mnist", "digit", 9.0), _code_first("fashion_mnist", "item", 20.0))

RECIPES: dict[str, Plain] = {
    recipe["name"]: recipe for recipe in (*DEMO, *_OTHERS, *PRINTED.values(), *_CODE_FIRST, *SUPERVISED)
}
