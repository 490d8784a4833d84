"""Print the table of docs/metrics.md on intervals: how often a nominal 95% interval contains the true value.

    python docs/make/metrics_coverage.py

Codes have bounded noise, so that every metric has a large-sample value. 'truth' is that value (200,000 rows), 'mean' the
expected score at 1,000 rows. Their difference is bias, which an interval centred on the score cannot cover.
"""

from __future__ import annotations

import numpy as np

from unbraid import metrics

ROWS, SEEDS, REPEATS = 1000, 10, {"dci": 60}
NAMES = ("mcc", "sap", "r2", "mig", "modularity", "dci")


def draw_codes(n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Three factors in five columns: two encoded with noise, one split over two columns, one column of noise.

    Args:
        n: rows.
        rng: the generator.
    """
    y = np.column_stack([rng.integers(k, size=n) for k in (4, 6, 8)])
    s = (y - y.mean(0)) / y.std(0)
    z = np.column_stack([s[:, 0], s[:, 1] + 0.3 * s[:, 0], s[:, 2], 0.7 * s[:, 2], np.zeros(n)])
    return z + rng.uniform(-1.2, 1.2, size=z.shape), y


def coverage(name: str) -> dict[str, tuple[float, float, float]]:
    """For each kind of interval of a metric: how often it contains the truth and the mean, and its mean width."""
    rng = np.random.default_rng(0)
    fast = {"protocol": "fast"} if "fast" in metrics.METRICS[name].protocols else {}
    # predictors and votes take at most 15,000 rows, so the large-sample value is a mean over several such samples
    many = 12 if metrics.METRICS[name].seeded else 1
    truth = np.mean([metrics.METRICS[name](*draw_codes(200_000, rng), seed=s, **fast).value for s in range(many)])
    kinds = ("half", "bootstrap", "seeds") if metrics.METRICS[name].seeded else ("half", "bootstrap")
    found: dict[str, list[metrics.Score]] = {how: [] for how in kinds}
    for _ in range(REPEATS.get(name, 200)):
        z, y = draw_codes(ROWS, rng)
        for how in kinds:
            found[how].append(metrics.interval(name, z, y, method=how, seeds=SEEDS, **fast))
    out, mean = {}, np.mean([s.value for s in found["half"]])
    for how, scores in found.items():
        if scores[0].interval is None:  # with these settings the metric depends on no seed
            continue
        low, high = (np.array([s.interval[end] for s in scores if s.interval]) for end in (0, 1))
        hold = [float(((low <= v) & (v <= high)).mean()) for v in (truth, mean)]
        out[how] = (*hold, float((high - low).mean()))
    print(f"# {name}: truth {truth:.3f}, mean {mean:.3f}")
    return out


def main() -> None:
    """Print one Markdown row per metric and kind of interval."""
    print("| metric | interval | holds the truth | holds the mean at 1,000 rows | mean width |\n|---|---|---|---|---|")
    for name in NAMES:
        for how, (truth, mean, width) in coverage(name).items():
            print(f"| {name} | {how} | {truth:.0%} | {mean:.0%} | {width:.3f} |", flush=True)


if __name__ == "__main__":
    main()
