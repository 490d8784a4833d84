"""Draw docs/pictures/metrics_gallery.png: synthetic codes scored by every metric, as one heat map.

    python docs/make/metrics_gallery.py
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from unbraid import metrics
from unbraid.data.factors import Factors
from unbraid.figures.score_figures import score_gallery, score_heat_maps

FACTORS = Factors.of({"shape": 3, "scale": 6, "angle": 10, "x": 12, "y": 12})
PICTURES = Path(__file__).resolve().parents[1] / "pictures"


def synthetic_codes(n: int = 6000, seed: int = 0) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Labels, and ten columns of code for each kind; columns that a kind does not need are constant.

    Args:
        n: rows.
        seed: the seed.
    """
    rng = np.random.default_rng(seed)
    y = FACTORS.labels(rng.integers(FACTORS.count, size=n))
    s = (y - y.mean(0)) / y.std(0)
    dead = np.zeros((n, 5))
    turn = np.eye(5)
    for i, j in ((0, 1), (2, 3), (3, 4)):  # 45° in three planes: every factor ends in at least two columns
        plane = np.eye(5)
        plane[[i, i, j, j], [i, j, i, j]] = np.array([1, -1, 1, 1]) / np.sqrt(2)
        turn = turn @ plane
    return y, {
        "perfect": np.column_stack([s, dead]),
        "rotated": np.column_stack([s @ turn, dead]),
        "duplicated": np.column_stack([s, s]),
        "missing": np.column_stack([s[:, :4], dead, np.zeros(n)]),
        "noisy": np.column_stack([s + rng.normal(size=s.shape), dead]),
        "random": rng.normal(size=(n, 10)),
    }


def main() -> None:
    """Score and draw."""
    y, kinds = synthetic_codes()
    inputs = {"names": FACTORS.names, "kinds": [f.kind for f in FACTORS.items]}
    scores = {name: metrics.battery(z, y, **inputs) for name, z in kinds.items()}
    PICTURES.mkdir(exist_ok=True)
    score_gallery(scores).savefig(PICTURES / "metrics_gallery.png", dpi=150)
    score_heat_maps(scores["rotated"]).savefig(PICTURES / "metrics_heat_maps.png", dpi=110)
    for metric in scores["perfect"]:
        print(f"{metric:18s}" + "".join(f"{name} {s[metric].value:6.3f}   " for name, s in scores.items()))


if __name__ == "__main__":
    main()
