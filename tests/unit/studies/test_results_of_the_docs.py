"""Every verdict that stands in docs/results is worked out again from its results file, page and front page to the letter."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from unbraid.studies import STUDIES, front, page
from unbraid.studies.results import Results
from unbraid.studies.running import source_digest

RESULTS = Path(__file__).parents[3] / "docs" / "results"
STUDIED = sorted(p.parent.name for p in RESULTS.glob("*/results.json"))


@pytest.mark.parametrize("name", STUDIED or [pytest.param("none", marks=pytest.mark.skip("no results are kept yet"))])
def test_a_kept_page_is_what_its_results_say(name):
    folder = RESULTS / name
    results = Results.load(folder)
    pictures = sorted(p.name for p in folder.glob("*.png"))
    kept = (folder / "page.md").read_text()
    assert results.scale != "tiny"
    assert kept == page.markdown(name, STUDIES[name], results, pictures)
    assert all(f"]({picture})" in kept for picture in pictures)
    assert results.about["commit"]
    assert results.about["code"] == source_digest(STUDIES[name])  # what measured it is what stands here today


@pytest.mark.skipif(not STUDIED, reason="no results are kept yet")
def test_the_front_page_is_what_the_results_say():
    assert (RESULTS / front.FRONT).read_text() == front.markdown(RESULTS)


def test_numbers_of_studies_in_the_readme_stand_on_the_front_page():
    told = (RESULTS.parents[1] / "README.md").read_text().split("## What still stands")[1].split("\n## ")[0]
    numbers = re.findall(r"[+-][\d.]+ \[[^\]]+\]", told)
    assert len(numbers) >= 5
    assert not [each for each in numbers if each not in (RESULTS / front.FRONT).read_text()]
