"""Write tutorials as notebooks: docs/notebooks/, from the pages by `make docs`; one cell per block, without outputs."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from unbraid.core.files import write_text

DOCS = Path(__file__).resolve().parents[1]
PAGES = ("own_codes", "ledger_and_audit")


def make_notebook(page: Path) -> dict[str, Any]:
    """Turn a page into a notebook: text as Markdown cells, Python and commands as code cells."""
    cells: list[dict[str, Any]] = []
    for part in re.split(r"(^```\w+[^\n]*\n.*?^```$)", page.read_text(), flags=re.DOTALL | re.MULTILINE):
        match = re.match(r"```(\w+)(?: file=(\S+))?\n(.*?)```$", part, re.DOTALL)
        if match and match[1] in ("python", "bash"):
            code = match[3].rstrip("\n")
            lines = code if match[1] == "python" else "\n".join(f"!{line}" for line in code.splitlines())
            cells.append({"cell_type": "code", "execution_count": None, "metadata": {}, "outputs": [], "source": _lines(lines)})
        elif part.strip():
            cells.append({"cell_type": "markdown", "metadata": {}, "source": _lines(_strip_links(part.strip()))})
    for number, cell in enumerate(cells):
        cell["id"] = f"{page.stem}-{number}"
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    return {"cells": cells, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}


def _strip_links(text: str) -> str:
    """Replace links to pages by their text and remove the link to the notebook, because a notebook is used alone."""
    text = re.sub(r"^.*\{download\}.*\n?", "", text, flags=re.MULTILINE)
    return re.sub(r"\[([^\]]*)\]\([^)]*\.md[^)]*\)", r"\1", text)


def _lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)


def write_notebooks() -> None:
    """Write all notebooks."""
    (DOCS / "notebooks").mkdir(exist_ok=True)
    for name in PAGES:
        made = make_notebook(DOCS / "tutorials" / f"{name}.md")
        write_text(DOCS / "notebooks" / f"{name}.ipynb", json.dumps(made, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    write_notebooks()
