"""Settings that several studies share: data, nets and budget by scale."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from unbraid.runs.recipes_demo import SPRITES

if TYPE_CHECKING:
    from unbraid.runs import Run

RecipeDict = dict[str, Any]

# Data, net and budget of the demo: a run takes a minute on one core, and the objectives differ visibly (docs/demo.md).
COLOUR_SPRITES: dict[str, RecipeDict] = {
    "tiny": {
        "data": {"name": "colour_sprites", "subsample": 400},
        "nets": SPRITES["nets"],
        "budget": {"batch": 32, "steps": 20, "lr": 2e-3, "threads": 1, "log_every": 5},
    },
    "cpu": {key: SPRITES[key] for key in ("data", "nets", "budget")},
}


# Sprites with orientation at 32×32 (92,160 images) and a dense net. A broadcast decoder aligns latents with x and y by itself,
# and a metric on easy images is saturated: here neither hides what an objective or a prior does.
SPRITE_STEPS = 10_000
ORIENTED_SPRITES: dict[str, RecipeDict] = {
    "tiny": {
        "data": {"name": "sprites32", "subsample": 400},
        "nets": {"name": "mlp", "width": [32, 16]},
        "budget": {"batch": 32, "steps": 20, "lr": 1e-3, "threads": 1, "log_every": 5},
    },
    "cpu": {
        "data": {"name": "sprites32", "orientation": True},
        "nets": {"name": "mlp", "width": [400, 200]},
        "budget": {
            "batch": 64,
            "steps": SPRITE_STEPS,
            "lr": {"schedule": "cosine", "start": 1e-3, "stop": 1e-4, "steps": SPRITE_STEPS},
            "threads": 1,
            "log_every": 200,
        },
    },
}


def price_scale(scale: str) -> float:
    """Factor of every price on the KL, total correlation and moments: pixels / 4096.

    Reconstruction is a sum over pixels, so at 32×32 the papers' prices for 64×64 would weigh four times as much: there the
    "VAE" (β = 1) behaves like the papers' β = 4.

    Args:
        scale: 'tiny', 'cpu' or 'paper'.
    """
    return 1.0 if scale == "paper" else 32 * 32 / 4096


def scaled_row(scale: str, prices: RecipeDict, **options: Any) -> RecipeDict:
    """A row whose prices, given as the papers print them, are multiplied by `price_scale`.

    Args:
        scale: 'tiny', 'cpu' or 'paper'.
        prices: price by key.
        options: further options of the row.
    """
    return {"name": "row", "prices": {key: price * price_scale(scale) for key, price in prices.items()}, **options}


PRICES_SCALED = "Every price is a quarter of the printed one, because these images have a quarter of the pixels"


# 3D Shapes at one floor hue and one wall hue: object hue, scale, shape and orientation vary; 4,800 images
SHAPES3D_SUBSET: RecipeDict = {"name": "shapes3d", "size": 32, "only": {"floor_hue": 0.0, "wall_hue": 0.5}}


def shapes3d_settings(steps: int = 4000) -> RecipeDict:
    """Settings for the 3D Shapes subset at 32×32: the net of the sprites, more steps, two fifths of their learning rate.

    At 5e-3 FactorVAE (γ = 40) outran its critic in a pilot (seed 100: a KL of 985 nats after 400 steps), and β-TCVAE
    diverged.

    Args:
        steps: number of training steps.
    """
    rate = {"schedule": "linear", "start": 2e-3, "stop": 2e-4, "steps": steps}
    return {
        **COLOUR_SPRITES["cpu"],
        "data": SHAPES3D_SUBSET,
        "budget": {**COLOUR_SPRITES["cpu"]["budget"], "steps": steps, "lr": rate},
    }


def printed_settings(recipe: str, **objective: Any) -> RecipeDict:
    """Settings of a shipped recipe that a paper prints, with other options of its objective; the scale `paper` of studies.

    docs/printed_settings.tsv compares these recipes with the papers.

    Args:
        recipe: name of the recipe.
        objective: options that differ, such as β.
    """
    from unbraid.runs import RECIPES

    found = {key: value for key, value in RECIPES[recipe].items() if key not in ("name", "about", "cite")}
    return {**found, "objective": {**found["objective"], **objective}}


def kim_settings(steps: int = 300_000) -> RecipeDict:
    """Settings for dSprites after Kim & Mnih 2018, App. A; the scale `paper` of several studies.

    Args:
        steps: number of training steps.
    """
    return {
        "data": {"name": "dsprites"},
        "nets": {"name": "factor_vae_table1_bare"},
        "budget": {"batch": 64, "steps": steps, "lr": 1e-4, "log_every": 500, "checkpoint_every": 10_000},
    }


def scale_to_64(run: Run) -> float:
    """Return the factor that converts nats of a run's images to 64×64 pixels, where the papers report them.

    Nats are sums over pixels.

    Args:
        run: the run.
    """
    _, height, width = run.dataset().shape
    return 64 * 64 / (height * width)
