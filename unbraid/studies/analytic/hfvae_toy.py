"""The four terms of the ELBO and the effect of each. Esmaeili et al. 2018, Figs. 2 and 3.

    ELBO + log N = ① E log p(x|z)/p(x)  ② − I(x;z)  ③ − KL(q(x) ‖ p(x))  ④ − KL(q(z) ‖ p(z))

① and ③ need p(x), so the latent is one number and every integral a sum over a grid. `unbraid study hfvae_toy
--out DIR` trains with all four terms and without each one, and writes theory_four_terms.png and the numbers.
"""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import torch
from matplotlib.figure import Figure
from torch import Tensor, nn

from unbraid.core.progress import Advance
from unbraid.figures.drawing import INK, LINE_COLOURS
from unbraid.studies.framework.study import StudyOutput, no_progress

TERMS = ("①", "②", "③", "④")


class FourTermsToy(nn.Module):
    """N points on an arc, one Gaussian q(z|x_n) per point, and p(x|z) = N(f(z), s²) with a small net f and a fixed s.

    Args:
        n: number of points.
        seed: seed of the decoder's weights.
        noise: standard deviation s.
    """

    x: Tensor
    grid: Tensor

    def __init__(self, n: int = 6, seed: int = 0, noise: float = 0.25):
        super().__init__()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            angle = torch.linspace(0, 1.5 * math.pi, n, dtype=torch.float64)
            self.register_buffer("x", torch.stack([angle.cos(), angle.sin()], 1))
            self.register_buffer("grid", torch.linspace(-7, 7, 701, dtype=torch.float64))
            self.loc = nn.Parameter(torch.linspace(-1, 1, n, dtype=torch.float64))
            self.log_scale = nn.Parameter(torch.full((n,), -1.0, dtype=torch.float64))
            self.decoder = nn.Sequential(nn.Linear(1, 24), nn.Tanh(), nn.Linear(24, 2)).double()
        self.noise = noise

    def log_q(self) -> Tensor:
        """log q(z|x_n) on the grid, "n g"."""
        u = (self.grid - self.loc[:, None]) / self.log_scale.exp()[:, None]
        return -0.5 * (u**2 + math.log(2 * math.pi)) - self.log_scale[:, None]

    def log_likelihood(self) -> Tensor:
        """log p(x_n|z) on the grid, "n g"."""
        square = (self.x[:, None] - self.decoder(self.grid[:, None])).square().sum(-1)
        return -0.5 * square / self.noise**2 - math.log(2 * math.pi * self.noise**2)

    def terms(self) -> dict[str, Tensor]:
        """Return ①, ②, ③, ④ in nats, averaged over the data; their sum is the ELBO + log N."""
        step = self.grid[1] - self.grid[0]
        log_q, log_px_z = self.log_q(), self.log_likelihood()
        log_p = -0.5 * (self.grid**2 + math.log(2 * math.pi))
        log_px = (log_px_z + log_p).logsumexp(1) + step.log()
        mixture = log_q.logsumexp(0) - math.log(len(self.x))
        q = log_q.exp()
        return {
            "①": ((q * log_px_z).sum(1) * step - log_px).mean(),
            "②": -((q * (log_q - mixture)).sum(1) * step).mean(),
            "③": log_px.mean() + math.log(len(self.x)),
            "④": -(mixture.exp() * (mixture - log_p)).sum() * step,
        }

    def term_values(self) -> dict[str, float]:
        """Return the terms as floats."""
        with torch.no_grad():
            return {name: float(value) for name, value in self.terms().items()}

    def elbo(self) -> Tensor:
        """Return the ELBO computed independently: E log p(x|z) − KL(q(z|x) ‖ p), with the KL in closed form."""
        step = self.grid[1] - self.grid[0]
        reconstruction = (self.log_q().exp() * self.log_likelihood()).sum(1) * step
        kl = 0.5 * ((2 * self.log_scale).exp() + self.loc**2 - 1) - self.log_scale
        return (reconstruction - kl).mean()


def train_toy(without: str = "", steps: int = 1500, lr: float = 0.01) -> FourTermsToy:
    """Train a toy on the sum of its terms.

    Args:
        without: term to leave out; "" for none.
        steps: number of Adam steps.
        lr: learning rate.
    """
    toy = FourTermsToy()
    optimiser = torch.optim.Adam(toy.parameters(), lr=lr)
    for _ in range(steps):
        loss = -torch.stack([value for name, value in toy.terms().items() if name != without]).sum()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    return toy


def train_ablations(steps: int = 1500, advance: Advance = no_progress) -> dict[str, FourTermsToy]:
    """Train with all four terms, and without each one.

    Args:
        steps: number of Adam steps.
        advance: progress callback.
    """
    toys = {}
    for name in ("", *TERMS):
        label = f"without {name}" if name else "all four"
        toys[label] = train_toy(name, steps)
        advance(note=label)
    return toys


def draw_ablations(toys: dict[str, FourTermsToy]) -> Figure:
    """Draw q(z|x_n), q(z) and the prior (top), and the data with p(x|z) along z (bottom).

    Args:
        toys: trained toys by label.
    """
    figure = Figure(figsize=(2.5 * len(toys), 4.6), layout="constrained")
    axes = figure.subplots(2, len(toys))
    for column, (name, toy) in enumerate(toys.items()):
        top, below = axes[0, column], axes[1, column]
        with torch.no_grad():
            z, q = toy.grid.numpy(), toy.log_q().exp().numpy()
            curve = toy.decoder(toy.grid[:, None]).numpy()
            means = toy.decoder(toy.loc[:, None]).numpy()
        prior = np.exp(-0.5 * z**2) / math.sqrt(2 * math.pi)
        for i, density in enumerate(q):
            top.plot(z, density / len(q), color=LINE_COLOURS[i % len(LINE_COLOURS)], lw=1)
            below.plot(*toy.x[i].numpy(), "o", color=LINE_COLOURS[i % len(LINE_COLOURS)], ms=7)
            below.plot(*means[i], "x", color=LINE_COLOURS[i % len(LINE_COLOURS)])
        top.plot(z, q.mean(0), color=INK, lw=1.5)
        top.plot(z, prior, color=INK, lw=1, ls="--")
        inside = np.abs(z) < 2.5
        below.plot(*curve[inside].T, color="#a0aec0", lw=1, zorder=0)
        top.set(xlim=(-4, 4), ylim=(0, 0.9), yticks=[])
        terms = "  ".join(f"{k} {v:+.2f}" for k, v in toy.term_values().items())
        top.set_title(f"{name}\n{terms}", fontsize=7, color=INK)
        below.set(xlim=(-2.2, 2.2), ylim=(-2.2, 2.2), xticks=[], yticks=[], aspect="equal")
        for ax in (top, below):
            ax.spines[["top", "right"]].set_visible(False)
            ax.tick_params(labelsize=7)
    axes[0, 0].set_ylabel("q(z|x), q(z) —, p(z) - -", fontsize=8)
    axes[1, 0].set_ylabel("x ●, decoded means ×", fontsize=8)
    return figure


def main(out: Path, advance: Advance = no_progress, steps: int = 1500) -> StudyOutput:
    """Train, draw, and return the terms of each toy.

    Args:
        out: folder for the figure.
        advance: progress callback.
        steps: number of Adam steps.
    """
    toys = train_ablations(steps, advance)
    draw_ablations(toys).savefig(out / "theory_four_terms.png", dpi=120)
    numbers = {name: toy.term_values() for name, toy in toys.items()}
    rows = [(name, *(f"{v:+.3f}" for v in row.values())) for name, row in numbers.items()]
    return StudyOutput(("trained on", *TERMS), rows, numbers, ("theory_four_terms.png",))
