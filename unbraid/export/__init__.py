"""Runs for the world outside: one function per format, run -> file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from unbraid.export.html import explorer
from unbraid.runs.run import Run

EXPORTS: dict[str, Callable[[Run, Path | None], Path]] = {
    "html": explorer,
}
