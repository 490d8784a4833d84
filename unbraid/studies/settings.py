"""Settings that several studies share: data, nets and budget by scale."""

from __future__ import annotations

from typing import Any

Plain = dict[str, Any]

# The demo's set: about a minute a run on one core, and the decoder lets total correlation be seen at all (docs/demo.md).
COLOUR_SPRITES: dict[str, Plain] = {
    "tiny": {
        "data": {"name": "colour_sprites", "subsample": 400},
        "nets": {"name": "broadcast"},
        "budget": {"batch": 32, "steps": 20, "lr": 2e-3, "threads": 1, "log_every": 5},
    },
    "cpu": {
        "data": {"name": "colour_sprites"},
        "nets": {"name": "broadcast"},
        "budget": {"batch": 64, "steps": 3000, "lr": 2e-3, "threads": 1, "log_every": 50},
    },
}


def kim(steps: int = 300_000) -> Plain:
    """dSprites, net and budget of Kim & Mnih 2018, App. A: what `paper` means in several studies."""
    return {
        "data": {"name": "dsprites"},
        "nets": {"name": "factor_vae_table1"},
        "budget": {"batch": 64, "steps": steps, "lr": 1e-4, "log_every": 500, "checkpoint_every": 10_000},
    }
