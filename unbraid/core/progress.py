"""Progress bars on a terminal, progress lines in a log."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

Advance = Callable[..., None]


@contextmanager
def progress_bar(label: str, total: int, quiet: bool = False, initial: int = 0) -> Iterator[Advance]:
    """Yield `advance(n=1, note="")`; a bar with speed and time left appears after one second.

    In a log file a plain line is printed every half minute instead.

    Args:
        label: the text before the bar.
        total: the number of steps.
        quiet: show nothing.
        initial: steps done before a run was resumed; they do not count towards the speed.

    >>> with progress_bar("counting", 3, quiet=True) as advance:
    ...     for _ in range(3):
    ...         advance()
    """
    if quiet:
        yield lambda n=1, note="": None
    elif sys.stderr.isatty():
        with _terminal_bar(label, total, initial) as advance:
            yield advance
    else:
        yield _log_progress(label, total, initial)


def make_progress(max_steps: int) -> Any:
    """Make an empty rich `Progress` with columns for name, bar, count, speed, time left and a note that is cut to fit.

    Args:
        max_steps: the largest number of steps of a task.
    """
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
    from rich.table import Column

    fixed: dict[str, Any] = {"no_wrap": True}
    return Progress(
        TextColumn("{task.description}", table_column=Column(**fixed)),
        BarColumn(bar_width=8, table_column=Column(**fixed)),
        MofNCompleteColumn(table_column=Column(min_width=len(f"{max_steps}") * 2 + 1, **fixed)),
        TextColumn("{task.fields[speed]}", table_column=Column(min_width=6, **fixed)),
        TimeRemainingColumn(compact=True, table_column=Column(min_width=5, **fixed)),
        TextColumn("{task.fields[note]}", table_column=Column(ratio=1, overflow="ellipsis", **fixed)),
        console=Console(stderr=True),
        expand=True,
        refresh_per_second=5,
    )


@contextmanager
def _terminal_bar(label: str, total: int, initial: int) -> Iterator[Advance]:
    progress = make_progress(total)
    task = progress.add_task(label, total=total, completed=initial, note="", speed="")
    start, done, shown = time.monotonic(), initial, False

    def advance(n: int = 1, note: str = "") -> None:
        nonlocal done, shown
        done += n
        elapsed = time.monotonic() - start
        if not shown and elapsed > 1:
            progress.start()
            shown = True
        if shown:
            fields: dict[str, Any] = {"speed": _format_speed((done - initial) / max(elapsed, 1e-9))} | (
                {"note": note} if note else {}
            )
            progress.update(task, completed=done, **fields)

    try:
        yield advance
    finally:
        if shown:
            progress.stop()


def _log_progress(label: str, total: int, initial: int, interval: float = 30.0) -> Advance:
    start = last = time.monotonic()
    done = initial

    def advance(n: int = 1, note: str = "") -> None:
        nonlocal done, last
        done += n
        now = time.monotonic()
        if now - last >= interval:
            last = now
            speed = (done - initial) / (now - start)
            left = (total - done) / max(speed, 1e-9)
            line = f"{label}: {done:,}/{total:,}  {_format_speed(speed)}  {left:,.0f} s left  {note}"
            print(line, file=sys.stderr, flush=True)

    return advance


def _format_speed(speed: float) -> str:
    """Steps per second; low speeds get two digits, because 0/s is no information."""
    return f"{speed:,.0f}/s" if speed >= 10 else f"{speed:.2g}/s"
