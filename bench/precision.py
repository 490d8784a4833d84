"""What does bf16 gain, what bounds it, and does it change results? `python -m bench.precision`, also with an option.

Without one it times steps in float32 and in bf16 in alternation, on one thread, ours and those of plain torch with autocast.
`--operations B` prints the time of each kind of operation in a step of beta_vae with batches of B. `--paired DIR` trains a recipe
of the demo with the same seeds in both precisions, and prints the paired differences of scores and exact terms with 95% t
intervals; finished runs are kept in DIR, so the same command continues.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from torch.profiler import ProfilerActivity, profile

import unbraid
from bench.core import make_vae_step, plain_net
from bench.objectives import seconds_per_step
from bench.peers import IMAGE_SIDES, LATENT, NET, OBJECTIVES, RATE, random_images
from unbraid import Recipe, Run
from unbraid.comparing.statistics import t_interval
from unbraid.core.hardware import use_threads
from unbraid.runs.building.builders import build_parts, build_trainer
from unbraid.runs.fitting.precision import wrap_bf16
from unbraid.runs.fitting.trainer import VaeTrainer

STEPS = (
    ("beta_vae", 64),
    ("beta_vae", 1024),
    ("beta_tcvae", 64),
    ("beta_tcvae", 1024),
    ("factor_vae", 64),
    ("plain torch", 64),
    ("plain torch", 1024),
)
PRECISIONS = ("float32", "bf16")
METRICS = ("mig", "dci", "factor_vae")
OPERATIONS = {  # kinds by words in the names of torch's operations; the first that fits counts
    "convolution_backward": "convolutions, backward",
    "convolution": "convolutions, forward",
    "threshold": "ReLU and its gradient",
    "clamp_min": "ReLU and its gradient",
    "mkldnn_linear": "fully connected layers",
    "mm": "fully connected layers",
    "copy": "casts and copies",
    "dam": "Adam",
}


def step_ratio(objective: str, batch: int, rounds: int = 9) -> tuple[float, float, float]:
    """Median seconds of a step in float32 and in bf16, and the median ratio of the two.

    Args:
        objective: the objective, or "plain torch" for a VAE with torch's own layers.
        batch: the batch size.
        rounds: the number of alternations.
    """
    steps = max(1, 256 // batch)
    if objective == "plain torch":
        runs = [_plain_step(batch, precision) for precision in PRECISIONS]
        times = [[_seconds(run, steps) for run in runs] for _ in range(rounds + 1)][1:]
    else:
        trainers = [_trainer(objective, batch, precision) for precision in PRECISIONS]
        times = [[seconds_per_step(t, i * steps, steps) for t in trainers] for i in range(rounds + 1)][1:]
    plain, half = (statistics.median(row[k] for row in times) for k in range(2))
    return plain, half, statistics.median(a / b for a, b in times)


def _trainer(objective: str, batch: int, precision: str) -> VaeTrainer:
    budget = {"batch": batch, "lr": RATE, "threads": 1, "device": "cpu", "precision": precision}
    recipe = Recipe(data="random", latent=LATENT, nets=NET, objective=OBJECTIVES[objective], budget=budget)
    return build_trainer(build_parts(recipe, random_images(side=IMAGE_SIDES[NET])))


def _plain_step(batch: int, precision: str) -> Callable[[], None]:
    """A step of a VAE in plain torch in the layout channels last, under autocast for bf16."""
    nets = [net.to(memory_format=torch.channels_last) for net in plain_net()]  # type: ignore[call-overload]
    if precision == "bf16":
        for net in nets:
            net.forward = wrap_bf16(net.forward, torch.device("cpu"))
    return make_vae_step(*nets, torch.from_numpy(random_images().pixels(np.arange(batch))), fused=True)


def _seconds(run: Callable[[], object], steps: int) -> float:
    start = time.process_time()
    for _ in range(steps):
        run()
    return (time.process_time() - start) / steps


def operation_times(batch: int, precision: str, rounds: int = 30) -> dict[str, float]:
    """Seconds of each kind of operation in a step of beta_vae: of each operation the least over the rounds.

    Args:
        batch: the batch size.
        precision: the precision.
        rounds: the number of steps.
    """
    trainer, found = _trainer("beta_vae", batch, precision), defaultdict(list)
    for number in range(rounds + 3):
        with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as profiled:
            trainer.step(number)
        if number >= 3:
            for event in profiled.key_averages(group_by_input_shape=True):
                found[event.key, str(event.input_shapes)].append(event.self_cpu_time_total * 1e-6)
    kinds: Counter = Counter()
    for (name, _), times in found.items():
        kinds[next((kind for word, kind in OPERATIONS.items() if word in name), "the rest")] += min(times)
    return dict(kinds)


def print_operations(batch: int) -> None:
    """Print the times of kinds of operations in both precisions as Markdown.

    Args:
        batch: the batch size.
    """
    print(f"| B = {batch} | float32 | bf16 | times as fast | share of bf16 |\n|---|---|---|---|---|")
    with use_threads(1):
        plain, half = (operation_times(batch, precision, 30 if batch < 512 else 6) for precision in PRECISIONS)
    total = sum(half.values())
    for kind in sorted(half, key=lambda kind: -half[kind]):
        row = f"{plain[kind] * 1e3:.1f} ms | {half[kind] * 1e3:.1f} ms | {plain[kind] / half[kind]:.2f}"
        print(f"| {kind} | {row} | {half[kind] / total:.0%} |")
    whole = sum(plain.values())
    print(f"| all | {whole * 1e3:.1f} ms | {total * 1e3:.1f} ms | {whole / total:.2f} | 100% |")


def print_steps() -> None:
    """Print the table of steps as Markdown."""
    print("| step | float32 | bf16 | times as fast |\n|---|---|---|---|")
    with use_threads(1):
        for objective, batch in STEPS:
            plain, half, ratio = step_ratio(objective, batch, 9 if batch < 512 else 4)
            print(
                f"| {objective}, B = {batch} | {plain * 1e3:.0f} ms | {half * 1e3:.0f} ms | {ratio:.2f} |", flush=True
            )


def print_paired(folder: Path, name: str, seeds: range) -> None:
    """Train a recipe in both precisions for each seed and print the paired differences as Markdown.

    Args:
        folder: where the runs are kept.
        name: a recipe.
        seeds: the seeds.
    """
    found: dict[str, list[dict[str, float]]] = {precision: [] for precision in PRECISIONS}
    for seed in seeds:
        for precision in PRECISIONS:
            recipe = Recipe.load(name, f"seed={seed}", f'budget.precision="{precision}"', "budget.threads=1")
            run = _finished_run(recipe, folder / f"{name}-{precision}-s{seed}")
            found[precision].append(measure(run))
            print(name, precision, seed, {k: round(v, 3) for k, v in found[precision][-1].items()}, flush=True)
    print("\n| quantity | float32 | bf16 − float32, paired |\n|---|---|---|")
    for key in found["float32"][0]:
        plain, half = ([row[key] for row in found[precision]] for precision in PRECISIONS)
        mean, gap = t_interval(plain), t_interval([b - a for a, b in zip(plain, half, strict=True)])
        spread = (mean.high - mean.low) / 2
        print(f"| {key} | {mean.mean:.3f} ± {spread:.3f} | {gap.mean:+.3f} [{gap.low:+.3f}, {gap.high:+.3f}] |")


def _finished_run(recipe: Recipe, folder: Path) -> Run:
    return unbraid.fit(recipe, folder, resume=folder.is_dir(), quiet=True)


def measure(run: Run) -> dict[str, float]:
    """Scores and exact terms of a run, both computed in float32.

    Args:
        run: the run.
    """
    scores = unbraid.score(run, metrics=METRICS, quiet=True)
    exact = unbraid.audit(run, quiet=True)
    terms = {key: float(value) for key, value in exact["nats"].items()}
    return {**{name: float(scores[name].value) for name in METRICS}, **terms}


def main() -> None:
    """Print one of the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--paired", type=Path, metavar="DIR", help="train pairs of runs in DIR")
    parser.add_argument("--operations", type=int, metavar="B", help="print the time of each kind of operation")
    parser.add_argument("--recipe", default="beta_tcvae_colour_sprites", help="the recipe of the pairs")
    parser.add_argument("--seeds", type=int, default=6, help="how many seeds, from 0")
    chosen = parser.parse_args()
    if chosen.paired:
        print_paired(chosen.paired, chosen.recipe, range(chosen.seeds))
    elif chosen.operations:
        print_operations(chosen.operations)
    else:
        print_steps()


if __name__ == "__main__":
    main()
