"""Every verdict that stands in docs/results is worked out again from its results file, page and front page to the letter."""

from __future__ import annotations

from pathlib import Path

import pytest

from unbraid.studies import STUDIES
from unbraid.studies.framework import results_index, study_page
from unbraid.studies.framework.paper_summaries import SUMMARIES, outdated
from unbraid.studies.framework.provenance import measuring_checksum
from unbraid.studies.framework.results import Results

RESULTS = Path(__file__).parents[3] / "docs" / "results"
STUDIES_WITH_RESULTS = sorted(p.parent.name for p in RESULTS.glob("*/results.json"))


@pytest.mark.parametrize(
    "name", STUDIES_WITH_RESULTS or [pytest.param("none", marks=pytest.mark.skip("no results are kept yet"))]
)
def test_a_kept_page_is_what_its_results_say(name):
    folder = RESULTS / name
    results = Results.load(folder)
    pictures = sorted(p.name for p in folder.glob("*.png"))
    kept = (folder / "page.md").read_text()
    assert results.scale != "tiny"
    assert kept == study_page.page_markdown(name, STUDIES[name], results, pictures)
    assert all(f"]({picture})" in kept for picture in pictures)
    assert results.metadata["commit"]
    assert results.metadata["code"] == measuring_checksum(STUDIES[name])  # what measured it is what stands here today


@pytest.mark.skipif(not STUDIES_WITH_RESULTS, reason="no results are kept yet")
def test_the_front_page_is_what_the_results_say():
    assert (RESULTS / results_index.INDEX_FILE).read_text() == results_index.index_markdown(RESULTS)


@pytest.mark.parametrize("paper", sorted(SUMMARIES))
def test_the_sentence_on_a_paper_rests_on_verdicts_that_stand_today(paper):
    known = results_index.load_all_results(RESULTS)
    judged = {name: study_page.judge_study(STUDIES[name], results) for name, results in known.items()}
    assert outdated(SUMMARIES[paper], judged) == []
    assert SUMMARIES[paper].text in (RESULTS / results_index.INDEX_FILE).read_text()
