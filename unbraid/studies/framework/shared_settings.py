"""Settings that several studies share: data, nets and budget by scale."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from unbraid.runs.recipes_demo import SPRITES

if TYPE_CHECKING:
    from unbraid.runs.run import Run

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


def kim_settings(steps: int = 300_000) -> RecipeDict:
    """Settings for dSprites after Kim & Mnih 2018, App. A; the scale `paper` of several studies.

    Args:
        steps: number of training steps.
    """
    return {
        "data": {"name": "dsprites"},
        "nets": {"name": "factor_vae_table1"},
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
