"""Runs: recipes, training, the run directory, encoding, scoring and the audit.

Public names are imported on first use, so that importing the package brings no torch.

>>> from unbraid.runs import RECIPES, Recipe
>>> Recipe.load("vae_sprites32").name in RECIPES
True
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from unbraid.runs.evaluation.auditing import audit
    from unbraid.runs.evaluation.encoding import encode
    from unbraid.runs.evaluation.scores import Scores
    from unbraid.runs.evaluation.scoring import score
    from unbraid.runs.fitting.training import fit
    from unbraid.runs.pretrained_runs import pretrained
    from unbraid.runs.recipe import Recipe
    from unbraid.runs.recipes import RECIPES
    from unbraid.runs.run import Run

__all__ = ["RECIPES", "Recipe", "Run", "Scores", "audit", "encode", "fit", "pretrained", "score"]

_MODULE_OF = {
    "RECIPES": "recipes",
    "Recipe": "recipe",
    "Run": "run",
    "Scores": "evaluation.scores",
    "audit": "evaluation.auditing",
    "encode": "evaluation.encoding",
    "fit": "fitting.training",
    "pretrained": "pretrained_runs",
    "score": "evaluation.scoring",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'unbraid.runs' has no attribute {name!r}")
    return getattr(import_module(f"unbraid.runs.{_MODULE_OF[name]}"), name)
