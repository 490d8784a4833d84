"""`make bench`: run every benchmark (or those named), print them, and write docs/benchmarks.md."""

from __future__ import annotations

import importlib
import os
import platform
import re
import sys
from pathlib import Path

import torch

BENCHMARKS = ("core", "threads", "data", "objectives", "metrics", "sweeps", "cluster", "compare", "studio")
PEERS = "peers"  # in an environment of its own: make bench-peers
PAGE = Path(__file__).resolve().parents[1] / "docs" / "benchmarks.md"
INTRO = """# Benchmarks

Made by `make bench`. Times are of the machine below and move with it; the ratio ours/baseline is what counts, measured in
turns in one run. A limit is the highest ratio allowed ("> x": the lowest); rows without one only state a cost, and a
limit that was not kept says so.
"""


def format_time(value: float | None, unit: str = "") -> str:
    """A time in the unit that fits it, or a number in a unit of its own."""
    if value is None:
        return ""
    if unit:
        return f"{value:.3g} {unit}"
    return f"{value:.2f} s" if value >= 1 else f"{value * 1e3:.2f} ms" if value >= 1e-3 else f"{value * 1e6:.0f} µs"


def limit_met(row: dict) -> bool:
    """True when a row keeps its limit: a highest ratio, or "< x" or "> x" in words, or as the row itself says."""
    if "ok" in row:
        return bool(row["ok"])
    sign, _, number = str(row["limit"]).rpartition(" ")
    return row["ratio"] >= float(number) if sign == ">" else row["ratio"] <= float(number)


def markdown_table(rows: list[dict]) -> str:
    """Rows as Markdown."""
    lines = ["| what | ours | baseline | ratio | limit | |", "|---|---|---|---|---|---|"]
    for r in rows:
        shown = "" if r.get("limit") is None else f"{r['limit']}" + ("" if limit_met(r) else " **missed**")
        ratio = "" if r["ratio"] is None else f"{r['ratio']:.3g}"
        times = f"{format_time(r['ours'], r.get('unit', ''))} | {format_time(r['baseline'])} | {ratio}"
        lines.append(f"| {r['name']} | {times} | {shown} | {r.get('note', '')} |")
    return "\n".join(lines)


def describe_machine() -> str:
    """What it was measured on."""
    load = os.getloadavg()[0]
    return f"{platform.machine()}, {os.cpu_count()} cores, torch {torch.__version__}, load {load:.1f} before"


def split_sections(page: str) -> dict[str, str]:
    """The parts of the page by their headings."""
    parts = re.split(r"^## (\w+)\n", page, flags=re.MULTILINE)
    return dict(zip(parts[1::2], (text.strip() for text in parts[2::2]), strict=True))


def write_page(measured: dict[str, list[dict]], machine_line: str = "") -> int:
    """Put tables in the place of the old ones, keep the others and all that is said below one; how many limits were missed."""
    old = split_sections(PAGE.read_text()) if PAGE.exists() else {}
    texts = {name: markdown_table(rows) for name, rows in measured.items()}
    for name, text in texts.items():
        said = re.split(r"(?:^\|.*\n?)+", old.get(name, ""), maxsplit=1, flags=re.MULTILINE)[
            1:
        ]  # tables of its own too
        old[name] = "\n\n".join(
            part for part in (f"Machine: {machine_line or describe_machine()}", text, *map(str.strip, said)) if part
        )
    PAGE.write_text(INTRO + "".join(f"\n## {name}\n\n{old[name]}\n" for name in (*BENCHMARKS, PEERS) if name in old))
    return sum(text.count("**missed**") for text in texts.values())


def main() -> int:
    """Run, print, write; the exit code says whether a limit was missed."""
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
