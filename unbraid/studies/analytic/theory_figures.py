"""Figures of `theory`: each function writes one file and returns its numbers."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from unbraid.figures.drawing import GREY, INK, LINE_COLOURS
from unbraid.studies.analytic import theory

BETAS = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0)


def theorems(out: Path) -> dict[str, Any]:
    """Draw both sides of Theorem 1, both objectives of Corollary 2 over the latent scale, and Theorem 2 over angles.

    Args:
        out: folder for the figure.
    """
    toy = theory.ToyVAE.make()
    figure = Figure(figsize=(11, 3.4), layout="constrained")
    first, second, third = figure.subplots(1, 3)
    worst = {}
    for colour, prior in zip(LINE_COLOURS, ("gaussian", "student_t"), strict=False):
        sides = [theory.theorem1(toy, beta, prior) for beta in BETAS]
        name = prior.replace("_", "-")
        first.plot(BETAS, [a.mean() for a, _ in sides], "-", color=colour, label=f"{name}: left side")
        first.plot(BETAS, [b.mean() for _, b in sides], "o", color=colour, mfc="none", label="right side")
        worst[prior] = max(float(np.abs(a - b).max()) for a, b in sides)
    first.set(xscale="log", xlabel="β", ylabel="nats", title="Theorem 1: $L_β$, two ways")
    _set_ticks(first, BETAS)
    first.legend(fontsize=7, frameon=False)
    best = _plot_scales(second, toy)
    angles = np.linspace(0, math.pi, 37)
    curves = theory.theorem2(toy, 4.0, angles)
    for colour, (name, curve) in zip(LINE_COLOURS, curves.items(), strict=False):
        third.plot(np.degrees(angles), curve, color=colour, label=name)
    third.set(xlabel="rotation of the latents, degrees", ylabel="change of $L_β$, nats", ylim=(-2.6, 0.9))
    third.set_title("Theorem 2: β = 4")
    third.legend(fontsize=7, frameon=False, loc="lower center", ncols=2)
    _save(figure, out / "theory_theorems.png")
    return {
        "theorem 1, largest difference": worst,
        "corollary 2, best scales": best,
        "theorem 2, range over angles": {name: float(np.ptp(c)) for name, c in curves.items()},
    }


def _plot_scales(axes: Any, toy: theory.ToyVAE, beta: float = 4.0) -> dict[str, float]:
    """Plot L_β and L_{H,β} over the scale of the latents: the same curve, shifted by √β."""
    scales = np.geomspace(0.125, 8, 97)  # 16 points per doubling, so √4 is on the grid
    prior = theory.gaussian_log_prior()
    curves = {
        "L_β": [toy.rescale(s).beta_objective(beta, prior).mean() for s in scales],
        "L_{H,β}": [toy.rescale(s).entropy_objective(beta, prior).mean() for s in scales],
    }
    best = {}
    for colour, (name, curve) in zip(LINE_COLOURS, curves.items(), strict=False):
        shifted = np.array(curve) - np.max(curve)
        best[name] = float(scales[int(np.argmax(shifted))])
        axes.plot(scales, shifted, color=colour, label=f"${name}$")
        axes.axvline(best[name], color=colour, lw=0.7, ls=":")
    axes.set(
        xscale="log",
        ylim=(-8, 0.5),
        xlabel="stretch of the latents",
        ylabel="below its maximum, nats",
        title=f"Corollary 2: β = 4, maxima {best['L_{H,β}'] / best['L_β']:.2f}× apart",
    )
    _set_ticks(axes, (0.25, 0.5, 1, 2, 4, 8))
    axes.legend(fontsize=7, frameon=False)
    return best


def _set_ticks(axes: Any, positions: tuple[float, ...]) -> None:
    axes.set_xticks(positions, [f"{t:g}" for t in positions])
    axes.set_xticks([], minor=True)


def entropy(out: Path) -> dict[str, Any]:
    """Draw Ĥ[q(z)] against the batch size for four and two latents. Mathieu et al. 2019, App. C.

    Args:
        out: folder for the figure.
    """
    n, batches = 4096, (8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096)
    figure = Figure(figsize=(9, 3.4), layout="constrained")
    numbers = {}
    for axes, (d, sigma) in zip(figure.subplots(1, 2), ((4, 0.2), (2, 0.2)), strict=True):
        found = theory.entropy_bias(theory.gaussian_posteriors(n, d, sigma), batches)
        axes.plot(found["batch"], found["estimate"], "o-", color=LINE_COLOURS[0], label="Ĥ, stratified minibatch")
        axes.axhline(found["exact"], color=LINE_COLOURS[2], label="H, exact q(z)")
        axes.axhline(found["beta"], color=LINE_COLOURS[1], ls="--", label="log n + E H[q(z|x)]")
        axes.axhline(0.5 * d * math.log(2 * math.pi * math.e), color=GREY, ls=":", label="H of N(0, I)")
        axes.set(xscale="log", xlabel="batch size B", ylabel="nats", title=f"d = {d}, σ = {sigma}, n = {n}")
        axes.legend(fontsize=7, frameon=False)
        numbers[f"d={d}, sigma={sigma}"] = found
    _save(figure, out / "theory_entropy.png")
    return numbers


def tc(out: Path) -> dict[str, Any]:
    """Draw histograms of log q̂(z) and log Π q̂(z_j) for z outside and inside the batch. Kim & Mnih 2018, Fig. 18.

    Args:
        out: folder for the figure.
    """
    figure = Figure(figsize=(9, 3.2), layout="constrained")
    found = theory.naive_tc(theory.gaussian_posteriors(12_000, 10, 0.1), 10_000)
    numbers = {}
    for axes, name in zip(figure.subplots(1, 2), ("outside", "inside"), strict=True):
        joint, product = found[name], found[f"{name}, product"]
        numbers[name] = float((joint - product).mean())
        low = np.percentile(joint, 1)
        bins = np.linspace(min(low, product.min()), max(joint.max(), product.max()), 60)
        axes.hist(joint.clip(bins[0]), bins, color=LINE_COLOURS[0], alpha=0.7, label="log q̂(z)")
        axes.hist(product, bins, color=LINE_COLOURS[1], alpha=0.7, label="log Π q̂(z_j)")
        axes.set(xlabel="nats", title=f"z from {name} the batch: TC estimate {numbers[name]:+.1f}")
        axes.legend(fontsize=7, frameon=False)
    _save(figure, out / "theory_tc.png")
    return numbers


def _save(figure: Figure, path: Path) -> None:
    for axes in figure.axes:
        axes.title.set_fontsize(9)
        axes.title.set_color(INK)
        axes.spines[["top", "right"]].set_visible(False)
        axes.tick_params(labelsize=8)
    figure.savefig(path, dpi=120)
