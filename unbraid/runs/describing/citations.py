"""What to cite: for a name, by what it is; for a run, all it used. Records carry keys into `unbraid.core.papers`."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unbraid.core.errors import choose
from unbraid.core.papers import PAPERS, papers_in

if TYPE_CHECKING:
    from unbraid.runs.run import Run

THIS_LIBRARY = "this library"
LOCATION_PATTERN = r"(Eqs?\.|Sec\.|App\.|Tables?|Figs?\.|Alg\.|Theorem)? ?[A-Z0-9][\d.–]*"
# nets are named after the paper whose table prints them
NET_PAPERS = {
    "factor_vae": "Kim & Mnih 2018",
    "info_gan": "Kim & Mnih 2018",
    "hfvae": "Esmaeili et al. 2018",
    "decomposition": "Mathieu et al. 2019",
    "isa_vae": "Stühmer et al. 2019",
}


def citations(name: str) -> dict[str, str]:
    """What to cite for a name, by what it is (one name may be several things).

    >>> citations("factor_vae")["objective"]
    'Kim & Mnih 2018, Eq. 2'
    """
    kinds = citation_tables()
    everything = {known: None for table in kinds.values() for known in table}
    choose(name, everything, "objective, metric, data set, prior, recipe or other part")
    return {kind: table[name] for kind, table in kinds.items() if name in table}


def citation_tables() -> dict[str, dict[str, str]]:
    """The citation of every name in the library, by kind."""
    from unbraid.data import DATASETS
    from unbraid.metrics import METRICS
    from unbraid.model import LIKELIHOODS, NETS, POSTERIORS
    from unbraid.model.infogan import GAN_NETS
    from unbraid.objectives import OBJECTIVES
    from unbraid.priors import PRIORS
    from unbraid.runs.recipes import RECIPES
    from unbraid.terms.estimators import WEIGHTS

    return {
        "objective": {name: _docstring_citation(make) for name, make in OBJECTIVES.items()},
        "metric": {name: _docstring_citation(metric.call) for name, metric in METRICS.items()},
        "data set": {name: source.cite or "your own data: cite where it is from" for name, source in DATASETS.items()},
        "prior": {name: _docstring_citation(make) for name, make in PRIORS.items()},
        "posterior": {name: _docstring_citation(family) for name, family in POSTERIORS.items()},
        "likelihood": {name: _docstring_citation(make) for name, make in LIKELIHOODS.items()},
        "estimator": {
            **{name: _docstring_citation(weights) for name, weights in WEIGHTS.items()},
            "memory_bank": THIS_LIBRARY,
        },
        "nets": {name: _net_citation(name, make) for name, make in {**NETS, **GAN_NETS}.items()},
        "recipe": {name: str(plain.get("cite") or THIS_LIBRARY) for name, plain in RECIPES.items()},
    }


def run_citations(run: Run) -> dict[str, str]:
    """The citation of everything a run used, by kind and name: its parts, its optimiser, the metrics it was scored by.

    >>> list(run_citations(run))[0], run_citations(run)["nets mlp"]    # doctest: +SKIP
    ('objective factor_vae', 'this library')
    """
    known = citation_tables()
    used = dict.fromkeys((kind, name) for kind, name in _used_parts(run) if name in known.get(kind, {}))
    found = {f"{kind} {name}": known[kind][name] for kind, name in used}
    optimiser = "Kingma & Ba 2015" + ("; Reddi et al. 2018" if run.recipe.budget.amsgrad else "")
    return {**found, "optimiser adam": optimiser}


def paper_keys(cited: dict[str, str]) -> tuple[str, ...]:
    """The papers that some citations name, each once, in the order of the table."""
    return papers_in(" ".join(cited.values()))


def bibliography(cited: dict[str, str]) -> str:
    """A .bib file: what each entry is for as comments, then the entries."""
    heads = [f"% {what}: {line}" for what, line in cited.items()]
    return "\n".join([*heads, "", *(PAPERS[key].bibtex(key) for key in paper_keys(cited))])


def _used_parts(run: Run) -> Iterator[tuple[str, str]]:
    from unbraid.objectives import GAMES

    recipe = run.recipe
    name = str(recipe.objective.get("name", ""))
    yield "objective", name
    yield "estimator", _estimator(recipe.objective)
    yield "data set", str(recipe.data.get("name", ""))
    if name not in GAMES:
        yield "posterior", recipe.family
        yield "likelihood", str(recipe.likelihood.get("name", ""))
        tables: list[Any] = [recipe.prior, *recipe.prior.get("parts", {}).values()]
        for table in tables:
            yield "prior", str(table.get("name", "gaussian"))
        if not recipe.tree.all_real:
            yield "prior", "discrete"
    yield "nets", str(recipe.nets.get("name", ""))
    yield "recipe", recipe.name
    for metric in _scored_metrics(run):
        yield "metric", metric


def _estimator(objective: dict[str, Any]) -> str:
    from unbraid.objectives import OBJECTIVES, build

    unknown = objective.get("name", "vae") not in OBJECTIVES  # an object of the user's own
    return "" if unknown else getattr(build(objective), "estimator", "").partition("(")[0]


def _scored_metrics(run: Run) -> list[str]:
    """The names of the metrics in scores.json, if there is one."""
    from unbraid.runs.evaluation.scores import Scores
    from unbraid.runs.folder.file_names import SCORES_FILE

    return list(Scores.load(run.path)) if (Path(run.path) / SCORES_FILE).is_file() else []


def _net_citation(name: str, make: Any) -> str:
    """A preset's paper is in its name, that of a net which takes options in its docstring."""
    of = next((paper for prefix, paper in NET_PAPERS.items() if name.startswith(f"{prefix}_")), "")
    return (
        THIS_LIBRARY
        if name.endswith("_small")
        else of or (_docstring_citation(make) if inspect.isfunction(make) else THIS_LIBRARY)
    )


def _docstring_citation(record: Any) -> str:
    """The papers a docstring names, each with its place there, in their order; else this library."""
    doc = " ".join((getattr(record, "__doc__", "") or "").split())
    found = [
        re.search(re.escape(key) + rf"(, {LOCATION_PATTERN}( and {LOCATION_PATTERN})*)?", doc) for key in papers_in(doc)
    ]
    return "; ".join(m[0].rstrip(".") for m in sorted(filter(None, found), key=lambda m: m.start())) or THIS_LIBRARY
