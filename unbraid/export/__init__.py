"""Runs for the world outside: one function per format, run -> file or folder."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from unbraid.export.html import write_explorer
from unbraid.export.hub import write_hub
from unbraid.export.onnx import write_onnx
from unbraid.runs.run import Run

EXPORTS: dict[str, Callable[[Run, Path | None], Path]] = {
    "html": write_explorer,
    "onnx": write_onnx,
    "hub": write_hub,
}
