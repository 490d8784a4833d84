"""How two metrics depend on their settings, and where one fails. Kim & Mnih 2018, Figs. 3, 16 and 17.

In the paper Higgins' metric keeps rising with the number of Adagrad steps (Fig. 16), the FactorVAE metric hardly
depends on the rows per vote or on the number of votes (Fig. 17), and codes of K − 1 of K factors score 1 on Higgins'
metric (Fig. 3). `unbraid study metric_sensitivity --out DIR` draws metric_sensitivity.png and writes the numbers.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from unbraid import metrics
from unbraid.core.progress import Advance
from unbraid.data.factors import Factors
from unbraid.figures.drawing import INK, LINE_COLOURS
from unbraid.studies.framework.study import StudyOutput, no_progress

FACTORS = Factors.of({"shape": 3, "scale": 6, "orientation": 40, "x": 32, "y": 32})
STEPS, PAIRS = (100, 300, 1000, 3000), (10, 50)
VOTES, ROWS_PER_VOTE = (100, 200, 400, 800, 1600), (25, 50, 100, 200)
HELD_FACTORS = (5, 4, 3)
METRIC_VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    "Higgins, Adagrad": ("beta_vae", {"protocol": "paper", "points": 30_000, "pairs": 50}),
    "Higgins, logistic": ("beta_vae", {"protocol": "dlib"}),
    "FactorVAE's vote": ("factor_vae", {"protocol": "paper"}),
}


def entangled_codes(n: int = 10_000) -> tuple[np.ndarray, np.ndarray]:
    """Return codes and labels as of a β-VAE: position and scale found, orientation and shape mixed, five dead columns.

    Args:
        n: number of rows.
    """
    rng = np.random.default_rng(0)
    y = FACTORS.labels(rng.choice(FACTORS.count, n, replace=False))
    s = (y - y.mean(0)) / y.std(0)
    blurred = np.column_stack([s[:, 0] + s[:, 2], s[:, 1], s[:, 2] - 0.5 * s[:, 0], s[:, 3], s[:, 4]])
    return np.column_stack([blurred + 0.5 * rng.normal(size=blurred.shape), 1e-3 * rng.normal(size=(n, 5))]), y


def partial_codes(n_factors: int, n: int = 10_000) -> tuple[np.ndarray, np.ndarray]:
    """Return codes and labels where the codes hold only the last of the five factors, one noisy column per factor.

    Args:
        n_factors: number of factors in the codes.
        n: number of rows.
    """
    rng = np.random.default_rng(1)
    y = FACTORS.labels(rng.choice(FACTORS.count, n, replace=False))
    s = ((y - y.mean(0)) / y.std(0))[:, 5 - n_factors :]
    return s + 0.05 * rng.normal(size=s.shape), y


def score_higgins(seeds: int, advance: Advance = no_progress) -> dict[int, np.ndarray]:
    """Score Higgins' metric, "steps seeds" for each number of pairs. Fig. 16.

    Args:
        seeds: number of seeds.
        advance: progress callback.
    """
    z, y = entangled_codes()
    found: dict[int, np.ndarray] = {}
    for pairs in PAIRS:
        rows = []
        for steps in STEPS:
            options: dict[str, Any] = {"protocol": "paper", "points": 10 * steps, "pairs": pairs}
            rows.append([metrics.beta_vae(z, y, seed=s, **options).value for s in range(seeds)])
            advance(note=f"Higgins, {steps} steps, L = {pairs}")
        found[pairs] = np.array(rows)
    return found


def score_vote(seeds: int, advance: Advance = no_progress) -> dict[int, np.ndarray]:
    """Score the FactorVAE metric, "votes seeds" for each number of rows per vote. Fig. 17.

    Args:
        seeds: number of seeds.
        advance: progress callback.
    """
    z, y = entangled_codes()
    found: dict[int, np.ndarray] = {}
    for rows in ROWS_PER_VOTE:
        lines = []
        for votes in VOTES:
            options: dict[str, Any] = {"protocol": "paper", "prune": "variance", "votes": votes, "rows": rows}
            lines.append([metrics.factor_vae(z, y, seed=s, **options).value for s in range(seeds)])
            advance(note=f"vote, {votes} votes, L = {rows}")
        found[rows] = np.array(lines)
    return found


def score_missing_factors(seeds: int, advance: Advance = no_progress) -> dict[str, np.ndarray]:
    """Score codes of 5, 4 and 3 of 5 factors, "held seeds" for each metric. Fig. 3.

    Args:
        seeds: number of seeds.
        advance: progress callback.
    """
    found: dict[str, np.ndarray] = {}
    for name, (metric, options) in METRIC_VARIANTS.items():
        rows = []
        for factors in HELD_FACTORS:
            z, y = partial_codes(factors)
            rows.append([metrics.METRICS[metric](z, y, seed=s, **options).value for s in range(seeds)])
            advance(note=f"{name}, {factors} of 5 factors")
        found[name] = np.array(rows)
    return found


def draw_sensitivity(
    steps: dict[int, np.ndarray], votes: dict[int, np.ndarray], missing_factors: dict[str, np.ndarray], seeds: int
) -> Figure:
    """Draw scores against settings (left and middle) and scores of codes that lack factors (right).

    Args:
        steps: scores from `score_higgins`.
        votes: scores from `score_vote`.
        missing_factors: scores from `score_missing_factors`.
        seeds: number of seeds, for the axis label.
    """
    figure = Figure(figsize=(11, 3.3), layout="constrained")
    left, middle, right = figure.subplots(1, 3, sharey=True)
    for axes, lines, x, label, title in (
        (left, steps, STEPS, "Adagrad steps of 10 points", "Higgins' metric (Fig. 16)"),
        (middle, votes, VOTES, "votes", "FactorVAE's vote (Fig. 17)"),
    ):
        for colour, (size, values) in zip(LINE_COLOURS, lines.items(), strict=False):
            axes.errorbar(x, values.mean(1), values.std(1), label=f"L = {size}", capsize=2, color=colour)
        axes.set(xscale="log", xlabel=label, xticks=x, xticklabels=[f"{t:,}" for t in x])
        axes.set_xticks([], minor=True)
        axes.set_title(title)
    for i, (colour, (name, values)) in enumerate(zip(LINE_COLOURS, missing_factors.items(), strict=False)):
        at = np.arange(len(HELD_FACTORS)) + 0.27 * (i - 1)
        right.bar(at, values.mean(1), 0.25, yerr=values.std(1), capsize=2, color=colour)
        right.text(at[0], 0.04, name, rotation=90, ha="center", va="bottom", color="white", fontsize=9)
    for i, k in enumerate(HELD_FACTORS):
        right.plot([i - 0.43, i + 0.43], [k / 5, k / 5], "--", color=INK, lw=0.8)
    right.set_xticks(np.arange(len(HELD_FACTORS)), [f"{k} of 5" for k in HELD_FACTORS])
    right.set(xlabel="factors that the code holds (dashed: their share)", ylim=(0, 1.05))
    right.set_title("Factors missing (Fig. 3)")
    for axes in (left, middle):
        axes.legend(fontsize=8, frameon=False, loc="lower right")
    for axes in (left, middle, right):
        axes.title.set_fontsize(10)
        axes.spines[["top", "right"]].set_visible(False)
    left.set_ylabel(f"score, mean and deviation of {seeds} seeds")
    return figure


def main(out: Path, advance: Advance = no_progress, seeds: int = 10) -> StudyOutput:
    """Score, draw, and return the numbers.

    Args:
        out: folder for the figure.
        advance: progress callback.
        seeds: number of seeds.
    """
    steps, votes = score_higgins(seeds, advance), score_vote(seeds, advance)
    lacking = score_missing_factors(seeds, advance)
    draw_sensitivity(steps, votes, lacking, seeds).savefig(out / "metric_sensitivity.png", dpi=130)
    every = [("Higgins", f"{t:,} steps, L = {size}", v[i]) for size, v in steps.items() for i, t in enumerate(STEPS)]
    every += [("vote", f"{t:,} votes, L = {size}", v[i]) for size, v in votes.items() for i, t in enumerate(VOTES)]
    every += [(name, f"{k} of 5 factors held", v[i]) for name, v in lacking.items() for i, k in enumerate(HELD_FACTORS)]
    rows = [(name, setting, f"{v.mean():.3f}", f"{v.std():.3f}") for name, setting, v in every]
    scores = [{"metric": name, "setting": setting, "scores": v.tolist()} for name, setting, v in every]
    head = ("metric", "setting", "mean", "deviation")
    return StudyOutput(head, rows, {"seeds": seeds, "scores": scores}, ("metric_sensitivity.png",))
