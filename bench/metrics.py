"""Speed and memory of metrics: all of them, fast boosting and scikit-learn's, votes and a plain loop.

    python -m bench.metrics            every row
    python -m bench.metrics --quick    without the reference fit of 100 rounds (several minutes)

Ratios are medians of times measured in alternation, so that other load on the machine affects both sides.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from statistics import median
from typing import Any

import numpy as np
from scipy.stats import spearmanr

from bench.process_timing import peak_memory_mb
from unbraid import metrics
from unbraid.data.factors import Factors
from unbraid.metrics.estimation.fixed_factor_sampling import fixed_factor_sampler
from unbraid.metrics.estimation.importances import importances
from unbraid.metrics.scores.factor_vae import count_votes

FACTORS = Factors.of({"shape": 3, "scale": 6, "orientation": 40, "x": 32, "y": 32})
ROUNDS = 5  # of boosting, in the comparison at equal rounds


def labels_and_codes(n: int = 10_000) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Labels of dSprites' five factors, and three codes of ten columns: mixed, rotated, and trained."""
    rng = np.random.default_rng(0)
    y = FACTORS.labels(rng.choice(FACTORS.count, n, replace=False))
    s = (y - y.mean(0)) / y.std(0)
    turn = np.linalg.qr(rng.normal(size=(5, 5)))[0]
    mixed = np.column_stack([s + 0.3 * rng.normal(size=s.shape), 0.5 * s @ rng.normal(size=(5, 5))])
    rotated = np.column_stack([s @ turn, rng.normal(size=(n, 5))])
    return y, {
        "mixed": mixed + 0.1 * rng.normal(size=mixed.shape),
        "rotated": rotated,
        "trained": hidden_unit_codes(y, s),
    }


def hidden_unit_codes(y: np.ndarray, s: np.ndarray) -> np.ndarray:
    """Codes of a trained model: ten hidden units of a small network fitted to the coordinates of the images.

    A network of 10 tanh units learns smooth functions of all factors (the outline points of the sprite). Its hidden layer is
    entangled like that of a plain autoencoder. It needs no torch and one second.
    """
    from sklearn.neural_network import MLPRegressor

    t = np.linspace(0, 2 * np.pi, 12, endpoint=False)
    radius = np.stack([1 + 0.3 * np.cos(m * t) for m in (4, 2, 1)])[y[:, 0]] * (1 + 0.2 * y[:, 1])[:, None]
    angle = t + 2 * np.pi * y[:, 2:3] / 40
    points = np.concatenate([y[:, 3:4] / 4 + radius * np.cos(angle), y[:, 4:5] / 4 + radius * np.sin(angle)], 1)
    x = np.column_stack([np.eye(3)[y[:, 0]], s[:, 1], np.cos(angle[:, 0]), np.sin(angle[:, 0]), s[:, 3:]])
    model = MLPRegressor(hidden_layer_sizes=(10,), activation="tanh", max_iter=30, random_state=0, tol=0)
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(x, (points - points.mean(0)) / points.std(0))
    return np.tanh(x @ model.coefs_[0] + model.intercepts_[0])


def time_call(call: Callable[[], Any]) -> float:
    """Seconds of one call."""
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def row(
    name: str, ours: float, baseline: float | None, limit: float, note: str, at_least: bool = True, unit: str = ""
) -> dict[str, Any]:
    """One row of the table; the ratio is baseline / ours, or ours without a baseline.

    Args:
        name: what is measured.
        ours: our value.
        baseline: the value of the baseline.
        limit: the limit of the ratio.
        note: a remark.
        at_least: the limit is a lower bound.
        unit: the unit of a value that is not a time.
    """
    ratio = baseline / ours if baseline is not None else ours
    return {
        "unit": unit,
        "name": name,
        "ours": ours,
        "baseline": baseline,
        "ratio": ratio,
        "limit": f"{'>' if at_least else '<'} {limit:g}",
        "note": note,
        "ok": ratio >= limit if at_least else ratio <= limit,
    }


def boosting_row(y: np.ndarray, codes: dict[str, np.ndarray]) -> dict[str, Any]:
    """Histogram boosting compared with scikit-learn's GradientBoosting: equal rounds, one thread, CPU time.

    Args:
        y: labels.
        codes: codes by name.
    """

    def fit(predictor: str) -> float:
        start = time.process_time()
        importances(metrics.as_table(codes["mixed"], y), predictor, True, 0, threads=1, rounds=ROUNDS)
        return time.process_time() - start

    pairs = [(fit("histogram_boosting"), fit("gradient_boosting")) for _ in range(3)]
    ours, theirs = (median(side) for side in zip(*pairs, strict=True))
    return row(
        f"dci fast against GradientBoosting, {ROUNDS} rounds, 1 thread", ours, theirs, 15, "times less processor time"
    )


def two_thread_row(y: np.ndarray, codes: dict[str, np.ndarray]) -> dict[str, Any]:
    """The same with two threads in wall time, compared with the reference, which has no threads.

    Args:
        y: labels.
        codes: codes by name.
    """

    def fit(predictor: str, threads: int) -> float:
        table = metrics.as_table(codes["mixed"], y)
        return time_call(lambda: importances(table, predictor, True, 0, threads=threads, rounds=ROUNDS))

    pairs = [(fit("histogram_boosting", 2), fit("gradient_boosting", 1)) for _ in range(3)]
    ours, theirs = (median(side) for side in zip(*pairs, strict=True))
    return row(f"dci fast against GradientBoosting, {ROUNDS} rounds, 2 threads", ours, theirs, 25, "times faster")


def protocol_rows(y: np.ndarray, codes: dict[str, np.ndarray]) -> list[dict[str, Any]]:
    """The protocols at their defaults: 10 rounds of histogram boosting and 100 of GradientBoosting.

    Args:
        y: labels.
        codes: codes by name.
    """
    fast, full, seconds = [], [], [0.0, 0.0]
    for z in codes.values():
        table = metrics.as_table(z, y)
        seconds[0] += time_call(lambda t=table: fast.append(metrics.dci(t, protocol="fast").table["matrix"].ravel()))
        seconds[1] += time_call(lambda t=table: full.append(metrics.dci(t, protocol="dlib").table["matrix"].ravel()))
    each = {name: spearmanr(a, b).statistic for name, a, b in zip(codes, fast, full, strict=True)}
    pooled = float(spearmanr(np.concatenate(fast), np.concatenate(full)).statistic)
    note = "  ".join(f"{name} {value:.3f}" for name, value in each.items())
    return [
        row("dci fast against dci dlib, as called", *seconds, 25, "times faster, three codes"),
        row("rank correlation of their importances, pooled", pooled, None, 0.9, note, unit="ρ"),
    ]


def voting_row(y: np.ndarray, codes: dict[str, np.ndarray], count: int = 10_000, rows: int = 64) -> dict[str, Any]:
    """10,000 votes of 64 rows at once, compared with a loop over votes.

    Args:
        y: labels.
        codes: codes by name.
        count: the number of votes.
        rows: rows per vote.
    """
    source = fixed_factor_sampler(codes["mixed"], y, 0)
    table = source.table
    groups = [[np.flatnonzero(c == v) for v in range(len(levels))] for c, levels in zip(y.T, table.levels, strict=True)]

    def loop() -> None:
        rng = np.random.default_rng(0)
        tally, variance = np.zeros((10, 5), int), table.z.var(0)
        for _ in range(count):
            k = int(rng.integers(5))
            members = groups[k][int(y[rng.integers(len(y)), k])]
            z = table.z[members[rng.integers(len(members), size=rows)]]
            tally[(z.var(0) / variance).argmin(), k] += 1

    ours, theirs = [], []
    for _ in range(5):
        ours.append(time_call(lambda: count_votes(source, table.live, np.random.default_rng(0), count, rows)))
        theirs.append(time_call(loop))
    return row("factor_vae, 10,000 votes of 64 against a plain loop", median(ours), median(theirs), 2, "times faster")


def evaluation_row(y: np.ndarray, codes: dict[str, np.ndarray]) -> dict[str, Any]:
    """All metrics on one table of 10,000 × 10.

    Args:
        y: labels.
        codes: codes by name.
    """
    names = {"names": FACTORS.names, "kinds": [f.kind for f in FACTORS.items]}
    seconds = time_call(lambda: metrics.battery(codes["mixed"], y, protocol="fast", **names))
    return row("battery, protocol fast, 10,000 × 10", seconds, None, 60, "seconds", at_least=False)


def memory_row(limit: float = 1.0) -> dict[str, Any]:
    """Peak memory of all metrics on 1,000,000 × 32 codes in a separate process, with a limit in GB."""
    code = "import bench.metrics as b; b.million()"
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=root)
    if done.returncode != 0:
        raise RuntimeError(done.stderr)
    peak, seconds = (float(v) for v in done.stdout.split()[-2:])
    return row(
        "battery, 1,000,000 × 32 codes: peak GB",
        peak,
        None,
        limit,
        f"resident, codes included; {seconds:.0f} s",
        at_least=False,
        unit="GB",
    )


def million(n: int = 1_000_000, d: int = 32) -> None:
    """Score a million float64 codes and print the peak resident memory in GB and the seconds.

    Args:
        n: rows.
        d: columns.
    """
    rng = np.random.default_rng(0)
    y = FACTORS.labels(rng.integers(FACTORS.count, size=n)).astype(np.int16)
    z = rng.standard_normal((n, d))
    z[:, :5] += y / y.std(0, dtype=np.float64)
    seconds = time_call(lambda: metrics.battery(z, y, protocol="fast"))
    print(peak_memory_mb() / 1e3, seconds)


def rows(quick: bool = False) -> list[dict[str, Any]]:
    """All rows; quick leaves out the reference fit of 100 rounds."""
    y, codes = labels_and_codes()
    out = [two_thread_row(y, codes), evaluation_row(y, codes), voting_row(y, codes), boosting_row(y, codes)]
    out += [] if quick else protocol_rows(y, codes)
    return [*out, memory_row()]


def main() -> None:
    """Print the table; the exit code is 1 when a limit is missed."""
    found = rows(quick="--quick" in sys.argv)
    for r in found:
        baseline = "" if r["baseline"] is None else f"{r['baseline']:9.3f}"
        print(
            f"{r['name']:62s} {r['ours']:9.3f} {baseline:>9s} {r['ratio']:9.2f}  limit {r['limit']:<5} "
            f"{'ok' if r['ok'] else 'MISSED'}  {r['note']}"
        )
    sys.exit(0 if all(r["ok"] for r in found) else 1)


if __name__ == "__main__":
    main()
