"""Run the campaign in a process of its own, started again after a crash; a table at the end."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

from tests.fuzz.campaign import CASE_SECONDS, READERS, run_worker
from tests.suite_summary import write_section

Case = list[Any]  # reader, number, outcome, what was said, seconds


def run_campaign(count: int, seed: int, only: str = "", quiet: bool = False, record: Path | None = None) -> list[Case]:
    """`count` cases over all readers by their weights (or all of them on one).

    A process that dies or hangs is a wrong case, and the next process goes on after it. A campaign that was stopped goes
    on after the cases in its record.
    """
    chosen = {name: reader for name, reader in READERS.items() if not only or name == only}
    total = sum(reader.weight for reader in chosen.values())
    counts = {name: max(1, round(count * reader.weight / total)) for name, reader in chosen.items()}
    planned = [(name, case) for name, n in counts.items() for case in range(n)]
    done: list[Case] = []
    if record is not None and record.exists():
        done = [json.loads(line) for line in record.read_text().splitlines()]
        expected = [[*case] for case in planned[: len(done)]]
        if [case[:2] for case in done] != expected:
            raise SystemExit(f"{record} holds cases of another campaign: remove it, or name another file")
    while len(done) < len(planned):
        before = len(done)
        end = _run_worker(seed, counts, done, quiet, record)
        if len(done) < len(planned):
            if len(done) == before and end.startswith("the process died (1)"):
                raise SystemExit(f"the worker does not start: {end}")
            _add_case(done, [*planned[len(done)], "wrong", end, 0.0], quiet, record)
    return done


def _run_worker(seed: int, counts: dict[str, int], done: list[Case], quiet: bool, record: Path | None) -> str:
    """Run cases until all are done or the process ends; how it ended."""
    call = [sys.executable, "-m", "tests.fuzz", "--worker", json.dumps([seed, counts, len(done)])]
    process = subprocess.Popen(call, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stderr is not None
    errors: list[str] = []
    drain = threading.Thread(target=lambda: errors.extend(process.stderr or ()), daemon=True)
    drain.start()
    last, hung = [time.monotonic()], threading.Event()

    def watch() -> None:
        while process.poll() is None:
            if time.monotonic() - last[0] > 3 * CASE_SECONDS + 120:
                hung.set()
                process.kill()
            time.sleep(1)

    threading.Thread(target=watch, daemon=True).start()
    for line in process.stdout:
        _add_case(done, json.loads(line), quiet, record)
        last[0] = time.monotonic()
    process.wait()
    drain.join(5)
    process.stdout.close()
    process.stderr.close()
    said = "".join(errors)[-400:]
    return "a hang that only a kill ends" if hung.is_set() else f"the process died ({process.returncode}): {said}"


def _add_case(done: list[Case], found: Case, quiet: bool, record: Path | None) -> None:
    """Keep a case, and say what is wrong as soon as it is found, ten times for each reader."""
    done.append(found)
    if record is not None:
        with record.open("a") as file:
            file.write(json.dumps(found) + "\n")
    name, case, outcome, said, _ = found
    if outcome == "wrong" and not quiet and sum(c[0] == name and c[2] == "wrong" for c in done) <= 10:
        print(f"{name}, case {case}: {said}", flush=True)


def count_outcomes(cases: list[Case]) -> dict[str, int]:
    """How many cases ended in which way."""
    return {"tried": len(cases)} | {way: sum(c[2] == way for c in cases) for way in ("named", "right", "wrong")}


def markdown_table(cases: list[Case]) -> str:
    """The outcome as a table in markdown."""
    rows = {name: count_outcomes([c for c in cases if c[0] == name]) for name in dict.fromkeys(c[0] for c in cases)}
    lines = ["| reader | tried | named | accepted right | wrong |", "|---|---:|---:|---:|---:|"]
    for name, row in [*rows.items(), ("**all**", count_outcomes(cases))]:
        lines.append(f"| {name} | {row['tried']:,} | {row['named']:,} | {row['right']:,} | {row['wrong']:,} |")
    return "\n".join(lines)


def main() -> None:
    """Parse, run, print, and write the table into docs/reliability.md if asked."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--count", type=int, default=28_250, help="cases in all")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", choices=["", *READERS], help="one reader")
    parser.add_argument("--record", type=Path, help="keep each case in this file; the same command goes on after them")
    parser.add_argument("--write", action="store_true", help="put the table into docs/reliability.md")
    parser.add_argument("--worker", default="", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    if asked.worker:
        run_worker(*json.loads(asked.worker))
        return
    cases = run_campaign(asked.count, asked.seed, asked.only, record=asked.record)
    text = markdown_table(cases)
    slow = sorted(cases, key=lambda case: -case[4])[:3]
    print(f"\n{text}\nslowest: {', '.join(f'{c[0]} {c[1]} ({c[4]:.1f} s)' for c in slow)}")
    if asked.write:
        write_section("fuzz", f"{text}\n\nSeed {asked.seed}.")
    sys.exit(1 if any(case[2] == "wrong" for case in cases) else 0)


if __name__ == "__main__":
    main()
