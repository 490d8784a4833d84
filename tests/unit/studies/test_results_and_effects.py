"""Results of a study are saved and loaded, and effects have the expected values per seed."""

from __future__ import annotations

import json

import numpy as np
import pytest

from unbraid.core.errors import UnbraidError
from unbraid.studies.framework import effects
from unbraid.studies.framework.results import Results, RunResult


def make_results() -> Results:
    rows = [
        RunResult(
            f"{method}{s}",
            seed,
            numbers={"score": round((s + (method == "b")) * 0.1 + seed, 6), "recon": 10.0 * s, "tc": 8.0 - s},
        )
        for method in "ab"
        for s in (1, 2, 3)
        for seed in (0, 1)
    ]
    rows.append(RunResult("a1", 7, status="failed", reason="the loss is no longer finite"))
    return Results("made", "cpu", tuple(rows), {"commit": "abc"})


def test_results_are_saved_and_loaded_with_failures(tmp_path):
    found = make_results()
    found.save(tmp_path)
    again = Results.load(tmp_path)
    assert again == found
    assert [row.reason for row in again.failed_rows] == ["the loss is no longer finite"]
    assert again.seeds("a1", "b3") == (0, 1)
    assert again.value("a1", 7, "score") is None


@pytest.mark.parametrize(
    "content", ["[]", '{"schema": 1}', '{"schema": 1, "study": "x", "scale": "cpu", "about": {}, "rows": [1]}']
)
def test_damaged_results_are_named(tmp_path, content):
    (tmp_path / "results.json").write_text(content)
    with pytest.raises(UnbraidError, match="results"):
        Results.load(tmp_path)


def test_effects_by_hand():
    found = make_results()
    assert effects.paired_difference("score", "b1", "a1")(found, 1) == pytest.approx(0.1)
    assert effects.paired_difference("score", "b1", "a1", -1)(found, 1) == pytest.approx(-0.1)
    assert effects.paired_difference("score", "b1", "a1")(found, 7) is None
    assert effects.mean_above("score", ["a1", "a3"], 0.2)(found, 0) == pytest.approx(0.0)
    assert effects.slope("tc", ["a1", "a2", "a3"], [1, 2, 3], -1)(found, 0) == pytest.approx(1.0)
    assert effects.quantity_gap("recon", "tc", ["a1"])(found, 0) == pytest.approx(3.0)
    assert effects.correlation("score", "tc", ["a1", "a2", "a3"])(found, 0) == pytest.approx(-1.0)
    assert effects.correlation("score", "nothing", ["a1", "a2", "a3"])(found, 0) is None
    assert effects.within_margin("score", "a1", "b2", 0.25)(found, 0) == pytest.approx(0.05)  # 0.1 against 0.3
    assert effects.within_margin("score", "a1", "b2", 0.25)(found, 7) is None


def test_at_equal_reconstruction_interpolates_over_the_shared_range():
    rows = [RunResult("a1", 0, numbers={"s": 1.0, "r": 0.0}), RunResult("a2", 0, numbers={"s": 3.0, "r": 2.0})]
    rows += [RunResult("b1", 0, numbers={"s": 0.0, "r": 1.0}), RunResult("b2", 0, numbers={"s": 3.0, "r": 4.0})]
    found = Results("made", "cpu", tuple(rows))
    x = np.linspace(1, 2, 50)
    by_hand = np.mean((1 + x) - (x - 1))
    assert effects.difference_at_equal("s", "r", ["a1", "a2"], ["b1", "b2"])(found, 0) == pytest.approx(by_hand)
    apart = [RunResult("c1", 0, numbers={"s": 1.0, "r": 9.0}), RunResult("c2", 0, numbers={"s": 1.0, "r": 10.0})]
    assert (
        effects.difference_at_equal("s", "r", ["a1", "a2"], ["c1", "c2"])(Results("x", "cpu", (*rows, *apart)), 0)
        is None
    )


def test_results_are_plain_json(tmp_path):
    plain = json.loads(make_results().save(tmp_path).read_text())
    assert plain["schema"] == 1
    assert len(plain["rows"]) == 13
