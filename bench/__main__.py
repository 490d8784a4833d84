"""`make bench`: run every benchmark (or those named), print them, and write docs/benchmarks.md."""

from __future__ import annotations

import importlib
import os
import platform
import sys
from pathlib import Path

import torch

NAMES = ("core", "threads", "data", "objectives", "metrics", "sweeps", "compare", "studio")
PAGE = Path(__file__).resolve().parents[1] / "docs" / "benchmarks.md"
INTRO = """# Benchmarks

Made by `make bench`. Times are of the machine below and move with it; the ratio ours/baseline is what counts, measured in
turns in one run. A limit is the highest ratio allowed ("> x": the lowest); rows without one only state a cost, and a
limit that was not kept says so.
"""


def seconds(value: float | None, unit: str = "") -> str:
    """A time in the unit that fits it, or a number in a unit of its own."""
    if value is None:
        return ""
    if unit:
        return f"{value:.3g} {unit}"
    return f"{value:.2f} s" if value >= 1 else f"{value * 1e3:.2f} ms" if value >= 1e-3 else f"{value * 1e6:.0f} µs"


def kept(r: dict) -> bool:
    """True when a row keeps its limit: a highest ratio, or "< x" or "> x" in words, or as the row itself says."""
    if "ok" in r:
        return bool(r["ok"])
    sign, _, number = str(r["limit"]).rpartition(" ")
    return r["ratio"] >= float(number) if sign == ">" else r["ratio"] <= float(number)


def table(rows: list[dict]) -> str:
    """Rows as Markdown."""
    lines = ["| what | ours | baseline | ratio | limit | |", "|---|---|---|---|---|---|"]
    for r in rows:
        shown = "" if r.get("limit") is None else f"{r['limit']}" + ("" if kept(r) else " **missed**")
        ratio = "" if r["ratio"] is None else f"{r['ratio']:.3g}"
        times = f"{seconds(r['ours'], r.get('unit', ''))} | {seconds(r['baseline'])} | {ratio}"
        lines.append(f"| {r['name']} | {times} | {shown} | {r.get('note', '')} |")
    return "\n".join(lines)


def main() -> int:
    """Run, print, write; the exit code says whether a limit was missed."""
    wanted = [n for n in NAMES if not sys.argv[1:] or n in sys.argv[1:]]
    machine = (
        f"{platform.machine()}, {os.cpu_count()} cores, torch {torch.__version__}, load {os.getloadavg()[0]:.1f} before"
    )
    pages, missed = [], 0
    for name in wanted:
        print(f"\n## {name}", flush=True)
        rows = importlib.import_module(f"bench.{name}").rows()
        text = table(rows)
        print(text, flush=True)
        missed += text.count("**missed**")
        pages.append(f"## {name}\n\n{text}\n")
        (PAGE.parent / f".bench_{name}.md").write_text(f"Machine: {machine}\n\n{text}\n")
    parts = [(PAGE.parent / f".bench_{n}.md") for n in NAMES]
    PAGE.write_text(
        INTRO + "".join(f"\n## {n}\n\n{p.read_text()}" for n, p in zip(NAMES, parts, strict=True) if p.exists())
    )
    print(f"\n{missed} limits missed; written: {PAGE.name}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
