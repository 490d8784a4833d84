"""Learned exponents of a subspace prior: their values and their effect. Stühmer et al. 2019, Figs. 5c and 7.

3D Faces needs a file of renderings. At `cpu` the 3D Shapes subset replaces it: one object of varying angle, size and colour.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from unbraid.studies.framework import study_plots
from unbraid.studies.framework.effects import Effect, difference_at_equal, mean_above, paired_difference
from unbraid.studies.framework.paper_numbers import EXPONENTS, STUEHMER
from unbraid.studies.framework.results import Results
from unbraid.studies.framework.shared_settings import COLOUR_SPRITES, printed_settings, shapes3d_settings
from unbraid.studies.framework.study import Arm, Claim, Study

if TYPE_CHECKING:
    from unbraid.runs.run import Run

P0, START_EXPONENT, EXPONENT_LR = EXPONENTS["p0"].value, 2.0, 5e-4  # App. A.2; p0 is fixed
FIXED_EXPONENT = 1.9  # leptokurtic, as in the paper on faces
BETAS = (0.5, 1.0, 2.0)
GROUPS = {"a": 3, "b": 3, "c": 4}  # ten columns in three groups; the paper does not print its group sizes
METHODS = {"beta": "β-VAE", "isa": "ISA-VAE, p = 1.9", "learned": "ISA-VAE, learned"}
PAPER_BETAS = (0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0)  # Table 2: 1, 1.5, 2, 2.5, 3, 4; Fig. 5c: 0.5, 1, 2, 3, 4, 5
PAPER_RECIPES = {
    "beta": "beta_vae_faces3d_isa",
    "tc": "beta_tcvae_faces3d_isa",
    "isa": "isa_vae_faces3d",
    "learned": "isa_vae_faces3d_learned",
    "isatc": "isa_tcvae_faces3d",
}


def arm_label(method: str, beta: float) -> str:
    """Label of a method at one β.

    Args:
        method: the method.
        beta: β.
    """
    return f"{method}{beta:g}"


def arms(scale: str) -> list[Arm]:
    """β-VAE, and ISA-VAE with fixed and with learned exponents, over β on the same ten columns.

    Args:
        scale: 'tiny', 'cpu' or 'paper'.
    """
    if scale == "paper":
        return [
            Arm(arm_label(method, beta), printed_settings(recipe, beta=beta), METHODS.get(method, method), beta)
            for method, recipe in PAPER_RECIPES.items()
            for beta in PAPER_BETAS
        ]
    base = {**{"tiny": COLOUR_SPRITES["tiny"], "cpu": shapes3d_settings()}[scale], "latent": GROUPS}
    prior: dict[str, dict[str, Any]] = {
        "beta": {},
        "isa": {"prior": {"name": "isa", "p0": P0, "exponents": FIXED_EXPONENT}},
        "learned": {
            "prior": {"name": "isa", "p0": P0, "exponents": START_EXPONENT, "learned": True, "lr": EXPONENT_LR}
        },
    }
    return [
        Arm(
            arm_label(method, beta),
            {
                **base,
                **prior[method],
                "objective": {"name": "beta_vae" if method == "beta" else "isa_vae", "beta": beta},
            },
            METHODS[method],
            beta,
        )
        for method in METHODS
        for beta in BETAS
        if scale != "tiny" or beta == 1.0
    ]


def measure(run: Run) -> dict[str, float]:
    """MIG over ordered factors (faces: azimuth, elevation, light), reconstruction, and the sorted exponents.

    Args:
        run: the run.
    """
    from unbraid import metrics
    from unbraid.runs.evaluation.auditing import audit
    from unbraid.runs.evaluation.encoding import encode

    codes = encode(run, max_images=20_000, quiet=True)
    assert codes.values is not None
    assert codes.factors is not None
    kept = [i for i, factor in enumerate(codes.factors.items) if factor.kind != "class"]
    names = [codes.factors.names[i] for i in kept]
    found: dict[str, Any] = {
        "mig": metrics.mig(codes.mean, codes.values[:, kept], names=names).value,
        "dci": metrics.dci(codes).value,
        "reconstruction": audit(run, quiet=True)["nats"]["reconstruction"],
    }
    prior: Any = run.model.prior
    if run.recipe.prior.get("learned"):
        found |= dict(zip(("p1", "p2", "p3"), np.sort(prior.log_exponents.exp().numpy()), strict=True))
        found["from_p0"] = min(abs(found[p] - P0) for p in ("p1", "p2", "p3"))
    return {name: float(value) for name, value in found.items()}


def figures(results: Results, runs: Path, out: Path) -> Sequence[str]:
    """Plot Fig. 5c, MIG against reconstruction; and Fig. 7, learned exponents over seeds and β with the paper's modes as lines.

    Args:
        results: the results.
        runs: folder of the runs.
        out: folder for the figures.
    """
    from unbraid.figures.drawing import LINE_COLOURS

    drawn, axes = study_plots.create_figure(4, 3.2)
    heads = {**{words: method for method, words in METHODS.items()}, "β-TCVAE": "tc", "ISA-TCVAE": "isatc"}
    lines = study_plots.arms_by_method(results, heads)
    study_plots.plot_tradeoff(axes[0], results, lines, "reconstruction", "mig")
    axes[0].set(xlabel="reconstruction, nats", ylabel="MIG")
    study_plots.add_legend(axes[0])
    for each, name, colour in zip(axes[1:], ("p1", "p2", "p3"), LINE_COLOURS, strict=False):
        values = [value for arm in lines[METHODS["learned"]] for value in results.values(arm, name)]
        each.hist(values, bins=12, color=colour, alpha=0.8)
        each.axvline(EXPONENTS[name].value, color="grey", lw=1, label="printed mode (faces)")
        each.axvline(P0, color="black", lw=1, ls=":", label="p0")
        each.set(xlabel=name, ylabel="models")
    study_plots.add_legend(axes[1])
    drawn.savefig(out / "isa_faces.png", dpi=110)
    return ["isa_faces.png"]


LEARNED_ARMS = [arm_label("learned", b) for b in BETAS]


def _mig_claim(name: str, text: str, effect: Effect) -> Claim:
    return Claim(name, text, f"{STUEHMER}, Fig. 5c", effect, min_effect=0.02, unit="MIG", headline=True)


STUDY = Study(
    about="learned exponents of a subspace prior: what they become and what they buy",
    cite=f"{STUEHMER}, Figs. 5c and 7",
    cost={"tiny": "10 s", "cpu": "150 min", "paper": "40 runs × 2–3 d a seed"},
    claims=(
        _mig_claim("learned_beta1", "at β = 1 learned exponents raise MIG over β-VAE",
             paired_difference("mig", arm_label("learned", 1), arm_label("beta", 1))),
        _mig_claim("learned_beta05", "and at β = 0.5",
             paired_difference("mig", arm_label("learned", 0.5), arm_label("beta", 0.5))),
        _mig_claim("learned_fixed", "at β = 1 learned exponents raise MIG over fixed ones",
             paired_difference("mig", arm_label("learned", 1), arm_label("isa", 1))),
        _mig_claim("equal_reconstruction", "at equal reconstruction their MIG lies above β-VAE's",
             difference_at_equal("mig", "reconstruction", LEARNED_ARMS, [arm_label("beta", b) for b in BETAS])),
        Claim("largest", "the largest exponent ends above 2.17", f"{STUEHMER}, App. A.2 and Fig. 7",
              mean_above("p3", LEARNED_ARMS, threshold=EXPONENTS["p3"].value), paper_value="always above 2.17",
              min_effect=0.02, unit="exponent"),
    ),
    arms=arms,
    seeds={"tiny": (0,), "cpu": tuple(range(10)), "paper": tuple(range(15))},
    measure=measure,
    figures=figures,
    deviations="No faces: one ray-cast object in a room at 32×32 (hue, scale, orientation; 4,800 pictures) with a broadcast "
    "decoder, 4,000 steps at batch 64. At `paper` faces3d.npy must hold renderings of 3D Faces ('unbraid data list "
    "faces3d').",
)  # fmt: skip
