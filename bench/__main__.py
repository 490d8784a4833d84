"""`make bench`: run all benchmarks or those named, print them and write docs/benchmarks.md."""

from __future__ import annotations

import importlib
import os
import platform
import re
import sys
from pathlib import Path

import torch

BENCHMARKS = ("core", "threads", "data", "objectives", "pairs", "metrics", "sweeps", "cluster", "compare", "studio")
PEERS = "peers"  # needs its own environment: make bench-peers
PAGE = Path(__file__).resolve().parents[1] / "docs" / "benchmarks.md"
INTRO = """# Benchmarks

How fast is the library, and how much memory does it take? `make bench` writes this page. Times depend on the machine, which
each section names, so look at the ratio ours/baseline: both sides are measured in alternation in one run. A limit is the
highest ratio allowed ("> x": the lowest), and a missed limit is marked. Rows without a limit state a cost.
"""


def format_time(value: float | None, unit: str = "") -> str:
    """Format seconds with a suitable unit.

    Args:
        value: the seconds, or a number in `unit`; None gives "".
        unit: the unit of another quantity.
    """
    if value is None:
        return ""
    if unit:
        return f"{value:.3g} {unit}"
    return f"{value:.2f} s" if value >= 1 else f"{value * 1e3:.2f} ms" if value >= 1e-3 else f"{value * 1e6:.0f} µs"


def limit_met(row: dict) -> bool:
    """Whether a row meets its limit.

    Args:
        row: a row; its limit is the highest ratio, "< x" or "> x", unless it has a key "ok".
    """
    if "ok" in row:
        return bool(row["ok"])
    sign, _, number = str(row["limit"]).rpartition(" ")
    return row["ratio"] >= float(number) if sign == ">" else row["ratio"] <= float(number)


def markdown_table(rows: list[dict]) -> str:
    """Format rows as a Markdown table."""
    lines = ["| what | ours | baseline | ratio | limit | |", "|---|---|---|---|---|---|"]
    for r in rows:
        shown = "" if r.get("limit") is None else f"{r['limit']}" + ("" if limit_met(r) else " **missed**")
        ratio = "" if r["ratio"] is None else f"{r['ratio']:.3g}"
        times = f"{format_time(r['ours'], r.get('unit', ''))} | {format_time(r['baseline'])} | {ratio}"
        lines.append(f"| {r['name']} | {times} | {shown} | {r.get('note', '')} |")
    return "\n".join(lines)


def describe_machine() -> str:
    """Describe the machine and its load."""
    load = os.getloadavg()[0]
    return f"{platform.machine()}, {os.cpu_count()} cores, torch {torch.__version__}, load {load:.1f} before"


def split_sections(page: str) -> dict[str, str]:
    """Split a page into its sections, by heading."""
    parts = re.split(r"^## (\w+)\n", page, flags=re.MULTILINE)
    return dict(zip(parts[1::2], (text.strip() for text in parts[2::2]), strict=True))


def write_page(measured: dict[str, list[dict]], machine_line: str = "") -> int:
    """Replace the tables of some benchmarks on the page, keep the text below them, and return the number of missed limits.

    Args:
        measured: rows by benchmark.
        machine_line: the description of the machine.
    """
    old = split_sections(PAGE.read_text()) if PAGE.exists() else {}
    texts = {name: markdown_table(rows) for name, rows in measured.items()}
    for name, text in texts.items():
        below = re.split(r"(?:^\|.*\n?)+", old.get(name, ""), maxsplit=1, flags=re.MULTILINE)[1:]  # may hold tables
        old[name] = "\n\n".join(
            part for part in (f"Machine: {machine_line or describe_machine()}", text, *map(str.strip, below)) if part
        )
    PAGE.write_text(INTRO + "".join(f"\n## {name}\n\n{old[name]}\n" for name in (*BENCHMARKS, PEERS) if name in old))
    return sum(text.count("**missed**") for text in texts.values())


def main() -> int:
    """Run, print and write; the exit code is 1 when a limit is missed."""
    wanted = [n for n in BENCHMARKS if not sys.argv[1:] or n in sys.argv[1:]]
    before, missed = describe_machine(), 0
    for name in wanted:
        print(f"\n## {name}", flush=True)
        rows = importlib.import_module(f"bench.{name}").rows()
        print(markdown_table(rows), flush=True)
        missed += write_page({name: rows}, before)
    print(f"\n{missed} limits missed; written: {PAGE.name}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
