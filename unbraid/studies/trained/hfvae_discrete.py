"""Class information in a discrete code learned without labels, and in its prior samples. Esmaeili et al. 2018, Sec. 6.3.

Data images have labels. A classifier trained on the data predicts the class of prior samples.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from unbraid.studies.framework import gates, study_plots
from unbraid.studies.framework.effects import chosen_above, mean_above, paired_difference
from unbraid.studies.framework.paper_numbers import ESMAEILI
from unbraid.studies.framework.results import Results
from unbraid.studies.framework.study import Arm, Claim, Study

if TYPE_CHECKING:
    from unbraid.runs.run import Run

SOURCE = f"{ESMAEILI}, Sec. 6.3"
LEAF, DRAWS_PER_CLASS = "code", 40  # prior samples of each class of the code
SETS: dict[str, tuple[dict[str, Any], int]] = {
    "mnist": ({"name": "mnist", "split": "train"}, 10),
    "fashion": ({"name": "fashion_mnist", "split": "train"}, 10),
    "strokes": ({"name": "strokes"}, 10),
    "sprites": ({"name": "sprites32"}, 3),
}
STEPS = 4000
# At temperature 1 the decoder reads shades of the relaxed code: reconstruction by hard codes was 60 nats worse (pilot)
TEMPERATURE = {"schedule": "linear", "start": 1.0, "stop": 0.2, "steps": 3000}


def code_first(start: float = 9.0, **more: Any) -> dict[str, Any]:
    """A row with a price for each branch: that of the style starts high and falls to 1.

    Args:
        start: first price of the style's information.
        more: further prices.
    """
    style = {"schedule": "linear", "start": start, "stop": 1.0, "steps": 3500}
    return {"name": "row", "prices": {f"mi:{LEAF}": 3.0, "mi:style": style, "tc:style": 1.0, "dw": 1.0, **more}}


PRICED_ROOT: Any = {
    "schedule": "stages",
    "steps": [2500],
    "prices": [0.0, {"schedule": "linear", "start": 0.0, "stop": 5.0, "steps": 500}],
}
ROWS: dict[str, dict[str, Any]] = {
    "code_first": code_first(),
    "independent": code_first(**{"tc:root": PRICED_ROOT}),
    "hfvae": {"name": "hfvae", "beta": 4.0, "gamma": 3.0},
    "beta_svae": {"name": "beta_svae", "beta": 4.0},
}
# four restarts of each seed; the one whose code agrees most with the other three is taken, which needs no labels
FIRST, SVAE = "mnist-code_first", "mnist-beta_svae"
RESTART_OFFSETS = {"": 0, "@1000": 1000, "@2000": 2000, "@3000": 3000}
RESTARTS = [f"mnist-code_first{suffix}" for suffix in RESTART_OFFSETS]
ARMS = {
    "tiny": ("strokes-code_first", "strokes-beta_svae", "sprites-code_first"),
    "cpu": (
        *RESTARTS,
        "mnist-independent",
        "mnist-hfvae",
        "mnist-beta_svae",
        "fashion-code_first",
        "sprites-code_first",
    ),
    "paper": (
        *RESTARTS,
        "mnist-independent",
        "mnist-hfvae",
        "mnist-beta_svae",
        "fashion-code_first",
        "fashion-hfvae",
        "sprites-code_first",
        "sprites-hfvae",
    ),
}
FEW_SEEDS = ("mnist-hfvae", "sprites-code_first")  # pilots: their claims are judged on five seeds
BUDGET: dict[str, dict[str, Any]] = {
    "tiny": {"batch": 64, "steps": 12, "threads": 1, "log_every": 4},
    "cpu": {"batch": 64, "steps": STEPS, "lr": 1e-3, "threads": 1, "log_every": 100},
    "paper": {"batch": 512, "steps": 20_000, "lr": 1e-3, "log_every": 200},
}


def arms(scale: str) -> list[Arm]:
    """Rows with a price of their own on each branch, HFVAE's and β-SVAE's printed rows; `tiny` needs no files.

    Args:
        scale: 'tiny', 'cpu' or 'paper'.
    """
    made = []
    for label in ARMS[scale]:
        short, row = label.split("@")[0].split("-")
        data, classes = SETS[short]
        if scale == "paper" and short == "sprites":
            data = {"name": "dsprites"}
        net = "hfvae_table4_printed" if data["name"] == "dsprites" else "hfvae_table3_printed"
        recipe = {
            "data": {**data, "subsample": 400} if scale == "tiny" else data,
            "latent": {LEAF: f"onehot({classes})", "style": 10},
            "nets": {"name": net if scale == "paper" else "hfvae_table3_code_to_style"},
            "posterior": {"temperature": 0.66 if scale == "paper" else TEMPERATURE, "discrete": "mass"},
            "objective": code_first(20.0) if label == "fashion-code_first" else ROWS[row],  # clothes have more nats
            "budget": BUDGET[scale],
        }
        few = 5 if scale == "cpu" and label in FEW_SEEDS else 0
        made.append(
            Arm(label, recipe, row, max_seeds=few, seed_offset=RESTART_OFFSETS.get(label.removeprefix(FIRST), 0))
        )
    return made


def measure(run: Run) -> dict[str, float]:
    """Class information in the code of each test image, and in the prior samples of each code as classified.

    Args:
        run: the run.
    """
    from unbraid import data, metrics
    from unbraid.runs.evaluation.auditing import audit
    from unbraid.runs.evaluation.encoding import encode
    from unbraid.studies.framework import classifiers
    from unbraid.studies.framework.measurements import mean_image_nats
    from unbraid.studies.trained.hfvae_table2 import purity

    table = {**run.recipe.data, "split": "test"} if "split" in run.recipe.data else dict(run.recipe.data)
    held, tree = data.load(table.pop("name"), **table), run.model.tree
    assert held.factors is not None
    factor = "class" if "class" in held.factors.names else "shape"
    codes = encode(run, held, max_images=10_000, quiet=True, save=False)
    assert codes.values is not None
    probabilities = codes.mean[:, tree.columns(LEAF)]
    told, truth = probabilities.argmax(1), codes.values[:, held.factors.names.index(factor)].astype(int)
    referee, classes = classifiers.factor_classifier(run.dataset(), factor=factor), len(tree.columns(LEAF))
    requested = np.repeat(np.arange(classes), DRAWS_PER_CLASS)
    seen = referee(run.decode(sample_codes(run, requested)))
    audited = audit(run, rows=512, components=10_000, quiet=True)
    style = [nats for name, nats in audited["leaf_mi"].items() if name != LEAF]
    return {
        "accuracy": float(metrics.clustering_accuracy(probabilities_only(probabilities), truth).value),
        "code_nats": float(audited["leaf_mi"][LEAF]),
        "purity": purity(told, truth),
        "captured": normalised_information(told, truth, classes),
        "sampled": normalised_information(requested, seen, classes),
        "active": float(sum(nats > 0.1 for nats in style)),
        "tc_root": float(audited["nats"]["tc_q:root"]),
        "reconstruction": float(audited["nats"]["reconstruction"]),
        "mean_image": mean_image_nats(run),
        "referee": referee.accuracy,
    }


def joint_group(arm: str, seed: int) -> object:
    """The restarts of one seed belong together.

    Args:
        arm: label of the arm.
        seed: the seed.
    """
    return arm.split("@")[0], seed


def measure_jointly(runs: Sequence[Run]) -> list[dict[str, float]]:
    """How well each restart's partition of the images agrees with those of the other restarts, without labels.

    Args:
        runs: the restarts of one seed.
    """
    from sklearn.metrics import adjusted_mutual_info_score

    from unbraid.runs.evaluation.encoding import encode

    found = [encode(run, max_images=10_000, quiet=True, save=False) for run in runs]
    parts = [codes.mean[:, run.model.tree.columns(LEAF)].argmax(1) for run, codes in zip(runs, found, strict=True)]
    pairs = np.array([[adjusted_mutual_info_score(one, other) for other in parts] for one in parts])
    return [{"agreement": float(each)} for each in (pairs.sum(1) - pairs.diagonal()) / (len(runs) - 1)]


def probabilities_only(probabilities: np.ndarray) -> Any:
    """Codes that consist of the discrete leaf alone, for metrics of clusters.

    Args:
        probabilities: class probabilities "n classes".
    """
    from unbraid import Codes, Latent

    return Codes(probabilities, Latent.of({LEAF: f"onehot({probabilities.shape[1]})"}))


def sample_codes(run: Run, classes: np.ndarray, seed: int = 0) -> np.ndarray:
    """Sample codes from the prior with the discrete leaf set to given classes.

    Args:
        run: the run.
        classes: class of each code.
        seed: seed of the samples.
    """
    import torch

    from unbraid.model.posterior import to_values

    tree = run.model.tree
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        values = to_values(tree, run.model.prior.sample(len(classes))).numpy().copy()
    columns = tree.columns(LEAF)
    values[:, columns] = np.eye(len(columns), dtype=values.dtype)[classes]
    return values


def normalised_information(code: Any, truth: Any, classes: int) -> float:
    """I(code; class) / log(number of classes): 0 for chance, 1 if every class has a code of its own.

    The average information of shuffled pairs is subtracted, because a few samples share some information by chance.

    Args:
        code: code of each sample.
        truth: class of each sample.
        classes: number of classes.

    >>> [round(normalised_information(code, [2, 2, 0, 0], 2), 3) for code in ([0, 0, 1, 1], [0, 1, 0, 1])]
    [1.0, 0.0]
    """
    from sklearn.metrics import mutual_info_score

    rng, found = np.random.default_rng(0), mutual_info_score(code, truth)
    chance = (
        np.mean([mutual_info_score(rng.permutation(np.asarray(code)), truth) for _ in range(20)])
        if len(code) > 50
        else 0.0
    )
    return float((found - chance) / np.log(classes))


def figures(results: Results, runs: Path, out: Path) -> Sequence[str]:
    """Plot the class information on each data set, and prior samples of each code for the first seed of two arms.

    Args:
        results: the results.
        runs: folder of the runs.
        out: folder for the figures.
    """
    from unbraid.figures.drawing import tile_images
    from unbraid.runs.run import Run

    chosen = [arm for arm in results.arms if arm.endswith(("code_first", "beta_svae")) and results.seeds(arm)][:3]
    drawn, axes = study_plots.create_figure(2 + len(chosen), 3.4)
    for each, quantity in zip(axes, ("accuracy", "sampled"), strict=False):
        study_plots.plot_boxes(each, results, results.arms, quantity)
        each.set_ylim(-0.03, 1.03)
    axes[0].set_ylabel("clustering accuracy (test)")
    axes[1].set_ylabel("class in prior samples (share)")
    for each, arm in zip(axes[2:], chosen, strict=True):
        run = Run.load(runs / str(results.metadata["runs"][f"{arm}/{results.seeds(arm)[0]}"]))
        classes = np.repeat(np.arange(len(run.model.tree.columns(LEAF))), 8)
        images = run.decode(sample_codes(run, classes))
        each.imshow(tile_images(images.reshape(-1, 8, *images.shape[1:]), gap=1))
        each.set_title(f"{arm}: a code a row", fontsize=9)
        each.axis("off")
    drawn.savefig(out / "hfvae_discrete.png", dpi=110)
    return ["hfvae_discrete.png"]


def _claim(
    name: str, text: str, effect: Any, arms: Sequence[str], unit: str = "share of the entropy", **more: Any
) -> Claim:
    """A claim behind the gates of a discrete code: arms reconstruct, and the code is used in one of them."""
    instrument = (gates.reconstructs(arms, share=0.8), gates.carries("code_nats", arms, nats=0.5))
    defaults: dict[str, Any] = {"min_effect": 0.05, "headline": True, "gates": instrument}
    return Claim(name, text, SOURCE, effect, unit=unit, **{**defaults, **more})


def _halved(results: Results, seed: int) -> float | None:
    """Half of the dependence between code and style without a price on it, minus the dependence with one."""
    free, priced = (results.value(f"mnist-{row}", seed, "tc_root") for row in ("code_first", "independent"))
    return None if free is None or priced is None else free / 2 - priced


STUDY = Study(
    about="what a discrete code captures without labels, and what its prior samples show",
    cite=SOURCE,
    cost={"tiny": "10 s", "cpu": "150 min", "paper": "11 runs × 1–3 h a seed"},
    claims=(
        _claim("digit_in_code", "a hierarchical row learns the digit in its discrete code (MNIST): clustering accuracy above "
               "that of β-SVAE", paired_difference("accuracy", FIRST, SVAE), (FIRST, SVAE), "accuracy"),
        _claim("samples", "its prior samples of a code show one digit, β-SVAE's do not (MNIST)",
               paired_difference("sampled", FIRST, SVAE), (FIRST, SVAE)),
        _claim("clothes_above_digits", "the code captures the classes of Fashion-MNIST better than those of MNIST",
               paired_difference("captured", "fashion-code_first", FIRST),
               ("fashion-code_first", FIRST)),
        _claim("digits_above_shapes", "and those of MNIST better than the shapes of sprites",
               paired_difference("captured", FIRST, "sprites-code_first"), (FIRST, "sprites-code_first"),
               max_seeds=5),
        _claim("printed_prices", "HFVAE's printed prices (β 4, γ 3) suffice at this budget: accuracy above β-SVAE's",
               paired_difference("accuracy", "mnist-hfvae", SVAE), ("mnist-hfvae", SVAE), "accuracy", max_seeds=5),
        _claim("accuracy_70", "the digit code reaches a clustering accuracy of .7",
               chosen_above("accuracy", RESTARTS, "agreement", threshold=0.7),
               (FIRST,), "accuracy", min_effect=0.02, question=True, headline=False),
        _claim("root_halved", "a price on tc:root at least halves the dependence of code and style", _halved,
               (FIRST, "mnist-independent"), "nats", min_effect=0.02, question=True, headline=False),
    ),
    controls=(
        Claim("code_used", "a cheap code carries more than one nat", "definition", mean_above("code_nats", [FIRST], 1.0),
              min_effect=0.1, unit="nats"),
    ),
    arms=arms,
    seeds={"tiny": (0,), "cpu": tuple(range(14, 24)), "paper": tuple(range(14, 24))},
    measure=measure,
    measure_jointly=measure_jointly,
    joint_group=joint_group,
    figures=figures,
    deviations="Prices by branch instead of one β and γ: the style starts at a price of 9 (clothes: 20) that falls to 1, so that "
    f"the code becomes cheap first; {STEPS:,} steps at batch 64, temperature from 1 to 0.2; class probabilities feed the "
    "style branch (the authors' notebooks feed the sampled code). 32×32 sprites in place of dSprites. Settings were "
    "chosen on seeds 0 to 2 and the choice among restarts on seeds 10 to 13, so seeds 14 to 23 are judged. Settings are "
    "compared by single runs. The claim about .7 takes the one of four restarts on MNIST whose partition of the training "
    "images agrees most with the other three (adjusted mutual information, no labels); all are listed. At first all claims "
    "on MNIST took it. As only MNIST has restarts, the comparisons were corrected after the results were known: the one "
    "with Fashion-MNIST, which did not hold, became undecided, the others hold as before. MNIST and Fashion-MNIST need "
    "their files ('unbraid data make mnist').",
)  # fmt: skip
