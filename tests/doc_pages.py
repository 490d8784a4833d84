"""Run the blocks of Markdown pages, in order, in one folder and one namespace.

Blocks of ```python are executed. A block with file=NAME is appended to that file. Of every other block, fenced or indented, the
lines that are commands run: those of unbraid, and a few programs of any shell. A command with the comment `# error: …` must
fail with that text (… matches anything). `> FILE` is supported. `NOT_RUN` lists what is not run, with the reason.
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
SHELL_PROGRAMS = ("cat", "head", "ls", "wc")  # other programs that run
NOT_RUN = {  # patterns of commands that pages show and no test runs, with the reason
    r"pip install": "changes the installation, from a network; tests/end_to_end/test_release.py installs what is built",
    r"unbraid --version": "tests/end_to_end/test_release.py runs the installed program",
    r"python3? -m venv": "makes an environment; tests/end_to_end/test_release.py makes one",
    r"unbraid train --resume --force --set budget.lr": "RUN is a placeholder for a failed run",
    r"python -c \"import torch": "calls only torch",
    r"make ": "targets of the Makefile; their existence is checked",
    r"ray |.*--engine ray|.*--address": "a Ray cluster; tests/end_to_end/test_ray.py starts one of its own",
    r"bash \S+\.sh|sbatch |srun ": "a batch system; tests/end_to_end/test_sweep.py runs the shards of such a script",
    r"unbraid studio": "a server that runs until it is stopped; tests/unit/studio and tests/browser start it",
    r"ONEDNN_MAX_CPU_ISA": "takes minutes, once for each emulated processor; docs/demo.md has the scores",
    r"unbraid demo": "takes minutes; tests/statistical/test_demo_claim.py and the test of the README run it",
    r"python (-m )?(docs/make|bench|tests)": "takes minutes; the existence of the script is checked",
}
PAGES_NOT_RUN = {
    "discover": "trains for ten minutes; the tutorial discover_factors runs the same commands for seconds",
    "cluster": "a Ray cluster under a batch system; tests/end_to_end/test_ray.py starts clusters of its own",
}


@dataclass(frozen=True)
class Block:
    """A block of a page.

    Args:
        language: its language.
        file: the file it belongs to, or "".
        code: its text.
        line: the number of its first line.
    """

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
    """The commands of a block; lines continued by a backslash are joined."""
    if block.file or block.language in ("python", "py", "toml", "text", "pycon", "json"):
        return []
    joined = re.sub(r"\s*\\\n\s*", " ", block.code).splitlines()
    shown = [line.removeprefix("$ ") for line in joined]
    if block.language != "bash":
        return [line for line in shown if line.split(" ")[0] in PROGRAMS]
    return [line for line in shown if line.strip() and not line.startswith("#")]


def strip_comment(line: str) -> str:
    """A line without its comment or the text in a further column."""
    return re.split(r"\s+#|\s{3,}", line)[0].strip()


def reason_not_run(command: str) -> str:
    """Why a command is not run; "" if it is."""
    return next((why for pattern, why in NOT_RUN.items() if re.match(pattern, command)), "")


def run_page(
    page: Path, folder: Path, replacements: dict[str, str] | None = None, in_process: bool = False, **variables: Any
) -> dict[str, Any]:
    """Run a page in a folder, which must be the working directory and on the path; return the names it defines.

    Args:
        page: the page.
        folder: the folder.
        replacements: texts of its blocks to replace, such as a number of steps; each must occur.
        in_process: run commands in this process, which saves the import of torch.
        **variables: names that the page may use.
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
    output = done.stdout + done.stderr
    if comment.strip().startswith("error:"):
        pattern = ".*".join(re.escape(part.strip()) for part in comment.strip().split("…"))
        assert done.returncode == 2, f"{location}: {line}\n{output}"
        assert re.search(pattern, output, re.DOTALL), f"{location}: {line}\n{output}"
    else:
        assert done.returncode == 0, f"{location}: {line}\n{output}"
    if into:
        (folder / into).write_text(done.stdout)
    return 1


def _run_subprocess(arguments: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-P", "-m", "unbraid", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True)


def _run_in_process(arguments: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    """Run the command line in this process; return output and exit code."""
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

    Placeholders (`…`, alternatives with `|`) are left out.
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
