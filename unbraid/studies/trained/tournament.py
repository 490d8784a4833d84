"""Objectives on the same data, net and budget, audited with the exact q(z). A study of our own on the demo's sprites."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from unbraid.studies.framework import study_plots
from unbraid.studies.framework.effects import Effect, correlation, group_difference
from unbraid.studies.framework.results import Results
from unbraid.studies.framework.shared_settings import COLOUR_SPRITES
from unbraid.studies.framework.study import Arm, Claim, Study

if TYPE_CHECKING:
    from unbraid.runs.run import Run

CRITIC = {"width": 256, "depth": 3, "lr": 5e-3}
GROUPS = {"a": 2, "b": 2, "c": 1}  # five columns, as in the other arms
MIXED = {"shape": "onehot(3)", "rest": 4}
TEMPERATURE = {"schedule": "linear", "start": 1.0, "stop": 0.5, "steps": 2000}
ISA = {"prior": {"name": "isa", "p0": 2.1, "exponents": 2.2}, "latent": GROUPS}
ROWS: dict[str, dict[str, Any]] = {  # one setting per objective, fixed before any run
    "vae": {"objective": {"name": "vae"}},
    "beta_vae": {"objective": {"name": "beta_vae", "beta": 4.0}},
    "beta_svae": {
        "objective": {"name": "beta_svae", "beta": 4.0},
        "latent": MIXED,
        "posterior": {"temperature": TEMPERATURE},
    },
    "entropy_vae": {"objective": {"name": "entropy_vae", "beta": 4.0}},
    "annealed_vae": {"objective": {"name": "annealed_vae", "gamma": 100.0, "capacity": 10.0, "steps": 2000}},
    "free_bits_vae": {"objective": {"name": "free_bits_vae"}},
    "beta_tcvae": {"objective": {"name": "beta_tcvae", "beta": 6.0}},
    "information_dropout": {"objective": {"name": "information_dropout", "beta": 1.0, "gamma": 6.0}},
    "factor_vae": {"objective": {"name": "factor_vae", "gamma": 10.0, "critic": CRITIC}},
    "factor_vae_prior": {"objective": {"name": "factor_vae_prior", "gamma": 10.0, "critic": CRITIC}},
    "aae": {"objective": {"name": "aae", "gamma": 10.0, "critic": CRITIC}},
    "hfvae": {"objective": {"name": "hfvae", "beta": 4.0, "gamma": 3.0}, "latent": GROUPS},
    "dip_vae_i": {"objective": {"name": "dip_vae_i", "lambda_od": 10.0}},
    "dip_vae_ii": {"objective": {"name": "dip_vae_ii", "lambda_od": 10.0}},
    "isa_vae": {"objective": {"name": "isa_vae", "beta": 2.0}, **ISA},
    "isa_tcvae": {"objective": {"name": "isa_tcvae", "beta": 4.0}, **ISA},
    "info_vae": {"objective": {"name": "info_vae"}},
    "wae": {"objective": {"name": "wae"}},
    "decomposition": {"objective": {"name": "decomposition", "alpha": 10.0, "beta": 1.0, "divergence": "mmd"}},
    "anchor_vae": {"objective": {"name": "anchor_vae", "lam": 0.5, "anchors": "a"}, "latent": GROUPS},
    "hfs_vae": {"objective": {"name": "hfs_vae"}},
}
PRICED = ("beta_tcvae", "information_dropout", "factor_vae", "hfvae", "isa_tcvae")  # price the total correlation
# price a divergence of q(z) from the prior, which includes the total correlation, or the supports
PARTLY_PRICED = ("factor_vae_prior", "aae", "info_vae", "wae", "decomposition", "hfs_vae")
UNPRICED = tuple(row for row in ROWS if row not in (*PRICED, *PARTLY_PRICED))


def arms(scale: str) -> list[Arm]:
    """One arm per objective; `paper` trains longer.

    Args:
        scale: 'tiny', 'cpu' or 'paper'.
    """
    base: dict[str, Any] = {**COLOUR_SPRITES["tiny" if scale == "tiny" else "cpu"], "latent": 5}
    if scale == "paper":
        base |= {"data": {"name": "shapes3d"}, "nets": {"name": "factor_vae_table2"}, "latent": 6}
        base |= {"budget": {"batch": 64, "steps": 500_000, "lr": 1e-4, "log_every": 500}}
    few = ("vae", "beta_tcvae", "dip_vae_i", "isa_vae", "decomposition")
    return [Arm(row, {**base, **own}, row) for row, own in ROWS.items() if scale != "tiny" or row in few]


def measure(run: Run) -> dict[str, float]:
    """Four supervised metrics, and every term of the KL by the audit.

    Args:
        run: the run.
    """
    from unbraid import metrics
    from unbraid.runs.evaluation.auditing import audit
    from unbraid.runs.evaluation.encoding import encode

    codes = encode(run, max_images=20_000, quiet=True)
    nats = audit(run, quiet=True)["nats"]
    found = {
        "mig": metrics.mig(codes).value,
        "dci": metrics.dci(codes).value,
        "sap": metrics.sap(codes).value,
        "factor_vae": metrics.factor_vae(codes, protocol="paper").value,
        "reconstruction": nats["reconstruction"],
        "tc": sum(value for key, value in nats.items() if key.startswith("tc_q")),  # over the branches: of all leaves
        "mi": nats["mi"],
    }
    return {name: float(value) for name, value in found.items()}


def measure_jointly(runs: Sequence[Run]) -> list[dict[str, float]]:
    """UDR of each run among the runs of its arm: do models of other seeds find the same columns? It needs no labels.

    Args:
        runs: all runs of one arm.
    """
    from unbraid import metrics
    from unbraid.runs.evaluation.encoding import encode

    found = metrics.udr([encode(run, max_images=5000, quiet=True, save=False) for run in runs])
    return [{"udr": float(value)} for value in found.table["models"]]


def selection_gain(quantity: str, criterion: str, arms: Sequence[str]) -> Effect:
    """Quantity of the arm that is best by a criterion, minus the mean over all arms.

    Args:
        quantity: name of the measured number.
        criterion: name of the number that selects.
        arms: labels of the arms.
    """

    def effect(results: Results, seed: int) -> float | None:
        pairs = [(results.value(arm, seed, criterion), results.value(arm, seed, quantity)) for arm in arms]
        known = [(a, b) for a, b in pairs if a is not None and b is not None]
        best = max(known, key=lambda pair: pair[0])[1] if known else 0.0
        return best - float(np.mean([b for _, b in known])) if len(known) == len(pairs) else None

    return effect


def selection_loss_within(quantity: str, criterion: str, arms: Sequence[str], margin: float) -> Effect:
    """margin − loss from selecting by a criterion instead of by the quantity itself: positive if the loss is smaller.

    Args:
        quantity: name of the measured number.
        criterion: name of the number that selects.
        arms: labels of the arms.
        margin: the tolerated loss.
    """

    def effect(results: Results, seed: int) -> float | None:
        pairs = [(results.value(arm, seed, criterion), results.value(arm, seed, quantity)) for arm in arms]
        known = [(a, b) for a, b in pairs if a is not None and b is not None]
        if len(known) < len(pairs):
            return None
        return margin - (max(b for _, b in known) - max(known, key=lambda pair: pair[0])[1])

    return effect


def negate(effect: Effect) -> Effect:
    """Return the effect with the opposite sign.

    Args:
        effect: the effect.
    """

    def turned(results: Results, seed: int) -> float | None:
        found = effect(results, seed)
        return None if found is None else -found

    return turned


def figures(results: Results, runs: Path, out: Path) -> Sequence[str]:
    """Plot MIG against reconstruction, audited total correlation and UDR: one labelled dot per arm.

    Args:
        results: the results.
        runs: folder of the runs.
        out: folder for the figures.
    """
    drawn, axes = study_plots.create_figure(3, 5.2, 5.6)
    words = ("reconstruction, nats", "total correlation by the exact q(z), nats", "UDR (no labels)")
    for each, quantity, label in zip(axes, ("reconstruction", "tc", "udr"), words, strict=True):
        draw_rows(each, results, quantity, "mig")
        each.set(xlabel=label, ylabel="MIG", xscale="log" if quantity == "tc" else "linear")
        study_plots.format_log_ticks(each)
    study_plots.add_legend(axes[0], loc="upper right")
    drawn.savefig(out / "tournament.png", dpi=110)
    return ["tournament.png"]


def draw_rows(axes: Any, results: Results, x: str, y: str) -> None:
    """Draw the mean of each arm with its name and its seeds as small dots, coloured by what it prices.

    Args:
        axes: matplotlib axes.
        results: the results.
        x: quantity of the horizontal axis.
        y: quantity of the vertical axis.
    """
    from unbraid.figures.drawing import LINE_COLOURS

    groups = {
        "prices total correlation": PRICED,
        "does not": UNPRICED,
        "prices q(z) against the prior, or supports": PARTLY_PRICED,
    }
    for colour, (group, rows) in zip(LINE_COLOURS, groups.items(), strict=False):
        label: str | None = group
        for row in (r for r in rows if results.values(r, x) and results.values(r, y)):
            seen = np.array([results.values(row, x), results.values(row, y)])
            axes.plot(*seen, ".", color=colour, ms=3, alpha=0.35)
            axes.plot(*seen.mean(1), "o", color=colour, ms=5, label=label)
            axes.annotate(row, seen.mean(1), fontsize=6.5, textcoords="offset points", xytext=(4, 3), color=colour)
            label = None


STUDY = Study(
    about="every objective on the same data, net and budget, by the exact audit",
    cite="unbraid",
    cost={"tiny": "10 s", "cpu": "150 min", "paper": "21 runs × 12–21 h a seed"},
    claims=(
        Claim(
            "priced",
            "rows that price the total correlation score above those that do not",
            "our question",
            group_difference("mig", PRICED, UNPRICED),
            min_effect=0.05,
            unit="MIG",
            headline=True,
        ),
        Claim(
            "lower_tc",
            "among these rows a lower audited total correlation goes with a higher MIG",
            "our question",
            negate(correlation("tc", "mig", list(ROWS))),
            min_effect=0.1,
            unit="Spearman",
            headline=True,
        ),
        Claim(
            "metrics_agree",
            "MIG and DCI order these rows alike",
            "our question",
            correlation("mig", "dci", list(ROWS)),
            min_effect=0.1,
            unit="Spearman",
        ),
        Claim(
            "reconstruction_pays",
            "among these rows a higher MIG goes with worse reconstruction",
            "our question",
            correlation("reconstruction", "mig", list(ROWS)),
            min_effect=0.1,
            unit="Spearman",
        ),
        Claim(
            "udr_agrees",
            "among these rows UDR (which sees no labels) goes with MIG",
            "our question",
            correlation("udr", "mig", list(ROWS)),
            min_effect=0.1,
            unit="Spearman",
        ),
        Claim(
            "udr_chooses",
            "the row that UDR chooses scores above the mean of the rows",
            "our question",
            selection_gain("mig", "udr", list(ROWS)),
            min_effect=0.05,
            unit="MIG",
        ),
        Claim(
            "udr_suffices",
            "choosing a row by UDR loses less than .1 of MIG against choosing it by labels",
            "our question",
            selection_loss_within("mig", "udr", list(ROWS), 0.1),
            min_effect=0.02,
            unit="MIG",
        ),
    ),
    arms=arms,
    seeds={"tiny": (0,), "cpu": tuple(range(20, 30)), "paper": tuple(range(5))},
    measure=measure,
    measure_jointly=measure_jointly,
    figures=figures,
    deviations="One setting a row, and rows whose best setting is elsewhere lose by it: β-TCVAE's price is the demo's, chosen on "
    "this set, and the critic's rate was too; the other settings are the papers' or the library's own. The rows are "
    "not a sample of all objectives: a correlation over them is about these rows, and 21 unrelated ones would have "
    "one of ±.2 by chance, the same for every seed. aae, factor_vae_prior, info_vae, wae, decomposition and hfs_vae "
    "price something between and are in neither group. UDR compares a run with those of other seeds, so its seeds are "
    "not independent.",
)
