"""Progress bars on a terminal, progress lines in a log."""

from __future__ import annotations

import shutil
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

Advance = Callable[..., None]
WIDTH = 80  # columns of a line in a log
LABEL_WIDTH = 26  # columns of the text before a bar
ESTIMATE_SECONDS = 2.0  # of work that the time of the whole is estimated from
MIN_ESTIMATE = 20.0  # seconds; less is not announced


@contextmanager
def progress_bar(
    label: str, total: int, quiet: bool = False, initial: int = 0, round_size: int = 1
) -> Iterator[Advance]:
    """Yield `advance(n=1, note="")`; a bar with speed and time left appears after one second.

    In a log file a plain line is printed every half minute instead. The time of the whole is estimated from the first two
    seconds, or the first round, and announced in a line if it is more than 20 seconds.

    Args:
        label: the text before the bar.
        total: the number of steps.
        quiet: show nothing.
        initial: steps done before a run was resumed; they do not count towards the speed.
        round_size: steps of unequal length that repeat in rounds; the estimate waits for the first round.

    >>> with progress_bar("counting", 3, quiet=True) as advance:
    ...     for _ in range(3):
    ...         advance()
    """
    if quiet:
        yield lambda n=1, note="": None
    elif sys.stderr.isatty():
        with _terminal_bar(label, total, initial, round_size) as advance:
            yield advance
    else:
        yield _log_progress(label, total, initial, round_size)


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
        TextColumn("{task.description}", table_column=Column(max_width=LABEL_WIDTH, overflow="ellipsis", **fixed)),
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
def _terminal_bar(label: str, total: int, initial: int, round_size: int) -> Iterator[Advance]:
    progress = make_progress(total)
    task = progress.add_task(label, total=total, completed=initial, note="", speed="")
    start, done, shown = time.monotonic(), initial, False
    estimate = _estimate(label, total, initial, round_size, start)

    def advance(n: int = 1, note: str = "") -> None:
        nonlocal done, shown
        done += n
        elapsed = time.monotonic() - start
        if not shown and elapsed > 1:
            progress.start()
            shown = True
        if shown:
            fields = {"speed": _format_speed((done - initial) / max(elapsed, 1e-9)), **({"note": note} if note else {})}
            progress.update(task, completed=done, **fields)
            if line := estimate(done, start + elapsed):
                progress.console.print(line, highlight=False)

    try:
        yield advance
    finally:
        if shown:
            progress.stop()


def _log_progress(label: str, total: int, initial: int, round_size: int, interval: float = 30.0) -> Advance:
    start = last = time.monotonic()
    done = initial
    estimate = _estimate(label, total, initial, round_size, start)

    def advance(n: int = 1, note: str = "") -> None:
        nonlocal done, last
        done += n
        now = time.monotonic()
        line = estimate(done, now)
        if now - last >= interval:
            last = now
            speed = (done - initial) / (now - start)
            left = format_duration((total - done) / max(speed, 1e-9))
            line = f"{label}: {done:,}/{total:,}  {_format_speed(speed)}  {left} left  {note}".rstrip()
        if line:
            print(line if len(line) <= WIDTH else f"{line[: WIDTH - 1]}…", file=sys.stderr, flush=True)

    return advance


def _estimate(label: str, total: int, initial: int, round_size: int, start: float) -> Callable[[int, float], str]:
    """A function of the steps done and the time that returns, once, a line with the time of the whole.

    Without rounds the first step is not timed: it includes work that is done once, such as the choice of kernels.
    """
    first: list[float] = [start, initial] if round_size > 1 else []  # time and steps where timing starts
    finished = False

    def estimate(done: int, now: float) -> str:
        nonlocal finished
        if finished or not first:
            first.extend([now, done] if not first else [])
            return ""
        if now - first[0] < ESTIMATE_SECONDS or done - initial < round_size:
            return ""
        finished = True
        seconds = (now - first[0]) / max(done - first[1], 1) * (total - initial)
        return f"{label}: about {format_duration(seconds)} in all" if seconds >= MIN_ESTIMATE else ""

    return estimate


def wrap_text(text: str, indent: int = 0) -> str:
    """Wrap a line at the width of the terminal.

    Args:
        text: the line.
        indent: columns before the second and all further lines.
    """
    width = max(shutil.get_terminal_size().columns, 40)
    wrapper = textwrap.TextWrapper(
        width, subsequent_indent=" " * indent, break_long_words=False, break_on_hyphens=False
    )
    return wrapper.fill(text)


def format_duration(seconds: float) -> str:
    """Format seconds in two units.

    Args:
        seconds: the seconds.

    >>> [format_duration(s) for s in (4.2, 75, 4000, 200_000)]
    ['4 s', '1 min 15 s', '1 h 06 min', '2 d 7 h']
    """
    s = round(seconds)
    if s < 60:
        return f"{s} s"
    if s < 3600:
        return f"{s // 60} min {s % 60:02d} s"
    return f"{s // 3600} h {s % 3600 // 60:02d} min" if s < 86400 else f"{s // 86400} d {s % 86400 // 3600} h"


def _format_speed(speed: float) -> str:
    """Steps per second; low speeds get two digits, because 0/s is no information."""
    return f"{speed:,.0f}/s" if speed >= 10 else f"{speed:.2g}/s"
