"""Keep the time of a discovery: if training is slower than measured, the remaining rungs become shorter.

Only the call that made the plan shortens it, and the shorter plan is stored. So the result is still a function of data,
plan and seeds.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

from unbraid.discovery.plan import DiscoveryPlan, Rung

TOLERANCE = 1.15  # of the time that is left, before anything is shortened
MIN_MORE_STEPS = 20  # a rung that would add fewer is dropped
PAGES_SECONDS = 8.0  # for codes and pages, at the planned speed


@dataclass
class TimeLimit:
    """The time of a call and the speed so far.

    Args:
        deadline: when the call should end, by `time.monotonic`.
        seconds: seconds spent on training and measuring, as if all workers were always busy.
        steps: steps of all runs in this time.
    """

    deadline: float
    seconds: float = 0.0
    steps: int = 0

    def record(self, seconds: float, steps: int) -> None:
        """Count steps and the time that they took.

        Args:
            seconds: the time.
            steps: steps of all runs.
        """
        self.seconds, self.steps = self.seconds + seconds, self.steps + steps

    def shorten(self, plan: DiscoveryPlan, finished: int, count: int) -> DiscoveryPlan:
        """Return the plan, with shorter or fewer rungs if the rest would not fit into the time.

        Args:
            plan: the plan.
            finished: rungs that are done, at least one.
            count: settings that continue.
        """
        if not self.steps:
            return plan
        base, rate = plan.rungs[finished - 1].steps, self.seconds / self.steps
        slowdown = rate / max(plan.step_seconds, 1e-9)
        left = self.deadline - time.monotonic() - PAGES_SECONDS * max(1.0, slowdown)
        growing, fixed = remaining_steps(plan, finished, count)
        if rate * (growing + fixed) <= TOLERANCE * left:
            return plan
        share = max(0.0, left / rate - fixed) / growing if growing else 0.0
        rest = [Rung(base + int(share * (r.steps - base)), r.keep) for r in plan.rungs[finished:]]
        if rest and rest[0].steps - base < MIN_MORE_STEPS:
            rest = [rest[-1]] if rest[-1].steps - base >= MIN_MORE_STEPS else []
        confirming = plan.confirming if rest or rate * fixed <= TOLERANCE * left else 0
        rungs = (*plan.rungs[:finished], *rest)
        if (rungs, confirming) == (plan.rungs, plan.confirming):
            return plan
        steps = f"{rungs[-1].steps:,} steps per run instead of {plan.rungs[-1].steps:,}" if rungs != plan.rungs else ""
        seeds = "" if confirming == plan.confirming else "no more seeds of the chosen setting"
        changes = ", ".join(filter(None, (steps, seeds)))
        why = f"steps took {slowdown:.1f} times as long as measured: {changes}"
        return replace(plan, rungs=rungs, confirming=confirming, shortened=why)


def remaining_steps(plan: DiscoveryPlan, finished: int, count: int) -> tuple[float, float]:
    """Steps of all runs that shrink with the rungs, and those that more seeds need to come as far as the others.

    Args:
        plan: the plan.
        finished: rungs that are done.
        count: settings that continue.
    """
    base = plan.rungs[finished - 1].steps if finished else 0
    growing, done = 0.0, base
    for rung in plan.rungs[finished:]:
        growing += count * plan.seeds * (rung.steps - done)
        count, done = min(count, rung.keep), rung.steps
    return growing + plan.confirming * (done - base), plan.confirming * base
