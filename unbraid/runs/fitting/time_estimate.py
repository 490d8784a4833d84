"""An estimate of the training time, printed once at the start of a long run."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

WARM_UP_STEPS = 3  # the first steps are slower
MIN_SECONDS = 2.0  # of steps that are timed
LONG_SECONDS = 60.0  # runs below this are not announced


class TimeEstimate:
    """A callback that times the first steps and prints how long the run takes, if that is more than a minute.

    >>> estimate = TimeEstimate()
    >>> estimate.started(Path("run"), {"budget": {"steps": 10}}, 0)
    """

    def __init__(self) -> None:
        self.steps, self.first, self.begin, self.printed = 0, 0, 0.0, False

    def started(self, path: Path, recipe: dict[str, Any], step: int) -> None:
        """Remember the number of steps; see `unbraid.runs.fitting.callbacks`."""
        self.steps, self.first = int(recipe["budget"]["steps"]), step

    def stepped(self, step: int, row: Any) -> None:
        """Print the estimate once enough steps are timed; see `unbraid.runs.fitting.callbacks`."""
        if self.printed:
            return
        done, now = step - self.first, time.monotonic()
        if done == WARM_UP_STEPS:
            self.begin = now
        elif done > WARM_UP_STEPS and now - self.begin > MIN_SECONDS:
            self.printed = True
            seconds = (now - self.begin) / (done - WARM_UP_STEPS)
            left = seconds * (self.steps - step)
            if left > LONG_SECONDS:
                text = f"{left / 60:.0f} minutes" if left < 5400 else f"{left / 3600:.1f} hours"
                print(f"about {text} for {self.steps - step:,} steps of {seconds:.2g} s", file=sys.stderr)
