"""Pages that are run: the fenced blocks of a Markdown page, in their order, in one folder and one namespace.

```python runs; ```python file=NAME is added to that file first; of ```bash the lines that begin with `unbraid` run, and
one with the comment `# error: …` must fail with that word (… stands for anything).
"""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Block:
    """One fenced block: its language, the file it belongs to (or ""), its text and the line it begins on."""

    language: str
    file: str
    code: str
    line: int


def blocks(page: Path) -> list[Block]:
    """The fenced blocks of a page that name a language."""
    text = page.read_text()
    found = []
    for match in re.finditer(r"^```(\w+)(?: file=(\S+))?\n(.*?)^```$", text, re.DOTALL | re.MULTILINE):
        line = text.count("\n", 0, match.start()) + 1
        found.append(Block(match[1], match[2] or "", match[3], line))
    return found


def run_page(page: Path, folder: Path, **given: Any) -> dict[str, Any]:
    """Run a page in a folder, which must be the working directory and on the path; returns the names it leaves behind."""
    names: dict[str, Any] = {"__name__": "page", **given}
    ran = 0
    for block in blocks(page):
        if block.file:
            with open(folder / block.file, "a") as f:
                f.write(block.code)
        elif block.language == "python":
            exec(compile("\n" * block.line + block.code, str(page), "exec"), names)
            ran += 1
        elif block.language == "bash":
            for line in block.code.splitlines():
                ran += _shell(line, folder, f"{page.name}, line {block.line}")
    assert ran, f"nothing on {page} was run"
    return names


def _shell(line: str, folder: Path, where: str) -> int:
    command, _, comment = line.partition("#")
    words = shlex.split(command)
    if not words or words[0] != "unbraid":
        return 0
    done = subprocess.run(
        [sys.executable, "-P", "-m", "unbraid", *words[1:]], cwd=folder, capture_output=True, text=True
    )
    said = done.stdout + done.stderr
    if comment.strip().startswith("error:"):
        pattern = ".*".join(re.escape(part.strip()) for part in comment.strip().split("…"))
        assert done.returncode == 2, f"{where}: {line}\n{said}"
        assert re.search(pattern, said, re.DOTALL), f"{where}: {line}\n{said}"
    else:
        assert done.returncode == 0, f"{where}: {line}\n{said}"
    return 1
