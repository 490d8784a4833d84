"""The progress of a sweep: a live table in a terminal, or one line per half minute in a log."""

from __future__ import annotations

import json
import os
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from unbraid.core.errors import UnbraidError
from unbraid.core.files import open_regular
from unbraid.core.progress import format_duration
from unbraid.runs.folder.file_names import LEDGER_FILE
from unbraid.sweeps.display.summary import best_run
from unbraid.sweeps.engine.job_results import JobResult
from unbraid.sweeps.engine.scheduler import Scheduler
from unbraid.sweeps.planning.plan import Job

LOG_SECONDS = 30.0  # between two lines of a log
ESTIMATE_SECONDS = 10.0  # after the first training steps, until the time of the whole sweep is estimated
MAX_RUNNING_ROWS = 8


class LiveDisplay:
    """A context that displays the progress of a sweep.

    Args:
        quiet: display nothing.
        estimate: print once how long all jobs take; a caller that knows better says so itself.
    """

    def __init__(self, quiet: bool = False, estimate: bool = True):
        self.quiet = quiet
        self.live: Any = None
        self.start = self.last_logged = self.last_drawn = self.last_estimate = time.monotonic()
        self.first_progress: tuple[float, int] | None = None
        self.estimated = not estimate

    def __enter__(self) -> LiveDisplay:
        if not self.quiet and sys.stderr.isatty():
            from rich.console import Console
            from rich.live import Live

            self.live = Live(console=Console(stderr=True), auto_refresh=False, transient=True)
            self.live.start()
        return self

    def __exit__(self, *error: object) -> None:
        if self.live is not None:
            self.live.stop()

    def update(self, state: Scheduler) -> None:
        """Redraw the table or print a line, if enough time has passed.

        Args:
            state: the scheduler.
        """
        now = time.monotonic()
        if not self.quiet and not self.estimated and now - self.last_estimate > 1:
            self._print_estimate(state)
        since, interval = (self.last_drawn, 0.5) if self.live else (self.last_logged, LOG_SECONDS)
        if self.quiet or now - since < interval:
            return
        running = {w.job.name: (w.job, now - w.since) for w in state.workers.busy_workers() if w.job is not None}
        steps = {name: _read_progress(state.plan.folder / name) for name in running}
        head = self._status_line(state, {name: done for name, (done, _) in steps.items()})
        if self.live is None:
            self.last_logged = now
            few = list(running.items())[:MAX_RUNNING_ROWS]
            steps_done = ", ".join(f"{n} {steps[n][0]:,}/{job.recipe.budget.steps:,}" for n, (job, _) in few)
            print(f"{head}; {steps_done}" if steps_done else head, file=sys.stderr, flush=True)
        else:
            self.last_drawn = now
            self.live.update(_render_table(head, running, steps, state.results), refresh=True)

    def _print_estimate(self, state: Scheduler) -> None:
        """Print once how long the whole sweep takes, as soon as enough steps were timed."""
        self.last_estimate = now = time.monotonic()
        names = [worker.job.name for worker in state.workers.busy_workers() if worker.job is not None]
        steps = {name: _read_progress(state.plan.folder / name)[0] for name in names}
        if not any(steps.values()):
            return
        left = self._remaining_seconds(state, steps)
        if left is not None and self.first_progress is not None and now - self.first_progress[0] > ESTIMATE_SECONDS:
            self.estimated = True
            count = len(state.plan.jobs) - len(state.results)
            line = f"estimate: about {format_duration(left)} for {count:,} run{'s' if count > 1 else ''}"
            if self.live is None:
                print(line, file=sys.stderr, flush=True)
            else:
                self.live.console.print(line, highlight=False)

    def _status_line(self, state: Scheduler, steps: dict[str, int]) -> str:
        """'17 of 125 done, 1 failed, 2 running, 1 claimed elsewhere; 6 min left; best mig 0.41 (beta_vae-b4-s3-1f2a)'."""
        done = sum(o.done for o in state.results.values())
        parts = [f"{done:,} of {len(state.plan.jobs):,} done"]
        failed = len(state.results) - done
        parts += [f"{failed} failed"] if failed else []
        parts += [f"{len(steps)} running"] if steps else []
        parts += [f"{len(state.claimed_elsewhere)} claimed elsewhere"] if state.claimed_elsewhere else []
        left = self._remaining_seconds(state, steps)
        best = best_run(state.results, state.plan.score)
        ends = [f"{format_duration(left)} left" if left else "", f"best {best}" if best else ""]
        return "; ".join(filter(None, [", ".join(parts), *ends]))

    def _remaining_seconds(self, state: Scheduler, steps: dict[str, int]) -> float | None:
        """Estimate the remaining seconds from the steps since the first update."""
        total = {job.name: job.recipe.budget.steps for job in state.plan.jobs}
        done = sum(total[name] for name in state.results) + sum(min(n, total[name]) for name, n in steps.items())
        now = time.monotonic()
        if self.first_progress is None:
            self.first_progress = (now, done)
        first_time, first_done = self.first_progress
        rate = (done - first_done) / max(now - first_time, 1e-9)
        return (sum(total.values()) - done) / rate if rate > 0 else None


def _render_table(
    head: str, running: dict[str, tuple[Job, float]], steps: dict[str, Any], results: dict[str, JobResult]
) -> Any:
    from rich.console import Group
    from rich.progress_bar import ProgressBar
    from rich.table import Table
    from rich.text import Text

    rows = Table(box=None, pad_edge=False, expand=True)
    for title, options in (("running", {}), ("", {"width": 10}), ("step", {"justify": "right"}),
                           ("time", {"justify": "right"}), ("nats", {"ratio": 1, "overflow": "ellipsis"})):  # fmt: skip
        rows.add_column(title, no_wrap=True, **options)
    for name, (job, seconds) in list(running.items())[:MAX_RUNNING_ROWS]:
        done, note = steps[name]
        total = job.recipe.budget.steps
        bar = ProgressBar(total=total, completed=done, width=10)
        stage = f"{done:,}/{total:,}" if done < total else "scoring"
        rows.add_row(name, bar, stage, format_duration(seconds), note)
    failed = [Text(f"failed {name}: {o.reason}", style="red", overflow="ellipsis", no_wrap=True)
              for name, o in results.items() if not o.done]  # fmt: skip
    return Group(Text(head.replace("; best", "\nbest")), rows, *failed[-3:])


def _read_progress(path: Path) -> tuple[int, str]:
    """Read the number of steps and the latest terms from the end of the ledger."""
    with suppress(UnbraidError, OSError, ValueError, KeyError, IndexError, TypeError, AttributeError, RecursionError):
        with open_regular(path / LEDGER_FILE) as f:
            f.seek(max(0, os.path.getsize(path / LEDGER_FILE) - 4096))
            rows = map(json.loads, reversed(f.read().split(b"\n")[:-1]))
            line: Any = next((row for row in rows if not row.get("validation")), {})
        terms = " ".join(f"{k.replace('reconstruction', 'rec')} {v:.4g}" for k, v in line["nats"].items())
        return int(line["step"]) + 1, terms
    return 0, ""
