"""The API reference contains every public name, and every public name has an example that doctest runs."""

from __future__ import annotations

import importlib
import inspect
import re
import sys
import tomllib
from pathlib import Path

import pytest

import unbraid
from unbraid.prices import parse_price

sys.path.insert(0, str(Path(__file__).parents[2] / "docs" / "make"))
import api

PACKAGES = [
    f"unbraid.{package}"
    for package in (
        "data",
        "metrics",
        "priors",
        "model",
        "terms",
        "objectives",
        "comparing",
        "sweeps",
        "studies",
        "discovery",
        "catalogue",
    )
]
PUBLIC = {
    f"{package}.{name}": getattr(importlib.import_module(package), name)
    for package in ["unbraid", *PACKAGES]
    for name in importlib.import_module(package).__all__
}


@pytest.mark.parametrize(
    "name", [n for n, value in PUBLIC.items() if inspect.isclass(value) or inspect.isfunction(value)]
)
def test_a_public_name_says_what_it_is_and_shows_an_example(name):
    doc = inspect.getdoc(PUBLIC[name]) or ""
    assert len(doc.split("\n")[0]) > 10
    assert ">>> " in doc, "an example, which doctest runs"
    assert "+SKIP" not in doc, "an example that runs"


DOCUMENTED = {
    f"{where}.{name}": value for page in ("runs", "figures", "export") for where, name, value in api.names_on_page(page)
}
NO_EXAMPLE = {"unbraid.figures.registry.FigureOptions"}  # an argument of draw_figure and write_figure


@pytest.mark.parametrize("name", sorted(set(DOCUMENTED) - NO_EXAMPLE))
def test_names_of_runs_figures_and_export_show_an_example_too(name):
    """In the docstring, where doctest runs it, or in the gallery, whose test runs every line."""
    doc = inspect.getdoc(DOCUMENTED[name]) or ""
    assert ">>> " in doc or api.gallery_example(DOCUMENTED[name])
    assert "+SKIP" not in doc


def test_helpers_stay_out_of_the_reference_and_exist():
    text = "".join(api.name_text(*each) for page in api.PAGES for each in api.names_on_page(page))
    for module, names in api.UNDOCUMENTED_HELPERS.items():
        for name in names:
            assert hasattr(importlib.import_module(module), name), f"{module}.{name}"
            assert not re.search(rf"}} {re.escape(module)}\.{name}\b", text)


def test_every_public_name_is_on_a_page():
    shown = {id(value) for page in api.PAGES for _, _, value in api.names_on_page(page)}
    missing = [name for name, value in PUBLIC.items() if id(value) not in shown and not inspect.ismodule(value)]
    assert not missing


def test_the_pages_of_the_reference_are_made_of_docstrings():
    text = "".join(api.name_text(*each) for each in api.names_on_page("priors"))
    assert '{py:method} log_prob(z: Float[Tensor, "*s d"]' in text.replace("'", '"')
    assert "p(z) = Σ\\_c π\\_c Π\\_d N" in text
    assert ">>> Mixture(Latent.of(2)" in text
    assert "Disentangling disentanglement in variational autoencoders" in text
    assert "{py:function} unbraid.fit(" in api.name_text("unbraid", "fit", unbraid.fit)
    assert set(unbraid.__all__) >= {"fit", "Run"}


def test_parts_of_registries_have_every_parameter_and_lines_for_a_recipe():
    for entry, kind in ((unbraid.objectives.rows.hfvae, "objective"), (unbraid.metrics.mig, "metric")):
        names = inspect.signature(entry).parameters
        text = api.docstring_body(entry)
        assert all(f"| `{name}` |" in text for name in names), kind
    for entry in api.catalogue_entries().values():
        lines = api._recipe_lines(entry)
        assert not re.search("needed|–", lines), entry.name
        table = tomllib.loads(lines)
        if entry.kind == "schedule":
            parse_price(table["beta"])
        assert bool(lines) == (entry.kind != "metric"), entry.name


@pytest.mark.parametrize("page", api.PAGES)
def test_every_public_name_has_a_page_with_typed_parameters(page):
    listed = api.page_text(page)
    for where, name, value in api.names_on_page(page):
        text = api.name_text(where, name, value)
        assert f"]({api.page_slugs()[where, name]}.md)" in listed
        assert text.startswith(f"# {name}\n")
        assert "any value" not in text, "say what is meant in ANY_MEANS"
        assert not re.search(r": Any\b(?! \|)", text.partition("```")[0]), "Any says nothing"
    slugs = [slug.lower() for slug in api.page_slugs().values()]
    assert len(set(slugs)) == len(slugs), "names of files must differ in more than case"
