"""How a walk goes: a live table on a terminal, one line per half minute in a log."""

from __future__ import annotations

import json
import os
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from unbraid.runs.run import LEDGER
from unbraid.sweeps.outcomes import Outcome
from unbraid.sweeps.plan import Job
from unbraid.sweeps.summary import best, duration
from unbraid.sweeps.walk import Walk

EVERY = 30.0  # seconds between two lines of a log
LATEST = 8  # running rows that are shown at most


class Board:
    """Shows a walk while it lasts; use it as a context."""

    def __init__(self, quiet: bool = False):
        self.quiet = quiet
        self.live: Any = None
        self.start = self.spoken = self.drawn = time.monotonic()
        self.first: tuple[float, int] | None = None

    def __enter__(self) -> Board:
        if not self.quiet and sys.stderr.isatty():
            from rich.console import Console
            from rich.live import Live

            self.live = Live(console=Console(stderr=True), auto_refresh=False, transient=True)
            self.live.start()
        return self

    def __exit__(self, *error: object) -> None:
        if self.live is not None:
            self.live.stop()

    def update(self, state: Walk) -> None:
        """Draw or speak when it is time to."""
        now = time.monotonic()
        if self.quiet or now - (self.drawn if self.live else self.spoken) < (0.5 if self.live else EVERY):
            return
        running = {w.job.name: (w.job, now - w.since) for w in state.workers.busy() if w.job is not None}
        steps = {name: _step(state.plan.folder / name) for name in running}
        head = self._head(state, {name: done for name, (done, _) in steps.items()})
        if self.live is None:
            self.spoken = now
            places = ", ".join(
                f"{n} {steps[n][0]:,}/{job.recipe.budget.steps:,}" for n, (job, _) in list(running.items())[:LATEST]
            )
            print(f"{head}; {places}" if places else head, file=sys.stderr, flush=True)
        else:
            self.drawn = now
            self.live.update(_table(head, running, steps, state.ended), refresh=True)

    def _head(self, state: Walk, steps: dict[str, int]) -> str:
        """'17 of 125 done, 1 failed, 2 running, 1 elsewhere; 6 min left; best mig 0.41 (beta_vae-b4-s3-1f2a)'."""
        done = sum(o.done for o in state.ended.values())
        parts = [f"{done:,} of {len(state.plan.jobs):,} done"]
        failed = len(state.ended) - done
        parts += [f"{failed} failed"] if failed else []
        parts += [f"{len(steps)} running"] if steps else []
        parts += [f"{len(state.elsewhere)} in other hands"] if state.elsewhere else []
        left = self._left(state, steps)
        top = best(state.ended, state.plan.score)
        return "; ".join(
            [", ".join(parts), *([f"{duration(left)} left"] if left else []), *([f"best {top}"] if top else [])]
        )

    def _left(self, state: Walk, steps: dict[str, int]) -> float | None:
        """Seconds to go, by the steps that were done since the first look."""
        total = {job.name: job.recipe.budget.steps for job in state.plan.jobs}
        done = sum(total[name] for name in state.ended) + sum(min(n, total[name]) for name, n in steps.items())
        now = time.monotonic()
        if self.first is None:
            self.first = (now, done)
        since, at = self.first
        rate = (done - at) / max(now - since, 1e-9)
        return (sum(total.values()) - done) / rate if rate > 0 else None


def _table(head: str, running: dict[str, tuple[Job, float]], steps: dict[str, Any], ended: dict[str, Outcome]) -> Any:
    from rich.console import Group
    from rich.progress_bar import ProgressBar
    from rich.table import Table
    from rich.text import Text

    rows = Table(box=None, pad_edge=False, expand=True)
    for title, options in (("running", {}), ("", {"width": 10}), ("step", {"justify": "right"}),
                           ("time", {"justify": "right"}), ("nats", {"ratio": 1, "overflow": "ellipsis"})):  # fmt: skip
        rows.add_column(title, no_wrap=True, **options)
    for name, (job, seconds) in list(running.items())[:LATEST]:
        done, note = steps[name]
        total = job.recipe.budget.steps
        bar = ProgressBar(total=total, completed=done, width=10)
        stage = f"{done:,}/{total:,}" if done < total else "scoring"
        rows.add_row(name, bar, stage, duration(seconds), note)
    failed = [Text(f"failed {name}: {o.reason}", style="red", overflow="ellipsis", no_wrap=True)
              for name, o in ended.items() if not o.done]  # fmt: skip
    return Group(Text(head.replace("; best", "\nbest")), rows, *failed[-3:])


def _step(path: Path) -> tuple[int, str]:
    """Steps done and the last terms, from the ledger's end."""
    with suppress(OSError, ValueError, KeyError, IndexError):
        with open(path / LEDGER, "rb") as f:
            f.seek(max(0, os.path.getsize(path / LEDGER) - 4096))
            rows = map(json.loads, reversed(f.read().split(b"\n")[:-1]))
            line: Any = next((row for row in rows if not row.get("validation")), {})
        return int(line["step"]) + 1, " ".join(
            f"{k.replace('reconstruction', 'rec')} {v:.4g}" for k, v in line["nats"].items()
        )
    return 0, ""
