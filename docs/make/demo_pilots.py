"""Measure pilot runs of the demo: `python docs/make/demo_pilots.py [WORKERS]` → docs/demo_pilots.json, demo_processors.json, demo.md.

Three parts: pilots over seeds, the ablation of decoder and objective, and FactorVAE with the instructions of two processors.
The seeds of the demo (0, 1, 2) are not among them. Runs in the JSON files are not repeated; after Ctrl-C the same command continues.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import statistics
import sys
import tempfile
from pathlib import Path

from unbraid.comparing.statistics import t_interval
from unbraid.core.files import write_json, write_text

DOCS = Path(__file__).resolve().parents[1]
TABLE, PROCESSOR_TABLE, PAGE = DOCS / "demo_pilots.json", DOCS / "demo_processors.json", DOCS / "demo.md"
PILOT_SEEDS = range(300, 310)  # the settings were chosen on 100 to 109 and 200 to 209
ABLATION_SEEDS = range(300, 305)
RECIPES = {
    "vae": "vae_colour_sprites",
    "beta_tcvae": "beta_tcvae_colour_sprites",
    "factor_vae": "factor_vae_colour_sprites",
    "hfvae": "hfvae_colour_sprites",
}
FACTOR_VAE_RECIPES = ("factor_vae_colour_sprites_stable", "factor_vae_colour_sprites")
# what makes a processor with AVX-512 compute as one without it; read when a process starts
AVX2 = {"ONEDNN_MAX_CPU_ISA": "AVX2", "ATEN_CPU_CAPABILITY": "avx2", "MKL_ENABLE_INSTRUCTIONS": "AVX2"}
Job = tuple[str, str, int, int]  # decoder, objective, seed, threads


def list_jobs() -> list[Job]:
    """Every run of the page, the most important first."""
    one, two = ([("broadcast", row, s, t) for s in PILOT_SEEDS for row in ("beta_tcvae", "vae")] for t in (1, 2))
    dense = [("mlp", row, s, 1) for s in ABLATION_SEEDS for row in ("vae", "beta_tcvae")]
    other = [("broadcast", row, s, 1) for s in ABLATION_SEEDS for row in ("hfvae", "factor_vae")]
    return one + two + dense + other


def measure_job(job: Job) -> dict[str, object]:
    """Train and score one job in a temporary folder."""
    import unbraid

    net, row, seed, threads = job
    recipe = unbraid.Recipe.load(RECIPES[row]).set(f"seed={seed}", f"budget.threads={threads}")
    recipe = recipe if net == "broadcast" else recipe.set("nets.name=mlp", "nets.width=[256, 128]", "nets.act=leaky_relu")
    with tempfile.TemporaryDirectory() as folder:
        run = unbraid.fit(recipe, Path(folder) / "run", quiet=True)
        unbraid.encode(run, quiet=True)
        scores = unbraid.score(run, metrics="mig,dci,factor_vae", quiet=True, save=False)
    gaps = dict(zip(scores["mig"].table["factors"], scores["mig"].table["gaps"], strict=True))
    found = {name: round(float(s.value), 4) for name, s in scores.items()}
    return {"net": net, "objective": row, "seed": seed, "threads": threads, **found,
            "gaps": {name: round(float(gap), 3) for name, gap in gaps.items()}}  # fmt: skip


def measure_processor_job(job: tuple[str, int]) -> dict[str, object]:
    """Train and score FactorVAE with one recipe and seed, with the instructions that this process has."""
    import torch

    import unbraid

    name, seed = job
    recipe = unbraid.Recipe.load(name).set(f"seed={seed}", "budget.threads=1")
    with tempfile.TemporaryDirectory() as folder:
        run = unbraid.fit(recipe, Path(folder) / "run", quiet=True)
        unbraid.encode(run, quiet=True)
        scores = unbraid.score(run, metrics="mig,dci,factor_vae", quiet=True, save=False)
    found = {key: round(float(s.value), 4) for key, s in scores.items()}
    return {"recipe": name, "seed": seed, "instructions": torch.backends.cpu.get_cpu_capability(), **found}


def measure_processors(workers: int) -> list[dict]:
    """Measure missing runs of FactorVAE with AVX2 and with all instructions of this processor."""
    rows = load_rows(PROCESSOR_TABLE)
    for variables in (AVX2, {}):
        for key in AVX2:
            os.environ.pop(key, None)
        os.environ.update(variables)  # a spawned process inherits it
        done = {(r["recipe"], r["seed"]) for r in rows if (r["instructions"] == "AVX2") == bool(variables)}
        jobs = [(name, seed) for seed in ABLATION_SEEDS for name in FACTOR_VAE_RECIPES if (name, seed) not in done]
        with multiprocessing.get_context("spawn").Pool(workers, maxtasksperchild=1) as pool:
            for row in pool.imap_unordered(measure_processor_job, jobs):
                rows.append(row)
                write_json(PROCESSOR_TABLE, sorted(rows, key=lambda r: (r["recipe"], r["instructions"], r["seed"])))
                print(row, flush=True)
    return rows


def load_rows(path: Path) -> list[dict]:
    """The rows measured so far."""
    return json.loads(path.read_text()) if path.is_file() else []


def job_of(row: dict) -> Job:
    """The job of a row."""
    return row["net"], row["objective"], row["seed"], row["threads"]


def pilot_table(rows: list[dict]) -> str:
    """The pilots seed by seed, with one and with two threads."""
    by = {job_of(r): r for r in rows}
    lines = ["| seed | threads | VAE: MIG / DCI | β-TCVAE: MIG / DCI | gap in MIG |", "|---|---|---|---|---|"]
    pairs = []
    for threads in (1, 2):
        for seed in PILOT_SEEDS:
            a, b = by.get(("broadcast", "vae", seed, threads)), by.get(("broadcast", "beta_tcvae", seed, threads))
            if a and b:
                pairs.append((a, b))
                gap = b["mig"] - a["mig"]
                lines.append(f"| {seed} | {threads} | {a['mig']:.2f} / {a['dci']:.2f} | {b['mig']:.2f} / {b['dci']:.2f} | {gap:+.2f} |")
    gaps, dci = [b["mig"] - a["mig"] for a, b in pairs], [b["dci"] - a["dci"] for a, b in pairs]
    note = (
        f"\nIn {sum(g > 0 for g in gaps)} of {len(pairs)} runs the β-TCVAE is above in MIG (smallest gap {min(gaps):.2f}), in "
        f"{sum(g > 0 for g in dci)} in DCI (smallest gap {min(dci):.2f}); its median MIG is "
        f"{statistics.median(b['mig'] for _, b in pairs):.2f}."
    )
    return "\n".join(lines) + "\n" + note


def ablation_table(rows: list[dict]) -> str:
    """Decoder × objective: means over seeds ± half of the 95% interval."""
    lines = ["| decoder | objective | MIG | DCI | FactorVAE metric | seeds |", "|---|---|---|---|---|---|"]
    names = {"vae": "VAE", "beta_tcvae": "β-TCVAE", "factor_vae": "FactorVAE", "hfvae": "HFVAE"}
    for net, row in (("mlp", "vae"), ("mlp", "beta_tcvae"), *(("broadcast", r) for r in names)):
        found = [r for r in rows if r["net"] == net and r["objective"] == row and r["threads"] == 1]
        if len(found) > 1:
            cells = [t_interval([r[m] for r in found]) for m in ("mig", "dci", "factor_vae")]
            shown = " | ".join(f"{c.mean:.2f} ± {c.half_width:.2f}" for c in cells)
            lines.append(f"| {net} | {names[row]} | {shown} | {len(found)} |")
    return "\n".join(lines)


def gap_table(rows: list[dict]) -> str:
    """MIG by factor over the pilots: median, smallest and largest gap, and the number of runs below .1."""
    lines = ["| factor | VAE: median (least to most) | below .1 | β-TCVAE: median (least to most) | below .1 |", "|---|---|---|---|---|"]
    found = {row: [r["gaps"] for r in rows if r["net"] == "broadcast" and r["objective"] == row and r["seed"] in PILOT_SEEDS]
             for row in ("vae", "beta_tcvae")}  # fmt: skip
    for factor in found["vae"][0]:
        cells = []
        for gaps in found.values():
            values = [gap[factor] for gap in gaps]
            cells.append(f"{statistics.median(values):.2f} ({min(values):.2f} to {max(values):.2f})")
            cells.append(f"{sum(value < 0.1 for value in values)} of {len(values)}")
        lines.append(f"| {factor} | {' | '.join(cells)} |")
    return "\n".join(lines)


def processor_table(rows: list[dict]) -> str:
    """MIG of FactorVAE seed by seed with both sets of instructions, and the change of each seed."""
    names = {"AVX512": "AVX-512", "AVX2": "AVX2"}
    heads = ["recipe", "instructions", *(f"seed {seed}" for seed in ABLATION_SEEDS), "mean"]
    lines, notes = [f"| {' | '.join(heads)} |", "|---" * len(heads) + "|"], []
    for recipe in FACTOR_VAE_RECIPES[::-1]:
        by = {(r["instructions"], r["seed"]): r["mig"] for r in rows if r["recipe"] == recipe}
        for instructions, shown in names.items():
            found = [by[instructions, seed] for seed in ABLATION_SEEDS]
            lines.append(f"| `{recipe}` | {shown} | {' | '.join(f'{m:.2f}' for m in found)} | {statistics.mean(found):.2f} |")
        changes = [abs(by["AVX512", seed] - by["AVX2", seed]) for seed in ABLATION_SEEDS]
        notes.append(
            f"- `{recipe}`: {statistics.mean(by.values()):.2f} on average, from {min(by.values()):.2f} to {max(by.values()):.2f} "
            f"(standard deviation {statistics.stdev(by.values()):.2f} over seeds and instructions). With other instructions "
            f"the same seed changes by {statistics.median(changes):.2f} (median) and by up to {max(changes):.2f}."
        )
    return "\n".join([*lines, "", *notes])


def write_tables(rows: list[dict], processors: list[dict]) -> None:
    """Write the rows as JSON, and the tables between their marks on the page."""
    write_json(TABLE, sorted(rows, key=job_of))
    text = PAGE.read_text()
    for mark, made in (("pilots", pilot_table(rows)), ("ablation", ablation_table(rows)), ("gaps", gap_table(rows)),
                       ("processors", processor_table(processors))):
        start, end = f"<!-- {mark}: made by docs/make/demo_pilots.py -->", f"<!-- end of {mark} -->"
        if start in text:
            text = f"{text[: text.index(start)]}{start}\n{made}\n{text[text.index(end) :]}"
    write_text(PAGE, text)


def main(workers: int) -> None:
    """Measure missing runs with a number of workers, and write after every run."""
    rows = load_rows(TABLE)
    missing = [job for job in list_jobs() if job not in {job_of(r) for r in rows}]
    with multiprocessing.get_context("spawn").Pool(workers, maxtasksperchild=1) as pool:
        for row in pool.imap_unordered(measure_job, missing):
            rows.append(row)
            write_json(TABLE, sorted(rows, key=job_of))
            print(row, flush=True)
    write_tables(rows, measure_processors(workers))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1)
