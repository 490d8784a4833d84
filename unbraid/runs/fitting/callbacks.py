"""Callbacks: objects whose methods are called during training, with numbers and paths, and that may stop it.

A callback has one or more of these methods. One that returns True (of Python, numpy or torch) stops training, as Ctrl-C does:

    started(path, recipe, step)   the run directory, the recipe as plain tables, the number of steps done before
    stepped(step, row)            after every step: the number of steps done, and the ledger row, or None
    validated(step, row)          after a validation
    saved(step, path)             a file of weights was written: checkpoint, snapshot or best
    finished(step, path)          training is finished

`fit(…, resume=True)` continues a run that was stopped, with the same bits. After the last step a callback stops nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from unbraid.core.errors import expect

EVENTS = ("started", "stepped", "validated", "saved", "finished")


def validate_callbacks(callbacks: Any) -> tuple[Any, ...]:
    """Return callbacks as a tuple; an object without any of the methods is an error.

    Args:
        callbacks: one callback, or several.
    """
    several = isinstance(callbacks, Iterable) and not isinstance(callbacks, str)
    found = tuple(callbacks) if several else (callbacks,)
    for callback in found:
        expect(
            any(callable(getattr(callback, event, None)) for event in EVENTS) and not isinstance(callback, type),
            "a callback is an object with at least one of these methods",
            found=repr(callback)[:80],
            allowed=", ".join(EVENTS),
        )
    return found


def notify(callbacks: tuple[Any, ...], event: str, *details: Any) -> str:
    """Call a method of every callback; return the class name of one that asks to stop, or "".

    Args:
        callbacks: the callbacks.
        event: the method, one of `EVENTS`.
        details: its arguments.
    """
    stop = ""
    for callback in callbacks:
        method = getattr(callback, event, None)
        if method is not None and _is_true(method(*details)):
            stop = stop or type(callback).__name__
    return stop


def _is_true(answer: Any) -> bool:
    """Whether a method returned True as a bool of Python, numpy or torch; other values do not stop training."""
    single = str(getattr(answer, "dtype", "")) in ("bool", "torch.bool") and not tuple(answer.shape)
    return bool(answer) if single or isinstance(answer, bool) else False
