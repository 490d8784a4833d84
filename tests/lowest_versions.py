"""Print the lowest versions that pyproject.toml allows, as pip requirements: `python -m tests.lowest_versions`.

Torch is left out: the Makefile chooses its build, and no CPU build of an old version is offered any more. The extras
`studio` and `cluster` are left out too, because what they require raises the bounds of the core.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

EXTRAS = ("frames", "h5", "parquet", "track", "export")


def lowest_versions(pyproject: str) -> list[str]:
    """Turn every lower bound into a pin.

    Args:
        pyproject: the text of pyproject.toml.

    >>> lowest_versions('[project]\\ndependencies = ["torch>=2.6", "plotly>=6,<7"]\\n[project.optional-dependencies]')
    ['plotly==6']
    """
    project = tomllib.loads(pyproject)["project"]
    extras = project["optional-dependencies"]
    requirements = project["dependencies"] + [line for extra in EXTRAS for line in extras.get(extra, [])]
    pins = [re.sub(r">=([\d.]+).*", r"==\1", line) for line in requirements]
    return [pin for pin in pins if not pin.startswith("torch==")]


if __name__ == "__main__":
    print(*lowest_versions((Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8")), sep="\n")
