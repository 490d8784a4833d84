"""Recipes of weak and semi-supervision on 32×32 sprites: pairs, some labels, a known variable. All settings are ours."""

from __future__ import annotations

from typing import Any

from unbraid.runs.recipe_tables import Plain, plain_recipe

# dense net, ten columns and 5,000 steps, chosen on seeds 11, 12 and 13: docs/demo.md has the table
SPRITES32: Plain = {
    "data": "sprites32",
    "latent": 10,
    "nets": "mlp",
    "budget": {"batch": 64, "lr": 1e-3, "steps": 5000, "threads": 1, "log_every": 50},
}
CRITIC: Plain = {"width": 256, "depth": 3, "lr": 1e-3}
_PAIRS: Plain = {"pairs": {"source": "factors", "k": 1}}
_LABELS: Plain = {"labels": {"n": 1000}}


def _sprites(name: str, about: str, cite: str, objective: Plain, supervision: Plain, **more: Any) -> Plain:
    """A row of prices with supervision, in the settings of vae_sprites32."""
    about, tables = f"{about}: a minute or two on one core.", {**SPRITES32, "supervision": supervision, **more}
    return plain_recipe(f"{name}_sprites32", about, cite, **tables, objective={"name": name, **objective})


# fmt: off
SUPERVISED = (
    _sprites("gvae", "GVAE on sprites: pairs that say which factor differs", "Hosoya 2019", {}, _PAIRS),
    _sprites("ml_vae", "ML-VAE on sprites: pairs that say which factor differs", "Bouchacourt et al. 2018", {}, _PAIRS),
    _sprites("ada_gvae", "Ada-GVAE on sprites: pairs that differ in one factor", "Locatello et al. 2020", {}, _PAIRS),
    _sprites("ada_ml_vae", "Ada-ML-VAE on sprites: pairs that differ in one factor", "Locatello et al. 2020",
        {}, _PAIRS),
    _sprites("slow_vae", "SlowVAE on sprites: pairs that differ in a random number of factors",
        "Klindt et al. 2021", {"gamma": 1.0, "rate": 6.0}, {"pairs": {"source": "factors", "k": 0}}),
    _sprites("s2_beta_vae", "S2-β-VAE on sprites, 1,000 labels", "Locatello et al. 2020b", {"beta": 1.0}, _LABELS),
    _sprites("s2_factor_vae", "S2-FactorVAE on sprites, 1,000 labels", "Locatello et al. 2020b",
        {"gamma": 10.0, "critic": CRITIC}, _LABELS),
    _sprites("s2_beta_tcvae", "S2-β-TCVAE on sprites, 1,000 labels", "Locatello et al. 2020b", {"beta": 6.0}, _LABELS),
    _sprites("s2_dip_vae", "S2-DIP-VAE-I on sprites, 1,000 labels", "Locatello et al. 2020b",
        {"lambda_od": 10.0, "rho": 0.1, "gradient": "literal"}, _LABELS),
    _sprites("i_vae", "iVAE on sprites: the prior knows shape and scale", "Khemakhem et al. 2020", {},
        {"given": {"factors": ["shape", "scale"]}},
        prior={"name": "mixture", "means": 18, "variance": 1.0, "learned": True}),
)
# fmt: on
