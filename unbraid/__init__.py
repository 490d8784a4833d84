"""unbraid: learn, measure and explore disentangled and structured latent representations.

A latent space is a tree, and every objective is a row of prices over the terms of one decomposition of the KL on that tree.

    run = unbraid.fit("factor_vae_sprites32")
    codes = unbraid.encode(run)
    print(unbraid.score(run))

Public names are in the order of the data flow. Each is imported on first use, so `import unbraid` does not import torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from unbraid._version import __version__

_MODULE_OF = {
    "UnbraidError": "unbraid.core.errors",
    "Latent": "unbraid.latent",
    "onehot": "unbraid.latent",
    "binary": "unbraid.latent",
    "real": "unbraid.latent",
    "DATASETS": "unbraid.data",
    "Dataset": "unbraid.data",
    "NETS": "unbraid.model",
    "LIKELIHOODS": "unbraid.model",
    "POSTERIORS": "unbraid.model",
    "PRIORS": "unbraid.priors",
    "TERMS": "unbraid.terms",
    "OBJECTIVES": "unbraid.objectives",
    "Objective": "unbraid.objectives",
    "RECIPES": "unbraid.runs.recipes",
    "Recipe": "unbraid.runs.recipe",
    "Run": "unbraid.runs.run",
    "fit": "unbraid.runs.fitting.training",
    "pretrained": "unbraid.runs.pretrained_runs",
    "tracker": "unbraid.export.tracking",
    "sweep": "unbraid.sweeps",
    "audit": "unbraid.runs.evaluation.auditing",
    "Codes": "unbraid.codes",
    "encode": "unbraid.runs.evaluation.encoding",
    "METRICS": "unbraid.metrics",
    "Score": "unbraid.metrics",
    "Scores": "unbraid.runs.evaluation.scoring",
    "score": "unbraid.runs.evaluation.scoring",
    "compare": "unbraid.comparing",
    "report": "unbraid.figures.report",
    "Disentangler": "unbraid.export.estimator",
    "discover": "unbraid.discovery.discovery",
    "Discovery": "unbraid.discovery.discovery",
}
_SUBPACKAGES = ("data", "priors", "model", "terms", "metrics", "figures")

__all__ = ["__version__", *_MODULE_OF, *_SUBPACKAGES]


def __getattr__(name: str) -> Any:
    if name in _MODULE_OF:
        found = getattr(import_module(_MODULE_OF[name]), name)
    elif name in _SUBPACKAGES:
        found = import_module(f"unbraid.{name}")
    else:
        raise AttributeError(f"module 'unbraid' has no attribute {name!r}")
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted(__all__)


if TYPE_CHECKING:
    from unbraid import data, figures, metrics, model, priors, terms
    from unbraid.codes import Codes
    from unbraid.comparing import compare
    from unbraid.core.errors import UnbraidError
    from unbraid.data import DATASETS, Dataset
    from unbraid.discovery.discovery import Discovery, discover
    from unbraid.export.estimator import Disentangler
    from unbraid.export.tracking import tracker
    from unbraid.figures.report import report
    from unbraid.latent import Latent, binary, onehot, real
    from unbraid.metrics import METRICS, Score
    from unbraid.model import LIKELIHOODS, NETS, POSTERIORS
    from unbraid.objectives import OBJECTIVES, Objective
    from unbraid.priors import PRIORS
    from unbraid.runs.evaluation.auditing import audit
    from unbraid.runs.evaluation.encoding import encode
    from unbraid.runs.evaluation.scoring import Scores, score
    from unbraid.runs.fitting.training import fit
    from unbraid.runs.pretrained_runs import pretrained
    from unbraid.runs.recipe import Recipe
    from unbraid.runs.recipes import RECIPES
    from unbraid.runs.run import Run
    from unbraid.sweeps import sweep
    from unbraid.terms import TERMS
