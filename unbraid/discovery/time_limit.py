"""Keep the time of a discovery: the remaining rungs become shorter if training is slower than measured, longer if faster.

Only the call that made the plan adjusts it, and the adjusted plan is stored. So the result is still a function of data,
plan and seeds.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

from unbraid.discovery.plan import MAX_FIRST_STEPS, RUNG_RATIOS, DiscoveryPlan, Rung

TOLERANCE = 1.15  # of the time that is left, before anything is shortened
UNUSED = 0.6  # of the time that is left; a plan that needs less becomes longer
FILLED = 0.9  # of the time that is left, after that
MAX_LENGTHENING = 3.0  # of the remaining steps: the learning rate stays at its end value in the added ones
MIN_MORE_STEPS = 20  # a rung that would add fewer is dropped
PAGES_SECONDS = 8.0  # for codes and pages, at the planned speed


@dataclass
class TimeLimit:
    """The time of a call and the speed so far.

    Args:
        deadline: when the call should end, by `time.monotonic`.
        seconds: seconds spent on training, as if all workers were always busy.
        steps: steps of all runs in this time.
        measuring: seconds spent on measuring settings after their rungs.
        measured: how many settings were measured.
    """

    deadline: float
    seconds: float = 0.0
    steps: int = 0
    measuring: float = 0.0
    measured: int = 0

    def record_training(self, seconds: float, steps: int) -> None:
        """Count steps and the time that they took.

        Args:
            seconds: the time.
            steps: steps of all runs.
        """
        self.seconds, self.steps = self.seconds + seconds, self.steps + steps

    def record_measuring(self, seconds: float) -> None:
        """Count the time of measuring one setting, which does not depend on its steps.

        Args:
            seconds: the time.
        """
        self.measuring, self.measured = self.measuring + seconds, self.measured + 1

    def adjust(self, plan: DiscoveryPlan, finished: int, count: int, confirmed: int = 0) -> DiscoveryPlan:
        """Return the plan, with other rungs if the rest would miss the time by much.

        They become shorter or fewer if they would not fit. They become longer if much of the time would stay unused, as
        when the machine was busy while steps were measured.

        Args:
            plan: the plan.
            finished: rungs that are done, at least one.
            count: settings that continue.
            confirmed: steps that the confirming seeds have already.
        """
        if not self.steps:
            return plan
        rate = self.seconds / self.steps
        slowdown = rate / max(plan.step_seconds, 1e-9)
        measurements = (len(plan.rungs) - finished) * count
        left = self.deadline - time.monotonic() - PAGES_SECONDS * max(1.0, slowdown)
        left -= measurements * self.measuring / max(1, self.measured)
        growing, fixed = remaining_steps(plan, finished, count, confirmed)
        needed, confirming, why = rate * (growing + fixed), plan.confirming, "time is left"
        if needed > TOLERANCE * left:
            rest = _scaled_rungs(plan, finished, max(0.0, left / rate - fixed) / growing if growing else 0.0)
            if rest and rest[0].steps - plan.rungs[finished - 1].steps < MIN_MORE_STEPS:
                rest = [rest[-1]] if rest[-1].steps - plan.rungs[finished - 1].steps >= MIN_MORE_STEPS else []
            lost = not rest and not confirmed and rate * fixed > TOLERANCE * left  # seeds that are there stay compared
            confirming = 0 if lost else plan.confirming
            why = f"steps took {slowdown:.1f} times as long as measured" if slowdown > 1 else "too little time is left"
        elif growing and needed < UNUSED * left:
            rest = _scaled_rungs(plan, finished, min(MAX_LENGTHENING, (FILLED * left / rate - fixed) / growing))
        else:
            return plan
        rungs = (*plan.rungs[:finished], *rest)
        if (rungs, confirming) == (plan.rungs, plan.confirming):
            return plan
        steps = f"{rungs[-1].steps:,} steps per run instead of {plan.rungs[-1].steps:,}" if rungs != plan.rungs else ""
        seeds = "" if confirming == plan.confirming else "no more seeds of the chosen setting"
        changes = ", ".join(filter(None, (steps, seeds)))
        return replace(plan, rungs=rungs, confirming=confirming, adjusted=f"{why}: {changes}")


def _scaled_rungs(plan: DiscoveryPlan, finished: int, share: float) -> list[Rung]:
    """The remaining rungs with a multiple of their steps, within the largest plan."""
    base, last = plan.rungs[finished - 1].steps, plan.rungs[-1].steps
    share = min(share, max(1.0, (MAX_FIRST_STEPS * RUNG_RATIOS[-1] - base) / max(1, last - base)))
    return [Rung(base + int(share * (r.steps - base)), r.keep) for r in plan.rungs[finished:]]


def remaining_steps(plan: DiscoveryPlan, finished: int, count: int, confirmed: int = 0) -> tuple[float, float]:
    """Steps of all runs that shrink with the rungs, and those that more seeds need to come as far as the others.

    Args:
        plan: the plan.
        finished: rungs that are done.
        count: settings that continue.
        confirmed: steps that the confirming seeds have already.
    """
    base = plan.rungs[finished - 1].steps if finished else 0
    growing, done = 0.0, base
    for rung in plan.rungs[finished:]:
        growing += count * plan.seeds * (rung.steps - done)
        count, done = min(count, rung.keep), rung.steps
    return growing + plan.confirming * (done - base), plan.confirming * max(0, base - confirmed)
