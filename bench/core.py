"""The training core compared with plain torch: pairwise terms, step, batches, audit. `python -m bench core`

Every ratio compares two functions timed in alternation in one run, on one thread, in CPU time, which other load on the
machine affects little. `bench.threads` measures several threads.
"""

from __future__ import annotations

import math
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits

from bench.process_timing import TimedFunction, read_reply, request_repeats, start_process, time_processes
from unbraid.core.hardware import keep_memory
from unbraid.data.batches import Batches
from unbraid.data.dataset import Bits, Dataset
from unbraid.latent import Latent
from unbraid.model import Diagonal
from unbraid.model.pairwise import broadcast_log_mixture, log_mixture
from unbraid.runs.building.builders import build_parts
from unbraid.runs.fitting.trainer import build_trainer, step
from unbraid.runs.fitting.training import fit
from unbraid.runs.recipe import Recipe
from unbraid.terms.estimators import WEIGHTS

Row = dict[str, Any]


def time_in_turns(
    runs: dict[str, Callable[[], object]], rounds: int, repeats: int = 1, clock: Callable[[], float] = time.process_time
) -> dict[str, float]:
    """Median seconds of each function, timed in alternation after one warm-up round.

    Args:
        runs: the functions by name.
        rounds: the number of alternations.
        repeats: calls in each.
        clock: the clock.
    """
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
    """One row of the table, with the ratio ours/baseline.

    Args:
        name: what is measured.
        ours: our seconds.
        baseline: the seconds of the baseline.
        limit: the highest ratio allowed.
        note: a remark.
    """
    return {
        "name": name,
        "ours": ours,
        "baseline": baseline,
        "ratio": ours / baseline,
        "limit": round(limit, 3),
        "note": note,
        "ok": ours / baseline <= limit,
    }


def pairwise_rows(threads: int) -> list[Row]:
    """log q(z) and all its gradients with a number of threads: tiled, compared with plain broadcasting."""
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
            out = f(inputs[0], Diagonal(tree, inputs[1], inputs[2]), weights)
            torch.autograd.grad((out * price).sum(), inputs)

        times = time_in_turns(
            {"ours": lambda: run(log_mixture), "plain": lambda: run(broadcast_log_mixture)}, rounds, repeats, clock
        )
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


def densities(variant: str) -> Callable[[], object]:
    """log q(z) and its gradients at B = 2048, D = 20; the variant is tiled, broadcast, or nothing but the inputs."""
    keep_memory()
    torch.manual_seed(0)
    inputs = [torch.randn(2048, 20, requires_grad=True) for _ in range(3)]
    weights = torch.full((2048, 2048), -math.log(2048))

    def run() -> None:
        if variant != "nothing":
            f = log_mixture if variant == "tiled" else broadcast_log_mixture
            out = f(inputs[0], Diagonal(Latent.of(20), inputs[1], 0.1 * inputs[2]), weights)
            torch.autograd.grad(out.sum(), inputs)

    return run


def memory_rows() -> list[Row]:
    """Peak memory of the pairwise terms above that of their inputs, in MB."""
    peaks = {}
    for way in ("nothing", "tiled", "broadcast"):
        with start_process(TimedFunction("bench.core:densities", (way,))) as child:
            request_repeats(child, 1)
            peaks[way] = float(read_reply(child)[2])
    ours, plain = peaks["tiled"] - peaks["nothing"], peaks["broadcast"] - peaks["nothing"]
    note = f"{plain:,.0f} MB for the broadcast"
    return [row("pairwise memory, B = 2048, D = 20", ours, plain, 1 / 50, note) | {"unit": "MB", "baseline": None}]


def random_images(n: int = 20_000, side: int = 64) -> Dataset:
    """Random binary images in memory, bit-packed.

    Args:
        n: how many.
        side: pixels per side.
    """
    packed = np.random.default_rng(0).integers(0, 256, (n, side * side // 8), dtype=np.uint8)
    return Dataset("random", Bits(packed, (1, side, side)))


def plain_net() -> tuple[nn.Module, nn.Module]:
    """The net of Kim & Mnih 2018, Table 1, in plain torch."""
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


def make_vae_step(encoder: nn.Module, decoder: nn.Module, x: Tensor, fused: bool) -> Callable[[], None]:
    """A training step of a VAE in plain torch on one batch in memory.

    Args:
        encoder: the encoder.
        decoder: the decoder.
        x: the batch.
        fused: use the fused optimiser.
    """
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


def make_trainer(nets: str, dataset: Dataset) -> Any:
    """A trainer of this library, ready to step.

    Args:
        nets: the preset.
        dataset: the images.
    """
    recipe = Recipe(
        data="random",
        latent=10,
        nets=nets,
        objective="vae",
        budget={"batch": 64, "lr": 1e-4, "threads": 1, "device": "cpu"},
    )
    return build_trainer(build_parts(recipe, dataset))


def fit_step(nets: str) -> Callable[[], object]:
    """One step of `fit` with a preset net."""
    keep_memory()
    ours, counter = make_trainer(nets, random_images(side=IMAGE_SIDES[nets])), iter(range(10**9))
    return lambda: step(ours, next(counter))


def whole_fit(nets: str, steps: str) -> Callable[[], object]:
    """A whole call of `fit`: directory, steps, ledger, progress bar, checkpoints.

    Args:
        nets: the preset.
        steps: the number of steps.
    """
    dataset, folder = random_images(side=IMAGE_SIDES[nets]), tempfile.TemporaryDirectory()
    budget = {"batch": 64, "lr": 1e-4, "threads": 1, "device": "cpu", "steps": int(steps), "log_every": 10}
    recipe = Recipe(data="random", latent=10, nets=nets, objective="vae", budget=budget)
    return lambda: fit(recipe, Path(folder.name) / "run", force=True, quiet=True, dataset=dataset)


def bare_step(nets: str) -> Callable[[], object]:
    """A plain torch loop with the same preset net and optimiser, on one batch in memory."""
    dataset = random_images(side=IMAGE_SIDES[nets])
    model = make_trainer(nets, dataset).parts.model
    return make_vae_step(model.encoder, model.decoder, torch.from_numpy(dataset.pixels(np.arange(64))), fused=True)


def plain_step(nets: str = "") -> Callable[[], object]:
    """One step of Kim & Mnih's net in plain eager torch."""
    return make_vae_step(*plain_net(), torch.from_numpy(random_images().pixels(np.arange(64))), fused=False)


def batch_from_memory(nets: str) -> Callable[[], object]:
    """Draw and unpack a batch from memory."""
    return _batch_drawer(random_images(side=IMAGE_SIDES[nets]))


def batch_from_map(nets: str) -> Callable[[], object]:
    """Draw and unpack a batch from a memory map."""
    return _batch_drawer(_to_memory_map(random_images(side=IMAGE_SIDES[nets])))


def _batch_drawer(dataset: Dataset) -> Callable[[], object]:
    keep_memory()
    batches, counter = Batches(dataset.images, 64), iter(range(10**9))
    return lambda: batches(next(counter))


def audit_chunk() -> Callable[[], object]:
    """log q(z) of 64 samples over as many posteriors as dSprites has images."""
    keep_memory()
    q = Diagonal(Latent.of(10), torch.randn(737_280, 10), torch.full((737_280, 10), math.log(0.3)))
    z, weight = torch.randn(64, 10), torch.full((1, 1), -math.log(737_280))

    def run() -> None:
        with torch.no_grad():
            log_mixture(z, q, weight)

    return run


IMAGE_SIDES = {"factor_vae_table1": 64, "small32": 32}
BATCHES = ("batch_from_memory", "batch_from_map")


def step_rows() -> list[Row]:
    """Our step compared with plain eager torch, and with a plain loop that has the same net and optimiser."""

    def timed_functions(nets: str, *names: str) -> dict[str, TimedFunction]:
        return {name: TimedFunction(f"bench.core:{name}", (nets,)) for name in names}

    conv = time_processes(timed_functions("factor_vae_table1", "fit_step", "bare_step", "plain_step", *BATCHES), 6, 3)
    small = time_processes(timed_functions("small32", "fit_step", "bare_step"), 15, 10)
    whole = time_processes(
        {n: TimedFunction("bench.core:whole_fit", ("factor_vae_table1", n)) for n in ("10", "40")}, 2, 1, starts=2
    )
    each = (whole["40"] - whole["10"]) / 30
    share = "drawing and unpacking, as a share of the step"
    over = (small["fit_step"] - small["bare_step"]) * 1e3
    return [
        row("step, conv net, B = 64", conv["fit_step"], conv["plain_step"], 1 / 1.2, "against plain eager torch"),
        row("its step, conv net, B = 64", conv["fit_step"], conv["bare_step"], 1.05,
            "against a bare loop with the same net, optimiser and data in memory"),
        row("fit, conv net, B = 64", each, conv["bare_step"], 1.05,
            "a step of fit with ledger and progress bar: 40 steps minus 10, divided by 30"),
        row("fit, small net, B = 64", small["fit_step"], small["bare_step"], 1 + 0.4e-3 / small["bare_step"],
            f"{over:+.2f} ms per step more than the bare loop; at most 0.4"),
        row("batch of 64, in memory", conv["batch_from_memory"], conv["fit_step"], 0.02, share),
        row("batch of 64, memory map", conv["batch_from_map"], conv["fit_step"], 0.02, share),
    ]  # fmt: skip


def audit_rows() -> list[Row]:
    """Cost of the audit over all of dSprites: 2,048 samples from the time of 64, and the memory of one process."""
    with start_process(TimedFunction("bench.core:audit_chunk")) as child:
        request_repeats(child, 3)
        cpu, _, peak = map(float, read_reply(child))
    stated = {"baseline": None, "ratio": None, "limit": None, "ok": True}
    return [{
        "name": "audit, 2,048 samples × 737,280 posteriors, 1 thread", "ours": cpu / 3 * 2048 / 64, **stated,
        "note": f"peak {peak:,.0f} MB, with torch and the posteriors; without encoding",
    }]  # fmt: skip


def _to_memory_map(dataset: Dataset) -> Dataset:
    with tempfile.NamedTemporaryFile(suffix=".npy") as f:
        np.save(f, dataset.images.array)  # type: ignore[attr-defined]
        f.flush()
        # the map remains valid after the file is deleted
        return Dataset("mapped", Bits(np.load(f.name, mmap_mode="r"), dataset.shape))


def rows() -> list[Row]:
    """All rows of the core."""
    return [*pairwise_rows(1), *memory_rows(), *step_rows(), *audit_rows()]
