"""The cost of one training step of each objective relative to vae. `python -m bench objectives`

Steps of an objective and of vae are timed in alternation on one thread, and the median of their ratios is kept, so that other
load matters little. `--conv` adds convolutional nets; `--precision` compares bf16 and compiled nets with plain ones.
"""

from __future__ import annotations

import argparse
import statistics
import time
from typing import Any

import torch

from unbraid.data import load
from unbraid.objectives import ROWS as OBJECTIVES
from unbraid.runs.building.builders import build_parts
from unbraid.runs.fitting.trainer import VaeTrainer, build_trainer, step
from unbraid.runs.recipe import Recipe

BATCHES = (64, 512, 2048)
LIMIT = 1.3
CHEAP_OBJECTIVES = ("beta_vae", "annealed_vae", "entropy_vae", "dip_vae_i", "dip_vae_ii", "isa_vae", "wae")
PAIR_OBJECTIVES = ("gvae", "ml_vae", "ada_gvae", "ada_ml_vae", "slow_vae")
PAIR_LIMIT = 2.1  # a step of as many pairs
LATENT = {"a": 5, "anchors": 5}
RECIPE_OVERRIDES: dict[str, dict[str, Any]] = {
    "isa_vae": {"prior": "isa"},
    "isa_tcvae": {"prior": "isa"},
    "beta_svae": {"latent": {"kind": "onehot(5)", "style": 5}},
    **{key: {"latent": 10, "supervision": {"pairs": {"k": 1}}} for key in PAIR_OBJECTIVES},
    **{key: {"supervision": {"labels": {}}} for key in ("s2_beta_vae", "s2_factor_vae", "s2_beta_tcvae", "s2_dip_vae")},
    "i_vae": {
        "prior": {"name": "mixture", "means": 3, "variance": 1.0, "learned": True},
        "supervision": {"given": {"factors": ["shape"]}},
    },
    "row": {"objective": {"name": "row", "prices": {"mi": 1, "tc": 2, "dw": 1}, "estimator": "memory_bank(1024)"}},
}


def make_trainer(name: str, batch: int, nets: str, **budget: Any) -> VaeTrainer:
    """A trainer on sprites32 with 10 latent columns, ready to step.

    Args:
        name: the objective.
        batch: the batch size.
        nets: the nets.
    """
    tables: dict[str, Any] = {"latent": LATENT, "objective": {"name": name}, **RECIPE_OVERRIDES.get(name, {})}
    plain = {"batch": batch, "threads": 1, "device": "cpu"}
    recipe = Recipe(data="sprites32", nets=nets, budget=plain | budget, **tables)
    return build_trainer(build_parts(recipe, load("sprites32")))


def seconds_per_step(run: VaeTrainer, number: int, steps: int) -> float:
    """Mean CPU seconds of one step.

    Args:
        run: the trainer.
        number: the number of the first step.
        steps: how many steps.
    """
    start = time.process_time()
    for i in range(steps):
        step(run, number + i)
    return (time.process_time() - start) / steps


def step_cost_row(name: str, batch: int, nets: str, rounds: int = 9, **budget: Any) -> dict[str, Any]:
    """Median seconds of a step and of the baseline, in alternation, and the median of their ratio.

    The baseline is the step of vae or, with changes of the budget, the same step without them.

    Args:
        name: the objective.
        batch: the batch size.
        nets: the nets.
        rounds: the number of alternations.
        **budget: changes of the budget.
    """
    steps = max(1, 256 // batch)
    ours, plain = make_trainer(name, batch, nets, **budget), make_trainer(name if budget else "vae", batch, nets)
    times: list[tuple[float, float]] = []
    for i in range(rounds + 1):
        pair = (seconds_per_step(ours, i * steps, steps), seconds_per_step(plain, i * steps, steps))
        if i:  # the first round warms up
            times.append(pair)
    label = f"{name} ({nets}, B={batch})"
    return {
        "name": label,
        "ours": statistics.median(a for a, _ in times),
        "baseline": statistics.median(b for _, b in times),
        "ratio": statistics.median(a / b for a, b in times),
        "limit": LIMIT if name in CHEAP_OBJECTIVES else PAIR_LIMIT if name in PAIR_OBJECTIVES else None,
        "note": f"seconds of one step; baseline vae{', half as many images' if name in PAIR_OBJECTIVES else ''}",
    }


def rows(
    batches: tuple[int, ...] = BATCHES, nets: tuple[str, ...] = ("mlp",), names: tuple[str, ...] = ()
) -> list[dict[str, Any]]:
    """One row per objective, net and batch; convolutions at batch 2048 are left out.

    Args:
        batches: batch sizes.
        nets: nets.
        names: objectives.
    """
    torch.set_num_threads(1)
    return [
        step_cost_row(name, batch, net)
        for net in nets
        for batch in batches
        if net == "mlp" or batch <= 512
        for name in names or OBJECTIVES
        if name != "vae"
    ]


def print_precision_costs(objectives: tuple[str, ...] = ("vae", "factor_vae")) -> None:
    """Print the cost of bf16 and compiled nets for some objectives relative to plain ones, as Markdown."""
    torch.set_num_threads(1)
    print("| step | bf16 | compiled |\n|---|---|---|")
    for nets, batch in (("mlp", 64), ("mlp", 512), ("small32", 64), ("small32", 512)):
        for name in objectives:
            found = [
                step_cost_row(name, batch, nets, **how)["ratio"] for how in ({"precision": "bf16"}, {"compile": True})
            ]
            print(f"| {name}, {nets}, B = {batch} | " + " | ".join(f"{each:.2f}" for each in found) + " |", flush=True)


def main() -> None:
    """Print the table as Markdown: objectives down, nets and batches across, ratios to vae."""
    parser = argparse.ArgumentParser(description="Cost of one step of each objective, relative to vae.")
    parser.add_argument("--conv", action="store_true", help="add convolutional nets at 64 and 512")
    parser.add_argument("--only", nargs="*", default=(), help="objectives to time")
    parser.add_argument(
        "--precision", "--means", action="store_true", help="compare bf16 and compiled nets with plain ones instead"
    )
    chosen = parser.parse_args()
    if chosen.precision:
        print_precision_costs()
        return
    table: dict[str, dict[str, float]] = {}
    for row in rows(nets=("mlp", "small32") if chosen.conv else ("mlp",), names=tuple(chosen.only)):
        name, _, where = row["name"].partition(" ")
        table.setdefault(name, {})[where] = row["ratio"]
    columns = list(dict.fromkeys(where for row in table.values() for where in row))
    print("| objective | " + " | ".join(c.strip("()") for c in columns) + " | limit |")
    print("|---|" + "---|" * (len(columns) + 1))
    for name, found in table.items():
        cells = [f"{found[c]:.2f}" if c in found else "" for c in columns]
        print(f"| {name} | " + " | ".join(cells) + f" | {LIMIT if name in CHEAP_OBJECTIVES else ''} |")


if __name__ == "__main__":
    main()
