"""KINDS: the dicts of the library, and how each of their records is explained. All text is made from the code."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

from unbraid.catalogue.entry import NEEDED, Entry, Option, explain, takes, toml
from unbraid.catalogue.reading import Doc, read
from unbraid.catalogue.shared import FROZEN, SHARED
from unbraid.ground.errors import choose, expect
from unbraid.runs.citing import lines

BUILT = ("shape", "tree", "params", "outputs", "noise", "wasserstein")  # what a net is built with, not options
TAKEN = {
    "factors": "codes, factors",
    "runs": "[codes, codes, …]",
    "images": "images, reconstructions",
}  # by what it needs
CALLS = {"runs": "unbraid compare RUNS --udr", "images": "unbraid audit RUN has it in nats"}
PRICED = {"branch": "at every branch, or at one (:NAME)", "node": "at the root, or at one node (:NAME)"}


@dataclass(frozen=True)
class Kind:
    """One dict of the library: what one of its names is called, what all of them are for, and their entries by name.

    >>> KINDS["nets"].one, "mlp" in KINDS["nets"].entries()
    ('net', True)
    """

    one: str
    about: str
    entries: Callable[[], dict[str, Entry]]


def find(kind: str, name: str) -> Entry:
    """The entry of a name; kinds may be said in the plural or the singular, a wrong one is a named error.

    >>> find("objective", "hfvae").options[0].name
    'alpha'
    """
    singular = {known.one: known for known in KINDS.values()} | KINDS
    found = choose(kind, singular, "kind of part")
    return choose(name, found.entries(), found.one)


def named(name: str) -> Entry:
    """The entry of a name that only one kind has; where several have it, or none, the error lists them.

    >>> named("hfvae").kind, named("dci").kind
    ('objective', 'metric')
    """
    every = {kind: known.entries() for kind, known in KINDS.items()}
    found = [kind for kind, entries in every.items() if name in entries]
    choose(name, {each: None for entries in every.values() for each in entries}, "name")
    ways = " or ".join(f"'unbraid show {KINDS[kind].one} {name}'" for kind in found)
    expect(len(found) == 1, f"several kinds have the name {name!r}", found=", ".join(found), do=f"Say {ways}.")
    return every[found[0]][name]


def _objectives() -> dict[str, Entry]:
    from unbraid.objectives import OBJECTIVES, printed
    from unbraid.objectives.games import SHARED as GAMES
    from unbraid.objectives.rows import SHARED as ROWS

    cites, rows = lines()["objective"], {row["objective"]: row for row in printed.rows()}
    found = {}
    for name, make in OBJECTIVES.items():
        row, facts = rows.get(name), {}
        if row:
            facts["prices"] = row["prices"]
            priced = {c: row[c] for c in printed.COLUMNS if row[c] != "–"}
            facts["effective"] = ", ".join(f"{c} {price}" for c, price in priced.items())
            facts["needs"] = row["needs"]
        found[name] = explain(
            "objective", name, make, cite=cites[name], shared=ROWS | GAMES, facts=facts, table="objective"
        )
    return found


def _priors() -> dict[str, Entry]:
    from unbraid.priors import PRIORS

    cites, learned = lines()["prior"], Option("lr", None, "a number", "a rate of its own for what is learned.")
    found = {}
    for name, make in PRIORS.items():
        kinds = ", ".join(getattr(make, "kinds", ("real",)))
        entry = explain("prior", name, make, cite=cites[name], skip=("tree",), shared=SHARED["prior"],
                        facts={"leaves": kinds}, table="prior")  # fmt: skip
        found[name] = Entry(**{**vars(entry), "options": (*entry.options, learned)})
    return found


def _posteriors() -> dict[str, Entry]:
    from unbraid.model import POSTERIORS

    cites = lines()["posterior"]
    heat = Option("temperature", 2 / 3, "a number or a schedule", "of relaxed discrete leaves (Maddison et al. 2017).")
    return {
        name: Entry("posterior", name, read(family.__doc__), (heat,), cites[name], table="posterior family")
        for name, family in POSTERIORS.items()
    }


def _likelihoods() -> dict[str, Entry]:
    from unbraid.model import LIKELIHOODS

    cites, found = lines()["likelihood"], {}
    for name, make in LIKELIHOODS.items():
        low, high = getattr(make, "low", 0), getattr(make, "high", 0)
        facts = {"pixels": f"[{low:g}, {high:g}]" if abs(low) < 1e300 else "any number"}
        found[name] = explain("likelihood", name, make, cite=cites[name],
                              shared=SHARED["likelihood"], facts=facts, table="likelihood")  # fmt: skip
    return found


def _nets() -> dict[str, Entry]:
    from unbraid.model import NETS
    from unbraid.model.infogan import GAN_NETS

    cites, found = lines()["nets"], {}
    for name, make in {**NETS, **GAN_NETS}.items():
        doc = frozen_as(name, make) if is_dataclass(make) else None
        found[name] = explain(
            "net", name, make, cite=cites[name], skip=BUILT, shared=SHARED["net"], doc=doc, table="nets"
        )
    return found


def frozen_as(name: str, net: Any) -> str:
    """What a preset is: whose net, the form it is built by, in the words of its class, and the numbers it is frozen at."""
    whose = FROZEN.get(name.removesuffix("_printed"), "A preset")
    whose += "; batch norm after the activation, as the table prints it" if name.endswith("_printed") else ""
    first = (type(net).__doc__ or "").split("\n\n")[0].strip()
    numbers = [f"{f.name} {_plain(getattr(net, f.name))}" for f in fields(net) if getattr(net, f.name) != f.default]
    return f"{whose}.\n\nFrozen at {', '.join(numbers)}. {first}"


def _plain(value: Any) -> str:
    return value.__name__ if callable(value) else toml(value)


def _metrics() -> dict[str, Entry]:
    from unbraid.metrics import METRICS

    cites, found = lines()["metric"], {}
    for name, metric in METRICS.items():
        low, high = metric.span
        chance = "depends on the number of factors" if callable(metric.chance) else metric.chance
        facts = {
            "range": f"{low:g} to {high:g}, {'more' if metric.direction == 'up' else 'less'} is better",
            "chance": "none stated" if chance is None else f"{chance}",
            "needs": metric.needs,
            "protocols": ", ".join(metric.protocols),
            "lowered by": ", ".join(metric.lowered),
            "call": CALLS.get(metric.needs, "unbraid score RUN --metrics {name}").format(name=name),
            "in Python": f"{name}({TAKEN.get(metric.needs, 'codes')}) of unbraid.metrics",
        }
        found[name] = explain("metric", name, metric.call, cite=cites[name], shared=SHARED["metric"],
                              skip=("codes", "factors", "runs", "images", "reconstructions"), facts=facts)  # fmt: skip
    return found


def _schedules() -> dict[str, Entry]:
    from unbraid.ground.papers import papers_in
    from unbraid.ground.schedule import SCHEDULES

    return {
        name: explain(
            "schedule", name, made, shared=SHARED["schedule"], cite="; ".join(papers_in(made.__doc__)) or "this library"
        )
        for name, made in SCHEDULES.items()
    }


def _data() -> dict[str, Entry]:
    from unbraid.data import DATASETS

    found = {}
    for name, source in DATASETS.items():
        facts = {"status": source.status(), "size": source.size, "factors": source.factors, "get": source.get}
        entry = explain("data", name, source.load, cite=source.cite or "your own data: cite where it is from",
                        shared=SHARED["data"], facts={"what": source.about, **facts}, table="data")  # fmt: skip
        own = {option.name for option in entry.options}
        split = tuple(
            Option(o, default, "", SHARED["data"][o]) for o, default in source.options.items() if o not in own
        )
        found[name] = Entry(**{**vars(entry), "options": (*entry.options, *split)})
    return found


def _estimators() -> dict[str, Entry]:
    from unbraid.terms.bank import BankSpec
    from unbraid.terms.estimators import WEIGHTS

    cites = lines()["estimator"]
    found = {
        n: explain("estimator", n, w, cite=cites[n], skip=("b", "n"), facts=_estimator(n)) for n, w in WEIGHTS.items()
    }
    found["memory_bank"] = explain("estimator", "memory_bank", BankSpec, cite=cites["memory_bank"], skip=("name",),
                                   shared=SHARED["estimator"], facts=_estimator("memory_bank(1024)"))  # fmt: skip
    return found


def _estimator(name: str) -> dict[str, str]:
    """How a recipe names it."""
    return {"call": f'objective.estimator = "{name}"'}


def _terms() -> dict[str, Entry]:
    from unbraid.ground.papers import papers_in
    from unbraid.terms import TERMS

    found = {}
    for key, term in TERMS.items():
        doc = term.about or (term.call.__doc__ if term.call else "") or ""
        facts = {
            "part of": term.under,
            "priced": PRICED.get(term.per, ""),
            "unit": "nats" if term.estimates_kl or key in ("reconstruction", "entropy", "evidence@iwae") else "its own",
            "needs": ", ".join([*term.needs, *([f"critic {term.critic.name}"] if term.critic else [])]),
        }
        found[key] = Entry("term", key, read(doc), (), "; ".join(papers_in(doc)) or "this library", facts)
    return found


def _fields() -> dict[str, Entry]:
    from unbraid.runs.recipe import Budget, Recipe

    found = {}
    for prefix, record in (("", Recipe), ("budget.", Budget)):
        said = read(record.__doc__, record.model_fields).options
        for name, known in record.model_fields.items():
            default = Option(name, NEEDED if known.is_required() else known.default, takes(known.annotation))
            plain = "a table of fields" if name == "budget" else default.shown
            doc = Doc(f"{said[name][:1].upper()}{said[name][1:]}")
            facts = {"default": plain, "takes": default.takes}
            found[f"{prefix}{name}"] = Entry("field", f"{prefix}{name}", doc, (), "this library", facts)
    return found


KINDS: dict[str, Kind] = {
    "fields": Kind("field", "what a recipe holds; --set FIELD=VALUE changes one", _fields),
    "data": Kind("data", "what can be learned from; [data] in a recipe", _data),
    "nets": Kind("net", "encoder and decoder; [nets] in a recipe", _nets),
    "likelihoods": Kind("likelihood", "what the decoder's output means; [likelihood]", _likelihoods),
    "posteriors": Kind("posterior", "families of q(z|x); [posterior]", _posteriors),
    "priors": Kind("prior", "densities on the latent tree; [prior]", _priors),
    "objectives": Kind("objective", "what training pays for; [objective]", _objectives),
    "terms": Kind("term", "what a row may price; prices of objective 'row'", _terms),
    "estimators": Kind("estimator", "what stands for q(z) in mi, tc and dw", _estimators),
    "schedules": Kind("schedule", "prices and rates that change with the step", _schedules),
    "metrics": Kind("metric", "what codes are scored by; 'unbraid score'", _metrics),
}
