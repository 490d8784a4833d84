"""Draw docs/pictures/metrics_sensitivity.png: how the two metrics depend on their settings (Kim & Mnih 2018, Figs. 16, 17).

    python docs/make/metrics_sensitivity.py

One fixed entangled code, ten seeds for each setting. There: Higgins' metric keeps rising with the number of Adagrad
steps, the vote hardly depends on the rows per vote or on the number of votes.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from unbraid import metrics
from unbraid.data.factors import Factors

FACTORS = Factors.of({"shape": 3, "scale": 6, "orientation": 40, "x": 32, "y": 32})
PICTURE = Path(__file__).resolve().parents[1] / "pictures" / "metrics_sensitivity.png"
SEEDS = 10


def world(n: int = 10_000) -> tuple[np.ndarray, np.ndarray]:
    """Codes such as a β-VAE gives: position and scale found, orientation and shape blurred together, five dead columns."""
    rng = np.random.default_rng(0)
    y = FACTORS.labels(rng.choice(FACTORS.count, n, replace=False))
    s = (y - y.mean(0)) / y.std(0)
    blurred = np.column_stack([s[:, 0] + s[:, 2], s[:, 1], s[:, 2] - 0.5 * s[:, 0], s[:, 3], s[:, 4]])
    return np.column_stack([blurred + 0.5 * rng.normal(size=blurred.shape), 1e-3 * rng.normal(size=(n, 5))]), y


def curves() -> tuple[dict[int, np.ndarray], dict[int, np.ndarray], list[int], list[int]]:
    """Scores "setting seed" of both metrics: by Adagrad steps for each L, and by votes for each L."""
    z, y = world()
    steps, votes = [100, 300, 1000, 3000], [100, 200, 400, 800, 1600]
    higgins = {pairs: np.array([[metrics.beta_vae(z, y, protocol="paper", points=10 * t, pairs=pairs, seed=s).value
                                 for s in range(SEEDS)] for t in steps]) for pairs in (10, 50)}
    vote = {rows: np.array([[metrics.factor_vae(z, y, protocol="paper", prune="variance", votes=v, rows=rows, seed=s).value
                             for s in range(SEEDS)] for v in votes]) for rows in (25, 50, 100, 200)}
    return higgins, vote, steps, votes


def main() -> None:
    """Compute and draw."""
    higgins, vote, steps, votes = curves()
    figure = Figure(figsize=(8, 3.2), layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True)
    for axes, lines, x, label, title in ((left, higgins, steps, "Adagrad steps of 10 points", "Higgins' metric"),
                                         (right, vote, votes, "votes", "FactorVAE's vote")):
        for size, values in lines.items():
            axes.errorbar(x, values.mean(1), values.std(1), label=f"L = {size}", capsize=2)
            print(title, size, np.round(values.mean(1), 3).tolist(), "±", np.round(values.std(1), 3).tolist())
        axes.set_xscale("log")
        axes.set_xlabel(label)
        axes.set_title(title, fontsize=10, loc="left")
        axes.legend(frameon=False, fontsize=8)
        axes.spines[["top", "right"]].set_visible(False)
    left.set_ylabel("score, mean and deviation of 10 seeds")
    figure.savefig(PICTURE, dpi=130)


if __name__ == "__main__":
    main()
