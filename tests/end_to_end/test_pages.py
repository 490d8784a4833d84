"""The pages of the documentation: every command exists as it is written, every recipe is one, tutorials and guides run."""

from __future__ import annotations

import ast
import json
import re
import shlex
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import torch
import typer

from tests.pages import blocks, commands, run_page
from unbraid.runs.recipe import Recipe

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted([*DOCS.glob("*.md"), *DOCS.glob("tutorials/*.md"), ROOT / "README.md"])
COMMANDS = sorted({(page, command) for page in PAGES for _, command in commands(page)}, key=str)
QUICK = ("own_codes",)
LONG = {  # pages that train for minutes: what the test makes shorter, and nothing else
    "first_model": {},
    "ledger_and_audit": {},
    "own_images": {},
    "latent_tree": {},
    "sweep": {},
    "which_objective": {"seeds = [0]": 'seeds = [0]\n[set]\n"budget.steps" = 30'},
}
GUIDES = ("recipes", "likelihoods", "posteriors", "latent", "data", "comparing", "report", "metrics")


def name(path: Path) -> str:
    """A page by its name."""
    return path.stem


def test_there_are_commands_to_check():
    assert len(COMMANDS) > 100
    assert {page.stem for page, _ in COMMANDS} >= {"README", "sweep", "first_model", "report", "studies"}


def wrong(command: str) -> list[str]:
    """The words of a command that are no verb, or no option of its verb; nothing is run."""
    from unbraid.cli import app

    found: Any = typer.main.get_command(app)
    words = shlex.split(command)[1:]
    while words and words[0] in getattr(found, "commands", {}):
        found = found.commands[words.pop(0)]
    if hasattr(found, "commands") and not found.invoke_without_command and words and not words[0].startswith("-"):
        return [words[0]]
    known = {"--help"} | {option for p in found.params for option in (*p.opts, *p.secondary_opts)}
    return [word for word in words if re.match(r"--?[a-z]", word) and word.split("=")[0] not in known]


@pytest.mark.parametrize(("page", "command"), COMMANDS, ids=[f"{p.stem}: {c}" for p, c in COMMANDS])
def test_every_command_on_every_page_is_one(page, command):
    assert not wrong(command), page.name


def test_a_command_that_is_none_is_found():
    assert wrong("unbraid train x --nonsense 3") == ["--nonsense"]
    assert wrong("unbraid nosuch") == ["nosuch"]
    assert wrong("unbraid data shw x") == ["shw"]
    assert not wrong("unbraid data show sprites32 --out x.png")


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_table_of_a_page_can_be_read(page):
    """TOML is TOML; what has the fields of a recipe is a recipe, up to the data it leaves out."""
    for block in blocks(page):
        if block.language != "toml":
            continue
        table = tomllib.loads(block.code)
        if set(table) <= set(Recipe.model_fields):
            Recipe.of({"data": "sprites32", **table}, f"{page.name}, line {block.line}")


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_line_of_python_is_python(page):
    for block in blocks(page):
        if block.language == "python":
            ast.parse(block.code)


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A working directory with float32, as users have it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path)])
    torch.set_default_dtype(torch.float32)
    return tmp_path


@pytest.mark.parametrize("tutorial", QUICK)
def test_a_short_tutorial_runs_as_printed(tutorial, place):
    run_page(DOCS / "tutorials" / f"{tutorial}.md", place, inside=True)


@pytest.mark.slow
@pytest.mark.parametrize("tutorial", LONG)
def test_a_long_tutorial_runs(tutorial, place):
    run_page(DOCS / "tutorials" / f"{tutorial}.md", place, instead=LONG[tutorial])


def test_every_tutorial_is_run():
    assert {page.stem for page in DOCS.glob("tutorials/*.md")} == {*QUICK, *LONG}


@pytest.fixture
def workplace(place):
    """The runs that guides speak of, trained for two steps: runs/one, encoded and scored, and runs/two."""
    from unbraid import encode, fit, score

    recipe = Recipe(data="sprites32", latent=6, nets="mlp", budget={"steps": 2, "threads": 1})
    run = fit(recipe, place / "runs" / "one", quiet=True)
    encode(run, quiet=True)
    score(run, metrics="mig")
    fit(recipe.set("seed=1"), place / "runs" / "two", quiet=True)
    return place


@pytest.mark.slow
@pytest.mark.parametrize("guide", GUIDES)
def test_a_guide_runs_as_printed(guide, workplace):
    run_page(DOCS / f"{guide}.md", workplace, inside=True)


def test_pages_with_python_or_commands_are_all_run():
    """A page whose blocks are to be run is on one of the lists, or has a test of its own."""
    # index: the README's first command; cluster: a batch script for Ray, which tests/end_to_end/test_ray.py stands for
    elsewhere = {"extending", "tools", "README", "index", "cluster"}
    shown = {p.stem for p in PAGES if any(b.language in ("python", "bash") and not b.file for b in blocks(p))}
    assert shown <= {*QUICK, *LONG, *GUIDES, *elsewhere}


def test_the_notebooks_are_those_of_the_pages():
    sys.path.insert(0, str(DOCS / "make"))
    try:
        import notebooks
    finally:
        sys.path.pop(0)
    for page in notebooks.PAGES:
        made = notebooks.notebook(DOCS / "tutorials" / f"{page}.md")
        stored = json.loads((DOCS / "notebooks" / f"{page}.ipynb").read_text())
        assert stored == made, "run 'make docs'"
        assert sum(cell["cell_type"] == "code" for cell in made["cells"]) >= 5


@pytest.mark.slow
@pytest.mark.parametrize("page", ["own_codes", "ledger_and_audit"])
def test_a_notebook_runs(page, place, monkeypatch):
    nbclient, nbformat = pytest.importorskip("nbclient"), pytest.importorskip("nbformat")
    door = place / "bin" / "unbraid"
    door.parent.mkdir()
    door.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m unbraid "$@"\n')
    door.chmod(0o755)
    monkeypatch.setenv("PATH", str(door.parent), prepend=":")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    book = nbformat.read(DOCS / "notebooks" / f"{page}.ipynb", as_version=4)
    nbclient.NotebookClient(book, timeout=600, kernel_name="python3", resources={"metadata": {"path": place}}).execute()
    said = json.dumps(book)
    assert "Traceback" not in said
    assert "error:" not in said


def test_every_page_stands_in_the_contents():
    """A page that index.md does not name is a warning of Sphinx, and so an error of `make docs`."""
    front = (DOCS / "index.md").read_text()
    named = {line for b in front.split("```{toctree}")[1:] for line in b.split("```")[0].splitlines()[3:] if line}
    pages = {str(p.relative_to(DOCS).with_suffix("")) for p in PAGES if p.is_relative_to(DOCS)} - {"index"}
    made = {"reference/index", "api/index", "results/index"}
    assert named - made == pages
