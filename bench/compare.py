"""List and compare 10,000 run directories: cold (every file is read) and warm (from the index).

Each row is a new process, including imports and printing. CPU seconds are close to the wall time of an idle machine.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from unbraid.metrics import METRICS
from unbraid.metrics.evaluation.records import Score
from unbraid.runs.evaluation.scores import Scores
from unbraid.runs.recipe import Recipe

SETTINGS, SEEDS = 1000, 10
TERMS = ("reconstruction", "kl", "mi", "tc:root", "dw", "tc_q:root", "dw_joint", "agg")


def write_runs(folder: Path) -> None:
    """Write run directories into a folder, as `unbraid sweep` leaves them: recipe, state, scores with matrices, audit."""
    rng = np.random.default_rng(0)
    names = [n for n, m in METRICS.items() if m.needs in ("factors", "codes")]
    table = {"matrix": rng.random((10, 5)).round(6), "units": [f"z{i}" for i in range(10)], "factors": list("abcde")}
    for k in range(SETTINGS):
        base = Recipe(name="beta", data="sprites32", objective={"name": "beta_vae", "beta": 1 + k / 100})
        for seed in range(SEEDS):
            run = folder / f"beta_vae-b{1 + k / 100:g}-s{seed}"
            run.mkdir()
            (run / "recipe.toml").write_text(base.set(f"seed={seed}").toml())
            (run / "run.json").write_text(json.dumps({"status": "done", "step": 9, "steps": 9, "shape": [1, 32, 32]}))
            scores = {
                n: Score(n, float(v), table, (v - 0.01, v + 0.01))
                for n, v in zip(names, rng.random(len(names)), strict=True)
            }
            # as Scores.save writes, without waiting for the disk ten thousand times
            (run / "scores.json").write_text(json.dumps(Scores(scores, {"protocol": "fast"}, 1000).as_dict(), indent=1))
            nats = dict(zip(TERMS, (20 + rng.normal(size=len(TERMS))).tolist(), strict=True))
            audit = {"nats": nats, "errors": dict.fromkeys(TERMS, 0.1), "elbo": -30.0}
            (run / "audit.json").write_text(json.dumps(audit, indent=1))


def time_compare(folder: Path) -> tuple[float, float]:
    """CPU and wall seconds of `unbraid compare FOLDER` in a separate process."""
    command = [sys.executable, "-m", "unbraid", "compare", str(folder), "--baseline", "beta_vae β=1", "--quiet"]
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    wall, after = time.monotonic() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, wall


def rows() -> list[dict]:
    """All rows: every file is read, the index is read, and the index after a tenth of the runs was scored again."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        write_runs(folder)
        cold, warm = time_compare(folder), min(time_compare(folder) for _ in range(3))
        for path in sorted(folder.glob("*-s3/scores.json")):
            path.write_text(path.read_text())
        stale = time_compare(folder)
    count = f"{SETTINGS * SEEDS:,} runs, {SETTINGS:,} settings"
    return [
        _row(f"compare {count}, from the index", warm, "< 5"),
        _row(f"compare {count}, a tenth scored anew", stale, None),
        _row(f"compare {count}, cold", cold, None),
    ]


def _row(name: str, seconds: tuple[float, float], limit: str | None) -> dict:
    return {
        "name": name,
        "ours": seconds[0],
        "baseline": None,
        "ratio": seconds[0] if limit else None,
        "limit": limit,
        "note": f"processor seconds with imports and printing; {seconds[1]:.1f} s by the clock of this machine",
    }
