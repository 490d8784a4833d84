"""Unseen combinations, and digit identity while thickness varies. Esmaeili et al. 2018, Figs. 7 and 9, with baselines.

Thick 7s and narrow 0s are held out of training; models trained with and without them are compared on these images.
A classifier trained on the data predicts which digit an image shows.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from unbraid.studies.framework import gates, study_plots
from unbraid.studies.framework.effects import mean_above, paired_difference, within_margin
from unbraid.studies.framework.paper_numbers import ESMAEILI
from unbraid.studies.framework.results import Results
from unbraid.studies.framework.study import Arm, Claim, Study
from unbraid.studies.trained.hfvae_discrete import BUDGET, LEAF, TEMPERATURE
from unbraid.studies.trained.hfvae_discrete import ROWS as BRANCH_ROWS

if TYPE_CHECKING:
    from unbraid.runs.run import Run

THICK_SEVENS = {"class": "7", "thickness": {"min": 3.5}}
HELD_OUT_RULES = {  # drawn strokes have widths relative to the height, MNIST widths are measured in pixels
    "strokes": [THICK_SEVENS, {"class": "0", "width": {"max": 0.7}}],
    "mnist": [THICK_SEVENS, {"class": "0", "width": {"max": 13.0}}],
}
FLAT, MIXED = 10, {LEAF: "onehot(10)", "style": 10}
ROWS: dict[str, tuple[Any, dict[str, Any]]] = {
    "vae": (FLAT, {"name": "vae"}),
    "beta_vae": (FLAT, {"name": "beta_vae", "beta": 4.0}),
    "beta_svae": (MIXED, BRANCH_ROWS["beta_svae"]),
    "hfvae": (MIXED, BRANCH_ROWS["hfvae"]),
    "code_first": (MIXED, BRANCH_ROWS["code_first"]),
}
ARMS = {
    "cpu": ("beta_vae-full", "beta_svae-full", "code_first-full", "code_first-pruned", "vae-pruned"),
    "paper": tuple(f"{row}-{part}" for part in ("full", "pruned") for row in ROWS),
}
STARTS_PER_DIGIT = 8  # start images per digit


def arms(scale: str) -> list[Arm]:
    """Objectives trained on all images ('full') and without the thick 7s and narrow 0s ('pruned').

    Args:
        scale: 'tiny', 'cpu' or 'paper'.
    """
    name = "strokes" if scale == "tiny" else "mnist"
    made = []
    for label in ARMS["paper" if scale == "paper" else "cpu"]:
        row, part = label.split("-")
        latent, objective = ROWS[row]
        data: dict[str, Any] = {"name": name, **({"subsample": 800} if scale == "tiny" else {"split": "train"})}
        if part == "pruned":
            data["hold_out"] = HELD_OUT_RULES[name]
        net = "hfvae_table3_code_to_style" if latent is MIXED and scale != "paper" else "hfvae_table3_printed"
        discrete = {"temperature": 0.66 if scale == "paper" else TEMPERATURE, "discrete": "mass"}
        posterior = {"posterior": discrete} if latent is MIXED else {}
        recipe = {
            "data": data,
            "latent": latent,
            "nets": {"name": net},
            "objective": objective,
            "budget": BUDGET[scale],
        }
        made.append(Arm(label, {**recipe, **posterior}, row))
    return made


def measure(run: Run) -> dict[str, float]:
    """Errors on held-out and other images, classified digits of held-out reconstructions and along thickness.

    Args:
        run: the run.
    """
    from unbraid.runs.evaluation.auditing import audit
    from unbraid.studies.framework import classifiers
    from unbraid.studies.framework.measurements import mean_image_nats

    whole, held = load_both(run)
    referee = classifiers.factor_classifier(whole)
    rng = np.random.default_rng(0)
    at, rest = (np.sort(rng.permutation(len(d))[:600]) for d in (held, whole))
    unseen, others = held.pixels(at), whole.pixels(rest)
    seen_again = run.decode(run.encode(unseen))
    found = {
        "error_held": np.mean((seen_again - unseen) ** 2),
        "error_rest": np.mean((run.decode(run.encode(others)) - others) ** 2),
        "digit_held": np.mean(referee(seen_again) == _factor_values(held, at, "class")),
        "digit_real": np.mean(referee(unseen) == _factor_values(held, at, "class")),
        "reconstruction": audit(run, rows=512, components=10_000, quiet=True)["nats"]["reconstruction"],
        "mean_image": mean_image_nats(run),
        "referee": referee.accuracy,
        **_thickness_traversal(run, whole, referee),
        **_digit_in_code(run, whole, rest),
    }
    return {name: float(value) for name, value in found.items()}


def load_both(run: Run) -> tuple[Any, Any]:
    """Return the whole data set of a run, and the images that the pruned runs never saw.

    Args:
        run: the run.
    """
    from unbraid import data

    table = {key: value for key, value in run.recipe.data.items() if key in ("name", "split")}
    name = table.pop("name")
    return data.load(name, **table), data.load(name, held_out=HELD_OUT_RULES[name], **table)


def _factor_values(dataset: Any, index: np.ndarray, name: str) -> np.ndarray:
    return dataset.labels(index)[:, dataset.factors.names.index(name)].astype(int)


def stroke_thickness(dataset: Any, index: np.ndarray) -> np.ndarray:
    """Stroke thickness in pixels: the factor if the data have it, otherwise measured.

    Args:
        dataset: the data set.
        index: indices of the images.
    """
    from unbraid.data.subsets import handwriting_attributes

    if "thickness" not in dataset.factors.names:
        return np.array([handwriting_attributes.thickness(image[0]) for image in dataset.pixels(index)])
    values = np.asarray(dataset.factors.items[dataset.factors.names.index("thickness")].values, float)
    return values[_factor_values(dataset, index, "thickness")]


def _thickness_traversal(run: Run, dataset: Any, classifier: Any) -> dict[str, float]:
    """Fig. 7: traverse the column that follows thickness from −3 to 3; share of images that keep their classified digit."""
    index = np.sort(np.random.default_rng(1).permutation(len(dataset))[:2000])
    codes, classes = run.encode(dataset.pixels(index)), _factor_values(dataset, index, "class")
    column, score = thickness_column(run, codes, stroke_thickness(dataset, index))
    chosen = np.concatenate([np.flatnonzero(classes == digit)[:STARTS_PER_DIGIT] for digit in range(10)])
    kept = [np.mean(classifier(run.traverse(codes[i], column)) == classes[i]) for i in chosen]
    return {"thickness": score, "digit_kept": float(np.mean(kept))}


def thickness_column(run: Run, codes: np.ndarray, thicknesses: np.ndarray) -> tuple[int, float]:
    """Return the real column that correlates most with thickness, and its |correlation|.

    Args:
        run: the run.
        codes: codes of the images.
        thicknesses: thickness of each image.
    """
    real = run.model.tree.columns_of_kind("real")
    scores = [abs(np.corrcoef(codes[:, c], thicknesses)[0, 1]) if codes[:, c].std() > 1e-6 else 0.0 for c in real]
    return real[int(np.argmax(scores))], float(max(scores))


def _digit_in_code(run: Run, dataset: Any, index: np.ndarray) -> dict[str, float]:
    """Purity of the discrete leaf for the digit, and classified purity of prior samples of each code (Sec. 6.3)."""
    from unbraid.metrics.scores.code_information import code_nats
    from unbraid.studies.trained.hfvae_table2 import purity

    tree = run.model.tree
    leaf = next((leaf for leaf in tree.leaves if leaf.kind == "onehot"), None)
    if leaf is None:
        return {}
    probabilities = run.encode(dataset.pixels(index))[:, tree.columns(leaf.name)]
    return {
        "digit_in_code": purity(probabilities.argmax(1), _factor_values(dataset, index, "class")),
        "code_nats": code_nats(probabilities),
    }


def figures(results: Results, runs: Path, out: Path) -> Sequence[str]:
    """Plot boxes of the held-out error, the digit kept along thickness and the digit in the code; then Figs. 7 and 9.

    Args:
        results: the results.
        runs: folder of the runs.
        out: folder for the figures.
    """
    drawn, axes = study_plots.create_figure(3, 4.2)
    for each, quantity in zip(axes, ("error_held", "digit_kept", "digit_held"), strict=True):
        study_plots.plot_boxes(each, results, results.arms, quantity)
    drawn.savefig(out / "hfvae_zero_shot.png", dpi=110)
    return ["hfvae_zero_shot.png", draw_thickness(results, runs, out), draw_unseen(results, runs, out)]


def draw_thickness(results: Results, runs: Path, out: Path) -> str:
    """Draw Fig. 7: one image of each digit traversed along thickness by three models of one seed, one digit per row.

    Args:
        results: the results.
        runs: folder of the runs.
        out: folder for the figures.
    """
    from unbraid.figures.drawing import tile_images

    arms = [f"{row}-full" for row in ("beta_vae", "beta_svae", "code_first")]
    drawn, axes = study_plots.create_figure(len(arms), 2.9, 4.3)
    for each, arm, run in zip(axes, arms, study_plots.load_paired_runs(results, runs, *arms), strict=True):
        whole = run.dataset()
        index = np.sort(np.random.default_rng(1).permutation(len(whole))[:2000])
        codes, classes = run.encode(whole.pixels(index)), _factor_values(whole, index, "class")
        column, score = thickness_column(run, codes, stroke_thickness(whole, index))
        rows = [run.traverse(codes[np.flatnonzero(classes == d)[0]], column) for d in range(10) if (classes == d).any()]
        each.imshow(tile_images(np.stack(rows), gap=1), cmap="gray")
        each.set_title(f"{arm}: −3 … 3, |r| {score:.2f}", fontsize=9)
        each.axis("off")
    drawn.savefig(out / "hfvae_zero_shot_thickness.png", dpi=110)
    return "hfvae_zero_shot_thickness.png"


def draw_unseen(results: Results, runs: Path, out: Path) -> str:
    """Draw Fig. 9: held-out images above the reconstructions of two models, and the position of their thickness in the code.

    Args:
        results: the results.
        runs: folder of the runs.
        out: folder for the figures.
    """
    from unbraid.figures.drawing import LINE_COLOURS, tile_images

    arms = ["code_first-pruned", "vae-pruned"]
    made = study_plots.load_paired_runs(results, runs, *arms)
    whole, held = load_both(made[0])
    sevens = np.flatnonzero(_factor_values(held, np.arange(len(held)), "class") == 7)
    shown = np.sort(np.random.default_rng(0).permutation(len(held))[:12])
    drawn, (pairs, *axes) = study_plots.create_figure(3, 4.2, 2.9)
    unseen = held.pixels(shown)
    rows = [unseen, *(run.decode(run.encode(unseen)) for run in made)]
    pairs.imshow(tile_images(np.stack(rows), gap=1), cmap="gray")
    pairs.set_title("never seen; " + "; ".join(arms), fontsize=9)
    pairs.axis("off")
    index = np.sort(np.random.default_rng(1).permutation(len(whole))[:3000])
    pixels, classes = stroke_thickness(whole, index), _factor_values(whole, index, "class")
    for each, arm, run in zip(axes, arms, made, strict=True):
        codes = run.encode(whole.pixels(index))
        column, _ = thickness_column(run, codes, pixels)
        groups = {
            "thick 7s, never seen": run.encode(held.pixels(sevens))[:, column],
            "other thick digits": codes[(pixels >= 3.5) & (classes != 7), column],
            "thin 7s": codes[(pixels < 3.5) & (classes == 7), column],
        }
        for colour, (words, values) in zip(LINE_COLOURS, groups.items(), strict=False):
            each.hist(values, np.linspace(-3, 3, 31), density=True, histtype="step", color=colour, label=words)
        each.set(title=f"{arm}: the column of thickness", yticks=[])
        study_plots.add_legend(each)
    drawn.savefig(out / "hfvae_zero_shot_unseen.png", dpi=110)
    return "hfvae_zero_shot_unseen.png"


THICKNESS_FOUND = gates.alive(
    ("code_first-full", "beta_vae-full"), quantity="thickness", at_least=0.4
)  # a column follows thickness: |r| of .4 or more
FULL, PRUNED = "code_first-full", "code_first-pruned"
STUDY = Study(
    about="unseen combinations of factors, and the digit held along thickness, with baselines",
    cite=f"{ESMAEILI}, Figs. 7 and 9",
    cost={"tiny": "15 s", "cpu": "90 min", "paper": "10 runs × 1 h a seed"},
    claims=(
        Claim(
            "generalises",
            "a hierarchical row reconstructs combinations it never saw: a classifier reads the right digit in most of them",
            f"{ESMAEILI}, Fig. 9",
            mean_above("digit_held", [PRUNED], threshold=0.5),
            min_effect=0.05,
            unit="share of images",
            headline=True,
            gates=(gates.reconstructs((PRUNED,), share=0.8),),
            question=True,
        ),
        Claim(
            "little_lost",
            "leaving them out of training costs less than 10% of the digits that are read right",
            f"{ESMAEILI}, Fig. 9",
            within_margin("digit_held", PRUNED, FULL, 0.1),
            min_effect=0.02,
            unit="share of images",
            gates=(gates.reconstructs((PRUNED, FULL), share=0.8),),
            question=True,
        ),
        Claim(
            "better_than_vae",
            "it does so better than a plain VAE: more digits of unseen images are read right",
            f"{ESMAEILI}, Fig. 9 (the paper has no baseline)",
            paired_difference("digit_held", PRUNED, "vae-pruned"),
            min_effect=0.02,
            unit="share of images",
            gates=(gates.reconstructs((PRUNED, "vae-pruned"), share=0.8),),
            question=True,
        ),
        Claim(
            "digit_kept_hfvae",
            "the hierarchical row keeps the digit along thickness where β-VAE does not",
            f"{ESMAEILI}, Fig. 7",
            paired_difference("digit_kept", FULL, "beta_vae-full"),
            min_effect=0.05,
            unit="share of frames",
            headline=True,
            gates=(THICKNESS_FOUND, gates.reconstructs((FULL, "beta_vae-full"), share=0.8)),
        ),
        Claim(
            "digit_kept_svae",
            "β-SVAE keeps it too",
            f"{ESMAEILI}, Fig. 7",
            paired_difference("digit_kept", "beta_svae-full", "beta_vae-full"),
            min_effect=0.05,
            unit="share of frames",
            gates=(gates.carries("code_nats", ["beta_svae-full"], nats=0.5),),
        ),
    ),
    controls=(
        Claim("classifier", "the classifier reads real held-out images: more than 90% right", "definition",
              mean_above("digit_real", [PRUNED], threshold=0.9), min_effect=0.01, unit="share of images"),
    ),
    arms=arms,
    seeds={"tiny": (0,), "cpu": tuple(range(10, 20)), "paper": tuple(range(10, 20))},
    measure=measure,
    figures=figures,
    deviations="Prices by branch, net and budget as in `hfvae_discrete`; the limits of thick and narrow, the baselines and the "
    "classifier are ours: the paper shows pictures of one model. MNIST needs its files ('unbraid data make mnist').",
)  # fmt: skip
