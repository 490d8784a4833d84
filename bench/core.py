"""The training core against plain torch: pairwise terms, the step, batches, threads. `python -m bench core`

Everything is a ratio of two things timed in turns in one run. One-thread rows use CPU time, which other work on the
machine disturbs little; rows with several threads or processes need wall time and a quiet machine.
"""

from __future__ import annotations

import math
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits

from unbraid.assemble import assemble
from unbraid.data.batches import gathered
from unbraid.data.dataset import Bits, Dataset
from unbraid.latent import Latent
from unbraid.model import Posterior
from unbraid.model.pairwise import broadcast, log_mixture
from unbraid.recipe import Recipe
from unbraid.terms.estimators import WEIGHTS
from unbraid.train import prepare, step

Row = dict[str, Any]


def turns(
    runs: dict[str, Callable[[], object]], rounds: int, repeats: int = 1, clock: Callable[[], float] = time.process_time
) -> dict[str, float]:
    """Median seconds of each run, measured in turns; one round more warms up."""
    found: dict[str, list[float]] = {name: [] for name in runs}
    for number in range(rounds + 1):
        for name, run in runs.items():
            start = clock()
            for _ in range(repeats):
                run()
            if number:
                found[name].append((clock() - start) / repeats)
    return {name: statistics.median(times) for name, times in found.items()}


def row(name: str, ours: float, baseline: float, limit: float, note: str = "") -> Row:
    """One line: seconds, their ratio ours/baseline, and the highest ratio allowed."""
    return {
        "name": name,
        "ours": ours,
        "baseline": baseline,
        "ratio": ours / baseline,
        "limit": round(limit, 3),
        "note": note,
        "ok": ours / baseline <= limit,
    }


def pairwise(threads: int) -> list[Row]:
    """log q(z) and all its gradients, tiled against the plain broadcast."""
    torch.set_num_threads(threads)
    clock = time.process_time if threads == 1 else time.perf_counter
    rows = []
    for b, d, limit, rounds, repeats in ((64, 10, 1.15, 41, 10), (512, 10, 1.0, 7, 1), (2048, 20, 0.2, 3, 1)):
        torch.manual_seed(0)
        tree = Latent.of(d)
        loc, log_scale = torch.randn(b, d), math.log(0.3) + 0.3 * torch.randn(b, d)
        z, weights = loc + log_scale.exp() * torch.randn(b, d), WEIGHTS["stratified"](b, 737_280).log().float()
        price = torch.randn(b, d + 1)

        def run(
            f: Callable[..., Tensor],
            z: Tensor = z,
            loc: Tensor = loc,
            scale: Tensor = log_scale,
            weights: Tensor = weights,
            price: Tensor = price,
            tree: Latent = tree,
        ) -> None:
            inputs = [t.clone().requires_grad_() for t in (z, loc, scale)]
            out = f(inputs[0], Posterior(tree, inputs[1], inputs[2]), weights)
            torch.autograd.grad((out * price).sum(), inputs)

        times = turns({"ours": lambda: run(log_mixture), "plain": lambda: run(broadcast)}, rounds, repeats, clock)
        rows.append(
            row(
                f"pairwise, B = {b}, D = {d}, {threads} thread(s)",
                times["ours"],
                times["plain"],
                limit,
                "against the B × B × D broadcast",
            )
        )
    torch.set_num_threads(1)
    return rows


def sprites(n: int = 20_000) -> Dataset:
    """Random binary 64×64 images in memory, bit-packed."""
    return Dataset("random", Bits(np.random.default_rng(0).integers(0, 2, (n, 512), dtype=np.uint8), (1, 64, 64)))


def plain_net() -> tuple[nn.Module, nn.Module]:
    """Kim & Mnih 2018, Table 1, as one would write it."""
    up: list[nn.Module] = []
    for a, b in ((1, 32), (32, 32), (32, 64), (64, 64)):
        up += [nn.Conv2d(a, b, 4, 2, 1), nn.ReLU()]
    encoder = nn.Sequential(*up, nn.Flatten(), nn.Linear(1024, 128), nn.ReLU(), nn.Linear(128, 20))
    down: list[nn.Module] = [
        nn.Linear(10, 128),
        nn.ReLU(),
        nn.Linear(128, 1024),
        nn.ReLU(),
        nn.Unflatten(1, (64, 4, 4)),
    ]
    for a, b in ((64, 64), (64, 32), (32, 32)):
        down += [nn.ConvTranspose2d(a, b, 4, 2, 1), nn.ReLU()]
    return encoder, nn.Sequential(*down, nn.ConvTranspose2d(32, 1, 4, 2, 1))


def loop(encoder: nn.Module, decoder: nn.Module, x: Tensor, fused: bool) -> Callable[[], None]:
    """A bare torch step of a VAE on one batch already in memory."""
    adam = torch.optim.Adam([*encoder.parameters(), *decoder.parameters()], 1e-4, fused=fused or None)

    def run() -> None:
        mean, log_variance = encoder(x).chunk(2, 1)
        out = decoder(mean + (0.5 * log_variance).exp() * torch.randn_like(mean))
        recon = binary_cross_entropy_with_logits(out, x, reduction="none").flatten(1).sum(1).mean()
        loss = recon + 0.5 * (log_variance.exp() + mean.square() - 1 - log_variance).sum(1).mean()
        adam.zero_grad(set_to_none=True)
        loss.backward()
        adam.step()

    return run


def trainer(nets: str, shape: tuple[int, int, int], dataset: Dataset) -> Any:
    """A run of ours, ready to step."""
    recipe = Recipe(
        data="random",
        latent=10,
        nets=nets,
        objective="vae",
        budget={"batch": 64, "lr": 1e-4, "threads": 1, "device": "cpu"},
    )
    return prepare(assemble(recipe, dataset))


def steps() -> list[Row]:
    """Our step against plain eager torch, and against a bare loop with the very same net and optimiser."""
    torch.set_num_threads(1)
    dataset = sprites()
    small = Dataset("random", Bits(np.random.default_rng(0).integers(0, 2, (20_000, 128), dtype=np.uint8), (1, 32, 32)))
    rows = []
    counter = iter(range(10**9))
    ours, same = trainer("factor_vae_table1", (1, 64, 64), dataset), trainer("factor_vae_table1", (1, 64, 64), dataset)
    x = torch.from_numpy(dataset.pixels(np.arange(64)))
    runs = {
        "ours": lambda: step(ours, next(counter)),
        "plain": loop(*plain_net(), x, fused=False),
        "bare": loop(same.parts.model.encoder, same.parts.model.decoder, x, fused=True),
        "batch": lambda: ours.batches(next(counter)),
    }
    times = turns(runs, 21)
    rows.append(row("step, conv net, B = 64", times["ours"], times["plain"], 1 / 1.2, "against plain eager torch"))
    rows.append(
        row(
            "fit, conv net, B = 64",
            times["ours"],
            times["bare"],
            1.05,
            "against a bare loop with the same net, optimiser and data in memory",
        )
    )
    rows.append(
        row(
            "batch of 64, conv net",
            times["batch"],
            times["ours"],
            0.02,
            "drawing and unpacking, as a share of the step",
        )
    )
    tiny, twin = trainer("small32", (1, 32, 32), small), trainer("small32", (1, 32, 32), small)
    y = torch.from_numpy(small.pixels(np.arange(64)))
    times = turns(
        {
            "ours": lambda: step(tiny, next(counter)),
            "bare": loop(twin.parts.model.encoder, twin.parts.model.decoder, y, fused=True),
        },
        41,
    )
    over = row("fit, small net, B = 64", times["ours"], times["bare"], 1 + 0.4e-3 / times["bare"], "")
    rows.append(
        over | {"note": f"{(times['ours'] - times['bare']) * 1e3:+.2f} ms a step over the bare loop; at most 0.4"}
    )
    mapped = _mapped(dataset)
    index = np.random.default_rng(0).permutation(len(dataset))[:64]
    times = turns({"ours": lambda: gathered(mapped.images, index), "step": lambda: step(ours, next(counter))}, 15)
    rows.append(
        row(
            "batch of 64, memory map",
            times["ours"],
            times["step"],
            0.02,
            "drawing and unpacking, as a share of the step",
        )
    )
    return rows


def _mapped(dataset: Dataset) -> Dataset:
    import tempfile

    with tempfile.NamedTemporaryFile(suffix=".npy", delete=False) as f:
        np.save(f, dataset.images.array)  # type: ignore[attr-defined]
    return Dataset("mapped", Bits(np.load(f.name, mmap_mode="r"), (1, 64, 64)))


CHILD = """
import sys, time, torch
from bench.core import sprites, trainer
from unbraid.train import step
threads, count = int(sys.argv[1]), int(sys.argv[2])
torch.set_num_threads(threads)
t = trainer("factor_vae_table1", (1, 64, 64), sprites(2000))
for i in range(3): step(t, i)
print("ready", flush=True); sys.stdin.readline()
start = time.perf_counter()
for i in range(count): step(t, i + 3)
print(64 * count / (time.perf_counter() - start), flush=True)
"""


def _together(threads: int, processes: int, count: int = 12) -> float:
    """Images per second of some processes that start at one word."""
    environment = os.environ | {"OMP_NUM_THREADS": str(threads)}
    children = [
        subprocess.Popen(
            [sys.executable, "-c", CHILD, str(threads), str(count)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )
        for _ in range(processes)
    ]
    for child in children:
        assert child.stdout is not None
        child.stdout.readline()
    for child in children:
        assert child.stdin is not None
        child.stdin.write("go\n")
        child.stdin.flush()
    return sum(float(child.communicate()[0]) for child in children)


def threads() -> list[Row]:
    """Two runs with one thread each against one run with two threads, in images per second."""
    found = [(_together(1, 2), _together(2, 1)) for _ in range(3)]
    two, one = (statistics.median(x) for x in zip(*found))
    return [
        row(
            "one run × 2 threads",
            1 / two,
            1 / one,
            1 / 1.5,
            f"two runs × 1 thread: {two:,.0f} images/s, one run × 2 threads: {one:,.0f}",
        )
    ]


def rows() -> list[Row]:
    """All rows of the core."""
    return [*pairwise(1), *pairwise(2), *steps(), *threads()]
