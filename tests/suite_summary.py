"""Summarise a full test run: `python -m tests.suite_summary all.xml --write` writes the counts to docs/reliability.md.

`make test-all` calls it with the report that pytest wrote, whether or not all tests passed.
"""

from __future__ import annotations

import argparse
import os
import platform
import re
import subprocess
import xml.etree.ElementTree as ET
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "reliability.md"


def write_section(name: str, text: str, page: Path = PAGE) -> None:
    """Replace the text between the marks `<!-- name: begin -->` and `<!-- name: end -->` of a page.

    Args:
        name: the name of the marks.
        text: the new text.
        page: the page.
    """
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    before = page.read_text(encoding="utf-8")
    head, tail = before[: before.index(begin) + len(begin)], before[before.index(end) :]
    page.write_text(f"{head}\n{text}\n{tail}", encoding="utf-8")


def read_cases(report: Path) -> list[tuple[str, str, float, str]]:
    """The cases of a report: name, result (passed, failed, skipped), seconds, and the reason of a skip."""
    found = []
    for case in ET.parse(report).iter("testcase"):  # written by pytest on this machine a moment ago
        ends = {child.tag: child for child in case}
        how = "failed" if {"failure", "error"} & set(ends) else "skipped" if "skipped" in ends else "passed"
        why = ends["skipped"].get("message", "") if how == "skipped" else ""
        name = f"{case.get('classname', '')}.{case.get('name', '')}"
        found.append((name, how, float(case.get("time", 0)), why))
    return found


def summary(report: Path) -> str:
    """Counts, time, machine and commit of a report in a sentence; failed tests; reasons of skips."""
    found = read_cases(report)
    count = Counter(how for _, how, _, _ in found)
    suite = next(ET.parse(report).iter("testsuite"))
    minutes, day = float(suite.get("time", 0)) / 60, suite.get("timestamp", "")[:10]
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True).stdout
    where = f"Python {platform.python_version()}, {platform.system()}, {os.cpu_count()} cores"
    lines = [
        f"**{count['passed']:,} passed, {count['failed']} failed, {count['skipped']} skipped** in {minutes:.0f} minutes, in "
        f"one piece ({day}, commit {commit.strip() or 'unknown'}, {where})."
    ]
    lines += [f"- failed: `{name}`" for name, how, _, _ in found if how == "failed"]
    reasons = Counter(re.sub(r"\s+", " ", why) for _, how, _, why in found if how == "skipped")
    lines += [f"- skipped, {n}: {why}" for why, n in sorted(reasons.items())]
    return "\n".join([lines[0], *([""] if lines[1:] else []), *lines[1:]])


def main() -> None:
    """Print the summary; with --write, write it into docs/reliability.md."""
    parser = argparse.ArgumentParser(prog="python -m tests.suite_summary", description=__doc__)
    parser.add_argument("report", type=Path, help="the file of pytest --junitxml")
    parser.add_argument("--write", action="store_true", help="write it into docs/reliability.md")
    arguments = parser.parse_args()
    text = summary(arguments.report)
    print(f"\n{text}")
    if arguments.write:
        write_section("tests", text)


if __name__ == "__main__":
    main()
