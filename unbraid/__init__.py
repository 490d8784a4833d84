"""unbraid: learn, measure and explore disentangled and structured latent representations.

A latent space is a tree, and every objective is a row of prices over the terms of one decomposition of the KL on that tree.

    run = unbraid.fit("factor_vae_sprites32")
    codes = unbraid.encode(run)
    print(unbraid.metrics.mig(codes).value)

Public names in the order of the data flow; each is imported on first use, so `import unbraid` brings no torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from unbraid._version import __version__

_HOMES = {
    "UnbraidError": "unbraid.errors",
    "Latent": "unbraid.latent",
    "onehot": "unbraid.latent",
    "binary": "unbraid.latent",
    "real": "unbraid.latent",
    "DATASETS": "unbraid.data",
    "Dataset": "unbraid.data",
    "PRIORS": "unbraid.priors",
    "OBJECTIVES": "unbraid.objectives",
    "Objective": "unbraid.objective",
    "RECIPES": "unbraid.recipes",
    "Recipe": "unbraid.recipe",
    "Run": "unbraid.run",
    "fit": "unbraid.train",
    "sweep": "unbraid.sweep",
    "audit": "unbraid.audit",
    "Codes": "unbraid.codes",
    "encode": "unbraid.encode",
    "METRICS": "unbraid.metrics",
    "Score": "unbraid.metrics",
    "report": "unbraid.figures.report",
}
_ROOMS = ("data", "priors", "model", "terms", "metrics", "figures")

__all__ = ["__version__", *_HOMES, *_ROOMS]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        found = getattr(import_module(_HOMES[name]), name)
    elif name in _ROOMS:
        found = import_module(f"unbraid.{name}")
    else:
        raise AttributeError(f"module 'unbraid' has no attribute {name!r}")
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted(__all__)


if TYPE_CHECKING:
    from unbraid import data, figures, metrics, model, priors, terms
    from unbraid.audit import audit
    from unbraid.codes import Codes
    from unbraid.data import DATASETS, Dataset
    from unbraid.encode import encode
    from unbraid.errors import UnbraidError
    from unbraid.figures.report import report
    from unbraid.latent import Latent, binary, onehot, real
    from unbraid.metrics import METRICS, Score
    from unbraid.objective import Objective
    from unbraid.objectives import OBJECTIVES
    from unbraid.priors import PRIORS
    from unbraid.recipe import Recipe
    from unbraid.recipes import RECIPES
    from unbraid.run import Run
    from unbraid.sweep import sweep
    from unbraid.train import fit
