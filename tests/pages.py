"""Pages that are run: the fenced blocks of a Markdown page, in their order, in one folder and one namespace.

```python runs; a block with file=NAME is added to that file; of ```bash the lines that begin with `unbraid` run, and
one with the comment `# error: …` must fail with that word (… stands for anything). `> FILE` is understood.
"""

from __future__ import annotations

import contextlib
import io
import re
import shlex
import subprocess
import sys
from dataclasses import dataclass, replace
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


def run_page(
    page: Path, folder: Path, instead: dict[str, str] | None = None, inside: bool = False, **given: Any
) -> dict[str, Any]:
    """Run a page in a folder, which must be the working directory and on the path; returns the names it leaves behind.

    `instead` replaces texts of its blocks, each of which must be there: a smaller number of steps, say. With `inside` the
    commands run in this process, which spares each the seconds of loading torch.
    """
    names: dict[str, Any] = {"__name__": "page", **given}
    ran = 0
    for block in _replaced(blocks(page), instead or {}):
        if block.file:
            with open(folder / block.file, "a") as f:
                f.write(block.code)
        elif block.language == "python":
            exec(compile("\n" * block.line + block.code, str(page), "exec"), names)
            ran += 1
        elif block.language == "bash":
            for line in block.code.replace("\\\n", " ").splitlines():
                ran += _shell(line, folder, f"{page.name}, line {block.line}", inside)
    assert ran, f"nothing on {page} was run"
    return names


def _replaced(found: list[Block], instead: dict[str, str]) -> list[Block]:
    for old, new in instead.items():
        assert any(old in block.code for block in found), f"no block has {old!r} any more"
        found = [replace(block, code=block.code.replace(old, new)) for block in found]
    return found


def _shell(line: str, folder: Path, where: str, inside: bool = False) -> int:
    command, _, comment = line.partition(" #")
    words = shlex.split(command)
    if not words or words[0] != "unbraid":
        return 0
    words, into = (words[:-2], words[-1]) if words[-2:-1] == [">"] else (words, "")
    done = (_inside if inside else _apart)(words[1:], folder)
    said = done.stdout + done.stderr
    if comment.strip().startswith("error:"):
        pattern = ".*".join(re.escape(part.strip()) for part in comment.strip().split("…"))
        assert done.returncode == 2, f"{where}: {line}\n{said}"
        assert re.search(pattern, said, re.DOTALL), f"{where}: {line}\n{said}"
    else:
        assert done.returncode == 0, f"{where}: {line}\n{said}"
    if into:
        (folder / into).write_text(done.stdout)
    return 1


def _apart(words: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-P", "-m", "unbraid", *words]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True)


def _inside(words: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    """The command line in this process, with what it printed and its exit code."""
    from unbraid import cli

    out, err, code, argv = io.StringIO(), io.StringIO(), 0, sys.argv
    sys.argv = ["unbraid", *words]
    try:
        with contextlib.chdir(folder), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            cli.main()
    except SystemExit as end:
        code = int(end.code or 0)
    finally:
        sys.argv = argv
    return subprocess.CompletedProcess(words, code, out.getvalue(), err.getvalue())


def commands(page: Path) -> list[tuple[int, str]]:
    """Every command of ours that a page shows, in blocks of any kind or within a line, with the number of its line.

    What only stands for something (`…`, alternatives with `|`) is left out.
    """
    found = []
    text = page.read_text().replace("\\\n", " ")
    for number, line in enumerate(text.splitlines(), 1):
        shown = (
            [line.strip()] if re.match(r"\s*(\$ )?unbraid [a-z]", line) else re.findall(r"`(unbraid [a-z][^`]*)`", line)
        )
        for command in shown:
            plain = re.split(r"\s+#|\s{3,}|\s>\s|\s&&", command.removeprefix("$ "))[0]
            if not re.search(r"…|\||\.\.\.", plain):
                found.append((number, plain))
    return found
