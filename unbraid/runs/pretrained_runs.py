"""Trained runs of the repository: ordinary run directories in `pretrained/`, outside of the package."""

from __future__ import annotations

import os
from pathlib import Path

from unbraid.core.errors import choose, expect
from unbraid.runs.folder.file_names import RECIPE_FILE
from unbraid.runs.run import Run

FOLDER_VARIABLE = "UNBRAID_PRETRAINED"  # the environment variable for another folder


def pretrained_paths() -> dict[str, Path]:
    """Return the folders of the trained runs by name.

    >>> "beta_tcvae_colour_sprites" in pretrained_paths()
    True
    """
    folder = Path(os.environ.get(FOLDER_VARIABLE) or Path(__file__).resolve().parents[2] / "pretrained")
    return {p.name: p for p in sorted(folder.iterdir()) if (p / RECIPE_FILE).is_file()} if folder.is_dir() else {}


def pretrained(name: str) -> Run:
    """Open a trained run by name, to encode, decode, traverse, score, report and explore it without training.

    The runs are in `pretrained/` of the repository and not in the wheel; `pretrained/README.md` has the training commands
    and scores.

    Args:
        name: the name of the run.

    >>> run = pretrained("beta_tcvae_colour_sprites")
    >>> run.sample(2).shape
    (2, 3, 24, 24)
    """
    found = pretrained_paths()
    do = f"Work in a clone of the repository, or set {FOLDER_VARIABLE} to its folder pretrained/."
    expect(bool(found), "there are no pretrained runs here: the wheel does not contain them", do=do)
    return Run.load(choose(name, found, "pretrained run"))
