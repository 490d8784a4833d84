"""The page with the command of every figure: its studies, recipes, nets and figures exist and are complete."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from unbraid.catalogue import find_entry
from unbraid.figures.registry import FIGURES
from unbraid.runs.recipes import RECIPES
from unbraid.studies import STUDIES

PAGE = (Path(__file__).parents[3] / "docs" / "papers.md").read_text()
COMMANDS = [words.split() for words in re.findall(r"`unbraid ([^`]+)`", PAGE)]


def named_in_commands(verb: str) -> set[str]:
    return {words[1] for words in COMMANDS if words[0] == verb and len(words) > 1}


def test_every_study_is_on_the_page_and_every_study_named_there_exists():
    assert named_in_commands("study") == set(STUDIES)


@pytest.mark.parametrize(("verb", "known"), [("train", RECIPES), ("figure", FIGURES)])
def test_recipes_and_pictures_exist(verb, known):
    assert named_in_commands(verb)
    assert named_in_commands(verb) <= set(known)


def test_parts_that_it_shows_exist():
    shown = [words[1:3] for words in COMMANDS if words[0] == "show"]
    assert shown
    for kind, name in shown:
        assert find_entry(kind, name)
    for words in COMMANDS:
        if words[0] == "score" and "--metrics" in words:
            assert find_entry("metric", words[words.index("--metrics") + 1])


@pytest.mark.parametrize(
    ("paper", "figures", "tables"),
    [("HFVAE", 9, 5), ("FactorVAE", 40, 6), ("decomposition", 6, 1), ("DIP-VAE", 12, 6), ("ISA-VAE", 16, 2)],
)
def test_every_numbered_figure_and_table_has_a_line(paper, figures, tables):
    section = next(part for part in PAGE.split("\n## ") if paper in part.splitlines()[0])
    first = [line.split("|")[1] for line in section.splitlines() if line.startswith("|")]
    drawing = {1} if paper == "decomposition" else set()  # a sketch without data
    assert set(range(1, figures + 1)) - drawing <= expand_numbers(first, "Fig")
    assert set(range(1, tables + 1)) <= expand_numbers(first, "Table")


def expand_numbers(cells: list[str], word: str) -> set[int]:
    """The numbers behind 'Figs. 4–7, 23' or 'Tables 1–3, 4–6', up to the next word."""
    found: set[int] = set()
    for cell in cells:
        for match in re.finditer(rf"{word}s?\.? ([\d–, abc]+)", cell):
            for piece in re.findall(r"(\d+)(?:–(\d+))?", match[1]):
                found |= set(range(int(piece[0]), int(piece[1] or piece[0]) + 1))
    return found
