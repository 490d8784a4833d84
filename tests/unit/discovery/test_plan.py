"""Plans fit their time: few settings if it is short, shorter rungs if training is slower than measured, longer if faster."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from unbraid.discovery.plan import CandidateSetting, DiscoveryPlan, Rung, extend_plan, make_plan
from unbraid.discovery.time_limit import PAGES_SECONDS, TimeLimit, remaining_steps

SETTINGS = [CandidateSetting(f"s{k}", f"setting {k}", {"budget": {}}, k, 0.02) for k in range(5)]


def plan_of(minutes: float, workers: int = 1) -> DiscoveryPlan:
    return make_plan(SETTINGS, 60 * minutes, minutes, workers, "digest")


@pytest.mark.parametrize(("minutes", "count", "confirming"), [(0.1, 1, 0), (1, 1, 0), (3, 2, 2), (60, 5, 2)])
def test_short_plans_have_one_setting_and_long_ones_more(minutes, count, confirming):
    plan = plan_of(minutes)
    assert (len(plan.settings), plan.confirming) == (count, confirming)
    assert all(rung.keep <= count for rung in plan.rungs)


@pytest.mark.parametrize("minutes", [1, 2, 5, 10, 60])
@pytest.mark.parametrize("workers", [1, 2])
def test_the_estimate_of_a_plan_is_below_its_time(minutes, workers):
    plan = plan_of(minutes, workers)
    assert plan.seconds < 60 * minutes
    assert not any("too short" in line for line in plan.lines())


def test_a_plan_with_few_steps_says_how_many_minutes_are_enough():
    short = plan_of(1)
    minutes = int(short.short_warning.split("About ")[1].split()[0])
    enough = plan_of(minutes)
    assert 1400 < enough.rungs[-1].steps < 2000
    assert len(enough.settings) == 2
    assert plan_of(600).short_warning == ""
    assert any("too short" in line for line in plan_of(0.01).lines())


def test_more_minutes_add_the_seeds_that_a_short_plan_left_out():
    plan = plan_of(0.1)
    more = extend_plan(plan, plan.settings, 10)
    assert (plan.confirming, more.confirming, more.added) == (0, 2, 1)
    assert more.rungs[:-1] == plan.rungs


def test_confirming_seeds_that_were_trained_count_only_with_what_they_lack():
    plan = extend_plan(plan_of(10), SETTINGS[:2], 5)
    before, last = plan.rungs[-2].steps, plan.rungs[-1].steps
    assert remaining_steps(plan, len(plan.rungs), 2, before) == (0, 2 * (last - before))
    assert remaining_steps(plan, len(plan.rungs), 2) == (0, 2 * last)
    limit = limit_after(plan, 0.9, 2 * (last - before) * plan.step_seconds + 2 * PAGES_SECONDS)
    assert limit.adjust(plan, len(plan.rungs), 2, before) is plan


def limit_after(plan: DiscoveryPlan, slowdown: float, left: float) -> TimeLimit:
    """A limit after 1,000 steps that took `slowdown` times as long as measured."""
    limit = TimeLimit(time.monotonic() + left)
    limit.record_training(1000 * plan.step_seconds * slowdown, 1000)
    return limit


PLAN = DiscoveryPlan(tuple(SETTINGS[:2]), (Rung(100, 2), Rung(250, 2), Rung(600, 2)), workers=1)
REST = 2 * 3 * 500 + 2 * 600  # steps after the first rung


def test_a_plan_in_time_is_not_changed():
    seconds = REST * PLAN.step_seconds + 2 * PAGES_SECONDS
    assert limit_after(PLAN, 1.0, seconds).adjust(PLAN, 1, 2) is PLAN
    assert TimeLimit(0.0).adjust(PLAN, 1, 2) is PLAN, "nothing is known before the first step"


@pytest.mark.parametrize("slowdown", [1.5, 2, 3])
def test_a_slow_machine_gets_a_shorter_plan_that_fits(slowdown):
    seconds = REST * PLAN.step_seconds + slowdown * PAGES_SECONDS
    short = limit_after(PLAN, slowdown, seconds).adjust(PLAN, 1, 2)
    last = short.rungs[-1].steps
    assert 100 < last < 600
    steps = 2 * 3 * (last - 100) + short.confirming * last
    assert steps * PLAN.step_seconds * slowdown <= 1.16 * REST * PLAN.step_seconds
    assert "instead of 600" in short.adjusted
    assert any(line.startswith("adjusted:") for line in short.lines())


def test_without_time_the_plan_ends_with_the_rung_that_is_done():
    short = limit_after(PLAN, 1.0, -5.0).adjust(PLAN, 2, 2)
    assert (short.rungs, short.confirming) == (PLAN.rungs[:2], 0)
    assert "as long as measured" not in limit_after(PLAN, 0.2, -5.0).adjust(PLAN, 2, 2).adjusted, "steps were not slow"


def test_confirming_seeds_are_left_out_when_the_time_is_over():
    short = limit_after(PLAN, 1.0, 0.0).adjust(PLAN, 3, 2)
    assert short.confirming == 0
    assert "instead of" not in short.adjusted
    done = replace(PLAN, confirming=0)
    assert limit_after(done, 1.0, 0.0).adjust(done, 3, 2) is done, "nothing is left that could be shorter"
    assert limit_after(PLAN, 1.0, 1000.0).adjust(PLAN, 3, 2) is PLAN, "every rung is done"
    longer = extend_plan(PLAN, PLAN.settings, 0.1)
    assert limit_after(longer, 1.0, -5.0).adjust(longer, 4, 2, 600) is longer, "seeds that were compared stay compared"


@pytest.mark.parametrize("finished", [1, 2])
def test_a_plan_made_on_a_busy_machine_becomes_longer_and_still_fits(finished):
    rest = REST if finished == 1 else 2 * 3 * 350 + 2 * 600
    seconds = rest * PLAN.step_seconds + PAGES_SECONDS
    longer = limit_after(PLAN, 0.5, seconds).adjust(PLAN, finished, 2)
    last, base = longer.rungs[-1].steps, PLAN.rungs[finished - 1].steps
    assert last > 600
    assert longer.rungs[:finished] == PLAN.rungs[:finished]
    assert (2 * 3 * (last - base) + 2 * last) * PLAN.step_seconds * 0.5 <= rest * PLAN.step_seconds
    assert "instead of 600" in longer.adjusted


def test_a_much_faster_machine_gets_three_times_the_steps_and_never_more_than_the_largest_plan():
    assert limit_after(PLAN, 0.01, 100.0).adjust(PLAN, 1, 2).rungs[-1].steps == 100 + 3 * 500
    largest = replace(PLAN, rungs=(Rung(20_000, 2), Rung(50_000, 2), Rung(120_000, 2)))
    assert limit_after(largest, 0.01, 1e6).adjust(largest, 1, 2) is largest


def test_the_time_of_measuring_is_counted_by_rungs_and_not_by_steps():
    seconds = REST * PLAN.step_seconds + PAGES_SECONDS
    limit = limit_after(PLAN, 1.0, seconds + 4.0)
    limit.record_measuring(1.0)
    assert limit.adjust(PLAN, 1, 2) is PLAN, "two settings after each of two rungs"
    limit.record_measuring(3.0 + 0.2 * seconds)
    assert limit.adjust(PLAN, 1, 2).rungs[-1].steps < 600
