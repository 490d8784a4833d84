"""All readers with their shares, and one case of one of them: made, read, judged."""

from __future__ import annotations

import json
import os
import resource
import shutil
import signal
import tempfile
import time
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from tests.fuzz import live, readers, truths
from tests.fuzz.mutations import spoiled, spoiled_npy, spoiled_zip
from tests.fuzz.readers import Reader

PATIENCE = 60  # seconds for one case
MEMORY = 1 << 30  # bytes above what the process had when it began


def _run(name: str, spoil: Any, weight: float, read: Any, unlike: Any, kind: str = "vae") -> Reader:
    return Reader(weight, partial(readers.run_with, name, spoil, kind=kind), read, unlike)


READERS: dict[str, Reader] = {
    "npy": Reader(10, readers.npy, readers.load_images, readers.npy_unlike),
    "npz": Reader(9, readers.npz, readers.load_images, readers.npz_unlike),
    "h5": Reader(8, readers.hdf5, readers.load_images, readers.hdf5_unlike),
    "csv labels": Reader(9, readers.csv, readers.read_table, readers.csv_unlike),
    "csv vectors": Reader(5, readers.vectors_csv, readers.load_vectors, readers.vectors_unlike),
    "parquet": Reader(5, readers.parquet, readers.read_parquet, readers.parquet_unlike),
    "mat": Reader(5, readers.mat, readers.read_mat, readers.mat_unlike),
    "idx gz": Reader(6, readers.idx, readers.read_mnist, readers.idx_unlike),
    "norb": Reader(3, readers.norb, readers.read_norb, partial(readers.same_array, truths.norb)),
    "picture folders": Reader(6, readers.pictures, readers.read_pictures, readers.pictures_unlike),
    "tar and zip": Reader(6, readers.archives, readers.read_archive, readers.archive_unlike),
    "downloads": Reader(6, live.download, live.read_download, live.download_unlike),
    "arrays in memory": Reader(6, live.in_memory, live.read_memory, live.memory_unlike),
    "arrays scored": Reader(2, live.scored, live.read_score, live.score_unlike),
    "data options": Reader(4, live.options, live.read_options, live.options_unlike),
    "recipe.toml": Reader(8, readers.recipe, readers.read_recipe, readers.recipe_unlike),
    "sweep.toml": Reader(3, readers.sweep, readers.read_sweep, readers.sweep_unlike),
    "run.json": _run("run.json", readers.spoiled_json, 3, readers.open_run, readers.run_unlike),
    "ledger.jsonl": _run("ledger.jsonl", readers.spoiled_json, 5, readers.read_ledger, readers.ledger_unlike),
    "scores.json": _run("scores.json", readers.spoiled_json, 4, readers.read_scores, readers.scores_unlike),
    "audit.json": _run("audit.json", readers.spoiled_json, 3, readers.read_scores, readers.scores_unlike),
    "codes.npz": _run(
        "codes.npz", partial(spoiled_zip, inner=spoiled_npy), 6, readers.read_codes, readers.codes_unlike
    ),
    "model.safetensors": _run("model.safetensors", spoiled, 3, readers.open_run, readers.model_unlike),
    "checkpoint": _run("checkpoint.safetensors", spoiled, 1, readers.resume, readers.resume_unlike, "stopped"),
}


class Hang(BaseException):
    """A case that took too long: no library may catch it."""


@contextmanager
def patience(seconds: int):
    """Raise `Hang` in this thread after so many seconds."""

    def ring(*_: Any) -> None:
        raise Hang

    before = signal.signal(signal.SIGALRM, ring)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def one(name: str, seed: int, case: int, place: Path) -> tuple[str, str]:
    """The outcome of one case, 'named', 'right' or 'wrong', and what was said or is wrong."""
    from unbraid.ground.errors import UnbraidError

    reader = READERS[name]
    rng = np.random.default_rng([seed, list(READERS).index(name), case])
    folder = Path(tempfile.mkdtemp(dir=place))
    os.environ["UNBRAID_CACHE"] = str(place / "cache" if name in ("data options", "recipe.toml") else folder / "cache")
    try:
        given = reader.make(rng, folder)
        with patience(PATIENCE):
            value = reader.read(given)
            wrong = reader.unlike(given, value)
        return ("wrong", f"accepted, but {wrong}") if wrong else ("right", "")
    except UnbraidError as error:
        said = str(error)
        if len(said) > 10_000 or not said.strip():
            return "wrong", f"an error of {len(said):,} letters"
        if name == "downloads" and not live.download_may_fail(given):
            return "wrong", f"a good mirror was not used: {said}"
        return "named", said
    except Hang:
        return "wrong", f"a hang: more than {PATIENCE} s"
    except BaseException as error:
        import traceback

        where = traceback.extract_tb(error.__traceback__)[-1]
        return "wrong", f"{type(error).__name__}: {str(error)[:300]} (at {Path(where.filename).name}:{where.lineno})"
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def worker(seed: int, counts: dict[str, int], skip: int) -> None:
    """Run all cases but the first `skip`, a line of JSON for each; memory above the bound is wrong too."""
    import torch

    torch.set_num_threads(1)
    import unbraid.data
    import unbraid.runs.training  # noqa: F401

    with open("/proc/self/status") as f:
        virtual = next(int(line.split()[1]) << 10 for line in f if line.startswith("VmSize"))
    resource.setrlimit(resource.RLIMIT_AS, (virtual + 4 * MEMORY,) * 2)
    place = Path(tempfile.mkdtemp(prefix="fuzz-"))
    first = peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    cases = [(name, case) for name, count in counts.items() for case in range(count)]
    try:
        for name, case in cases[skip:]:
            begun = time.monotonic()
            outcome, said = one(name, seed, case, place)
            now = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            if now > peak and (now - first) << 10 > MEMORY:
                outcome, said = "wrong", f"{(now - first) / 2**10:,.0f} MB of memory; {said}"
            peak = max(peak, now)
            print(json.dumps([name, case, outcome, said[:600], round(time.monotonic() - begun, 3)]), flush=True)
    finally:
        shutil.rmtree(place, ignore_errors=True)
