"""No verdict without a working instrument: gates, power and rank tests, on simulated rows with known answers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from unbraid.studies.framework import gates
from unbraid.studies.framework.effects import paired_difference
from unbraid.studies.framework.results import Results, RunResult
from unbraid.studies.framework.study import Claim, Study
from unbraid.studies.framework.study_page import page_markdown, passed_gates, write_page
from unbraid.studies.framework.verdicts import HOLDS, NOT_TESTED, UNDECIDED, judge_claims


def simulate(numbers: dict[str, dict[str, float]], seeds: int = 10, noise: float = 0.01) -> Results:
    """Rows of some arms whose quantities scatter around given means."""
    rng = np.random.default_rng(0)
    rows = [
        RunResult(arm, seed, numbers={q: v + noise * rng.normal() for q, v in means.items()})
        for seed in range(seeds)
        for arm, means in numbers.items()
    ]
    return Results("demo", "cpu", tuple(rows))


def claim(*conditions: gates.Gate, **options) -> Claim:
    return Claim("a", "A above B", "Fig. 1", paired_difference("mig", "a", "b"), gates=conditions, **options)


GOOD = {
    "a": {"mig": 0.4, "active": 5.0, "tc": 1.0, "nats": 1.9, "reconstruction": 50.0, "mean_image": 200.0},
    "b": {"mig": 0.2, "active": 6.0, "tc": 3.0, "nats": 0.0, "reconstruction": 40.0, "mean_image": 200.0},
}
EVERY = (
    gates.alive(("a", "b"), at_least=2),
    gates.reconstructs(("a", "b")),
    gates.in_range("mig", ("a", "b"), chance=0.0, ceiling=0.9),
    gates.lowers("tc", "a", "b"),
    gates.carries("nats", ("a", "b")),
    gates.at_most("reconstruction", "b", 60.0, "the baseline is trained"),
)


def test_a_claim_is_judged_when_every_gate_passes():
    verdict = judge_claims([claim(*EVERY)], simulate(GOOD))[0]
    assert verdict.decision == HOLDS
    assert [gate.passed for gate in verdict.gates] == [True] * 6


@pytest.mark.parametrize(
    ("arm", "quantity", "value", "condition"),
    [
        ("b", "active", 0.0, 0),
        ("b", "reconstruction", 199.0, 1),
        ("a", "mig", 0.97, 2),
        ("a", "tc", 3.5, 3),
        ("a", "nats", 0.02, 4),
        ("b", "reconstruction", 70.0, 5),
    ],
)
def test_a_failed_gate_gives_no_verdict(arm, quantity, value, condition):
    broken = {name: dict(numbers) for name, numbers in GOOD.items()}
    broken[arm][quantity] = value
    verdict = judge_claims([claim(EVERY[condition])], simulate(broken))[0]
    assert verdict.decision == NOT_TESTED
    assert verdict.lines()[1].startswith(f"NOT TESTED HERE  (not met: {EVERY[condition].text}: ")
    assert not verdict.gates[0].passed


def test_a_metric_at_its_chance_level_tells_nothing_apart():
    low = {arm: {**numbers, "mig": 0.05} for arm, numbers in GOOD.items()}
    assert judge_claims([claim(EVERY[2])], simulate(low))[0].decision == NOT_TESTED


def test_numbers_that_were_not_measured_fail_a_gate():
    bare = {arm: {"mig": numbers["mig"]} for arm, numbers in GOOD.items()}
    for condition in EVERY[:2] + EVERY[3:]:
        assert judge_claims([claim(condition)], simulate(bare))[0].gates[0].found == "not measured"


def test_untested_claims_leave_the_holm_adjustment():
    dead = gates.alive(("a",), at_least=100)
    judged = judge_claims([claim(), claim(dead), claim()], simulate(GOOD))
    assert [v.decision for v in judged] == [HOLDS, NOT_TESTED, HOLDS]
    assert judged[0].n_claims == 2


def test_seeds_that_cannot_see_the_papers_effect_are_named():
    weak = {arm: {"mig": 0.3} for arm in "ab"}
    verdict = judge_claims([claim(paper_effect=0.05)], simulate(weak, seeds=5, noise=0.2))[0]
    assert verdict.decision == UNDECIDED
    assert verdict.blind
    assert "cannot see an effect of the paper's size" in verdict.lines()[1]
    far = {"a": {"mig": 2.0}, "b": {"mig": 0.3}}  # decided all the same: the effect is larger than the paper's
    decided = judge_claims([claim(paper_effect=0.05)], simulate(far, seeds=5, noise=0.2))[0]
    assert decided.decision == HOLDS
    assert decided.blind
    assert "cannot see" not in decided.lines()[1]


def test_a_rank_test_that_disagrees_is_named():
    values = [0.1 + 0.01 * k for k in range(11)] + [-1.5]  # one outlier: ranks say above 0, t does not
    rows = [RunResult(arm, s, numbers={"mig": v * (arm == "a")}) for s, v in enumerate(values) for arm in "ab"]
    lines = judge_claims([claim()], Results("demo", "cpu", tuple(rows)))[0].lines()
    assert "the rank test disagrees" in lines[1]


def test_the_rank_test_is_asked_at_the_level_of_the_claim():
    # an outlier: ranks reject at .05 and t does not; at .05/6, where Holm asks for it, neither does
    values = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, -0.15, 0.25, 0.35, -4.0]
    rows = [RunResult(arm, s, numbers={"mig": v * (arm == "a")}) for s, v in enumerate(values) for arm in "ab"]
    results = Results("demo", "cpu", tuple(rows))
    alone = judge_claims([claim()], results)[0]
    assert alone.decision == UNDECIDED
    assert 0.05 / 6 < alone.rank_p < 0.05 < alone.contrast.p
    assert alone.ranks_disagree
    crowd = judge_claims([claim()] * 6, results)[0]
    assert crowd.contrast.level == pytest.approx(1 - 0.05 / 6)
    assert not crowd.ranks_disagree
    few = [RunResult(arm, s, numbers={"mig": (1 + 0.1 * s) * (arm == "a")}) for s in range(7) for arm in "ab"]
    held = judge_claims([claim()] * 6, Results("demo", "cpu", tuple(few)))[0]  # seven seeds: p ≥ .016 by ranks
    assert held.decision == HOLDS
    assert not held.ranks_disagree


def test_the_page_labels_our_questions_and_missing_gates(tmp_path):
    asked = replace(claim(), question=True)
    study = Study("a demo", "Kim & Mnih 2018", claims=(asked,))
    page = page_markdown("demo", study, simulate(GOOD), [])
    assert "our question: the threshold or contrast is not the paper's" in " ".join(page.split())
    assert "**No gates:**" in page
    write_page("demo", study, simulate(GOOD), tmp_path)
    opened = (tmp_path / "page.html").read_text()
    assert "our question" in opened
    assert "<b>No gates:</b>" in opened
    gated = Study("a demo", "Kim & Mnih 2018", claims=(claim(gates.alive(("a",), at_least=1)),))
    page = page_markdown("demo", gated, simulate(GOOD), [])
    assert "our question" not in page
    assert "**No gates:**" not in page


def test_the_page_shows_gates_and_controls(tmp_path):
    control = Claim("control", "β lowers the KL", "known", paired_difference("active", "b", "a"))
    study = Study("a demo", "Kim & Mnih 2018", claims=(claim(gates.alive(("a",), at_least=100)),), controls=(control,))
    page = page_markdown("demo", study, simulate(GOOD), [])
    assert "NOT TESTED HERE" in page
    assert "Positive controls" in page
    assert page.index("Positive controls") < page.index("β lowers the KL")
    write_page("demo", study, simulate(GOOD), tmp_path)
    opened = (tmp_path / "page.html").read_text()
    assert opened.index("Positive controls") < opened.index("β lowers the KL")
    assert "Measured by different code" not in page + opened
    results = simulate(GOOD)
    rows = tuple(replace(row, versions={"mig": 1 + row.seed % 2}) for row in results.rows)
    write_page("demo", study, replace(results, rows=rows), tmp_path)
    for name in ("page.md", "page.html"):
        assert "versions differ between rows: mig 1, 2." in (tmp_path / name).read_text()


def test_the_restart_with_the_highest_quantity_is_taken():
    from unbraid.studies.framework.effects import chosen_above
    from unbraid.studies.framework.results import Results, RunResult

    numbers = {"a": (0.5, 0.4), "b": (0.8, 0.7), "c": (0.6, 0.6)}  # agreement, accuracy
    rows = [RunResult(arm, 0, numbers={"agreement": by, "accuracy": score}) for arm, (by, score) in numbers.items()]
    results = Results("any", "cpu", tuple(rows), {})
    effect = chosen_above("accuracy", ["a", "b", "c"], "agreement", threshold=0.5)
    assert abs(effect(results, 0) - 0.2) < 1e-12
    assert chosen_above("accuracy", ["a", "d"], "agreement")(results, 0) is None, "a restart is missing"


def test_restarts_differ_by_their_seed():
    from unbraid.studies import STUDIES
    from unbraid.studies.framework.study import study_recipes

    every = study_recipes(STUDIES["hfvae_discrete"], "hfvae_discrete", "cpu", (10,))
    restarts = [recipe.seed for arm, _, recipe in every if arm.label.startswith("mnist-code_first")]
    assert restarts == [10, 1010, 2010, 3010]


def test_the_page_names_every_gate_that_passed_once_with_its_numbers():
    met = gates.alive(("a", "b"))
    failed = gates.alive(("a", "b"), at_least=9)
    claims = [
        Claim(name, name, "here", paired_difference("mig", "a", "b"), min_effect=0.01, gates=chosen)
        for name, chosen in (("one", (met,)), ("two", (met,)), ("three", (failed,)))
    ]
    rows = tuple(
        RunResult(arm, seed, numbers={"mig": 0.1 * seed, "active": active})
        for seed in range(3)
        for arm, active in (("a", 5.0), ("b", 4.0))
    )
    verdicts = judge_claims(claims, Results("any", "cpu", rows, {}))
    assert passed_gates(verdicts) == ["arms are alive: 1 active latents or more (a 5, b 4)"]


def test_a_gate_of_two_grids_is_checked_on_the_one_that_was_run():
    (gate,) = gates.first_measured([gates.alive(("a8",))], [gates.alive(("a6",))])
    assert gate.check(simulate({"a6": {"active": 4.0}})) == gates.alive(("a6",)).check(
        simulate({"a6": {"active": 4.0}})
    )
    assert gate.check(simulate({"a8": {"active": 0.0}, "a6": {"active": 4.0}}))[0] is False
    assert gate.check(simulate({"b": {"active": 4.0}})) is None
