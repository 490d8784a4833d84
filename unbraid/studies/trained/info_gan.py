"""InfoGAN and InfoWGAN-GP: scores, failure of the critic, content of the noise. Kim & Mnih 2018, Figs. 8, 9, 24–36."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from unbraid.studies.framework import study_plots
from unbraid.studies.framework.effects import Effect, mean_above, paired_difference, within_margin
from unbraid.studies.framework.paper_numbers import KIM
from unbraid.studies.framework.results import Results
from unbraid.studies.framework.shared_settings import printed_settings
from unbraid.studies.framework.study import Arm, Claim, Study

if TYPE_CHECKING:
    from unbraid.runs.run import Run

SPRITE_ARMS = ("factor_vae", "gan", "wgan", "wgan_flat", "wgan_big")
DIGIT_ARMS = ("digits_gan", "digits_wgan")
CODE_ARMS = {
    "digits_three": (10, 3),
    "digits_2": (2, 2),
    "digits_20": (20, 2),
}  # categories, continuous codes: Figs. 27–31
SHAPE_LATENT, DIGIT_LATENT = {"shape": "onehot(3)", "rest": 4}, {"digit": "onehot(10)", "style": 2}
STEPS = {"tiny": 8, "cpu": 2000}
STEP_MULTIPLIER = {"tiny": 1, "cpu": 3}  # an InfoGAN step costs a third, and its critic fails late
PAPER_RECIPES = {
    "factor_vae": "factor_vae_2dshapes_printed",
    "gan": "info_gan_2dshapes",
    "wgan": "info_wgan_gp_2dshapes",
    "wgan_flat": "info_wgan_gp_2dshapes_flat",
    "wgan_big": "info_wgan_gp_2dshapes_big",
    "digits_gan": "info_gan_mnist",
    "digits_wgan": "info_wgan_gp_mnist_printed",
    "digits_three": "info_gan_mnist_3codes",
    "digits_2": "info_gan_mnist_2way",
    "digits_20": "info_gan_mnist_20way",
}
PAPER_LAMBDAS = tuple(i / 10 for i in range(11) if i != 2)  # Sec. 6: 0, 0.1, …, 1; the arms gan and wgan have 0.2
FEW_SEEDS = 2  # seeds at `cpu` of other code sizes and of the larger net: the paper shows one run of each


def arms(scale: str) -> list[Arm]:
    """On sprites FactorVAE and four GANs, on digits five GANs: codes and noise as in the paper, then other numbers of them.

    Args:
        scale: 'tiny', 'cpu' or 'paper'.
    """
    if scale == "paper":
        grid = [
            Arm(f"{short}_lam{lam:g}", printed_settings(PAPER_RECIPES[short], **{"lambda": lam}), short, lam)
            for short in ("gan", "wgan")
            for lam in PAPER_LAMBDAS
        ]
        return grid + [Arm(label, printed_settings(recipe), label) for label, recipe in PAPER_RECIPES.items()]
    tiny = scale == "tiny"
    sprites: dict[str, Any] = {"name": "sprites32"}
    digits: dict[str, Any] = {"name": "strokes"}
    cut = {"subsample": 300} if tiny else {}
    plain = {"batch": 32 if tiny else 64, "threads": 1, "log_every": max(1, STEPS[scale] // 100)}

    def game(
        label: str, data: dict[str, Any], latent: Any, steps: int = 1, most: int = 0, net: str = "", **objective: Any
    ) -> Arm:
        net = net or "info_gan_small"
        budget = {**plain, "steps": steps * STEPS[scale], "lr": 1e-3, "betas": [0.5, 0.999]}
        budget |= {"snapshots": [STEPS[scale]]} if steps > 1 else {}  # before the critic fails
        recipe = {"data": {**data, **cut}, "latent": latent, "nets": {"name": net}, "objective": objective}
        return Arm(label, {**recipe, "budget": budget}, objective["name"], max_seeds=most)

    wgan: dict[str, Any] = {"name": "info_wgan_gp", "critic_steps": 2, "critic_lr": 5e-4}
    critic = {"critic": {"width": 256, "depth": 3, "lr": 5e-3}}
    base = {
        "data": {**sprites, **cut},
        "nets": {"name": "conv", "channels": [16, 32], "hidden": 128},
        "budget": {**plain, "steps": STEPS[scale], "lr": 1e-3},
    }
    reference = {**base, "latent": 5, "objective": {"name": "factor_vae", "gamma": 35.0, **critic}}
    few = FEW_SEEDS if scale == "cpu" else 0
    codes = [] if tiny else [
        game(label, digits, {"digit": f"onehot({categories})", "style": style}, STEP_MULTIPLIER[scale], few,
             name="info_gan", noise=62, lam=1.0)
        for label, (categories, style) in CODE_ARMS.items()
    ]  # fmt: skip
    return [
        Arm("factor_vae", reference, "factor_vae"),
        game("gan", sprites, SHAPE_LATENT, STEP_MULTIPLIER[scale], name="info_gan", noise=5, lam=0.2),
        game("wgan", sprites, SHAPE_LATENT, **wgan, noise=5, lam=0.2),
        game("wgan_flat", sprites, 5, **wgan, noise=5, lam=0.2),
        game("digits_gan", digits, DIGIT_LATENT, STEP_MULTIPLIER[scale], name="info_gan", noise=62, lam=1.0),
        game("digits_wgan", digits, DIGIT_LATENT, **wgan, noise=62, lam=1.0),
        *(
            []
            if tiny
            else [game("wgan_big", sprites, SHAPE_LATENT, 1, few, "info_gan_table5", **wgan, noise=32, lam=0.6)]
        ),
        *codes,
    ]


def measure(run: Run) -> dict[str, float]:
    """Metrics on sprites; on digits the effect of noise on the class; for InfoGAN also the critic's decisions at the end.

    InfoGAN trains until its critic fails; everything else is measured well before, as in the paper.

    Args:
        run: the run.
    """
    from unbraid import metrics
    from unbraid.runs.evaluation.encoding import encode

    dataset, found, early = run.dataset(), {}, snapshot_before_failure(run)
    assert dataset.factors is not None
    if "class" in dataset.factors.names:
        found = _digit_scores(early, dataset)
    else:
        codes = encode(early, max_images=20_000, quiet=True, save=False)
        found["factor_vae"] = metrics.factor_vae(codes, protocol="paper", prune="variance").value
        found["higgins"] = metrics.beta_vae(codes, protocol="dlib").value
        found["mig"] = metrics.mig(codes).value
    if run.recipe.objective["name"] == "info_gan":
        found |= _critic_scores(run, dataset)
    return {name: float(value) for name, value in found.items()}


def snapshot_before_failure(run: Run) -> Run:
    """Return the run at its snapshot before the critic fails, or the run itself if it has none.

    Args:
        run: the run.
    """
    return run.at(run.snapshots[-1]) if run.snapshots else run


def _critic_scores(run: Run, dataset: Any) -> dict[str, float]:
    """Share of real and of generated images that the critic calls real; batch norm as in training, each kind separately."""
    import copy

    import torch

    model: Any = copy.deepcopy(run.model).train()
    real = torch.as_tensor(dataset.pixels(np.arange(0, len(dataset), max(1, len(dataset) // 500))))
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        fooled = (model.critic_score(model.sample(500)) > 0).float().mean()
        trusted = (model.critic_score(real) > 0).float().mean()
    told = {"fakes_called_real": float(fooled), "reals_called_real": float(trusted)}
    return {**told, "all_called_real": min(told.values())}


def _digit_scores(run: Run, dataset: Any) -> dict[str, float]:
    """Purity of the code for the digit, and how often a reconstruction changes its class when the noise varies (Fig. 26)."""
    from unbraid.studies.framework import classifiers
    from unbraid.studies.trained.hfvae_table2 import purity

    referee = classifiers.factor_classifier(dataset)
    index = np.sort(np.random.default_rng(0).permutation(len(dataset))[:2000])
    truth = dataset.labels(index)[:, dataset.factors.names.index("class")].astype(int)
    told = run.encode(dataset.pixels(index))[:, run.model.tree.columns("digit")].argmax(1)
    images = resample_noise(run, dataset.pixels(index[::40]), 10)
    seen = referee(images.reshape(-1, *images.shape[2:])).reshape(images.shape[:2])
    commonest = [np.bincount(row).max() / len(row) for row in seen]
    kept = np.mean(seen == truth[::40][:, None])
    moved = {"moved": traversal_change_rate(run, dataset, referee, index[:: len(index) // 40])}
    return {"purity": purity(told, truth), "changed": 1 - float(np.mean(commonest)), "kept": float(kept), **moved}


def traversal_change_rate(run: Run, dataset: Any, classifier: Any, index: np.ndarray) -> float:
    """Share of frames along a continuous code whose classified digit is not the most frequent one (Figs. 25, 27–29).

    Args:
        run: the run.
        dataset: the data set.
        classifier: maps images to classes.
        index: indices of the start images.
    """
    codes, model = run.encode(dataset.pixels(index)), run.model
    apart = []
    for column in model.tree.columns_of_kind("real"):
        for code in codes:
            seen = classifier(run.traverse(code, column, np.linspace(-1, 1, 7)))
            apart.append(1 - np.bincount(seen).max() / len(seen))
    return float(np.mean(apart))


def resample_noise(run: Run, images: np.ndarray, n_noise: int, seed: int = 0) -> np.ndarray:
    """Reconstruct images "n noises c h w" with their codes fixed and new noise; discrete codes are hard.

    Args:
        run: the run.
        images: the images.
        n_noise: number of noise samples.
        seed: seed of the noise.
    """
    import torch

    model: Any = run.model
    codes = run.encode(images)
    for leaf in model.tree.leaves:
        columns = model.tree.columns(leaf.name)
        if leaf.kind == "onehot":
            codes[:, columns] = np.eye(len(columns), dtype=codes.dtype)[codes[:, columns].argmax(1)]
        else:
            codes[:, columns] = codes[:, columns].clip(-1, 1)
    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        noise = torch.randn(n_noise, model.noise, dtype=model.still.dtype).repeat(len(codes), 1)
        drawn = model.generate(torch.as_tensor(codes).repeat_interleave(n_noise, 0), noise)
    return drawn.numpy().reshape(len(codes), n_noise, *drawn.shape[1:])


def figures(results: Results, runs: Path, out: Path) -> Sequence[str]:
    """Plot Fig. 8, scores; Fig. 24, InfoGAN's critic over training; Fig. 26, reconstructions with varied noise per row.

    Args:
        results: the results.
        runs: folder of the runs.
        out: folder for the figures.
    """
    from unbraid.figures.drawing import LINE_COLOURS, tile_images
    from unbraid.runs.run import Run

    drawn, axes = study_plots.create_figure(4, 3.4)
    study_plots.plot_boxes(axes[0], results, [arm for arm in SPRITE_ARMS if arm in results.arms], "factor_vae")
    axes[0].set(ylabel="FactorVAE's metric", ylim=(0, 1.03))
    axes[1].set(xlabel="step", ylabel="critic's accuracy", ylim=(0.3, 1.03))
    for colour, arm in zip(LINE_COLOURS, ("gan", "digits_gan"), strict=False):
        for seed in results.seeds(arm):
            rows = Run.load(runs / str(results.metadata["runs"][f"{arm}/{seed}"])).ledger()
            steps, values = [r["step"] for r in rows], [r["nats"]["accuracy"] for r in rows]
            label = arm if seed == results.seeds(arm)[0] else None
            axes[1].plot(steps, values, color=colour, lw=0.8, alpha=0.7, label=label)
    study_plots.add_legend(axes[1])
    for each, arm in zip(axes[2:], DIGIT_ARMS, strict=True):
        each.axis("off")
        if not results.seeds(arm):
            continue
        run = snapshot_before_failure(Run.load(runs / str(results.metadata["runs"][f"{arm}/{results.seeds(arm)[0]}"])))
        dataset = run.dataset()
        images = dataset.pixels(np.linspace(0, len(dataset) - 1, 10).astype(int))
        each.imshow(tile_images(np.concatenate([images[:, None], resample_noise(run, images, 8)], 1), gap=1))
        each.set_title(f"{arm}: image, then the noise varied", fontsize=9)
    drawn.savefig(out / "info_gan.png", dpi=110)
    return ["info_gan.png"]


def _claim(name: str, text: str, location: str, effect: Effect, unit: str, min_effect: float = 0.05) -> Claim:
    return Claim(name, text, f"{KIM}, {location}", effect, min_effect=min_effect, unit=unit, headline=True)


METRIC_UNIT = "FactorVAE metric"
STUDY = Study(
    about="InfoGAN and InfoWGAN-GP: scores, the critic's fate, and what the noise holds",
    cite=f"{KIM}, Figs. 8, 9, 24–36",
    cost={"tiny": "15 s", "cpu": "180 min", "paper": "30 runs × 1–6 d a seed"},
    claims=(
        _claim("low", "InfoWGAN-GP scores below FactorVAE on sprites", "Fig. 8",
               paired_difference("factor_vae", "factor_vae", "wgan"), METRIC_UNIT),
        _claim("gan_low", "InfoGAN scores below it too", "Sec. 6, on Fig. 9",
               paired_difference("factor_vae", "factor_vae", "gan"), METRIC_UNIT),
        _claim("flat", "five continuous codes and no categorical one do not improve it (by .05)", "Sec. 6, on Fig. 9",
               within_margin("factor_vae", "wgan", "wgan_flat", 0.05), METRIC_UNIT, 0.01),
        _claim("degenerates", "InfoGAN's critic ends up calling every image real: nine in ten of either kind on digits",
               "App. H, Fig. 24", mean_above("all_called_real", ["digits_gan"], threshold=0.9), "share of images"),
        _claim("noise", "varying the noise of InfoGAN changes the digit in more than a tenth of reconstructions",
               "App. H, Fig. 26", mean_above("changed", ["digits_gan"], threshold=0.1), "share of images"),
        _claim("noise_wgan", "InfoWGAN-GP does not mend this", "App. H (in words)",
               mean_above("changed", ["digits_wgan"], threshold=0.1), "share of images"),
        _claim("code", "the categorical code does not name the digit: less than 8 in 10 are right", "App. H, Fig. 25",
               mean_above("purity", list(DIGIT_ARMS), threshold=0.8, sign=-1), "purity"),
    ),
    arms=arms,
    seeds={"tiny": (0,), "cpu": tuple(range(6)), "paper": tuple(range(10))},
    measure=measure,
    figures=figures,
    deviations="Binary 32×32 sprites and drawn strokes in place of dSprites and MNIST, small convolutional nets, 2,000 steps "
    "(InfoGAN 6,000); thresholds and referee are ours: the paper shows pictures and box plots. Dead columns are told "
    "by their variance in all arms, since a game has no KL. Other numbers of codes and a bigger net (Figs. 27–31, 34, "
    "35) have two seeds and no claim. A game that has learned nothing also fails to name the digit: the table says "
    "what each learned. In the one seed that has run "
    "InfoGAN's critic won within 500 steps and its generator draws noise, on sprites and on digits: its settings want pilots "
    "(seeds 100 and up) before more seeds are spent on it.",
)  # fmt: skip
