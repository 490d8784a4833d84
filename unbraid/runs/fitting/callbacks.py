"""Callbacks: objects that are told what a run does, in numbers and paths, and may stop it. `ledger.jsonl` remains the truth.

A callback has any of these methods; one that returns True (Python's, numpy's or torch's) stops the run, as Ctrl-C does:

    started(path, recipe, step)   the run directory, the recipe as plain tables, the steps done before
    stepped(step, row)            after every step: how many are done, and the row of the ledger, or None
    validated(step, row)          after a validation
    saved(step, path)             a file of weights was written: checkpoint, snapshot or best
    finished(step, path)          the run is done

A run that is stopped so goes on with `resume`, to the same bits; after its last step there is nothing to
stop, and it is finished.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from unbraid.core.errors import expect

EVENTS = ("started", "stepped", "validated", "saved", "finished")


def validate_callbacks(callbacks: Any) -> tuple[Any, ...]:
    """Callbacks as given, one alone or several; one that listens to nothing is a mistake."""
    several = isinstance(callbacks, Iterable) and not isinstance(callbacks, str)
    found = tuple(callbacks) if several else (callbacks,)
    for callback in found:
        expect(
            any(callable(getattr(callback, event, None)) for event in EVENTS) and not isinstance(callback, type),
            "a callback is an object with one of these methods at least",
            found=repr(callback)[:80],
            allowed=", ".join(EVENTS),
        )
    return found


def notify(callbacks: tuple[Any, ...], event: str, *details: Any) -> str:
    """Tell every callback; returns the name of one that asks to stop, or ''."""
    stop = ""
    for callback in callbacks:
        method = getattr(callback, event, None)
        if method is not None and _is_true(method(*details)):
            stop = stop or type(callback).__name__
    return stop


def _is_true(answer: Any) -> bool:
    """Whether a callback said True: a bool, or numpy's or torch's; other things that a method may return mean nothing."""
    single = str(getattr(answer, "dtype", "")) in ("bool", "torch.bool") and not tuple(answer.shape)
    return bool(answer) if single or isinstance(answer, bool) else False
