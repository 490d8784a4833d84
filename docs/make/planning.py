"""Write the tables of docs/planning.md: the cost of the papers' experiments, from their recipes and measured steps.

    python docs/make/planning.py --measure          # times a few steps of every kind of recipe: some minutes of one core
    python docs/make/planning.py --measure hfvae    # only kinds with this in their name
    python docs/make/planning.py                    # writes the tables from docs/results/planning.json

Runs, steps, batches and images are those of the studies at the scale `paper`. A step is timed in CPU seconds of one thread on
random images of the right size, because its cost does not depend on their content: the median of five steps or more. vae
and beta_vae on one net are compared with each other.
"""

from __future__ import annotations

import json
import os
import platform
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry

from unbraid import data
from unbraid.data.dataset import Dataset, Pixels
from unbraid.core.files import write_text
from unbraid.model import pairwise
from unbraid.runs.building.builders import build_parts, build_trainer
from unbraid.runs.recipe import Recipe
from unbraid.runs.fitting.seeding import default_float32
from unbraid.studies import STUDIES
from unbraid.studies.framework.study import study_recipes
from unbraid.sweeps.planning.cost_estimate import _disk_bytes
from unbraid.sweeps.planning.plan import Job, Plan, build_jobs
from unbraid.sweeps.planning.scoring import Scoring
from unbraid.sweeps.engine.job_runner import claim_and_run

ROOT = Path(__file__).resolve().parents[2]
PAGE, NUMBERS = ROOT / "docs" / "planning.md", ROOT / "docs" / "results" / "planning.json"
BEGIN, END = "<!-- planning: begin -->", "<!-- planning: end -->"
IMAGES = {  # channels, height, width, images, factors
    "dsprites": (1, 64, 64, 737_280, 6), "mnist": (1, 28, 28, 60_000, 1), "celeba": (3, 64, 64, 202_599, 40),
    "fashion_mnist": (1, 28, 28, 60_000, 1), "faces3d": (1, 64, 64, 239_840, 4),
}  # fmt: skip
GPU_FLOPS, GPU_CALL = 10e12, 10e-6  # reckoned: floating-point operations a second, seconds to start one of a step's operations
DEVICE_COUNTS = (1, 8, 64)
STEPS, MIN_SECONDS = 5, 1.0  # timed of each kind, after two that warm up: so many steps at least, and so many seconds
MAX_DIFFERENCE = 0.15  # by how much vae and beta_vae on one net may differ: they do the same work


class OperationCounter(TorchDispatchMode):
    """Count the operations of a step, and the floating-point operations of those that torch knows."""

    def __init__(self) -> None:
        super().__init__()
        self.count, self.flops = 0, 0

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.count += 1
        made = function(*args, **(kwargs or {}))
        known = flop_registry.get(function._overloadpacket)
        self.flops += known(*args, **(kwargs or {}), out_val=made) if known else 0
        return made


def recipe_kind(recipe: Recipe) -> str:
    """A key that is equal for recipes whose steps cost the same."""
    r = recipe
    return json.dumps([r.objective["name"], r.data["name"], r.nets["name"], r.prior.get("name"), r.budget.batch])


def paper_runs() -> list[tuple[str, Recipe]]:
    """Every run of every study at the scale of the papers."""
    found = []
    for name, study in STUDIES.items():
        if study.arms is not None:
            found += [(name, recipe) for _, _, recipe in study_recipes(study, name, "paper", study.seeds["paper"])]
    return found


def load_or_random_images(recipe: Recipe) -> Dataset:
    """Random images for three batches of the size that the data of a recipe have; small data sets are loaded."""
    if recipe.data["name"] not in IMAGES:
        table = dict(recipe.data)
        return data.load(table.pop("name"), **table)
    c, h, w, *_ = IMAGES[recipe.data["name"]]
    pixels = np.random.default_rng(0).integers(0, 256, (4 * recipe.budget.batch, c, h, w), dtype=np.uint8)
    return Dataset(recipe.data["name"], Pixels(pixels))


def time_step(step: Callable[[int], Any]) -> float:
    """CPU seconds of a step: the median of several, after some warm-up steps."""
    times: list[float] = []
    for number in range(2):
        step(number)
    while len(times) < STEPS or sum(times) < MIN_SECONDS:
        start = time.process_time()
        step(2 + len(times))
        times.append(time.process_time() - start)
    return statistics.median(times)


def inconsistent_pairs(kinds: dict[str, Any]) -> list[tuple[str, str, float]]:
    """Pairs of kinds, vae and beta_vae on the same data, net, prior and batch, whose step times differ too much, with the ratio."""
    found = []
    for kind in kinds:
        name, *where = json.loads(kind)
        other = json.dumps(["beta_vae", *where])
        if name == "vae" and other in kinds:
            ratio = kinds[other]["seconds"] / kinds[kind]["seconds"]
            if abs(ratio - 1) > MAX_DIFFERENCE:
                found.append((kind, other, ratio))
    return found


def measure_kind(recipe: Recipe) -> dict[str, float]:
    """Seconds, floating-point operations and operations of a step of a recipe; bytes of a run and of its checkpoint."""
    torch.set_num_threads(1)
    still = recipe.model_copy(update={"budget": recipe.budget.model_copy(update={"lr": 1e-9})})  # no step may break
    with default_float32():
        parts = build_parts(still, load_or_random_images(recipe))
        trainer = build_trainer(parts)
        seconds = time_step(trainer.step)
        calls = OperationCounter()
        tile, pairwise.TILE = pairwise.TILE, pairwise.GPU_TILE  # operations are counted as a GPU would be given them
        with calls:
            trainer.step(3)
        pairwise.TILE = tile
    *_, n, factors = IMAGES.get(recipe.data["name"], (1, 1, 1, len(parts.dataset), 1))
    extra = (n - len(parts.dataset)) * 8 * parts.tree.width + n * factors
    size = _disk_bytes(parts, Job(recipe, "", "")) + extra
    weights = sum(p.numel() * p.element_size() for p in parts.modules.parameters())
    return {"seconds": seconds, "flops": calls.flops, "calls": calls.count, "bytes": size, "checkpoint": 3 * weights}


def measure_run() -> dict[str, float]:
    """Files and bytes of a run of a sweep, trained and scored here, and the estimate of both."""
    recipe = Recipe.load("beta_tcvae_sprites32", "budget.steps=60", "budget.threads=1")
    with tempfile.TemporaryDirectory() as place:
        job = build_jobs(place, [recipe], ["one"])[0]
        plan = Plan(Path(place), (job,), Scoring(metrics=["mig"]))
        claim_and_run(job, plan.folder, plan.score)
        files = [f for f in (plan.folder / job.name).rglob("*") if f.is_file()]
        reckoned = _disk_bytes(build_parts(recipe), job)
        return {"files": len(files), "bytes": sum(f.stat().st_size for f in files), "reckoned": reckoned}


def measure_all(only_matching: str = "") -> None:
    """Time one recipe of every kind whose name contains a text, and save the numbers after each."""
    known = json.loads(NUMBERS.read_text()) if only_matching else {"kinds": {}}
    known["kinds"] = {kind: found for kind, found in known["kinds"].items() if only_matching not in kind}
    known["machine"] = f"{platform.machine()}, {os.cpu_count()} cores, torch {torch.__version__}, one thread"
    for _, recipe in paper_runs():
        if recipe_kind(recipe) not in known["kinds"]:
            known["kinds"][recipe_kind(recipe)] = measure_kind(recipe)
            print(recipe_kind(recipe), known["kinds"][recipe_kind(recipe)], flush=True)
            write_text(NUMBERS, json.dumps(known, indent=1) + "\n")
    remeasure_inconsistent(known["kinds"])
    known["run"] = measure_run()
    write_text(NUMBERS, json.dumps(known, indent=1) + "\n")


def remeasure_inconsistent(kinds: dict[str, Any], rounds: int = 2) -> None:
    """Time kinds again that should cost the same and do not; the page names those that still differ.

    Args:
        kinds: the measured kinds.
        rounds: how often.
    """
    recipes_of = {recipe_kind(recipe): recipe for _, recipe in paper_runs()}
    for _ in range(rounds):
        for kind in [kind for vae, beta_vae, _ in inconsistent_pairs(kinds) for kind in (vae, beta_vae) if kind in recipes_of]:
            kinds[kind] = measure_kind(recipes_of[kind])


def gpu_seconds(cost: dict[str, float]) -> float:
    """Estimate the seconds of a step on a GPU: it computes, or it waits for kernel launches."""
    return max(cost["flops"] / GPU_FLOPS, cost["calls"] * GPU_CALL)


def total_cost(runs: list[Recipe], kinds: dict[str, Any]) -> dict[str, float]:
    """The total cost of some runs, and that of the longest one.

    Args:
        runs: the recipes.
        kinds: the measured kinds.
    """
    core = [kinds[recipe_kind(r)]["seconds"] * r.budget.steps for r in runs]
    gpu = [gpu_seconds(kinds[recipe_kind(r)]) * r.budget.steps for r in runs]
    return {
        "runs": len(runs),
        "steps": sum(r.budget.steps for r in runs),
        "images": sum(r.budget.steps * r.budget.batch for r in runs),
        "core": sum(core), "core longest": max(core), "gpu": sum(gpu), "gpu longest": max(gpu),
        "bytes": sum(kinds[recipe_kind(r)]["bytes"] for r in runs),
    }  # fmt: skip


def disk_writes(recipe: Recipe, cost: dict[str, float], step: float, files: float, by_clock: bool = False) -> dict[str, float]:
    """What a run writes: bytes, files (created or replaced) and rows of its ledger.

    Args:
        recipe: the recipe.
        cost: bytes of its files.
        step: seconds per step.
        files: files besides checkpoints.
        by_clock: checkpoints depend on checkpoint_minutes only.
    """
    budget = recipe.budget
    minutes = step / (60 * budget.checkpoint_minutes)
    saves = budget.steps * (minutes if by_clock else max(1 / budget.checkpoint_every, minutes))
    return {
        "seconds": step * budget.steps,
        "bytes": saves * cost["checkpoint"] + cost["bytes"],
        "files": 2 * saves + files,  # a checkpoint and run.json
        "rows": budget.steps / budget.log_every,
    }


def disk_traffic_table(runs: list[Recipe], known: dict[str, Any]) -> str:
    """The load of a shared disk with 1, 8 and 64 devices: on average, and for the kind that writes most.

    Args:
        runs: the recipes.
        known: the measured kinds.
    """
    kinds, lines = known["kinds"], []
    for device, seconds in (("core", lambda f: f["seconds"]), ("GPU", gpu_seconds)):
        found = [(r, kinds[recipe_kind(r)]) for r in runs]
        each = [(r, disk_writes(r, f, seconds(f), known["run"]["files"])) for r, f in found]
        clock = [(r, disk_writes(r, f, seconds(f), known["run"]["files"], by_clock=True)) for r, f in found]
        most, worst = max(each, key=lambda pair: pair[1]["bytes"] / pair[1]["seconds"])
        cases = {
            "all runs": sum_over_runs(each),
            "all runs, checkpoints by time only": sum_over_runs(clock),
            f"only {', '.join(json.loads(recipe_kind(most))[:3])}": worst,
        }
        lines += [
            [f"{device}s: {case}, {unit}", *[format_number(n * t[key] / scale / t["seconds"]) for n in DEVICE_COUNTS]]
            for case, t in cases.items()
            for key, unit, scale in (("bytes", "MB/s", 1e6), ("files", "files/s", 1), ("rows", "ledger rows/s", 1))
            if not (case.endswith("only") and key == "rows")
        ]
    return markdown_table(["written, with one run on each", *[f"{n} device{'s' * (n > 1)}" for n in DEVICE_COUNTS]], lines)


def sum_over_runs(runs: list[tuple[Recipe, dict[str, float]]]) -> dict[str, float]:
    """Sums over runs, by quantity."""
    return {key: sum(found[key] for _, found in runs) for key in runs[0][1]}


def format_number(number: float) -> str:
    """Two digits, or all digits of a large number.

    >>> [format_number(number) for number in (0.00806, 2.2, 17.61, 6780.4)]
    ['0.0081', '2.2', '18', '6,780']
    """
    return f"{number:,.0f}" if number >= 10 else f"{number:.2g}"


def format_duration(seconds: float) -> str:
    """Minutes, hours or days."""
    h = seconds / 3600
    days = f"{h / 24:,.0f} d" if h >= 240 else f"{h / 24:.1f} d"
    return days if h >= 48 else f"{h:.0f} h" if h >= 10 else f"{h:.1f} h" if h >= 1 else f"{max(1, 60 * h):.0f} min"


def device_times(cost: dict[str, float], device: str) -> list[str]:
    """The time on 1, 8 and 64 devices: divided evenly, but never shorter than the longest run.

    Args:
        cost: the total cost.
        device: cpu or gpu.
    """
    return [format_duration(max(cost[device] / n, cost[f"{device} longest"])) for n in DEVICE_COUNTS]


def markdown_table(head: list[str], lines: list[list[str]]) -> str:
    return "\n".join(["| " + " | ".join(line) + " |" for line in [head, ["---", *["---:"] * (len(head) - 1)], *lines]])


def format_counts(cost: dict[str, float]) -> list[str]:
    return [f"{cost['runs']:,}", f"{cost['steps'] / 1e6:,.3g} M", f"{cost['images'] / 1e9:,.3g} G"]


def page_tables() -> str:
    """All tables of the page."""
    known = json.loads(NUMBERS.read_text())
    kinds, runs = known["kinds"], paper_runs()
    by_study, by_objective = defaultdict(list), defaultdict(list)
    for study, recipe in runs:
        by_study[study].append(recipe)
        by_objective[recipe.objective["name"]].append(recipe)
    everything = {"**all**": [r for _, r in runs]}
    sizes = [f"{n} core{'s' * (n > 1)}" for n in DEVICE_COUNTS], [f"{n} GPU{'s' * (n > 1)}" for n in DEVICE_COUNTS]
    head = ["", "runs", "steps", "images seen", *sizes[0], *sizes[1]]
    parts = []
    for title, groups in (("By study, at the scale `paper`", by_study), ("By objective", by_objective)):
        found = {name: total_cost(group, kinds) for name, group in {**groups, **everything}.items()}
        lines = [[name, *format_counts(f), *device_times(f, "core"), *device_times(f, "gpu")] for name, f in found.items()]
        parts.append(f"### {title}\n\n{markdown_table(head, lines)}")
    lines = []
    for kind, f in sorted(kinds.items(), key=lambda item: -item[1]["seconds"]):
        name, where, net, prior, batch = json.loads(kind)
        bound = "computing" if f["flops"] / GPU_FLOPS > f["calls"] * GPU_CALL else "launching"
        lines.append([f"{name}, {where}, {net}, {prior} prior", f"{batch:,}", f"{1e3 * f['seconds']:,.0f} ms", f"{f['flops'] / 1e9:,.1f}",
                      f"{f['calls']:,}", f"{1e3 * gpu_seconds(f):.1f} ms, {bound}", f"{f['bytes'] / 1e6:,.0f} MB", f"{f['checkpoint'] / 1e6:,.1f} MB"])  # fmt: skip
    head = ["kind of run", "batch", "step, one core (measured)", "GFLOP (counted)", "launches (counted)", "step, GPU (estimated)", "disk per run", "checkpoint"]
    parts.append(f"### What a step costs\n\n{markdown_table(head, lines)}")
    one = known["run"]
    whole = total_cost([r for _, r in runs], kinds)
    parts.append(
        f"Measured on {known['machine']}. A run of a sweep leaves {one['files']:.0f} files (measured: trained, encoded, audited and "
        f"scored); its bytes are estimated as by `unbraid sweep --dry`, which gives {one['reckoned'] / one['bytes']:.2f} times the size of a short "
        f"run. All {whole['runs']:,.0f} runs together: {whole['bytes'] / 1e9:,.0f} GB in {whole['runs'] * one['files']:,.0f} files."
    )
    pairs = [f"{json.loads(kind)[1]}, {json.loads(kind)[2]} ({ratio:.2f})" for kind, _, ratio in inconsistent_pairs(kinds)]
    if pairs:
        parts.append(
            f"Some of these times are wrong: steps of beta_vae and vae do the same work and should differ by less than {MAX_DIFFERENCE:.0%}, but "
            f"their ratio is not 1 on {'; '.join(pairs)}. The machine was busy; `--measure` times them again."
        )
    parts.append(f"### Writes to a shared disk (estimated from the above)\n\n{disk_traffic_table([r for _, r in runs], known)}")
    return "\n\n".join(parts)


def main() -> None:
    """Measure with --measure; write the tables between their marks."""
    if "--measure" in sys.argv:
        measure_all(*sys.argv[sys.argv.index("--measure") + 1 :])
    text = PAGE.read_text()
    start, end = text.index(BEGIN) + len(BEGIN), text.index(END)
    write_text(PAGE, f"{text[:start]}\n{page_tables()}\n{text[end:]}")


if __name__ == "__main__":
    main()
