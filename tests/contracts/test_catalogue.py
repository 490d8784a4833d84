"""Every name of every dict says what it is, what it takes and where it comes from; terminal and site say the same."""

from __future__ import annotations

import re

import pytest
from typer.testing import CliRunner

from unbraid.catalogue import (
    KINDS,
    find_by_name,
    find_entry,
    parse_docstring,
    render_entry,
    render_entry_list,
    render_entry_markdown,
)
from unbraid.catalogue.docstrings import first_sentence
from unbraid.cli import app
from unbraid.core.papers import PAPERS
from unbraid.runs.building import supervision_options

ENTRIES = {(kind, name): entry for kind, known in KINDS.items() for name, entry in known.entries().items()}
WITH_FORMULA = ("objectives", "priors", "posteriors", "likelihoods")
NO_FORMULA = {"discrete", "categorical"}  # said in words: a relaxed density, a softmax


def supervision_fields() -> set[str]:
    tables = {"": "Supervision", "pairs.": "Pair", "labels.": "Label", "given.": "Given"}
    records = {prefix: getattr(supervision_options, f"{name}Options") for prefix, name in tables.items()}
    return {f"supervision.{prefix}{name}" for prefix, record in records.items() for name in record.__annotations__}


def registered_names() -> dict[str, set[str]]:
    """The names that the library itself looks up."""
    from unbraid.data import DATASETS
    from unbraid.export import EXPORTS
    from unbraid.figures.registry import FIGURES
    from unbraid.metrics import METRICS
    from unbraid.model import LIKELIHOODS, NETS, POSTERIORS
    from unbraid.model.infogan import GAN_NETS
    from unbraid.objectives import OBJECTIVES
    from unbraid.prices import SCHEDULES
    from unbraid.priors import PRIORS
    from unbraid.runs.recipe import Budget, Recipe
    from unbraid.terms import ESTIMATORS, TERMS

    return {
        "data": set(DATASETS), "nets": {*NETS, *GAN_NETS}, "likelihoods": set(LIKELIHOODS), "posteriors": set(POSTERIORS),
        "priors": set(PRIORS), "objectives": set(OBJECTIVES), "terms": set(TERMS), "schedules": set(SCHEDULES),
        "fields": {*Recipe.model_fields, *(f"budget.{name}" for name in Budget.model_fields), *supervision_fields()},
        "estimators": {*ESTIMATORS, "memory_bank"}, "metrics": set(METRICS), "figures": set(FIGURES), "exports": set(EXPORTS),
    }  # fmt: skip


def test_the_catalogue_holds_every_name_of_every_dict():
    assert {kind: set(known.entries()) for kind, known in KINDS.items()} == registered_names()


@pytest.mark.parametrize(("kind", "name"), ENTRIES)
def test_a_name_says_what_it_is_what_it_takes_and_its_paper(kind, name):
    entry = ENTRIES[kind, name]
    assert len(first_sentence(entry.doc.summary)) >= 8
    assert entry.papers or "your own data" in entry.cite
    assert set(entry.papers) <= set(PAPERS)
    silent = [o.name for o in entry.options if not o.about]
    assert not silent, f"nothing is said of {silent}: a line 'NAME: words' in the docstring does"


@pytest.mark.parametrize(("kind", "name"), [k for k in ENTRIES if k[0] in WITH_FORMULA and k[1] not in NO_FORMULA])
def test_it_has_a_formula(kind, name):
    assert re.search(r"[=∝+−]", ENTRIES[kind, name].doc.formula), "set its paper to the right after four spaces"


@pytest.mark.parametrize("name", KINDS["objectives"].entries())
def test_an_objective_says_when_to_use_it_and_when_not_and_its_options_are_those_of_the_code(name):
    import inspect

    from unbraid.objectives import OBJECTIVES
    from unbraid.runs.recipe_fields import READINGS

    entry = ENTRIES["objectives", name]
    assert entry.doc.use.endswith(".")
    assert entry.doc.avoid.endswith(".")
    defaults = {p.name: p.default for p in inspect.signature(OBJECTIVES[name]).parameters.values()}
    defaults |= {each.key: each.new for each in READINGS if each.key in defaults}  # what a new recipe gets
    assert {o.name: o.default for o in entry.options} == defaults
    assert all(o.about for o in entry.options)


@pytest.mark.parametrize(("kind", "name"), ENTRIES)
def test_the_text_fits_a_terminal_and_the_site_has_the_same_words(kind, name):
    entry = ENTRIES[kind, name]
    shown, page = render_entry(entry), render_entry_markdown(entry)
    assert all(len(line) <= 80 for line in shown.splitlines())
    plain = " ".join(re.sub(r"\\([^\s])", r"\1", page).split())
    for words in (entry.doc.summary, *entry.doc.text, entry.cite, *(o.about for o in entry.options)):
        assert " ".join(words.split()) in plain
    assert all(o.name in shown for o in entry.options)


@pytest.mark.parametrize("kind", KINDS)
def test_the_list_of_a_kind_fits_and_names_all(kind):
    done = CliRunner().invoke(app, ["list", kind])
    assert done.exit_code == 0
    assert done.output.startswith(render_entry_list(KINDS[kind].entries()))
    assert all(len(line) <= 80 for line in done.output.splitlines())


def test_the_verbs_answer_and_a_wrong_name_is_named():
    from unbraid.core.errors import UnbraidError

    kinds = CliRunner().invoke(app, ["list"]).output
    assert all(kind in kinds for kind in KINDS)
    shown = CliRunner().invoke(app, ["show", "objective", "hfvae"]).output
    assert shown == render_entry(find_entry("objectives", "hfvae")) + "\n"
    for said in (
        "γ Σ_g TC within g",
        'estimator = "stratified"',
        "beta = 4.0",
        "Esmaeili et al. 2018, Eq. 9",
        "AISTATS",
    ):
        assert said in shown
    with pytest.raises(UnbraidError, match="unknown objective 'hvae'. Did you mean 'hfvae'"):
        find_entry("objective", "hvae")
    with pytest.raises(UnbraidError, match="Did you mean 'priors'"):
        find_entry("prirs", "isa")


def test_a_name_that_one_kind_has_needs_no_kind_and_another_lists_its_kinds():
    from unbraid.core.errors import UnbraidError

    assert find_by_name("hfvae") is not None
    assert CliRunner().invoke(app, ["show", "hfvae"]).output == render_entry(find_entry("objective", "hfvae")) + "\n"
    assert 'name = "beta_tcvae"' in CliRunner().invoke(app, ["show", "beta_tcvae_sprites32"]).output
    assert CliRunner().invoke(app, ["show", "recipe", "vae_sprites32"]).output.startswith("name")
    with pytest.raises(
        UnbraidError, match=r"several kinds have the name 'factor_vae': found objectives, metrics.*show metric"
    ):
        find_by_name("factor_vae")
    with pytest.raises(UnbraidError, match="unknown name 'hfva'. Did you mean 'hfvae'"):
        find_by_name("hfva")


def test_recipes_and_studies_are_listed_like_parts():
    from unbraid.runs.recipes import RECIPES
    from unbraid.studies import STUDIES

    recipes, studies = (CliRunner().invoke(app, ["list", kind]).output for kind in ("recipes", "studies"))
    assert recipes == CliRunner().invoke(app, ["recipes"]).output
    assert all(name in recipes for name in RECIPES)
    assert all(name in studies for name in STUDIES)
    assert "studies" in CliRunner().invoke(app, ["list"]).output


@pytest.mark.parametrize(("kind", "name"), [key for key, entry in ENTRIES.items() if entry.toml])
def test_recipes_shown_are_recipes(kind, name):
    """What stands under 'in a recipe' is read as it stands, with all that is needed, and built."""
    import tomllib

    from unbraid.latent import Latent
    from unbraid.model import LIKELIHOODS
    from unbraid.objectives import build
    from unbraid.priors import PRIORS
    from unbraid.runs.recipe import Recipe

    table = tomllib.loads(ENTRIES[kind, name].toml)
    recipe = Recipe.from_dict({"data": "sprites32", **table}, "as shown")
    shown = dict(next(iter(table.values())))
    needed = {o.name for o in ENTRIES[kind, name].options if o.default_text == "needed"}
    assert needed <= set(shown)
    if kind == "objectives":
        assert build(shown).name == name
    if kind == "priors":
        trees = {
            "conditional": {"sex": "onehot(2)", "beard": "binary"},
            "discrete": {"kind": "onehot(3)"},
            "mixture": 2,
        }
        tree = Latent.of(trees.get(name, {"a": 2, "b": 2}))
        assert (
            name == "vamp" or PRIORS[shown.pop("name")](tree, **shown).finest_cut
        )  # vamp is built with the data's shape
    if kind == "likelihoods":
        assert LIKELIHOODS[shown.pop("name")](**shown)
    assert recipe.hash


def test_metrics_and_estimators_say_how_they_are_called():
    for (kind, name), entry in ENTRIES.items():
        if kind in ("metrics", "estimators"):
            assert entry.facts["call"]
        if kind == "metrics":
            import unbraid.metrics

            assert callable(getattr(unbraid.metrics, entry.facts["in Python"].split("(")[0])), name


def test_terms_of_the_decomposition_name_its_papers_and_presets_their_tables():
    assert {"Kim & Mnih 2018", "Chen et al. 2018", "Esmaeili et al. 2018"} <= set(ENTRIES["terms", "mi"].papers)
    assert {"Kim & Mnih 2018", "Chen et al. 2018", "Watanabe 1960"} <= set(ENTRIES["terms", "tc_q"].papers)
    assert {"Chen et al. 2018", "Esmaeili et al. 2018"} <= set(ENTRIES["terms", "dw"].papers)
    from unbraid.catalogue.common_options import PRESET_SOURCES

    frozen = {
        name for (kind, name), entry in ENTRIES.items() if kind == "nets" and "Fixed at" in " ".join(entry.doc.text)
    }
    assert {name.removesuffix("_printed") for name in frozen} == set(PRESET_SOURCES)


def test_every_shared_description_of_an_option_is_shown_by_a_part():
    from unbraid.catalogue.common_options import COMMON_OPTIONS

    kinds = {known.singular: kind for kind, known in KINDS.items()}
    for singular, descriptions in COMMON_OPTIONS.items():
        shown = {o.about for (kind, _), entry in ENTRIES.items() if kind == kinds[singular] for o in entry.options}
        unused = [option for option, text in descriptions.items() if text not in shown]
        assert not unused, f"docstrings describe these options of every {singular}: {unused}"


def test_a_docstring_falls_into_its_parts():
    doc = parse_docstring(
        """Gap.

        G = a − b        Chen et al. 2018

        More. bins: how many;
        of equal width. `seed`: of draws.
        Use: always. Not: never.

        >>> 1
        1
        """,
        ["bins", "seed"],
    )
    assert (doc.summary, doc.formula, doc.text) == ("Gap.", "G = a − b", ("More.",))
    assert doc.options == {"bins": "how many; of equal width.", "seed": "of draws."}
    assert (doc.use, doc.avoid, doc.example) == ("always.", "never.", ">>> 1\n1")


def test_a_symbol_at_the_start_of_a_sentence_keeps_its_case():
    sentences = {name: find_entry("field", name).doc.summary for name in ("budget.betas", "likelihood", "data")}
    assert sentences["budget.betas"].startswith("β₁ and β₂ of Adam")
    assert sentences["likelihood"].startswith("p(x|z)")
    assert sentences["data"].startswith("A data set")
