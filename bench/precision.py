"""What does bf16 gain, and does it change results? `python -m bench.precision` and `python -m bench.precision --paired DIR`.

The first times steps in float32 and in bf16 in alternation, on one thread. The second trains a recipe of the demo with the same
seeds in both precisions, and prints the paired differences of scores and exact terms with 95% t intervals; finished runs are kept
in DIR, so the same command continues.
"""

from __future__ import annotations

import argparse
import statistics
from pathlib import Path

import unbraid
from bench.objectives import seconds_per_step
from bench.peers import IMAGE_SIDES, LATENT, NET, OBJECTIVES, RATE, random_images
from unbraid import Recipe, Run
from unbraid.comparing.statistics import t_interval
from unbraid.core.hardware import use_threads
from unbraid.runs.building.builders import build_parts, build_trainer
from unbraid.runs.fitting.trainer import VaeTrainer

STEPS = (("beta_vae", 64), ("beta_vae", 1024), ("beta_tcvae", 64), ("beta_tcvae", 1024), ("factor_vae", 64))
PRECISIONS = ("float32", "bf16")
METRICS = ("mig", "dci", "factor_vae")


def step_ratio(objective: str, batch: int, rounds: int = 9) -> tuple[float, float, float]:
    """Median seconds of a step in float32 and in bf16, and the median ratio of the two.

    Args:
        objective: the objective.
        batch: the batch size.
        rounds: the number of alternations.
    """
    steps = max(1, 256 // batch)
    trainers = [_trainer(objective, batch, precision) for precision in PRECISIONS]
    times = [[seconds_per_step(t, i * steps, steps) for t in trainers] for i in range(rounds + 1)][1:]
    plain, half = (statistics.median(row[k] for row in times) for k in range(2))
    return plain, half, statistics.median(a / b for a, b in times)


def _trainer(objective: str, batch: int, precision: str) -> VaeTrainer:
    budget = {"batch": batch, "lr": RATE, "threads": 1, "device": "cpu", "precision": precision}
    recipe = Recipe(data="random", latent=LATENT, nets=NET, objective=OBJECTIVES[objective], budget=budget)
    return build_trainer(build_parts(recipe, random_images(side=IMAGE_SIDES[NET])))


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
    """Print one of the two tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--paired", type=Path, metavar="DIR", help="train pairs of runs in DIR")
    parser.add_argument("--recipe", default="beta_tcvae_colour_sprites", help="the recipe of the pairs")
    parser.add_argument("--seeds", type=int, default=6, help="how many seeds, from 0")
    chosen = parser.parse_args()
    if chosen.paired:
        print_paired(chosen.paired, chosen.recipe, range(chosen.seeds))
    else:
        print_steps()


if __name__ == "__main__":
    main()
