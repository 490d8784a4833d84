"""Citations of every named part, and of everything that a run used; papers are in `unbraid.core.papers`."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from unbraid.core.errors import choose
from unbraid.core.papers import PAPERS, papers_in

if TYPE_CHECKING:
    from unbraid.runs.run import Run

THIS_LIBRARY = "this library"
LOCATION_PATTERN = r"(Eqs?\.|Sec\.|App\.|Tables?|Figs?\.|Alg\.|Theorem)? ?[A-Z0-9][\d.–]*"
# nets are named after the paper with their table
NET_PAPERS = {
    "factor_vae": "Kim & Mnih 2018",
    "info_gan": "Kim & Mnih 2018",
    "hfvae": "Esmaeili et al. 2018",
    "decomposition": "Mathieu et al. 2019",
    "isa_vae": "Stühmer et al. 2019",
}


def citations(name: str) -> dict[str, str]:
    """Return the citations of a name, by kind; a name may be of several kinds.

    Args:
        name: an objective, metric, data set, prior, recipe or other part.

    >>> citations("factor_vae")["objective"]
    'Kim & Mnih 2018, Eq. 2'
    """
    kinds = citation_tables()
    everything = {known: None for table in kinds.values() for known in table}
    choose(name, everything, "objective, metric, data set, prior, recipe or other part")
    return {kind: table[name] for kind, table in kinds.items() if name in table}


def citation_tables() -> dict[str, dict[str, str]]:
    """Return the citation of every name in the library, by kind."""
    from unbraid.data import DATASETS
    from unbraid.metrics import METRICS
    from unbraid.model import LIKELIHOODS, NETS, POSTERIORS
    from unbraid.model.infogan import GAN_NETS
    from unbraid.objectives import OBJECTIVES
    from unbraid.priors import PRIORS
    from unbraid.runs.recipes import RECIPES
    from unbraid.terms.estimators import WEIGHTS

    def by_docstring(parts: Mapping[str, Any]) -> dict[str, str]:
        return {name: _docstring_citation(part) for name, part in parts.items()}

    return {
        "objective": by_docstring(OBJECTIVES),
        "metric": by_docstring({name: metric.call for name, metric in METRICS.items()}),
        "data set": {name: source.cite or "your own data: cite their source" for name, source in DATASETS.items()},
        "prior": by_docstring(PRIORS),
        "posterior": by_docstring(POSTERIORS),
        "likelihood": by_docstring(LIKELIHOODS),
        "estimator": {**by_docstring(WEIGHTS), "memory_bank": THIS_LIBRARY},
        "nets": {name: _net_citation(name, make) for name, make in {**NETS, **GAN_NETS}.items()},
        "recipe": {name: str(plain.get("cite") or THIS_LIBRARY) for name, plain in RECIPES.items()},
    }


def run_citations(run: Run) -> dict[str, str]:
    """Return the citation of everything that a run used, by kind and name: its parts, its optimiser and its metrics.

    Args:
        run: the run.

    >>> list(run_citations(run))[0], run_citations(run)["nets mlp"]    # doctest: +SKIP
    ('objective factor_vae', 'this library')
    """
    known = citation_tables()
    used = dict.fromkeys((kind, name) for kind, name in _used_parts(run) if name in known.get(kind, {}))
    found = {f"{kind} {name}": known[kind][name] for kind, name in used}
    optimiser = "Kingma & Ba 2015" + ("; Reddi et al. 2018" if run.recipe.budget.amsgrad else "")
    return {**found, "optimiser adam": optimiser}


def paper_keys(cited: dict[str, str]) -> tuple[str, ...]:
    """Return the papers that citations name, each once, in the order of `PAPERS`.

    Args:
        cited: citations by name.
    """
    return papers_in(" ".join(cited.values()))


def bibliography(cited: dict[str, str]) -> str:
    """Return a .bib file: the use of each entry as a comment, then the entries.

    Args:
        cited: citations by name.
    """
    heads = [f"% {what}: {line}" for what, line in cited.items()]
    return "\n".join([*heads, "", *(PAPERS[key].bibtex(key) for key in paper_keys(cited))])


def _used_parts(run: Run) -> Iterator[tuple[str, str]]:
    from unbraid.objectives import OBJECTIVES, Objective, build

    recipe = run.recipe
    name = str(recipe.objective.get("name", ""))
    objective = build(recipe.objective) if name in OBJECTIVES else Objective(name, {}, "")  # passed as an object
    yield "objective", name
    yield "estimator", objective.estimator.partition("(")[0]
    yield "data set", str(recipe.data.get("name", ""))
    if objective.has_elbo:
        yield "posterior", recipe.family
        yield "likelihood", str(recipe.likelihood.get("name", ""))
        tables: list[Any] = [recipe.prior, *recipe.prior.get("parts", {}).values()]
        for table in tables:
            yield "prior", str(table.get("name", "gaussian"))
        if not recipe.tree.all_real:
            yield "prior", "discrete"
    yield "nets", str(recipe.nets.get("name", ""))
    yield "recipe", recipe.name
    for metric in run.scores() or ():
        yield "metric", metric


def _net_citation(name: str, make: Any) -> str:
    """The citation of a net: the name of a preset has its paper, the docstring of a net with options cites it."""
    if name.endswith("_small"):
        return THIS_LIBRARY
    of = next((paper for prefix, paper in NET_PAPERS.items() if name.startswith(f"{prefix}_")), "")
    return of or (_docstring_citation(make) if inspect.isfunction(make) else THIS_LIBRARY)


def _docstring_citation(record: Any) -> str:
    """The papers that a docstring cites, with their equations, in order; otherwise this library."""
    doc = " ".join((getattr(record, "__doc__", "") or "").split())
    places = rf"(, {LOCATION_PATTERN}( and {LOCATION_PATTERN})*)?"
    found = [re.search(re.escape(key) + places, doc) for key in papers_in(doc)]
    return "; ".join(m[0].rstrip(".") for m in sorted(filter(None, found), key=lambda m: m.start())) or THIS_LIBRARY
