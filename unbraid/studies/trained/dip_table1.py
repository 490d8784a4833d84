"""DIP-VAE against β-VAE: Higgins' score, test error, correlations of latents. Kumar et al. 2017, Tables 1, 3, Fig. 1."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from unbraid.studies.framework import gates, study_plots
from unbraid.studies.framework.effects import paired_difference
from unbraid.studies.framework.paper_numbers import DIP_VAE, KUMAR
from unbraid.studies.framework.results import Results
from unbraid.studies.framework.shared_settings import (
    ORIENTED_SPRITES,
    PRICES_SCALED,
    SPRITE_STEPS,
    printed_settings,
    scaled_row,
)
from unbraid.studies.framework.study import Arm, Claim, Study

if TYPE_CHECKING:
    from unbraid.runs.run import Run

BETAS = (1, 4, 60)
LAMBDAS = (1, 2, 5, 10, 20, 50)  # as printed; Table 1 has the best one
CPU_LAMBDAS = (20, 50)  # the two best by Higgins' score on pilot seed 100, as the paper chooses
DIP_ARM = "dip50"
RHO = 1.0  # of the running covariance: the paper prints none; 1 is the covariance of the batch
ARM_PREFIXES = {"β-VAE": "beta", "DIP-VAE-I": "dip"}
PAPER_POINTS = (
    ("VAE", "error_vae", "vae"),
    ("4", "error_beta_4", "beta_4"),
    ("60", "error_beta_60", "beta_60"),
    ("DIP", "error_dip", "dip"),
)
SPLIT = {"split": "train", "test": 0.1}
PAPER_BETAS = (1, 2, 4, 8, 16, 25, 32, 60, 64, 100, 128, 200, 256)  # the text lists twelve, Table 1 has 60 as well


def arms(scale: str) -> list[Arm]:
    """β-VAE over β (1 is the VAE), and DIP-VAE-I over λ_od with λ_d = 10 λ_od and the literal running covariance.

    Args:
        scale: 'tiny', 'cpu' or 'paper'.
    """
    if scale == "paper":
        beta = [
            Arm(f"beta{b}", printed_settings("beta_vae_2dshapes_dip", beta=float(b)), "β-VAE", b) for b in PAPER_BETAS
        ]
        dip = "dip_vae_i_2dshapes_printed"
        return beta + [
            Arm(f"dip{od}", printed_settings(dip, lambda_od=float(od), lambda_d=10.0 * od), "DIP-VAE-I", od)
            for od in LAMBDAS
        ]
    setting = ORIENTED_SPRITES[scale]
    common = {**setting, "data": {**setting["data"], **SPLIT}, "latent": 10}
    betas = {"tiny": (1, 4), "cpu": BETAS}[scale]
    made = [Arm(f"beta{b}", {**common, "objective": scaled_row(scale, {"kl": b})}, "β-VAE", b) for b in betas]
    for od in {"tiny": (20,), "cpu": CPU_LAMBDAS}[scale]:
        prices = {"kl": 1, "moments_od@mean": od, "moments_d@mean": 10 * od}
        objective = scaled_row(scale, prices, rho=RHO, gradient="literal")
        made.append(Arm(f"dip{od}", {**common, "objective": objective}, "DIP-VAE-I", od))
    return made


def measure(run: Run) -> dict[str, float]:
    """Higgins' metric with a linear SVM, squared error per pixel and correlations, on test images.

    Args:
        run: the run.
    """
    from unbraid import data, metrics
    from unbraid.runs.evaluation.auditing import audit
    from unbraid.runs.evaluation.encoding import encode
    from unbraid.studies.framework.measurements import active_columns, gate_numbers

    table = {**run.recipe.data, "split": "test"}
    held = data.load(table.pop("name"), **table)
    codes = encode(run, held, max_images=20_000, quiet=True, save=False)
    index = np.asarray(codes.index)[:4000]
    images = held.pixels(index)
    error = float(np.mean((run.decode(codes.mean[:4000]) - images) ** 2))
    active = active_columns(codes)
    related = np.abs(np.corrcoef(codes.mean[:, active].T)) if active.sum() > 1 else np.zeros((1, 1))
    off = related[~np.eye(len(related), dtype=bool)]
    nats = audit(run, rows=1024, components=20_000, quiet=True)["nats"]
    return {
        "higgins": float(metrics.beta_vae(codes, protocol="dip_vae").value),
        "factor_vae": float(metrics.factor_vae(codes, protocol="paper").value),
        "mig": float(metrics.mig(codes).value),
        "error": error,
        "correlation": float(off.mean()) if off.size else 0.0,
        "reconstruction": float(nats["reconstruction"]),
        "kl": float(nats["kl"]),
        "tc": float(nats["tc_q:root"]),
        **gate_numbers(run, codes),
    }


def figures(results: Results, runs: Path, out: Path) -> Sequence[str]:
    """Plot Fig. 1, the score against the test error, one dot per seed; and the correlation of active latents per arm.

    Args:
        results: the results.
        runs: folder of the runs.
        out: folder for the figures.
    """
    drawn, (left, right) = study_plots.create_figure(2, 4.6)
    study_plots.plot_tradeoff(left, results, study_plots.arms_by_method(results, ARM_PREFIXES), "error", "higgins")
    study_plots.plot_paper_points(left, DIP_VAE, PAPER_POINTS)
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
        study_plots.plot_correlations(axes[2 * k], axes[2 * k + 1], codes.mean, codes.values, arm, codes.factors.names)
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


def _score_claim(other: str, text: str) -> Claim:
    key = "vae" if other == "beta1" else other.replace("beta", "beta_")
    return Claim(
        f"above_{'vae' if other == 'beta1' else other}",
        text,
        f"{KUMAR}, Table 1",
        paired_difference("higgins", DIP_ARM, other),
        paper_value=f"98.7 against {100 * DIP_VAE[key].value:.1f}",
        paper_effect=_paper_gap("dip", key),
        unit="Higgins' score",
        headline=True,
        gates=gates.working_arms((DIP_ARM, other), "higgins", chance=0.2),
    )


STUDY = Study(
    about="DIP-VAE against β-VAE: Higgins' score, test error, correlated latents",
    cite=f"{KUMAR}, Tables 1, 3 and Fig. 1",
    cost={"tiny": "10 s", "cpu": "100 min", "paper": "19 runs × 12 h a seed"},
    claims=(
        _score_claim("beta1", "DIP-VAE, at its best λ, scores above the VAE"),
        _score_claim("beta4", "DIP-VAE scores above β-VAE (4)"),
        _score_claim("beta60", "DIP-VAE scores above β-VAE (60)"),
        Claim(
            "cheap",
            "at little cost in reconstruction: less than a fifth of what β = 60 costs",
            f"{KUMAR}, Table 1",
            _cost_margin,
            paper_value=".0018, VAE .0017, β = 60 .0113",
            min_effect=1e-4,
            unit="squared error per pixel",
            headline=True,
            gates=gates.working_arms((DIP_ARM, "beta60")),
            question=True,
        ),
        Claim(
            "cheaper_than_beta4",
            "DIP-VAE reconstructs better than β-VAE (4)",
            f"{KUMAR}, Table 1",
            paired_difference("error", "beta4", DIP_ARM),
            paper_value=".0018 against .0032",
            paper_effect=_paper_gap("error_beta_4", "error_dip"),
            unit="squared error per pixel",
            headline=True,
            gates=gates.working_arms((DIP_ARM, "beta4")),
        ),
        Claim(
            "less_correlated",
            "DIP-VAE's latents correlate less than the VAE's",
            f"{KUMAR}, Sec. 3, Table 3",
            paired_difference("correlation", "beta1", DIP_ARM),
            min_effect=0.02,
            unit="mean |r| of active latents",
            headline=True,
            gates=gates.working_arms((DIP_ARM, "beta1")),
        ),
        Claim(
            "beta_correlates",
            "β-VAE's latents correlate more than the VAE's",
            f"{KUMAR}, Sec. 3, Table 3",
            paired_difference("correlation", "beta4", "beta1"),
            min_effect=0.02,
            unit="mean |r| of active latents",
            headline=True,
            gates=gates.working_arms(("beta1", "beta4")),
        ),
    ),
    controls=(
        Claim("kl", "a higher β lowers the KL", "definition", paired_difference("kl", "beta1", "beta4"), min_effect=1.0,
              unit="nats"),
    ),
    arms=arms,
    seeds={"tiny": (0,), "cpu": tuple(range(10)), "paper": tuple(range(10))},
    measure=measure,
    figures=figures,
    deviations=f"32×32 sprites with orientation (92,160 images) in place of dSprites, a dense net of 400 and 200 units, "
    f"{SPRITE_STEPS:,} steps. {PRICES_SCALED}. Printed are neither λ_od of Table 1 nor ρ of the running covariance. On pilot "
    "seed 100 (VAE: Higgins' score .58, error .0041) λ_od = 20 at ρ = .1, gradient as printed, scored .58 (.0033), at ρ = 1 .67 "
    "(.0040), λ_od = 50 at ρ = 1 .69 (.0044): the last is judged.",
)  # fmt: skip
