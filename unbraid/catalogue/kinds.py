"""KINDS: the registries of the library, and how the catalogue explains the records of each. All text comes from the code."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, get_type_hints

from unbraid.catalogue.common_options import COMMON_OPTIONS, PRESET_SOURCES
from unbraid.catalogue.docstrings import ParsedDocstring, capitalise, parse_docstring
from unbraid.catalogue.entry import REQUIRED, Entry, Option, describe_annotation, explain, papers_or_library, to_toml
from unbraid.core.errors import choose, expect
from unbraid.runs.describing.citations import citation_tables

# arguments of a net that are not options
NET_ARGUMENTS = ("shape", "tree", "params", "outputs", "noise", "wasserstein")
# by `Metric.needs`
METRIC_ARGUMENTS = {"factors": "codes, factors", "runs": "[codes, codes, …]", "images": "images, reconstructions"}
METRIC_COMMANDS = {"runs": "unbraid compare RUNS --udr", "images": "unbraid audit RUN has it in nats"}
OUTPUT_KINDS = ("figures", "exports")  # made from a run; the name of a part, such as the term kl, has precedence
PRICE_PLACES = {
    "branch": "at every branch, or at one (:NAME)",
    "node": "at the root, or at one node (:NAME)",
    "leaves": "at every leaf, or apart below one node (:NAME)",
}


@dataclass(frozen=True)
class CatalogueKind:
    """A registry of the library.

    Args:
        singular: what one of its parts is called.
        about: what the parts are for.
        entries: makes the entries by name.

    >>> KINDS["nets"].singular, "mlp" in KINDS["nets"].entries()
    ('net', True)
    """

    singular: str
    about: str
    entries: Callable[[], dict[str, Entry]]


def find_entry(kind: str, name: str) -> Entry:
    """The entry of a name; raise `UnbraidError` for an unknown kind or name.

    Args:
        kind: the kind, in the singular or plural.
        name: the name.

    >>> find_entry("objective", "hfvae").options[0].name
    'alpha'
    """
    singular = {known.singular: known for known in KINDS.values()} | KINDS
    found = choose(kind, singular, "kind of part")
    return choose(name, found.entries(), found.singular)


def find_by_name(name: str) -> Entry:
    """The entry of a name that exactly one kind has; otherwise the error lists the kinds.

    Args:
        name: the name.

    >>> find_by_name("hfvae").kind, find_by_name("dci").kind
    ('objective', 'metric')
    """
    every = {kind: known.entries() for kind, known in KINDS.items()}
    return every[find_kind(name, every)][name]


def find_kind(name: str, every: Mapping[str, Collection[str]]) -> str:
    """The kind of a name that exactly one kind has; see `find_by_name`.

    Args:
        name: the name.
        every: the names of each kind.
    """
    parts = {kind: names for kind, names in every.items() if kind not in OUTPUT_KINDS}
    looked = parts if any(name in names for names in parts.values()) else every
    found = [kind for kind, names in looked.items() if name in names]
    choose(name, {each: None for names in looked.values() for each in names}, "name")
    ways = " or ".join(f"'unbraid show {KINDS[kind].singular} {name}'" for kind in found)
    expect(len(found) == 1, f"several kinds have the name {name!r}", found=", ".join(found), do=f"Use {ways}.")
    return found[0]


def _explain_all(
    kind: str, parts: Mapping[str, Any], facts: Callable[[str], dict[str, str]], **options: Any
) -> dict[str, Entry]:
    """Explain every part of a registry, with the papers of `citation_tables`."""
    cites = citation_tables()[kind]
    return {
        name: explain(kind, name, part, cite=cites[name], facts=facts(name), **options) for name, part in parts.items()
    }


def _objectives() -> dict[str, Entry]:
    from unbraid.objectives import OBJECTIVES, objective_table
    from unbraid.objectives.gans import SHARED_OPTIONS as GAMES
    from unbraid.objectives.rows import SHARED_OPTIONS as ROWS

    rows = {row["objective"]: row for row in objective_table.table_rows()}

    def facts(name: str) -> dict[str, str]:
        if name not in rows:
            return {}
        row = rows[name]
        priced = ", ".join(f"{c} {row[c]}" for c in objective_table.COLUMNS if row[c] != "–")
        return {"prices": row["prices"], "effective": priced, "needs": row["needs"]}

    return _explain_all("objective", OBJECTIVES, facts, common_options=ROWS | GAMES, table="objective")


def _priors() -> dict[str, Entry]:
    from unbraid.priors import PRIORS

    def facts(name: str) -> dict[str, str]:
        return {"leaves": ", ".join(getattr(PRIORS[name], "kinds", ("real",)))}

    rate = Option("lr", None, "a number", "a rate of its own for what is learned.")
    return _explain_all("prior", PRIORS, facts, skip=("tree",), extra=(rate,), table="prior")


def _posteriors() -> dict[str, Entry]:
    from unbraid.model import POSTERIORS

    cites = citation_tables()["posterior"]
    heat = Option("temperature", 2 / 3, "a number or a schedule", "of relaxed discrete leaves (Maddison et al. 2017).")
    return {
        name: Entry("posterior", name, parse_docstring(family.__doc__), (heat,), cites[name], table="posterior family")
        for name, family in POSTERIORS.items()
    }


def _likelihoods() -> dict[str, Entry]:
    from unbraid.model import LIKELIHOODS

    def facts(name: str) -> dict[str, str]:
        low, high = getattr(LIKELIHOODS[name], "low", 0), getattr(LIKELIHOODS[name], "high", 0)
        return {"pixels": f"[{low:g}, {high:g}]" if abs(low) < 1e300 else "any number"}

    return _explain_all("likelihood", LIKELIHOODS, facts, table="likelihood")


def _nets() -> dict[str, Entry]:
    from unbraid.model import NETS
    from unbraid.model.infogan import GAN_NETS

    cites, found = citation_tables()["nets"], {}
    for name, make in {**NETS, **GAN_NETS}.items():
        doc = describe_preset(name, make) if is_dataclass(make) else None
        found[name] = explain("net", name, make, cite=cites[name], skip=NET_ARGUMENTS, doc=doc, table="nets")
    return found


def describe_preset(name: str, net: Any) -> str:
    """Describe a preset net: its source, the summary of its class and its fixed values.

    Args:
        name: the name of the preset.
        net: the preset.
    """
    whose = PRESET_SOURCES.get(name.removesuffix("_printed"), "A preset")
    whose += "; batch norm after the activation, as the table prints it" if name.endswith("_printed") else ""
    first = (type(net).__doc__ or "").split("\n\n")[0].strip()
    numbers = [
        f"{f.name} {_format_value(getattr(net, f.name))}" for f in fields(net) if getattr(net, f.name) != f.default
    ]
    return f"{whose}.\n\nFixed at {', '.join(numbers)}. {first}"


def _format_value(value: Any) -> str:
    return value.__name__ if callable(value) else to_toml(value)


def _metrics() -> dict[str, Entry]:
    from unbraid.metrics import METRICS

    def facts(name: str) -> dict[str, str]:
        metric = METRICS[name]
        low, high = metric.span
        chance = "depends on the number of factors" if callable(metric.chance) else metric.chance
        return {
            "range": f"{low:g} to {high:g}, {'more' if metric.direction == 'up' else 'less'} is better",
            "chance": "none stated" if chance is None else f"{chance}",
            "needs": metric.needs,
            "protocols": ", ".join(metric.protocols),
            "lowered by": ", ".join(metric.lowered_by),
            "call": METRIC_COMMANDS.get(metric.needs, "unbraid score RUN --metrics {name}").format(name=name),
            "in Python": f"{name}({METRIC_ARGUMENTS.get(metric.needs, 'codes')}) of unbraid.metrics",
        }

    inputs = ("codes", "factors", "runs", "images", "reconstructions")
    return _explain_all("metric", {name: metric.call for name, metric in METRICS.items()}, facts, skip=inputs)


def _schedules() -> dict[str, Entry]:
    from unbraid.prices import SCHEDULES

    return {name: explain("schedule", name, made) for name, made in SCHEDULES.items()}


def _data() -> dict[str, Entry]:
    from unbraid.data import DATASETS

    found = {}
    for name, source in DATASETS.items():
        facts = {"what": source.about, "status": source.status(), "size": source.size, "factors": source.factors}
        facts["get"] = source.how_to_get
        cite = source.cite or "your own data: cite where it is from"
        split = [Option(o, default, "", COMMON_OPTIONS["data"].get(o, "")) for o, default in source.options.items()]
        found[name] = explain("data", name, source.load, cite=cite, extra=split, facts=facts, table="data")
    return found


def _estimators() -> dict[str, Entry]:
    from unbraid.terms.estimators import WEIGHTS
    from unbraid.terms.memory_bank import BankSpec

    def facts(name: str) -> dict[str, str]:
        return {"call": f'objective.estimator = "{"memory_bank(1024)" if name == "memory_bank" else name}"'}

    return _explain_all("estimator", {**WEIGHTS, "memory_bank": BankSpec}, facts, skip=("b", "n", "name"))


def _terms() -> dict[str, Entry]:
    from unbraid.terms import TERMS

    found = {}
    for key, term in TERMS.items():
        doc = term.about or (term.call.__doc__ if term.call else "") or ""
        facts = {
            "part of": term.parent,
            "priced": PRICE_PLACES.get(term.priced_per, ""),
            "unit": "nats" if term.estimates_kl or key in ("reconstruction", "entropy", "evidence@iwae") else "its own",
            "needs": ", ".join([*term.needs, *([f"critic {term.critic.name}"] if term.critic else [])]),
        }
        found[key] = Entry("term", key, parse_docstring(doc), (), papers_or_library(doc), facts)
    return found


def _fields() -> dict[str, Entry]:
    from unbraid.runs.building.supervision_options import GivenOptions, LabelOptions, PairOptions, SupervisionOptions
    from unbraid.runs.recipe import Budget, Recipe

    records = {"": Recipe, "budget.": Budget, "supervision.": SupervisionOptions, "supervision.pairs.": PairOptions,
               "supervision.labels.": LabelOptions, "supervision.given.": GivenOptions}  # fmt: skip
    found = {}
    for prefix, record in records.items():
        for option in _record_options(record):
            name, doc = f"{prefix}{option.name}", ParsedDocstring(capitalise(option.about))
            facts = {"default": "a table of fields" if name == "budget" else option.default_text, "takes": option.takes}
            found[name] = Entry("field", name, doc, (), "this library", facts)
    return found


def _record_options(record: Any) -> list[Option]:
    """The fields of a dataclass or a pydantic model as options, described by its docstring."""
    if is_dataclass(record):
        hints = get_type_hints(record)
        known = {f.name: (f.default, hints[f.name]) for f in fields(record)}
    else:
        plain = record.model_fields.items()
        known = {name: (REQUIRED if f.is_required() else f.default, f.annotation) for name, f in plain}
    about = parse_docstring(record.__doc__, known).options
    return [Option(n, default, describe_annotation(hint), about[n]) for n, (default, hint) in known.items()]


def _figures() -> dict[str, Entry]:
    from unbraid.figures.registry import FIGURES, FigureOptions

    options = {option.name: option for option in _record_options(FigureOptions)}
    found = {}
    for name, spec in FIGURES.items():
        facts = {"title": spec.title, "call": f"unbraid figure {name} RUN --out {name}.pdf"}
        chosen = tuple(options[option] for option in spec.options)
        found[name] = Entry("figure", name, ParsedDocstring(spec.about), chosen, "this library", facts)
    return found


def _exports() -> dict[str, Entry]:
    from unbraid.export import EXPORTS

    return {
        name: explain("export", name, write, cite="this library", skip=("run", "out"),
                      facts={"call": f"unbraid export RUN --to {name}"})
        for name, write in EXPORTS.items()
    }  # fmt: skip


KINDS: dict[str, CatalogueKind] = {
    "fields": CatalogueKind("field", "the fields of a recipe; --set FIELD=VALUE changes one", _fields),
    "data": CatalogueKind("data", "data sets; [data] in a recipe", _data),
    "nets": CatalogueKind("net", "encoder and decoder; [nets] in a recipe", _nets),
    "likelihoods": CatalogueKind(
        "likelihood", "distributions of images given the decoder's output; [likelihood]", _likelihoods
    ),
    "posteriors": CatalogueKind("posterior", "families of q(z|x); [posterior]", _posteriors),
    "priors": CatalogueKind("prior", "densities on the latent tree; [prior]", _priors),
    "objectives": CatalogueKind("objective", "what training minimises; [objective]", _objectives),
    "terms": CatalogueKind("term", "terms that a row can price; prices of objective 'row'", _terms),
    "estimators": CatalogueKind("estimator", "estimators of q(z) in mi, tc and dw", _estimators),
    "schedules": CatalogueKind("schedule", "prices and rates that change with the step", _schedules),
    "metrics": CatalogueKind("metric", "scores of codes; 'unbraid score'", _metrics),
    "figures": CatalogueKind("figure", "what can be drawn of a run; 'unbraid figure'", _figures),
    "exports": CatalogueKind("export", "formats of a run for other tools; 'unbraid export'", _exports),
}
