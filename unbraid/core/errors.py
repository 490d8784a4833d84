"""Errors that state the requirement, the value found, the values allowed and what to do."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from typing import TypeVar

T = TypeVar("T")
MAX_MESSAGE_LENGTH = 4000  # characters of an error


class UnbraidError(ValueError):
    """A mistake that the caller can correct: a name, a value, a shape, a file. Long messages are shortened.

    Args:
        message: the text.

    >>> len(str(UnbraidError("a" * 10**6))) < 5000
    True
    """

    def __init__(self, message: object = ""):
        text = str(message)
        short = f"{text[: MAX_MESSAGE_LENGTH - 600]} … {text[-500:]}"
        super().__init__(text if len(text) <= MAX_MESSAGE_LENGTH else short)


class TrainingInterrupted(BaseException):
    """Training was interrupted and its state is saved; the message says how to resume.

    It is not a KeyboardInterrupt, because command-line libraries swallow that together with its message.
    """


_command_line = False  # whether a command is running, whose options errors then name


def use_command_line_words(enabled: bool) -> None:
    """Choose what errors name: options of commands, or arguments of Python functions (the default).

    Args:
        enabled: name options of commands.
    """
    global _command_line
    _command_line = enabled


def command_or_python(command: str, python: str) -> str:
    """Return the text for the interface in use, so that an error names what its reader can type.

    Args:
        command: the text for the command line.
        python: the text for Python.

    >>> command_or_python("--force", "force=True")
    'force=True'
    """
    return command if _command_line else python


def expect(condition: object, requirement: str, *, found: object = None, allowed: object = None, do: str = "") -> None:
    """Raise an `UnbraidError` unless a condition holds.

    Args:
        condition: what must be true.
        requirement: the rule that is broken, as a clause.
        found: the value that breaks it; never the contents of an array.
        allowed: the values that are allowed.
        do: what the user can do, as a sentence.

    >>> expect(2 > 1, "two is more than one")
    >>> expect(False, "batch must fit the data", found="batch 512, 100 images", do="Lower budget.batch.")
    Traceback (most recent call last):
        ...
    unbraid.core.errors.UnbraidError: batch must fit the data: found batch 512, 100 images. Lower budget.batch.
    """
    if not condition:
        raise UnbraidError(error_message(requirement, found=found, allowed=allowed, do=do))


def error_message(requirement: str, *, found: object = None, allowed: object = None, do: str = "") -> str:
    """Join the four parts of an error into one or two sentences; see `expect`.

    Args:
        requirement: the rule that is broken.
        found: the value that breaks it.
        allowed: the values that are allowed.
        do: what the user can do.
    """
    text = requirement
    if found is not None:
        text += f": found {found}"
    if allowed is not None:
        text += f"; allowed: {join_names(allowed)}"
    return f"{text}. {do}".strip() if not text.endswith(".") else f"{text} {do}".strip()


def join_names(allowed: object) -> str:
    """Join several names by commas; a single value is returned as text.

    Args:
        allowed: names, or one value.
    """
    if isinstance(allowed, str) or not isinstance(allowed, Iterable):
        return str(allowed)
    return ", ".join(str(a) for a in allowed)


def choose(name: str, options: Mapping[str, T], what: str) -> T:
    """Look up a name in a dict, or raise an error with the nearest name and the whole list.

    Args:
        name: the name.
        options: what may be chosen, by name.
        what: what is chosen, for the error.

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
    """The sentence " Did you mean …?" for the closest option, or "".

    Args:
        name: the name that was not found.
        options: the names that exist.
    """
    plain = {option.lower().replace("-", "_"): option for option in options}
    close = difflib.get_close_matches(name.lower().replace("-", "_"), list(plain), n=1, cutoff=0.6)
    return f" Did you mean {plain[close[0]]!r}?" if close else ""
