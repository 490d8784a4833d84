"""The campaign of faults: `python -m tests.faults --write` (`make faults`) puts its table into docs/reliability.md."""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
from contextlib import ExitStack
from dataclasses import asdict, replace
from pathlib import Path

from tests.faults.catalogue import CHEAP, FAULTS
from tests.faults.trials import Trial, TrialContext, train_without_fault
from tests.ray_cluster import two_node_cluster
from tests.suite_summary import write_section


def run_campaign(
    count: int, seed: int = 0, only: str = "", quiet: bool = False, record: Path | None = None
) -> list[Trial]:
    """`count` trials of each fault, more of the cheap ones; the moment of each is a matter of (seed, fault, number).

    A campaign that was stopped goes on after the trials in its record, which may also hold trials of other faults.
    """
    trials = (
        [Trial(**json.loads(line)) for line in record.read_text().splitlines()] if record and record.exists() else []
    )
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="faults-")))
        faults = [name for name in FAULTS if name.startswith(only)]
        single = all(FAULTS[name].__module__.endswith("training_trials") for name in faults)
        wanted = {} if single else train_without_fault(folder / "alone")  # those trials train their own
        two = None
        for fault in faults:
            if fault.startswith("Ray") and two is None:
                (folder / "cluster").mkdir()
                two = stack.enter_context(two_node_cluster(folder / "cluster"))
            for number in range(sum(t.fault == fault for t in trials), count * CHEAP.get(fault, 1)):
                chance = random.Random(f"{seed} {fault} {number}")
                place = TrialContext(
                    folder / f"{fault} {number}", chance, wanted, two if fault.startswith("Ray") else None
                )
                trials.append(replace(FAULTS[fault](place), fault=fault))
                if record is not None:
                    with record.open("a") as file:
                        file.write(json.dumps(asdict(trials[-1])) + "\n")
                if not quiet:
                    print(trials[-1], flush=True)
    return trials


def markdown_table(trials: list[Trial]) -> str:
    """The outcome as a table in markdown; trials in which nothing was struck tried nothing."""
    lines = [
        "| fault | tried | runs finished before it | of them or of checkpoints lost | ended in the bits of no fault |",
        "|---|---:|---:|---:|---:|",
    ]
    for fault in sorted({t.fault for t in trials}, key=list(FAULTS).index):
        of = [t for t in trials if t.fault == fault and t.struck]
        lines.append(
            f"| {fault} | {len(of)} | {sum(t.finished for t in of)} | {sum(t.lost for t in of)} | {sum(t.same for t in of)} |"
        )
    return "\n".join(lines)


def main() -> None:
    """Parse, run, print, and write the table into docs/reliability.md if asked."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    parser.add_argument("--count", type=int, default=3, help="trials of each fault")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="faults whose name begins like this")
    parser.add_argument("--record", type=Path, help="keep each trial in this file; the same command goes on after them")
    parser.add_argument("--write", action="store_true", help="put the table into docs/reliability.md")
    asked = parser.parse_args()
    trials = run_campaign(asked.count, asked.seed, asked.only, record=asked.record)
    print(f"\n{markdown_table(trials)}")
    if asked.write:
        write_section("faults", f"{markdown_table(trials)}\n\nSeed {asked.seed}.")
    missed = [t.fault for t in trials if not t.struck]
    if missed:
        print(f"\nnothing was struck in {len(missed)} of {len(trials)} trials: {', '.join(missed)}", file=sys.stderr)
    sys.exit(0 if all(t.passed for t in trials) else 1)


if __name__ == "__main__":
    main()
