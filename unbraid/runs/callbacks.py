"""Callbacks: objects that are told what a run does, in numbers and paths, and may stop it. `ledger.jsonl` remains the truth.

A callback has any of these methods; one that returns True stops the run, as Ctrl-C does:

    started(path, recipe, step)   the run directory, the recipe as plain tables, the steps done before
    stepped(step, row)            after every step: how many are done, and the row of the ledger, or None
    validated(step, row)          after a validation
    saved(step, path)             a file of weights was written: checkpoint, snapshot or best
    finished(step, path)          the run is done
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from unbraid.ground.errors import expect

EVENTS = ("started", "stepped", "validated", "saved", "finished")


def checked(callbacks: Iterable[Any]) -> tuple[Any, ...]:
    """Callbacks as given; one that listens to nothing is a mistake."""
    found = tuple(callbacks)
    for callback in found:
        expect(
            any(callable(getattr(callback, event, None)) for event in EVENTS) and not isinstance(callback, type),
            "a callback is an object with one of these methods at least",
            found=repr(callback)[:80],
            allowed=", ".join(EVENTS),
        )
    return found


def tell(callbacks: tuple[Any, ...], event: str, *told: Any) -> str:
    """Tell every callback; returns the name of one that asks to stop, or ''."""
    stop = ""
    for callback in callbacks:
        method = getattr(callback, event, None)
        if method is not None and method(*told) is True:
            stop = stop or type(callback).__name__
    return stop
