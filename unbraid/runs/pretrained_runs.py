"""Trained runs that come with the repository: ordinary run directories in `pretrained/`, outside of the package."""

from __future__ import annotations

import os
from pathlib import Path

from unbraid.core.errors import choose, expect
from unbraid.runs.folder.file_names import RECIPE_FILE
from unbraid.runs.run import Run

FOLDER_VARIABLE = "UNBRAID_PRETRAINED"  # the environment's word for another place


def pretrained_paths() -> dict[str, Path]:
    """The trained runs at hand, by name.

    >>> "beta_tcvae_colour_sprites" in pretrained_paths()
    True
    """
    place = Path(os.environ.get(FOLDER_VARIABLE) or Path(__file__).resolve().parents[2] / "pretrained")
    return {p.name: p for p in sorted(place.iterdir()) if (p / RECIPE_FILE).is_file()} if place.is_dir() else {}


def pretrained(name: str) -> Run:
    """A trained run by name: encode, decode, traverse, score, report and explore it without training.

    The runs lie in `pretrained/` of the repository and are not in the wheel; `pretrained/README.md` says how each was made
    and what it scores.

    >>> run = pretrained("beta_tcvae_colour_sprites")
    >>> run.sample(2).shape
    (2, 3, 24, 24)
    """
    found = pretrained_paths()
    do = f"Work in a clone of the repository, or set {FOLDER_VARIABLE} to its folder pretrained/."
    expect(bool(found), "there are no pretrained runs here: the wheel does not carry them", do=do)
    return Run.load(choose(name, found, "pretrained run"))
