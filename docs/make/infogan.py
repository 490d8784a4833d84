"""Train InfoWGAN-GP on MNIST and draw infogan_mnist.png. `python docs/make/infogan.py MNIST_FOLDER RUN_FOLDER`"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import torch
from matplotlib.figure import Figure
from scipy.optimize import linear_sum_assignment
from sklearn.metrics import mutual_info_score

from unbraid.data import load
from unbraid.runs.evaluation.encoding import encode
from unbraid.figures.drawing import LINE_COLOURS, tile_images
from unbraid.runs.recipe import Recipe
from unbraid.runs.run import Run
from unbraid.runs.fitting.training import fit

PICTURE = Path(__file__).parents[1] / "pictures" / "infogan_mnist.png"


def make_recipe(folder: str) -> Recipe:
    """A recipe of 4000 steps of the small net on the MNIST of a folder: about ten minutes on one core."""
    return Recipe(
        name="infowgan_mnist", data={"name": "mnist", "path": folder}, latent={"digit": "onehot(10)", "style": 2},
        nets="info_gan_small", objective={"name": "info_wgan_gp", "critic_steps": 2, "critic_lr": 5e-4},
        budget={"steps": 4000, "batch": 64, "lr": 1e-3, "betas": (0.5, 0.999), "threads": 1, "log_every": 20})


def alignment(code: np.ndarray, digit: np.ndarray) -> tuple[float, float, float]:
    """Accuracy when each class of the code predicts its most frequent digit, when each predicts a different digit, and the MI in nats.

    Args:
        code: the classes.
        digit: the labels.
    """
    counts = np.zeros((10, 10), int)
    np.add.at(counts, (code, digit), 1)
    rows, columns = linear_sum_assignment(-counts)
    return counts.max(1).sum() / len(code), counts[rows, columns].sum() / len(code), mutual_info_score(code, digit)


def draw_figure(run: Run) -> Figure:
    """Draw classes by noise, the two continuous codes, and the losses over training of a run."""
    model = run.model
    torch.manual_seed(1)
    noise = torch.randn(10, model.noise)
    figure = Figure(figsize=(11, 4.4), layout="constrained")
    left, middle, right = figure.subplots(1, 3, width_ratios=[1, 1, 1.15])
    classes = []
    for j in range(10):
        codes = torch.zeros(10, 12)
        codes[:, j] = 1
        classes.append(model.generate(codes, noise).numpy())
    styles = []
    for column in (10, 11):
        codes = torch.zeros(10, 12)
        codes[:, 4] = 1
        codes[:, column] = torch.linspace(-2, 2, 10)
        styles.append(model.generate(codes, noise[:1].expand(10, -1)).numpy())
    left.imshow(tile_images(np.stack(classes), gap=2))
    left.set_title("categorical code: a class a row,\na noise a column", fontsize=9)
    middle.imshow(tile_images(np.stack(styles), gap=2))
    middle.set_title("continuous codes, −2 … 2 (trained on −1 … 1)", fontsize=9)
    lines = run.ledger()
    for colour, (key, label, factor) in zip(LINE_COLOURS, (("distance", "E D(x) − E D(G(z))", 1),
                                                    ("information", "information, nats", 1), ("penalty", "η × penalty", 10))):
        right.plot([r["step"] for r in lines], [factor * r["nats"][key] for r in lines], color=colour, lw=0.8, label=label)
    right.set(xlabel="step", ylim=(-1, 10))
    right.legend(fontsize=7, frameon=False)
    right.spines[["top", "right"]].set_visible(False)
    for axes in (left, middle):
        axes.axis("off")
    return figure


def main(folder: str, out: str) -> None:
    """Train or open the run, score the categorical code on the test digits, draw.

    Args:
        folder: the folder of MNIST.
        out: the run directory.
    """
    run = Run.load(out) if (Path(out) / "model.safetensors").is_file() else fit(make_recipe(folder), out, resume=True)
    codes = encode(run, load("mnist", path=folder, split="test"), save=False, quiet=True)
    code, digit = codes.mean[:, :10].argmax(1), codes.values[:, 0]
    shuffled = np.random.default_rng(0).permutation(code)
    for name, found in (("categorical code", alignment(code, digit)), ("shuffled (chance)", alignment(shuffled, digit))):
        print(f"{name:20s} commonest {found[0]:.3f}  one each {found[1]:.3f}  MI {found[2]:.3f} nats")
    draw_figure(run).savefig(PICTURE, dpi=120)


if __name__ == "__main__":
    main(*sys.argv[1:3])
