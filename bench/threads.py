"""Several threads or processes, in wall time, on an idle machine. `python -m bench threads`"""

from __future__ import annotations

import statistics

from bench.core import Row, pairwise_rows, row
from bench.process_timing import TimedFunction, parallel_throughput


def parallel_run_rows() -> list[Row]:
    """Two runs with one thread each compared with one run with two threads and with one, in images per second."""
    found = []
    for label, nets, count in (("small net", "small32", 80), ("conv net", "factor_vae_table1", 15)):
        sides = [[TimedFunction("bench.core:fit_step", (nets,), t)] * p for t, p in ((1, 2), (2, 1), (1, 1))]
        rounds = [[64 * parallel_throughput(some, count) for some in sides] for _ in range(5)]
        two, one, single = (statistics.median(x) for x in zip(*rounds, strict=True))
        note = f"images/s: {two:,.0f} in two runs × 1 thread, {one:,.0f} in one × 2, {single:,.0f} in one × 1"
        found.append(row(f"two runs, {label}, against one × 2 threads", 1 / two, 1 / one, 1 / 1.5, note))
        found.append(row(f"two runs, {label}, against two apart (one × 1)", 1 / two, 0.5 / single, 1 / 0.9, note))
    return found


def rows() -> list[Row]:
    """All rows."""
    return [*pairwise_rows(2), *parallel_run_rows()]
