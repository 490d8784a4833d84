"""Trained runs that come with the repository: ordinary run directories in `pretrained/`, outside of the package."""

from __future__ import annotations

import os
from pathlib import Path

from unbraid.ground.errors import choose, expect
from unbraid.runs.run import RECIPE, Run

FOLDER = "UNBRAID_PRETRAINED"  # the environment's word for another place


def names() -> dict[str, Path]:
    """The trained runs at hand, by name.

    >>> "beta_tcvae_colour_sprites" in names()
    True
    """
    place = Path(os.environ.get(FOLDER) or Path(__file__).resolve().parents[2] / "pretrained")
    return {p.name: p for p in sorted(place.iterdir()) if (p / RECIPE).is_file()} if place.is_dir() else {}


def pretrained(name: str) -> Run:
    """A trained run by name: encode, decode, traverse, score, report and explore it without training.

    The runs lie in `pretrained/` of the repository and are not in the wheel; `pretrained/README.md` says how each was made
    and what it scores.

    >>> run = pretrained("beta_tcvae_colour_sprites")
    >>> run.sample(2).shape
    (2, 3, 24, 24)
    """
    found = names()
    do = f"Work in a clone of the repository, or set {FOLDER} to its folder pretrained/."
    expect(bool(found), "there are no pretrained runs here: the wheel does not carry them", do=do)
    return Run.load(choose(name, found, "pretrained run"))
