"""Errors that say what was asked, what was found, what is allowed and what to do."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from typing import TypeVar

T = TypeVar("T")
MAX_MESSAGE_LENGTH = 4000  # letters of an error


class UnbraidError(ValueError):
    """Something the caller can mend: a name, a value, a shape, a file. What is said stays within a few screens.

    >>> len(str(UnbraidError("a" * 10**6))) < 5000
    True
    """

    def __init__(self, message: object = ""):
        text = str(message)
        super().__init__(
            text if len(text) <= MAX_MESSAGE_LENGTH else f"{text[: MAX_MESSAGE_LENGTH - 600]} … {text[-500:]}"
        )


class TrainingInterrupted(BaseException):
    """Work was asked to stop and nothing was lost; the message says how to go on.

    Not a KeyboardInterrupt, which command-line libraries swallow together with its message.
    """


def expect(condition: object, requirement: str, *, found: object = None, allowed: object = None, do: str = "") -> None:
    """Raise an `UnbraidError` unless `condition` holds.

    The message has up to four parts; values are shown, array contents never are.

    >>> expect(2 > 1, "two is more than one")
    >>> expect(False, "batch must fit the data", found="batch 512, 100 images", do="Lower budget.batch.")
    Traceback (most recent call last):
        ...
    unbraid.core.errors.UnbraidError: batch must fit the data: found batch 512, 100 images. Lower budget.batch.
    """
    if not condition:
        raise UnbraidError(error_message(requirement, found=found, allowed=allowed, do=do))


def error_message(requirement: str, *, found: object = None, allowed: object = None, do: str = "") -> str:
    """Join the four parts of an error into one sentence or two."""
    text = requirement
    if found is not None:
        text += f": found {found}"
    if allowed is not None:
        text += f"; allowed: {join_names(allowed)}"
    return f"{text}. {do}".strip() if not text.endswith(".") else f"{text} {do}".strip()


def join_names(allowed: object) -> str:
    """Names as a comma-separated line; anything else as itself."""
    if isinstance(allowed, str) or not isinstance(allowed, Iterable):
        return str(allowed)
    return ", ".join(str(a) for a in allowed)


def choose(name: str, options: Mapping[str, T], what: str) -> T:
    """Look a name up in a dict, or raise with the nearest name and the whole list.

    >>> choose("vea", {"vae": 1, "hfvae": 2}, "objective")
    Traceback (most recent call last):
        ...
    unbraid.core.errors.UnbraidError: unknown objective 'vea'. Did you mean 'vae'? Known: hfvae, vae.
    """
    if isinstance(name, str) and name in options:
        return options[name]
    raise UnbraidError(
        f"unknown {what} {name!r}.{did_you_mean(str(name), options)} Known: {join_names(sorted(options))}."
    )


def did_you_mean(name: str, options: Iterable[str]) -> str:
    """A ' Did you mean …?' for the closest option, or nothing."""
    close = difflib.get_close_matches(name, list(options), n=1, cutoff=0.6)
    return f" Did you mean {close[0]!r}?" if close else ""
