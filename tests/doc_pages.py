"""Pages that are run: the blocks of a Markdown page, in their order, in one folder and one namespace.

```python runs; a block with file=NAME is added to that file; of every other block, fenced or indented, the lines that
are commands run: those of ours, and small programs that any shell has. One with the comment `# error: …` must fail with
that word (… stands for anything). `> FILE` is understood. What is not run stands in `NOT_RUN`, with its reason.
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

PROGRAMS = (
    "unbraid",
    "python",
    "python3",
    "pip",
    "make",
    "ray",
    "bash",
    "sh",
    "sbatch",
    "srun",
    "git",
    "cat",
    "curl",
    "docker",
    "tensorboard",
)
SHELL_PROGRAMS = ("cat", "head", "ls", "wc")  # of other programs' lines these run too
NOT_RUN = {  # commands that pages show and no test runs as printed: a pattern of them, and why
    r"pip install": "changes the installation, from a network; tests/end_to_end/test_release.py installs what is built",
    r"unbraid --version": "tests/end_to_end/test_release.py asks the installed program",
    r"python3? -m venv": "an environment of one's own; tests/end_to_end/test_release.py makes one",
    r"unbraid train --resume --force --set budget.lr": "RUN stands for a run that broke",
    r"python -c \"import torch": "asks torch alone",
    r"make ": "the project's own habits: the tests are one of them (each target's existence is checked)",
    r"ray |.*--engine ray|.*--address": "a Ray cluster; tests/end_to_end/test_ray.py starts one of its own",
    r"bash \S+\.sh|sbatch |srun ": "a batch system; tests/end_to_end/test_sweep.py runs the shards of such a script",
    r"unbraid studio": "a server that goes on until it is stopped; tests/unit/studio and tests/browser start it",
    r"unbraid demo": "minutes; tests/statistical/test_demo_claim.py and the README's own test run it",
    r"python (-m )?(docs/make|bench|tests)": "measures or draws for minutes; that the script is there is checked",
}
PAGES_NOT_RUN = {
    "cluster": "a Ray cluster under a batch system; tests/end_to_end/test_ray.py starts clusters of its own"
}


@dataclass(frozen=True)
class Block:
    """One fenced block: its language, the file it belongs to (or ""), its text and the line it begins on."""

    language: str
    file: str
    code: str
    line: int


FENCED = r"^```([^\n]*)\n(.*?)^```$"
INFO = r"(?:\{code-block\} )?(\w*)(?: file=(\S+))?$"  # other directives are no code
INDENTED = r"(?:(?<=\n\n)|\A)((?: {4}\S.*\n(?:(?: {4}.*)?\n)*)+)"


def read_blocks(page: Path) -> list[Block]:
    """The blocks of a page: fenced ones with their language, and indented ones that begin with a command, as bash."""
    text = page.read_text()
    found = []
    for match in re.finditer(FENCED, text, re.DOTALL | re.MULTILINE):
        line = text.count("\n", 0, match.start()) + 1
        if info := re.match(INFO, match[1]):
            found.append(Block(info[1], info[2] or "", match[2], line))
    outside = re.sub(r"^```.*?^```$", lambda m: "\n" * m[0].count("\n"), text, flags=re.DOTALL | re.MULTILINE)
    for match in re.finditer(INDENTED, outside):
        code = "\n".join(line.removeprefix("    ") for line in match[1].splitlines()).strip() + "\n"
        if code.split()[0] in PROGRAMS:
            found.append(Block("bash", "", code, outside.count("\n", 0, match.start()) + 1))
    return sorted(found, key=lambda block: block.line)


def command_lines(block: Block) -> list[str]:
    """The commands of a block that is no Python, no table and no output: one that is continued by \\ is one line."""
    if block.file or block.language in ("python", "py", "toml", "text", "pycon", "json"):
        return []
    joined = re.sub(r"\s*\\\n\s*", " ", block.code).splitlines()
    shown = [line.removeprefix("$ ") for line in joined]
    if block.language != "bash":
        return [line for line in shown if line.split(" ")[0] in PROGRAMS]
    return [line for line in shown if line.strip() and not line.startswith("#")]


def strip_comment(line: str) -> str:
    """A line without what is said of it, be it a comment or words in a column of their own."""
    return re.split(r"\s+#|\s{3,}", line)[0].strip()


def reason_not_run(command: str) -> str:
    """Why a command is not run; "" if it is."""
    return next((why for pattern, why in NOT_RUN.items() if re.match(pattern, command)), "")


def run_page(
    page: Path, folder: Path, replacements: dict[str, str] | None = None, in_process: bool = False, **variables: Any
) -> dict[str, Any]:
    """Run a page in a folder, which must be the working directory and on the path; returns the names it leaves behind.

    `instead` replaces texts of its blocks, each of which must be there: a smaller number of steps, say. With `inside` the
    commands run in this process, which spares each the seconds of loading torch.
    """
    names: dict[str, Any] = {"__name__": "page", **variables}
    ran = 0
    for block in _replace_text(read_blocks(page), replacements or {}):
        if block.file:
            with open(folder / block.file, "a") as f:
                f.write(block.code)
        elif block.language == "python":
            exec(compile("\n" * block.line + block.code, str(page), "exec"), names)
            ran += 1
        for line in command_lines(block):
            ran += _run_line(line, folder, f"{page.name}, line {block.line}", in_process)
    assert ran, f"nothing on {page} was run"
    return names


def _replace_text(page_blocks: list[Block], replacements: dict[str, str]) -> list[Block]:
    for old, new in replacements.items():
        assert any(old in block.code for block in page_blocks), f"no block has {old!r} any more"
        page_blocks = [replace(block, code=block.code.replace(old, new)) for block in page_blocks]
    return page_blocks


def _run_line(line: str, folder: Path, location: str, in_process: bool = False) -> int:
    command, comment = strip_comment(line), line.partition(" #")[2]
    if reason_not_run(command):
        return 0
    words = shlex.split(command)
    if words[0] in SHELL_PROGRAMS:
        subprocess.run(words, cwd=folder, check=True, capture_output=True)
        return 1
    assert words[0] == "unbraid", f"{location}: no test can run: {line}"
    words, into = (words[:-2], words[-1]) if words[-2:-1] == [">"] else (words, "")
    done = (_run_in_process if in_process else _run_subprocess)(words[1:], folder)
    said = done.stdout + done.stderr
    if comment.strip().startswith("error:"):
        pattern = ".*".join(re.escape(part.strip()) for part in comment.strip().split("…"))
        assert done.returncode == 2, f"{location}: {line}\n{said}"
        assert re.search(pattern, said, re.DOTALL), f"{location}: {line}\n{said}"
    else:
        assert done.returncode == 0, f"{location}: {line}\n{said}"
    if into:
        (folder / into).write_text(done.stdout)
    return 1


def _run_subprocess(arguments: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-P", "-m", "unbraid", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True)


def _run_in_process(arguments: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    """The command line in this process, with what it printed and its exit code."""
    from unbraid import cli

    out, err, code, argv = io.StringIO(), io.StringIO(), 0, sys.argv
    sys.argv = ["unbraid", *arguments]
    try:
        with contextlib.chdir(folder), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            cli.main()
    except SystemExit as end:
        code = int(end.code or 0)
    finally:
        sys.argv = argv
    return subprocess.CompletedProcess(arguments, code, out.getvalue(), err.getvalue())


def shown_commands(page: Path) -> list[tuple[int, str]]:
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
