"""What a study is, and what it hands back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from unbraid.ground.progress import Advance


@dataclass(frozen=True)
class Findings:
    """The numbers of a study, a short table of them to print, and the pictures it wrote."""

    head: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]
    numbers: dict[str, Any]
    pictures: tuple[str, ...] = ()


@dataclass(frozen=True)
class Study:
    """An entry of `STUDIES`: call(out, advance) writes pictures to the folder and advances `steps` times."""

    call: Callable[[Path, Advance], Findings]
    about: str
    cite: str
    steps: int


def still(n: int = 1, note: str = "") -> None:
    """An `advance` that shows nothing."""
