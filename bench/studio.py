"""The cost of the studio: latency from input to pixels in a browser, and a table of 10,000 runs.

Run on an otherwise idle machine: python -m bench studio. The latencies need Chromium ('make browser').
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from unbraid.data.dataset import Dataset, Pixels
from unbraid.export.html import write_explorer
from unbraid.runs.fitting.training import fit
from unbraid.runs.folder.file_names import RECIPE_FILE, STATE_FILE
from unbraid.runs.recipe import Recipe
from unbraid.runs.run import Run
from unbraid.studio.run_library import Library
from unbraid.studio.run_table import load_run_table

MOVES, RUNS = 200, 10_000
STUDIO_SCRIPT = """async (moves) => {
  // move the first slider; a move ends when the canvas shows the image that answers it
  document.getElementById("folded").open = true;
  const slider = document.querySelector(".leaf input[type=range]"), canvas = document.getElementById("image"), took = [];
  const low = Number(slider.min), high = Number(slider.max);
  for (let i = 0; i < moves; i++) {
    const before = performance.now();
    const painted = new Promise((done) => {
      const watch = new MutationObserver(() => { watch.disconnect(); done(performance.now()); });
      watch.observe(canvas, { attributes: true, attributeFilter: ["data-frames"] });
    });
    slider.value = low + (high - low) * (0.5 + 0.4 * Math.sin(i / 5));
    slider.dispatchEvent(new Event("input"));
    took.push((await painted) - before);
    await new Promise((next) => setTimeout(next, 15));
  }
  return took;
}"""
EXPORTED_PAGE_SCRIPT = """(moves) => {
  const took = [], z = Float32Array.from(content.start);
  for (let i = 0; i < moves; i++) {
    z[0] = Math.sin(i / 5);
    const before = performance.now();
    paint(canvas, decode(layers, z));
    took.push(performance.now() - before);
  }
  return took;
}"""


def train_run(folder: Path) -> Run:
    """Train a run in a folder with the 64×64 convolutional decoder of Kim & Mnih 2018, Table 1."""
    images = np.random.default_rng(0).integers(0, 2, (64, 1, 64, 64), np.uint8) * 255
    recipe = Recipe.from_dict({"data": {"name": "images"}, "nets": {"name": "factor_vae_table1"}, "latent": 10,
                        "budget": {"steps": 2, "batch": 16, "threads": 1}})  # fmt: skip
    return fit(recipe, folder, dataset=Dataset("images", Pixels(images)), quiet=True)


def find_chromium() -> str | None:
    """The path of Chromium, if it and playwright are installed."""
    try:
        import playwright.sync_api  # noqa: F401
    except ImportError:
        return None
    return os.environ.get("UNBRAID_CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")


def slider_latencies(root: Path, program: str) -> tuple[list[float], list[float]]:
    """Milliseconds of each move of a slider, in the studio and in an exported page.

    Args:
        root: the folder of the run.
        program: the browser.
    """
    from playwright.sync_api import sync_playwright

    run = train_run(root / "conv64")
    alone = write_explorer(run, root / "explore.html")
    log = root / "log"
    with open(log, "wb") as out:
        server = subprocess.Popen(
            [sys.executable, "-m", "unbraid", "studio", str(root), "--no-browser"], stdout=out, stderr=out
        )
    try:
        with sync_playwright() as driver:
            browser = driver.chromium.launch(executable_path=program, args=["--no-sandbox"])
            page = browser.new_page()
            found = None
            while found is None:
                time.sleep(0.5)
                found = re.search(r"http://\S+", log.read_text())
            for _ in range(60):
                try:
                    page.goto(found[0])
                    break
                except Exception:  # the server is not up yet
                    time.sleep(1)
            page.goto(found[0].split("/?")[0] + "/explore?run=conv64")
            page.wait_for_selector("#explorer[data-ready=yes]", timeout=120_000)
            page.evaluate(STUDIO_SCRIPT, 20)
            followed = page.evaluate(STUDIO_SCRIPT, MOVES)
            page.goto(alone.as_uri())
            page.evaluate(EXPORTED_PAGE_SCRIPT, 20)
            inside = page.evaluate(EXPORTED_PAGE_SCRIPT, MOVES)
            browser.close()
    finally:
        server.send_signal(signal.SIGINT)
        server.wait(30)
    return followed, inside


def time_run_table(root: Path) -> tuple[float, float]:
    """Seconds until the table of 10,000 runs in a folder is shown, with and without an index."""
    run = train_run(root.parent / "one")
    texts = {name: (run.path / name).read_text() for name in (RECIPE_FILE, STATE_FILE)}
    for i in range(RUNS):
        place = root / f"run{i:05d}"
        place.mkdir(parents=True)
        for name, text in texts.items():
            (place / name).write_text(text)
    found = []
    for _ in range(2):
        start = time.perf_counter()
        rows = load_run_table(Library(root)).rows
        found.append(time.perf_counter() - start)
        assert len(rows) == RUNS
    return found[0], found[1]


def rows() -> list[dict[str, Any]]:
    """All rows."""
    made: list[dict[str, Any]] = []
    program = find_chromium()
    with tempfile.TemporaryDirectory() as folder:
        if program:
            followed, inside = slider_latencies(Path(folder) / "runs", program)
            for name, took, middle, late in (("slider to pixels, 64×64 conv decoder", followed, 33, 60),
                                             ("the same inside an exported page", inside, 33, 60)):  # fmt: skip
                note = f"{len(took)} moves in headless Chromium"
                half, p95 = statistics.median(took), float(np.quantile(took, 0.95))
                for what, value, most in (("median", half, middle), ("95%", p95, late)):
                    made.append({"name": f"{name}: {what}", "ours": value / 1e3, "baseline": None, "ratio": value / most,
                                 "limit": 1, "note": f"{note}; limit {most} ms"})  # fmt: skip
        first, again = time_run_table(Path(folder) / "many" / "runs")
        made.append({"name": f"table of {RUNS:,} runs, no index yet", "ours": first, "baseline": None, "ratio": None})
        made.append({"name": f"table of {RUNS:,} runs, from the index", "ours": again, "baseline": None, "ratio": None})
    return made
