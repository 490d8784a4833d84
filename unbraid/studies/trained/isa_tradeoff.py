"""ISA-VAE against β-VAE: MIG and reconstruction over paired seeds. Stühmer et al. 2019, Fig. 5 (a, b)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unbraid.studies.framework import gates, study_plots
from unbraid.studies.framework.effects import (
    difference_at_equal,
    first_available,
    group_difference,
    paired_difference,
    pooled_difference,
)
from unbraid.studies.framework.paper_numbers import ISA_VAE, STUEHMER
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

BETAS = (1, 2, 4, 8)  # from 8 on MIG is clearly above its floor (pilot seed 100: .22 at 8, .14 at 4, .02 at 1)
PAPER_BETAS = (1, 1.5, 2, 2.5, 3, 3.5, 4, 5, 6)  # Table 1
PAPER_GAMMAS = tuple(range(1, 11))
BETA_ARMS, ISA_ARMS = [f"beta{b}" for b in BETAS], [f"isa{b}" for b in BETAS]
TC_ARMS = ["tc8", "isatc8"]
GROUPS = {f"g{i}": 4 for i in range(5)}
PAPER_RECIPES = {
    "beta": "beta_vae_dsprites_isa",
    "isa": "isa_vae_dsprites",
    "tc": "beta_tcvae_dsprites_isa",
    "isatc": "isa_tcvae_dsprites",
}


def arms(scale: str) -> list[Arm]:
    """Both methods over β with the same 20 columns, in five groups of four for ISA; the TC rows at β = 8.

    Args:
        scale: 'tiny', 'cpu' or 'paper'.
    """
    if scale == "paper":
        made = [
            Arm(f"{method}{b:g}", printed_settings(recipe, beta=float(b)), method, b)
            for method, recipe in PAPER_RECIPES.items()
            for b in PAPER_BETAS
        ]
        factor = "factor_vae_dsprites_isa"
        return made + [Arm(f"gamma{g}", printed_settings(factor, gamma=float(g)), "FactorVAE", g) for g in PAPER_GAMMAS]
    base = {**ORIENTED_SPRITES[scale], "latent": GROUPS}
    isa = {"prior": {"name": "isa", "p0": 2.1, "exponents": 2.2}}

    def arm(
        label: str, method: str, setting: float, prior: dict[str, Any], prices: dict[str, float], **more: Any
    ) -> Arm:
        return Arm(label, {**base, **prior, "objective": scaled_row(scale, prices)}, method, setting)

    betas = {"tiny": (1, 4), "cpu": BETAS}[scale]
    made = [arm(f"beta{b:g}", "β-VAE", b, {}, {"kl": b}) for b in betas]
    made += [arm(f"isa{b:g}", "ISA-VAE", b, isa, {"kl": b}) for b in betas]
    made += [arm("tc8", "β-TCVAE", 8, {}, {"mi": 1, "tc": 8, "dw": 1})]
    made += [arm("isatc8", "ISA-TCVAE", 8, isa, {"mi": 1, "tc_q": 8, "dw_joint": 1})]
    return made


def measure(run: Run) -> dict[str, float]:
    """MIG without shape, as in the paper but from a histogram of means; reconstruction by the audit.

    Args:
        run: the run.
    """
    from unbraid import metrics
    from unbraid.runs.evaluation.auditing import audit
    from unbraid.runs.evaluation.encoding import encode
    from unbraid.studies.framework.measurements import gate_numbers

    codes = encode(run, max_images=20_000, quiet=True)
    assert codes.values is not None
    assert codes.factors is not None
    kept = [i for i, factor in enumerate(codes.factors.items) if factor.name != "shape"]
    names = [codes.factors.names[i] for i in kept]
    values = codes.values[:, kept]
    nats = audit(run, rows=1024, components=20_000, quiet=True)["nats"]
    return {
        "mig": float(metrics.mig(codes.mean, values, names=names).value),
        "mig_all": float(metrics.mig(codes).value),
        "factor_vae": float(metrics.factor_vae(codes, protocol="paper").value),
        "dci": float(metrics.dci(codes).value),
        "reconstruction": float(nats["reconstruction"]),
        "kl": float(nats["kl@sample"]),
        **gate_numbers(run, codes),
    }


def figures(results: Results, runs: Path, out: Path) -> Sequence[str]:
    """Plot Fig. 5b, MIG against reconstruction; and Fig. 5a, MIG at β = 1 with one box per method.

    Args:
        results: the results.
        runs: folder of the runs.
        out: folder for the figures.
    """
    drawn, (left, right) = study_plots.create_figure(2, 4.6)
    heads = {"β-VAE": "beta", "ISA-VAE": "isa", "β-TCVAE": "tc", "ISA-TCVAE": "isatc", "FactorVAE": "gamma"}
    methods = study_plots.arms_by_method(results, heads)
    study_plots.plot_tradeoff(left, results, methods, "reconstruction", "mig")
    left.set(xlabel="reconstruction, nats", ylabel="MIG without shape")
    study_plots.add_legend(left)
    study_plots.plot_boxes(right, results, [a for a in (*BETA_ARMS, *ISA_ARMS, *TC_ARMS) if a in results.arms], "mig")
    drawn.savefig(out / "isa_tradeoff.png", dpi=110)
    return ["isa_tradeoff.png"]


# β = 8 is not in the paper's grid
CURVE_GATES = gates.first_measured(
    gates.working_arms([*ISA_ARMS, *BETA_ARMS], "mig"), gates.working_arms([*ISA_ARMS[:-1], *BETA_ARMS[:-1]], "mig")
)


def _highest_gates(*methods: str) -> tuple[gates.Gate, ...]:
    """Gates of the arms of some methods at the highest β of a grid."""
    return gates.first_measured(*(gates.working_arms([f"{m}{b}" for m in methods], "mig") for b in (8, 6)))


STUDY = Study(
    about="ISA-VAE and β-VAE: MIG against reconstruction over paired seeds",
    cite=f"{STUEHMER}, Fig. 5 (a, b)",
    cost={"tiny": "15 s", "cpu": "80 min", "paper": "46 runs × 5–6 h a seed"},
    claims=(
        Claim(
            "beta1",
            "at β = 1 the ISA prior raises MIG",
            f"{STUEHMER}, Fig. 5a",
            paired_difference("mig", "isa1", "beta1"),
            paper_value=".20 against .14 (representative runs, Fig. 8)",
            paper_effect=ISA_VAE["isa_1"].value - ISA_VAE["vae_1"].value,
            unit="MIG",
            headline=True,
            gates=gates.working_arms(("isa1", "beta1"), "mig"),
        ),
        Claim(
            "median",
            "at β = 1 the median MIG of ISA-VAE over seeds lies above the VAE's",
            f"{STUEHMER}, Fig. 5a",
            paired_difference("mig", "isa1", "beta1"),
            min_effect=0.02,
            unit="MIG",
            gates=gates.working_arms(("isa1", "beta1"), "mig"),
            pooled=pooled_difference("mig", "isa1", "beta1"),
        ),
        Claim(
            "beta2",
            "at β = 2 the ISA prior raises MIG",
            f"{STUEHMER}, Fig. 5b",
            paired_difference("mig", "isa2", "beta2"),
            paper_value=".41 against .28 (representative runs, Fig. 11)",
            paper_effect=ISA_VAE["isa_2"].value - ISA_VAE["beta_vae_2"].value,
            unit="MIG",
            headline=True,
            gates=gates.working_arms(("isa2", "beta2"), "mig"),
        ),
        Claim(
            "beta8",
            "at β = 8, where MIG is away from its floor here, the ISA prior raises it",
            f"{STUEHMER}, Fig. 5b (other β)",
            first_available(paired_difference("mig", "isa8", "beta8"), paired_difference("mig", "isa6", "beta6")),
            paper_effect=ISA_VAE["isa_2"].value - ISA_VAE["beta_vae_2"].value,
            unit="MIG",
            gates=_highest_gates("isa", "beta"),
        ),
        Claim(
            "equal_reconstruction",
            "at equal reconstruction ISA-VAE's MIG lies above β-VAE's",
            f"{STUEHMER}, Fig. 5b",
            first_available(
                difference_at_equal("mig", "reconstruction", ISA_ARMS, BETA_ARMS),
                difference_at_equal("mig", "reconstruction", ISA_ARMS[:-1], BETA_ARMS[:-1]),
            ),
            paper_effect=ISA_VAE["isa_2"].value - ISA_VAE["beta_vae_2"].value,
            unit="MIG",
            headline=True,
            gates=CURVE_GATES,
        ),
        Claim(
            "reconstruction",
            "at β = 2 ISA-VAE reconstructs better",
            f"{STUEHMER}, Figs. 5b, 11",
            paired_difference("reconstruction", "beta2", "isa2"),
            paper_value="−25.86 against −29.40 nats",
            paper_effect=ISA_VAE["log_isa_2"].value - ISA_VAE["log_beta_vae_2"].value,
            unit="nats",
            headline=True,
            gates=gates.working_arms(("isa2", "beta2")),
        ),
        Claim(
            "maximum",
            "ISA-VAE's best MIG over β lies above β-VAE's best at the same seed",
            f"{STUEHMER}, Figs. 5a, 5b",
            first_available(
                group_difference("mig", ISA_ARMS, BETA_ARMS, max),
                group_difference("mig", ISA_ARMS[:-1], BETA_ARMS[:-1], max),
            ),
            min_effect=0.02,
            unit="MIG",
            gates=CURVE_GATES,
        ),
        Claim(
            "tc",
            "the ISA prior raises MIG under the TC row too",
            f"{STUEHMER}, Fig. 5b",
            first_available(paired_difference("mig", "isatc8", "tc8"), paired_difference("mig", "isatc6", "tc6")),
            min_effect=0.02,
            unit="MIG",
            gates=_highest_gates("isatc", "tc"),
        ),
    ),
    controls=(
        Claim("kl", "a higher β lowers the KL", "definition", paired_difference("kl", "beta1", "beta4"), min_effect=1.0,
              unit="nats"),
    ),
    arms=arms,
    seeds={"tiny": (0,), "cpu": tuple(range(10)), "paper": tuple(range(50))},
    measure=measure,
    figures=figures,
    deviations=f"32×32 sprites with orientation (92,160 images) in place of dSprites; a dense net of 400 and 200 units, which "
    f"does not align latents with x and y by itself as a broadcast decoder does; {SPRITE_STEPS:,} steps at batch 64. "
    f"{PRICES_SCALED}; β reaches 8, because MIG is near its floor below it. The paper's numbers are selected runs, ours are "
    f"all; its MIG is Chen's, from samples, ours from a "
    "histogram of means. Fig. 5a also prints the maximum over 50 seeds, which has no sound interval: the best over β of each "
    "seed is judged.",
)  # fmt: skip
