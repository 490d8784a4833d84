"""The pages of the documentation: every command exists as it is written, every recipe is one, tutorials and guides run."""

from __future__ import annotations

import ast
import json
import re
import shlex
import sys
import tomllib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
import typer
from PIL import Image

from tests.doc_pages import (
    NOT_RUN,
    PAGES_NOT_RUN,
    command_lines,
    read_blocks,
    reason_not_run,
    run_page,
    shown_commands,
    strip_comment,
)
from unbraid.runs.recipe import Recipe

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted([*DOCS.glob("*.md"), *DOCS.glob("tutorials/*.md"), ROOT / "README.md"])
OTHER_PAGES = sorted(
    [ROOT / "CONTRIBUTING.md", *DOCS.glob("results/**/*.md")]
)  # they say commands, and have no blocks to run
COMMANDS = sorted({(page, command) for page in [*PAGES, *OTHER_PAGES] for _, command in shown_commands(page)}, key=str)
QUICK_TUTORIALS = ("own_codes",)
LONG_TUTORIALS = {  # pages that train for minutes: what the test makes shorter, and nothing else
    "discover_factors": {"--minutes 0.5": "--minutes 0.05 --workers 1", "--more 0.3": "--more 0.05 --workers 1"},
    "first_model": {},
    "ledger_and_audit": {},
    "own_images": {},
    "latent_tree": {},
    "sweep": {},
    "which_objective": {"seeds = [0]": 'seeds = [0]\n[set]\n"budget.steps" = 30'},
}
GUIDES: dict[str, dict[str, str]] = {  # the same of pages that are no tutorials
    **{
        page: {}
        for page in (
            "recipes",
            "pretrained",
            "likelihoods",
            "posteriors",
            "latent",
            "data",
            "report",
            "metrics",
            "studio",
            "install",
            "troubleshooting",
            "weak_supervision",
        )
    },
    "comparing": {"train beta_tcvae_sprites32": "train beta_tcvae_sprites32 --set budget.steps=4 --set nets.name=mlp"},
    "sweeps": {
        "seeds = 5": "seeds = 2",
        "2000": "4",
        "[1, 2, 4, 8]": "[1, 4]",
        '["mig", "dci", "factor_vae"]': '["mig"]',
    },
    "studies": {"study pinwheel": "study pinwheel --scale tiny"},
    "theory": {},
}
TESTED_ELSEWHERE = {
    "extending": "test_extending.py",
    "tools": "test_tools_page.py",
    "README": "test_readme.py",
    "gallery": "test_gallery.py",
}


def page_name(path: Path) -> str:
    """A page by its name."""
    return path.stem


def test_there_are_commands_to_check():
    assert len(COMMANDS) > 100
    assert {page.stem for page, _ in COMMANDS} >= {"README", "sweep", "first_model", "report", "studies"}


def unknown_words(command: str) -> list[str]:
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
    assert not unknown_words(command), page.name


def test_a_command_that_is_none_is_found():
    assert unknown_words("unbraid train x --nonsense 3") == ["--nonsense"]
    assert unknown_words("unbraid nosuch") == ["nosuch"]
    assert unknown_words("unbraid data shw x") == ["shw"]
    assert not unknown_words("unbraid data show sprites32 --out x.png")


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_every_table_of_a_page_can_be_read(page):
    """TOML is TOML; what has the fields of a recipe is a recipe, up to the data it leaves out."""
    for block in read_blocks(page):
        if block.language != "toml":
            continue
        table = tomllib.loads(block.code)
        if set(table) <= set(Recipe.model_fields):
            Recipe.from_dict({"data": "sprites32", **table}, f"{page.name}, line {block.line}")


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_every_line_of_python_is_python(page):
    for block in read_blocks(page):
        if block.language == "python":
            ast.parse(block.code)


@pytest.fixture
def work_dir(tmp_path, monkeypatch):
    """A working directory with float32, as users have it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path)])
    torch.set_default_dtype(torch.float32)
    return tmp_path


@pytest.mark.parametrize("tutorial", QUICK_TUTORIALS)
def test_a_short_tutorial_runs_as_printed(tutorial, work_dir):
    run_page(DOCS / "tutorials" / f"{tutorial}.md", work_dir, in_process=True)


@pytest.mark.slow
@pytest.mark.parametrize("tutorial", LONG_TUTORIALS)
def test_a_long_tutorial_runs(tutorial, work_dir):
    page = DOCS / "tutorials" / f"{tutorial}.md"
    names = run_page(page, work_dir, replacements=LONG_TUTORIALS[tutorial])
    if tutorial == "first_model":
        from unbraid import score

        scores = score(work_dir / "runs" / "first", metrics="mig,dci,factor_vae", save=False, quiet=True)
        assert_printed_close(
            {name: s.value for name, s in scores.items()}, page, r"^ (\w+) +(\d\.\d{3})\b", absolute=0.15
        )
    if tutorial == "ledger_and_audit":
        assert_printed_close(names["nats"], page, r"^  (\S+) +(\d+\.\d{3}) ±", absolute=0.3, relative=0.25)
    if tutorial == "latent_tree":
        assert names["known"] > 0.5, "the discrete leaf takes its factor"


def assert_printed_close(
    found: dict[str, float], page: Path, pattern: str, absolute: float, relative: float = 0.0
) -> None:
    """What a page prints is what comes out, but for what processor, threads and torch do to the digits."""
    printed = {name: float(value) for name, value in re.findall(pattern, page.read_text(), re.MULTILINE)}
    assert len(printed) >= 3
    for name, value in printed.items():
        assert abs(found[name] - value) <= max(absolute, relative * value), (
            f"{page.name} prints {name} {value}: {found[name]}"
        )


def test_every_tutorial_is_run():
    assert {page.stem for page in DOCS.glob("tutorials/*.md")} == {*QUICK_TUTORIALS, *LONG_TUTORIALS}


SWEEP_TOML = """name = "{name}"
recipe = "beta_tcvae_sprites32"
seeds = 3
[set]
"budget.steps" = 4
"nets.name" = "mlp"
[score]
metrics = ["mig", "dci"]
[[list]]
objective.name = "beta_vae"
objective.beta = 1.0
[[list]]
objective.name = "beta_vae"
objective.beta = 4.0
[[list]]
objective.name = "beta_tcvae"
objective.beta = 1.0
[[list]]
objective.name = "beta_tcvae"
objective.beta = {other}
"""


@pytest.fixture
def guide_dir(work_dir, request, monkeypatch):
    """Runs that guides speak of, two steps long: runs/one, encoded and scored, runs/two; small sweeps; Hugging Face's package."""
    from unbraid import encode, fit, score, sweep

    recipe = Recipe(data="sprites32", latent=6, nets="mlp", budget={"steps": 2, "threads": 1})
    run = fit(recipe, work_dir / "runs" / "one", quiet=True)
    encode(run, quiet=True)
    score(run, metrics="mig")
    fit(recipe.set("seed=1"), work_dir / "runs" / "two", quiet=True)
    if request.node.callspec.params["guide"] == "comparing":
        (work_dir / "beta.toml").write_text(SWEEP_TOML.format(name="beta", other=4.0))
        for name, other in (("gamma", 8.0), ("tradeoff", 6.0)):
            (work_dir / f"{name}.toml").write_text(SWEEP_TOML.format(name=name, other=other))
            sweep(work_dir / f"{name}.toml", work_dir / "runs" / name, workers=1)
    rows = [{"image": Image.fromarray(np.full((28, 28), n, np.uint8)), "label": n % 10} for n in range(40)]
    monkeypatch.setitem(sys.modules, "datasets", SimpleNamespace(load_dataset=lambda name, split: rows))
    return work_dir


def readme_commands() -> list[str]:
    """What tests/end_to_end/test_readme.py runs."""
    found = read_blocks(ROOT / "README.md")
    ran = next(
        b for b in found if (ROOT / "README.md").read_text().splitlines()[b.line - 2].startswith("<!-- commands:")
    )
    return [
        *map(strip_comment, command_lines(ran)),
        *(f"Python in line {b.line}" for b in found if b.language == "python"),
    ]


@pytest.mark.slow
@pytest.mark.parametrize("guide", GUIDES)
def test_a_guide_runs_as_printed(guide, guide_dir):
    run_page(DOCS / f"{guide}.md", guide_dir, replacements=GUIDES[guide], in_process=True)


def test_every_command_that_a_page_shows_is_run_or_says_why_not():
    """A page whose blocks hold Python or commands is run by a test, or each of its commands stands in `NOT_RUN`."""
    run = {*QUICK_TUTORIALS, *LONG_TUTORIALS, *GUIDES, *TESTED_ELSEWHERE, *PAGES_NOT_RUN}
    for page in [*PAGES, *OTHER_PAGES]:
        left = [strip_comment(line) for block in read_blocks(page) for line in command_lines(block)]
        left += [f"Python in line {b.line}" for b in read_blocks(page) if b.language in ("python", "py") and not b.file]
        if page.stem == "README":  # of its blocks one is run
            left = [c for c in left if c not in readme_commands()]
        if page.stem not in run - {"README"}:
            assert not (forgotten := [c for c in left if not reason_not_run(c)]), (
                f"{page.name}: {forgotten} is run by no test"
            )
        assert not [b.line for b in read_blocks(page) if b.language == "py"], (
            f"{page.name}: python that is run is ```python"
        )
    assert all((ROOT / "tests" / "end_to_end" / file).is_file() for file in TESTED_ELSEWHERE.values())


def test_what_is_not_run_is_shown_somewhere_and_exists():
    shown = [
        strip_comment(line)
        for page in [*PAGES, *OTHER_PAGES]
        for block in read_blocks(page)
        for line in command_lines(block)
    ]
    shown += [
        c for page in [*PAGES, *OTHER_PAGES] for c in re.findall(r"`((?:make|python) [a-z][^`\n]*)`", page.read_text())
    ]
    for pattern in NOT_RUN:
        assert any(re.match(pattern, command) for command in shown), f"no page shows {pattern!r} any more"
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for command in shown:
        if command.startswith("make ") and "[" not in command:
            assert {w for w in shlex.split(command)[1:] if "=" not in w} <= targets, command
        if script := re.match(r"python (?:-m )?(\S+\.py)", command):
            assert (ROOT / script[1]).is_file(), command


def test_a_command_that_nobody_runs_is_found(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(
        "# A page\n\n    unbraid train x \\\n        --out y    # words\n\n```\nunbraid study    what there is\n```\n"
    )
    assert [strip_comment(line) for b in read_blocks(page) for line in command_lines(b)] == [
        "unbraid train x --out y",
        "unbraid study",
    ]
    assert not reason_not_run("unbraid train x")
    assert reason_not_run("unbraid studio runs")


def test_the_notebooks_are_those_of_the_pages():
    sys.path.insert(0, str(DOCS / "make"))
    try:
        import notebooks
    finally:
        sys.path.pop(0)
    for page in notebooks.PAGES:
        made = notebooks.make_notebook(DOCS / "tutorials" / f"{page}.md")
        stored = json.loads((DOCS / "notebooks" / f"{page}.ipynb").read_text())
        texts = "".join("".join(cell["source"]) for cell in made["cells"])
        assert not re.search(r"\{term\}|\.\./", texts), f"{page} needs other files of the documentation"
        assert stored == made, "run 'make docs'"
        assert sum(cell["cell_type"] == "code" for cell in made["cells"]) >= 2


@pytest.mark.slow
@pytest.mark.parametrize("page", sorted({*QUICK_TUTORIALS, *LONG_TUTORIALS}))
def test_a_notebook_runs(page, work_dir, monkeypatch):
    nbclient, nbformat = pytest.importorskip("nbclient"), pytest.importorskip("nbformat")
    door = work_dir / "bin" / "unbraid"
    door.parent.mkdir()
    door.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m unbraid "$@"\n')
    door.chmod(0o755)
    monkeypatch.setenv("PATH", str(door.parent), prepend=":")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    book = nbformat.read(DOCS / "notebooks" / f"{page}.ipynb", as_version=4)
    for old, new in LONG_TUTORIALS.get(page, {}).items():
        assert any(old in cell.source for cell in book.cells), f"no cell has {old!r} any more"
        for cell in book.cells:
            cell.source = cell.source.replace(old, new)
    nbclient.NotebookClient(
        book, timeout=600, kernel_name="python3", resources={"metadata": {"path": work_dir}}
    ).execute()
    outputs = [cell.outputs for cell in book.cells if cell.cell_type == "code" and "# error:" not in cell.source]
    said = json.dumps(outputs)
    assert "Traceback" not in said
    assert "error:" not in said


def test_every_page_stands_in_the_contents():
    """A page that index.md does not name is a warning of Sphinx, and so an error of `make docs`."""
    front = (DOCS / "index.md").read_text()
    named = {line for b in front.split("```{toctree}")[1:] for line in b.split("```")[0].splitlines()[3:] if line}
    pages = {str(p.relative_to(DOCS).with_suffix("")) for p in PAGES if p.is_relative_to(DOCS)} - {"index"}
    made = {"reference/index", "reference/commands", "api/index", "results/index"}
    assert named - made == pages
