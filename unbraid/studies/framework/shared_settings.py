"""Settings that several studies share: data, nets and budget by scale."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from unbraid.runs.recipes_demo import SPRITES

if TYPE_CHECKING:
    from unbraid.runs.run import Run

RecipeDict = dict[str, Any]

# The demo's set, net and budget: a minute a run on one core, and the decoder lets total correlation show (docs/demo.md).
COLOUR_SPRITES: dict[str, RecipeDict] = {
    "tiny": {
        "data": {"name": "colour_sprites", "subsample": 400},
        "nets": SPRITES["nets"],
        "budget": {"batch": 32, "steps": 20, "lr": 2e-3, "threads": 1, "log_every": 5},
    },
    "cpu": {key: SPRITES[key] for key in ("data", "nets", "budget")},
}


# One of the hundred rooms of 3D Shapes: object hue, scale, shape and orientation vary; 4,800 pictures
SHAPES3D_SUBSET: RecipeDict = {"name": "shapes3d", "size": 32, "only": {"floor_hue": 0.0, "wall_hue": 0.5}}


def shapes3d_settings(steps: int = 4000) -> RecipeDict:
    """One room at 32×32 with the net of the sprites, more steps at two fifths of their rate.

    At 5e-3 FactorVAE (40) outran its critic in a pilot (seed 100: a KL of 985 nats after 400 steps), and β-TCVAE broke.
    """
    rate = {"schedule": "linear", "start": 2e-3, "stop": 2e-4, "steps": steps}
    return {
        **COLOUR_SPRITES["cpu"],
        "data": SHAPES3D_SUBSET,
        "budget": {**COLOUR_SPRITES["cpu"]["budget"], "steps": steps, "lr": rate},
    }


def kim_settings(steps: int = 300_000) -> RecipeDict:
    """dSprites, net and budget of Kim & Mnih 2018, App. A: what `paper` means in several studies."""
    return {
        "data": {"name": "dsprites"},
        "nets": {"name": "factor_vae_table1"},
        "budget": {"batch": 64, "steps": steps, "lr": 1e-4, "log_every": 500, "checkpoint_every": 10_000},
    }


def scale_to_64(run: Run) -> float:
    """What nats of a run's images count at 64×64, where the papers print theirs: they are sums over pixels."""
    _, height, width = run.dataset().shape
    return 64 * 64 / (height * width)
