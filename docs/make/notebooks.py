"""Write tutorials as notebooks: docs/notebooks/, from the pages by `make docs`; one cell per block, without outputs."""

from __future__ import annotations

import base64
import json
import re
from pathlib import Path
from typing import Any

from unbraid.core.files import write_text

DOCS = Path(__file__).resolve().parents[1]
PAGES = ("discover_factors", "first_model", "own_images", "own_codes", "latent_tree", "ledger_and_audit", "which_objective", "sweep")


def make_notebook(page: Path) -> dict[str, Any]:
    """Turn a page into a notebook: text as Markdown cells, Python and commands as code cells."""
    cells: list[dict[str, Any]] = []
    for part in re.split(r"(^```\w+[^\n]*\n.*?^```$)", page.read_text(), flags=re.DOTALL | re.MULTILINE):
        match = re.match(r"```(\w+)(?: file=(\S+))?\n(.*?)```$", part, re.DOTALL)
        if match and (match[1] in ("python", "bash") or match[2]):
            code = match[3].rstrip("\n")
            code = f"%%writefile {match[2]}\n{code}" if match[2] else code
            lines = _shell_lines(code) if match[1] == "bash" and not match[2] else code
            cells.append({"cell_type": "code", "execution_count": None, "metadata": {}, "outputs": [], "source": _lines(lines)})
        elif part.strip():
            cells.append(_text_cell(_strip_links(part.strip()), page.parent))
    for number, cell in enumerate(cells):
        cell["id"] = f"{page.stem}-{number}"
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    return {"cells": cells, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}


def _shell_lines(code: str) -> str:
    """Commands for a notebook: each with an exclamation mark; servers, which do not end, become comments."""
    joined = re.sub(r"\s*\\\n\s*", " ", code)
    return "\n".join(f"# {line}" if line.startswith(("#", "unbraid studio")) else f"!{line}" for line in joined.splitlines() if line.strip())


def _text_cell(text: str, folder: Path) -> dict[str, Any]:
    """A Markdown cell that holds its pictures, because a notebook is used alone."""
    cell: dict[str, Any] = {"cell_type": "markdown", "metadata": {}}
    pictures = [folder / path for path in re.findall(r"\]\((\.\./pictures/[^)]+\.png)\)", text)]
    if pictures:
        cell["attachments"] = {p.name: {"image/png": base64.b64encode(p.read_bytes()).decode()} for p in pictures}
        text = re.sub(r"\]\(\.\./pictures/(?:[^)/]+/)*([^)/]+\.png)\)", r"](attachment:\1)", text)
    return {**cell, "source": _lines(text)}


def _strip_links(text: str) -> str:
    """Replace links to pages by their text and remove the link to the notebook, because a notebook is used alone."""
    text = re.sub(r"^.*\{download\}.*\n?", "", text, flags=re.MULTILINE)
    text = re.sub(r"\{term\}`([^`<]*?)\s*(?:<[^`]*>)?`", r"\1", text)
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
