"""DIP-VAE against β-VAE: Higgins' score, test error, correlations of latents. Kumar et al. 2017, Tables 1, 3, Fig. 1."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from unbraid.studies.framework import study_plots
from unbraid.studies.framework.effects import paired_difference
from unbraid.studies.framework.paper_numbers import DIP_VAE, KUMAR
from unbraid.studies.framework.results import Results
from unbraid.studies.framework.study import Arm, Claim, Study

if TYPE_CHECKING:
    from unbraid.runs.run import Run

BETAS, LAMBDAS = (1, 4, 16, 60), (5, 20, 50)
DIP_ARM = "dip20"  # fixed before any run: upper half of the printed range
ARM_PREFIXES = {"β-VAE": "beta", "DIP-VAE-I": "dip"}
PAPER_POINTS = (
    ("VAE", "error_vae", "vae"),
    ("4", "error_beta_4", "beta_4"),
    ("60", "error_beta_60", "beta_60"),
    ("DIP", "error_dip", "dip"),
)
SPLIT = {"split": "train", "test": 0.1}
DATA: dict[str, dict[str, Any]] = {
    "tiny": {"name": "sprites32", **SPLIT},
    "cpu": {"name": "sprites32", "orientation": True, **SPLIT},
    "paper": {"name": "dsprites", **SPLIT},
}
BUDGET: dict[str, dict[str, Any]] = {
    "tiny": {"batch": 32, "steps": 20, "lr": 1e-3, "threads": 1},
    "cpu": {"batch": 64, "steps": 5000, "lr": 1e-3, "threads": 1},
    "paper": {"batch": 64, "steps": 300_000, "lr": 1e-4},
}


def arms(scale: str) -> list[Arm]:
    """β-VAE over β (1 is the VAE), and DIP-VAE-I over λ_od with λ_d = 10 λ_od and a running covariance.

    Args:
        scale: 'tiny', 'cpu' or 'paper'.
    """
    common = {
        "data": DATA[scale],
        "latent": 10,
        "nets": {"name": "factor_vae_table1" if scale == "paper" else "mlp"},
        "budget": BUDGET[scale],
    }
    betas = BETAS if scale != "tiny" else (1, 4)
    beta = [Arm(f"beta{b}", {**common, "objective": {"name": "beta_vae", "beta": float(b)}}, "β-VAE", b) for b in betas]
    lambdas = LAMBDAS if scale == "cpu" else (20,) if scale == "tiny" else (1, 2, 5, 10, 20, 50)
    dip = [
        Arm(
            f"dip{od}",
            {**common, "objective": {"name": "dip_vae_i", "lambda_od": float(od), "rho": 0.1}},
            "DIP-VAE-I",
            od,
        )
        for od in lambdas
    ]
    return beta + dip


def measure(run: Run) -> dict[str, float]:
    """Higgins' metric with a linear SVM, squared error per pixel and correlations, on test images.

    Args:
        run: the run.
    """
    from unbraid import data, metrics
    from unbraid.runs.evaluation.encoding import encode

    table = {**run.recipe.data, "split": "test"}
    held = data.load(table.pop("name"), **table)
    codes = encode(run, held, max_images=20_000, quiet=True, save=False)
    index = np.asarray(codes.index)[:4000]
    images = held.pixels(index)
    error = float(np.mean((run.decode(codes.mean[:4000]) - images) ** 2))
    deviation = codes.mean.std(0)
    active = deviation > 0.1
    related = np.abs(np.corrcoef(codes.mean[:, active].T)) if active.sum() > 1 else np.zeros((1, 1))
    off = related[~np.eye(len(related), dtype=bool)]
    return {
        "higgins": float(metrics.beta_vae(codes, protocol="dip_vae").value),
        "mig": float(metrics.mig(codes).value),
        "error": error,
        "correlation": float(off.mean()) if off.size else 0.0,
        "active": float(active.sum()),
    }


def figures(results: Results, runs: Path, out: Path) -> Sequence[str]:
    """Plot Fig. 1, the score against the test error, one dot per seed; and the correlation of active latents per arm.

    Args:
        results: the results.
        runs: folder of the runs.
        out: folder for the figures.
    """
    drawn, (left, right) = study_plots.create_figure(2, 4.6)
    methods = {name: [a for a in results.arms if a.startswith(head)] for name, head in ARM_PREFIXES.items()}
    study_plots.plot_tradeoff(left, results, methods, "error", "higgins")
    for name, x_key, y_key in PAPER_POINTS:
        point = (DIP_VAE[x_key].value, DIP_VAE[y_key].value)
        left.plot(*point, "o", mfc="none", color="grey", ms=6)
        left.annotate(name, point, fontsize=7, color="grey", textcoords="offset points", xytext=(4, -9))
    left.set(xscale="log", xlabel="squared error per pixel, test images", ylabel="Higgins' score (linear SVM)")
    study_plots.add_legend(left, title="hollow: printed, 64×64", title_fontsize=7)
    study_plots.plot_boxes(right, results, results.arms, "correlation")
    right.set_ylabel("mean |correlation| of active latents")
    drawn.savefig(out / "dip_table1.png", dpi=110)
    return ["dip_table1.png", draw_correlations(results, runs, out)]


def draw_correlations(results: Results, runs: Path, out: Path) -> str:
    """Draw Table 3: |correlation| of latents with each other and with the factors, for three models of one seed.

    Args:
        results: the results.
        runs: folder of the runs.
        out: folder for the figures.
    """
    from unbraid import data
    from unbraid.runs.evaluation.encoding import encode

    arms = [arm for arm in ("beta1", "beta4", DIP_ARM) if arm in results.arms]
    drawn, axes = study_plots.create_figure(2 * len(arms), 2.5, 2.9)
    for k, (arm, run) in enumerate(zip(arms, study_plots.load_paired_runs(results, runs, *arms), strict=True)):
        table = {**run.recipe.data, "split": "test"}
        codes = encode(run, data.load(table.pop("name"), **table), max_images=20_000, quiet=True, save=False)
        assert codes.values is not None
        assert codes.factors is not None
        live = np.flatnonzero(codes.mean.std(0) > 0.1)
        width = len(live)
        both = np.abs(np.corrcoef(codes.mean[:, live].T, codes.values.T))
        names = [f"z{c}" for c in live]
        study_plots.plot_matrix(axes[2 * k], both[:width, :width], f"{arm}: latents", names, names)
        study_plots.plot_matrix(axes[2 * k + 1], both[:width, width:], f"{arm}: factors", names, codes.factors.names)
        axes[2 * k + 1].tick_params(axis="x", rotation=50)
    drawn.savefig(out / "dip_table1_correlations.png", dpi=110)
    return "dip_table1_correlations.png"


def _cost_margin(results: Results, seed: int) -> float | None:
    """A fifth of the reconstruction cost of β = 60 minus the cost of DIP-VAE: positive if DIP-VAE costs less than that."""
    found = [results.value(arm, seed, "error") for arm in ("beta1", "beta60", DIP_ARM)]
    if any(value is None for value in found):
        return None
    vae, strong, dip = (float(value) for value in found if value is not None)
    return (strong - vae) / 5 - (dip - vae)


def _paper_gap(first: str, second: str) -> float:
    return DIP_VAE[first].value - DIP_VAE[second].value


STUDY = Study(
    about="DIP-VAE against β-VAE: Higgins' score, test error, correlated latents",
    cite=f"{KUMAR}, Tables 1, 3 and Fig. 1",
    cost={"tiny": "10 s", "cpu": "50 min", "paper": "9 runs × 12 h a seed"},
    claims=(
        Claim(
            "above_vae",
            "DIP-VAE scores above the VAE",
            f"{KUMAR}, Table 1",
            paired_difference("higgins", DIP_ARM, "beta1"),
            paper_value="98.7 against 81.3",
            paper_effect=_paper_gap("dip", "vae"),
            unit="Higgins' score",
            headline=True,
        ),
        Claim(
            "above_beta4",
            "DIP-VAE scores above β-VAE (4)",
            f"{KUMAR}, Table 1",
            paired_difference("higgins", DIP_ARM, "beta4"),
            paper_value="98.7 against 80.7",
            paper_effect=_paper_gap("dip", "beta_4"),
            unit="Higgins' score",
            headline=True,
        ),
        Claim(
            "above_beta60",
            "DIP-VAE scores above β-VAE (60)",
            f"{KUMAR}, Table 1",
            paired_difference("higgins", DIP_ARM, "beta60"),
            paper_value="98.7 against 95.7",
            paper_effect=_paper_gap("dip", "beta_60"),
            unit="Higgins' score",
            headline=True,
        ),
        Claim(
            "cheap",
            "at little cost in reconstruction: less than a fifth of what β = 60 costs",
            f"{KUMAR}, Table 1",
            _cost_margin,
            paper_value=".0018, VAE .0017, β = 60 .0113",
            min_effect=1e-4,
            unit="squared error per pixel",
            headline=True,
        ),
        Claim(
            "less_correlated",
            "DIP-VAE's latents correlate less than the VAE's",
            f"{KUMAR}, Sec. 3, Table 3",
            paired_difference("correlation", "beta1", DIP_ARM),
            min_effect=0.02,
            unit="mean |r| of active latents",
            headline=True,
        ),
        Claim(
            "beta_correlates",
            "β-VAE's latents correlate more than the VAE's",
            f"{KUMAR}, Sec. 3, Table 3",
            paired_difference("correlation", "beta4", "beta1"),
            min_effect=0.02,
            unit="mean |r| of active latents",
            headline=True,
        ),
    ),
    arms=arms,
    seeds={"tiny": (0,), "cpu": tuple(range(10)), "paper": tuple(range(10))},
    measure=measure,
    figures=figures,
    deviations="32×32 sprites with orientation (92,160 images) in place of dSprites, a dense net, 5,000 steps; λ_od of Table 1 "
    "and the rate of the running covariance (0.1) are not printed and are ours, fixed before any run. Here β = 60 "
    "switches every column off (error .040): the two claims that compare with it hold against a model that has "
    "learned nothing. DIP-VAE's own error is 42% above the VAE's, where the paper prints 6%.",
)
