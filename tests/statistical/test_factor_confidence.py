"""Leaves that most seeds find know one factor; leaves that every seed turns differently know several."""

from __future__ import annotations

import numpy as np

from unbraid.codes import Codes
from unbraid.comparing.statistics import t_interval
from unbraid.discovery.factor_confidence import STABLE, factor_confidences
from unbraid.latent import Latent
from unbraid.metrics import METRICS

SEEDS, ROWS, LEVELS = 4, 1500, 8


def simulate_seeds(draw: np.random.Generator) -> tuple[list[Codes], np.ndarray]:
    """Codes of several seeds: two factors have a leaf each, two more are rotated by another angle in every seed."""
    labels = draw.integers(LEVELS, size=(ROWS, 4))
    factors = (labels - (LEVELS - 1) / 2) / 2.3
    runs = []
    for _ in range(SEEDS):
        turn = draw.uniform(0, np.pi)
        rotation = np.array([[np.cos(turn), -np.sin(turn)], [np.sin(turn), np.cos(turn)]])
        code = np.column_stack([factors[:, :2], factors[:, 2:] @ rotation]) + 0.2 * draw.normal(size=(ROWS, 4))
        runs.append(Codes(code[:, draw.permutation(4)], Latent.of(4), kl=np.ones(4)))
    return runs, labels


def mean_gap(runs: list[Codes], labels: np.ndarray) -> float | None:
    """Mean gap of the stable leaves of all runs minus that of their other leaves."""
    stable, others = [], []
    for k, codes in enumerate(runs):
        table = METRICS["mig_sup"](codes, labels).table
        gaps = {
            str(u): float(np.diff(np.sort(row)[-2:])[0]) for u, row in zip(table["units"], table["matrix"], strict=True)
        }
        for one in factor_confidences(codes, runs[:k] + runs[k + 1 :]):
            (stable if one.status == STABLE else others).append(gaps[one.leaf])
    return float(np.mean(stable) - np.mean(others)) if stable and others else None


def test_stable_leaves_have_a_higher_gap_than_others():
    """Thirty repetitions; the interval lies more than ten errors above 0, so a failure by chance is not to be expected."""
    draw = np.random.default_rng(0)
    gaps = [gap for _ in range(30) if (gap := mean_gap(*simulate_seeds(draw))) is not None]
    assert len(gaps) >= 20, "by chance all angles can be alike"
    assert t_interval(gaps).low > 0.1


def test_factors_that_no_seed_turns_are_all_stable():
    labels = np.random.default_rng(1).integers(LEVELS, size=(ROWS, 3))
    draw = np.random.default_rng(2)
    runs = [
        Codes((labels + 0.3 * draw.normal(size=labels.shape))[:, draw.permutation(3)], Latent.of(3), kl=np.ones(3))
        for _ in range(SEEDS)
    ]
    assert {one.status for codes in runs[:1] for one in factor_confidences(codes, runs[1:])} == {STABLE}
