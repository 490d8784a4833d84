"""Exports: write a run in a format that other tools open. A format imports its packages only when it is used."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from unbraid.runs import Run


def _html(run: Run, out: Path | None = None) -> Path:
    """`explore.html`: one page with sliders that decodes in the browser, offline."""
    from unbraid.export.html import write_explorer

    return write_explorer(run, out)


def _onnx(run: Run, out: Path | None = None) -> Path:
    """`onnx/`: encoder and decoder for any ONNX runtime, checked against torch."""
    from unbraid.export.onnx import write_onnx

    return write_onnx(run, out)


def _hub(run: Run, out: Path | None = None) -> Path:
    """`hub/`: a folder for Hugging Face's hub, with a model card."""
    from unbraid.export.hub import write_hub

    return write_hub(run, out)


# by name: writes a run to a path (by default inside the run directory) and returns the path
EXPORTS: dict[str, Callable[[Run, Path | None], Path]] = {"html": _html, "onnx": _onnx, "hub": _hub}
