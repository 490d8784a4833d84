"""Signals that end a process, handled while a block runs."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

# what batch systems and closed terminals send; Windows has no SIGHUP
TERMINATION_SIGNALS = (signal.SIGTERM, *([signal.SIGHUP] if hasattr(signal, "SIGHUP") else []))
Handler = Callable[[int, Any], None]


@contextmanager
def handle_signals(numbers: Iterable[signal.Signals], handler: Handler) -> Iterator[None]:
    """Call a function for some signals while the block runs; outside of the main thread the caller handles them.

    Args:
        numbers: the signals. Those that the process ignores stay ignored: nohup does that on purpose.
        handler: called with the number of the signal and the current frame.
    """
    before: dict[signal.Signals, Any] = {}
    try:
        with suppress(ValueError):  # not in the main thread
            for number in numbers:
                if signal.getsignal(number) is not signal.SIG_IGN:
                    before[number] = signal.signal(number, handler)
        yield
    finally:
        for number, previous in before.items():
            signal.signal(number, previous)
