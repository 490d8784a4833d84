"""Verdicts on simulated studies with known effects: coverage, false 'holds', power; and the rule by hand."""

from __future__ import annotations

import numpy as np
import pytest

from unbraid.comparing.statistics import bootstrap_interval, seeds_needed, smallest_gap
from unbraid.core.errors import UnbraidError
from unbraid.studies.framework.effects import paired_difference, pooled_difference
from unbraid.studies.framework.results import Results, RunResult
from unbraid.studies.framework.study import Claim
from unbraid.studies.framework.verdicts import DOES_NOT_HOLD, HOLDS, UNDECIDED, judge_claims, judge_effects


def claim(name: str = "c", **options) -> Claim:
    """A claim whose effect is given directly."""
    return Claim(name, "A above B", "Fig. 1", effect=paired_difference("mig", "a", "b"), **options)


def simulate_pages(truths, n: int, studies: int, seed: int, sd: float = 0.1, gap: float = 0.1):
    """Verdicts of many simulated pages; each has a claim for every true effect."""
    rng = np.random.default_rng(seed)
    claims = [claim(str(i), paper_effect=gap) for i in range(len(truths))]
    draws = rng.normal(np.array(truths)[None, :, None], sd, (studies, len(truths), n))
    return [judge_effects(claims, [dict(enumerate(x)) for x in one]) for one in draws]


def test_the_rule_by_hand():
    up, down, none = {0: 0.1, 1: 0.12, 2: 0.11}, {0: -0.1, 1: -0.12, 2: -0.11}, {0: 0.001, 1: -0.001, 2: 0.0005}
    open_ = {0: 0.2, 1: -0.1, 2: 0.05}
    found = judge_effects([claim(paper_effect=0.1)] * 4, [up, down, none, open_])
    assert [v.decision for v in found] == [HOLDS, DOES_NOT_HOLD, DOES_NOT_HOLD, UNDECIDED]
    assert found[1].note == "the effect has the opposite sign"
    assert found[2].note == "the effect is within ±0.02"
    assert found[3].required_seeds is not None
    assert found[3].required_seeds > 3
    lone = judge_effects([claim(paper_effect=0.1)], [open_])[0]
    assert lone.required_seeds == seeds_needed(lone.contrast.mean, lone.contrast.deviation)
    assert lone.detectable_gap == pytest.approx(smallest_gap(lone.contrast.deviation, 3))


def test_the_page_prints_both_intervals_at_95_percent_and_judges_by_holms():
    values = dict(enumerate([0.3, -0.1, 0.2, 0.25, 0.05, 0.4, -0.02, 0.15]))
    alone, crowd = judge_effects([claim()], [values])[0], judge_effects([claim()] * 8, [values] * 8)[0]
    assert crowd.contrast.low < alone.contrast.low  # the judged interval is wider
    assert (crowd.low, crowd.high) == (alone.low, alone.high)
    assert crowd.contrast.bootstrap == alone.contrast.bootstrap == bootstrap_interval(list(values.values()))
    assert crowd.low < crowd.contrast.bootstrap[0]


def test_a_tiny_effect_of_the_claimed_sign_holds_and_says_how_small():
    v = judge_effects([claim(paper_effect=1.0)], [{i: 0.01 + 0.0001 * i for i in range(6)}])[0]
    assert v.decision == HOLDS
    assert v.note == "but smaller than 0.2"


def test_missing_seeds_are_listed():
    v = judge_effects([claim(paper_effect=0.1, headline=True)], [{0: 0.1, 1: None, 2: 0.12, 3: 0.11}])[0]
    assert v.missing_seeds == (1,)
    assert v.contrast.n == 3
    assert v.pilot
    assert "HOLDS (pilot)" in v.lines()[1]
    empty = judge_effects([claim(paper_effect=0.1)], [{0: 0.1}])[0]
    assert (empty.decision, empty.required_seeds) == (UNDECIDED, None)
    assert "needs 2 seeds" in empty.lines()[1]
    assert empty.as_dict()["low"] is None
    with pytest.raises(UnbraidError, match="effects for every claim"):
        judge_effects([claim()], [])


def test_from_results():
    rows = [RunResult(arm, s, numbers={"mig": m}) for s in range(5) for arm, m in (("a", 0.5 + 0.01 * s), ("b", 0.3))]
    rows += [RunResult("a", 5, numbers={"mig": 0.9}), RunResult("b", 5, "failed", {"mig": 0.1}, reason="diverged")]
    v = judge_claims([claim(paper_effect=0.1)], Results("demo", "cpu", tuple(rows)))[0]
    assert (v.decision, v.contrast.n, v.missing_seeds) == (HOLDS, 5, (5,))
    assert v.contrast.mean == pytest.approx(0.22)
    assert v.as_dict()["verdict"] == "holds"


@pytest.mark.parametrize("n", [5, 20])
def test_false_holds_below_one_in_twenty(n):
    """Four claims without effect: a page with any false 'holds' is rare, and so is one with any false decision."""
    pages = simulate_pages([0.0] * 4, n, 250, n)
    false = np.mean([any(v.decision == HOLDS for v in one) for one in pages])
    other = np.mean([any(v.note == "the effect has the opposite sign" for v in one) for one in pages])
    assert false < 0.025 + 3 * (0.025 / 250) ** 0.5
    assert false + other < 0.05 + 3 * (0.05 / 250) ** 0.5


def test_power_is_as_predicted():
    """One claim with a true effect: 'holds' as often as the formula predicts; 80 of 100 at the detectable gap."""
    gap = smallest_gap(0.1, 12)
    share = np.mean([one[0].decision == HOLDS for one in simulate_pages([gap], 12, 500, 1)])
    assert share == pytest.approx(0.8, abs=4 * (0.16 / 500) ** 0.5)


def test_one_seed_shows_its_number_without_verdict_and_no_seed_shows_neither():
    one, none = judge_effects([claim(), claim()], [{0: 0.16}, {0: None}])
    assert one.lines() == ["ours +0.16  1 seed: no interval", "NOT JUDGED  (needs 2 seeds or more)"]
    assert none.lines()[0] == "ours  0 seeds: no interval"


def test_a_claim_about_medians_is_judged_by_the_bootstrap_of_their_difference():
    # an outlying pair moves the mean of the differences below 0, not the difference of the medians
    rng = np.random.default_rng(0)
    first, second = 0.5 + rng.normal(0, 0.01, 12), 0.4 + rng.normal(0, 0.01, 12)
    first[0], second[0] = 0.0, 5.0
    rows = tuple(
        RunResult(arm, seed, numbers={"mig": float(value)})
        for arm, values in (("a", first), ("b", second))
        for seed, value in enumerate(values)
    )
    claims = [
        claim("mean", min_effect=0.02),
        claim("median", min_effect=0.02, pooled=pooled_difference("mig", "a", "b")),
    ]
    mean, median = judge_claims(claims, Results("made", "cpu", rows))
    assert mean.decision == UNDECIDED
    assert median.decision == HOLDS
    assert median.contrast.mean == pytest.approx(np.median(first) - np.median(second))
    assert (
        0 < median.contrast.low < median.low < median.contrast.mean < median.high < 0.2
    )  # Holm's level is the wider one
    swapped = claim(min_effect=0.02, pooled=pooled_difference("mig", "b", "a"))
    assert judge_claims([swapped], Results("made", "cpu", rows))[0].decision == DOES_NOT_HOLD
    alone = judge_claims([claims[1]], Results("made", "cpu", rows[:1] + rows[12:13]))[0]
    assert (alone.decision, alone.contrast.n) == (UNDECIDED, 1)
