"""The gallery: the script writes its page, it shows every figure of the library, and its code runs."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
import sys
from pathlib import Path

import pytest
import torch

import unbraid.figures
from tests.doc_pages import run_page

DOCS = Path(__file__).parents[2] / "docs"
sys.path.insert(0, str(DOCS / "make"))
import gallery  # noqa: E402

CODE_LINES = "\n".join(picture.code for group in gallery.gallery_items().values() for picture in group)


def figure_functions() -> dict[str, str]:
    """Public functions that return a figure, with their modules."""
    found = {}
    for module in pkgutil.iter_modules(unbraid.figures.__path__):
        imported = importlib.import_module(f"unbraid.figures.{module.name}")
        for name, value in inspect.getmembers(imported, inspect.isfunction):
            if value.__module__ == imported.__name__ and not name.startswith("_") and name != "disable_mathtext":
                found |= {name: module.name} if value.__annotations__.get("return") == "Figure" else {}
    return found


@pytest.mark.parametrize("name", figure_functions())
def test_every_figure_is_in_the_gallery(name):
    module = figure_functions()[name]
    shown = (
        re.search(rf"\b{module}\.{name}\(", CODE_LINES)
        or f'registry.write_figure("{gallery.FIGURE_OF_FUNCTION.get(name, "-")}"' in CODE_LINES
    )
    assert shown, f"docs/make/gallery.py draws no unbraid.figures.{module}.{name}"


def test_the_page_is_what_the_script_writes_and_its_pictures_are_there():
    assert (DOCS / "gallery.md").read_text() == gallery.gallery_page(), "run docs/make/gallery.py"
    for group in gallery.gallery_items().values():
        for picture in group:
            assert (gallery.PICTURES / picture.file).stat().st_size > 1000


@pytest.mark.slow
def test_every_line_draws_and_every_command_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    torch.set_default_dtype(torch.float32)
    gallery.train_runs(tmp_path, steps=6)
    run_page(DOCS / "gallery.md", tmp_path, in_process=True)  # its Python is what the script runs, in the same order
    for group in gallery.gallery_items().values():
        for picture in group:
            assert (tmp_path / picture.file).stat().st_size > 1000
