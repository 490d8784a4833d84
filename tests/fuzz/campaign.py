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

from tests.fuzz import memory_and_downloads, readers, reference_parsers, strangers_folders
from tests.fuzz.mutations import corrupt_bytes, corrupt_npy, corrupt_zip
from tests.fuzz.readers import Reader

CASE_SECONDS = 60  # seconds for one case
MAX_EXTRA_MEMORY = 1 << 30  # bytes above what the process had when it began


def _run_file_reader(name: str, corrupt: Any, weight: float, read: Any, difference: Any, kind: str = "vae") -> Reader:
    return Reader(weight, partial(readers.make_run, name, corrupt, kind=kind), read, difference)


READERS: dict[str, Reader] = {
    "npy": Reader(10, readers.make_npy, readers.load_images, readers.npy_difference),
    "npz": Reader(9, readers.make_npz, readers.load_images, readers.npz_difference),
    "h5": Reader(8, readers.make_hdf5, readers.load_images, readers.hdf5_difference),
    "csv labels": Reader(9, readers.make_csv, readers.read_table, readers.csv_difference),
    "csv vectors": Reader(5, readers.make_vectors_csv, readers.load_vectors, readers.vectors_difference),
    "parquet": Reader(5, readers.make_parquet, readers.read_parquet, readers.parquet_difference),
    "mat": Reader(5, readers.make_mat, readers.read_mat, readers.mat_difference),
    "idx gz": Reader(6, readers.make_idx, readers.read_mnist, readers.idx_difference),
    "norb": Reader(
        3, readers.make_norb, readers.read_norb, partial(readers.array_difference, reference_parsers.parse_norb)
    ),
    "picture folders": Reader(6, readers.make_image_folder, readers.read_image_folder, readers.image_folder_difference),
    "tar and zip": Reader(6, readers.make_archive, readers.read_archive, readers.archive_difference),
    "downloads": Reader(
        6,
        memory_and_downloads.make_download,
        memory_and_downloads.read_download,
        memory_and_downloads.download_difference,
    ),
    "arrays in memory": Reader(
        6,
        memory_and_downloads.make_array_input,
        memory_and_downloads.read_array_input,
        memory_and_downloads.array_input_difference,
    ),
    "arrays scored": Reader(
        2,
        memory_and_downloads.make_metric_input,
        memory_and_downloads.compute_score,
        memory_and_downloads.score_difference,
    ),
    "data options": Reader(
        4,
        memory_and_downloads.make_options,
        memory_and_downloads.load_with_options,
        memory_and_downloads.options_difference,
    ),
    "recipe.toml": Reader(8, readers.make_recipe, readers.read_recipe, readers.recipe_difference),
    "sweep.toml": Reader(3, readers.make_sweep, readers.read_sweep, readers.sweep_difference),
    "runs of pipes": Reader(2, readers.make_run_of_pipes, readers.read_run_of_pipes, readers.pipes_difference),
    "run.json": _run_file_reader("run.json", readers.corrupt_json, 3, readers.open_run, readers.run_difference),
    "ledger.jsonl": _run_file_reader(
        "ledger.jsonl", readers.corrupt_json, 5, readers.read_ledger, readers.ledger_difference
    ),
    "scores.json": _run_file_reader(
        "scores.json", readers.corrupt_json, 4, readers.read_scores, readers.scores_difference
    ),
    "audit.json": _run_file_reader(
        "audit.json", readers.corrupt_json, 3, readers.read_scores, readers.scores_difference
    ),
    "codes.npz": _run_file_reader(
        "codes.npz", partial(corrupt_zip, corrupt_member=corrupt_npy), 6, readers.read_codes, readers.codes_difference
    ),
    "model.safetensors": _run_file_reader(
        "model.safetensors", corrupt_bytes, 3, readers.open_run, readers.model_difference
    ),
    "checkpoint": _run_file_reader(
        "checkpoint.safetensors", corrupt_bytes, 1, readers.resume_run, readers.resume_difference, "stopped"
    ),
    "links and devices": Reader(
        3,
        strangers_folders.make_special_data,
        strangers_folders.read_special_data,
        strangers_folders.special_data_difference,
    ),
    "pictures of pipes": Reader(
        1,
        strangers_folders.make_special_picture,
        strangers_folders.read_special_picture,
        strangers_folders.special_picture_difference,
    ),
    "EPS as pictures": Reader(
        2, strangers_folders.make_eps, strangers_folders.read_eps, strangers_folders.eps_difference
    ),
    "deep nesting": Reader(
        4, strangers_folders.make_nesting, strangers_folders.read_nesting, strangers_folders.nesting_difference
    ),
    "shared out": Reader(
        0.25,
        strangers_folders.make_shared_out,
        strangers_folders.read_shared_out,
        strangers_folders.shared_out_difference,
    ),
    "links in the studio": Reader(
        2, strangers_folders.make_studio_links, strangers_folders.use_studio, strangers_folders.studio_difference
    ),
    "studio races": Reader(
        1, strangers_folders.make_studio_race, strangers_folders.race_studio, strangers_folders.race_difference
    ),
}


class HangError(BaseException):
    """A case that took too long: no library may catch it."""


@contextmanager
def time_limit(seconds: int):
    """Raise `HangError` in this thread after so many seconds, without those in which it waited for a core of a busy machine."""
    start = time.monotonic() - _seconds_waited()

    def raise_hang(*_: Any) -> None:
        left = seconds - (time.monotonic() - _seconds_waited() - start)
        if left > 0:
            signal.alarm(int(left) + 1)
        else:
            raise HangError

    before = signal.signal(signal.SIGALRM, raise_hang)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def _seconds_waited() -> float:
    """Seconds in which this thread could have run and no core was free; 0 where the system does not say."""
    try:
        return int(Path("/proc/thread-self/schedstat").read_text().split()[1]) / 1e9
    except (OSError, IndexError, ValueError):
        return 0.0


def run_case(name: str, seed: int, case: int, work_dir: Path) -> tuple[str, str]:
    """The outcome of one case, 'named', 'right' or 'wrong', and what was said or is wrong."""
    from unbraid.core.errors import UnbraidError

    reader = READERS[name]
    rng = np.random.default_rng([seed, list(READERS).index(name), case])
    folder = Path(tempfile.mkdtemp(dir=work_dir))
    os.environ["UNBRAID_CACHE"] = str(
        work_dir / "cache" if name in ("data options", "recipe.toml") else folder / "cache"
    )
    try:
        given = reader.make(rng, folder)
        with time_limit(CASE_SECONDS):
            value = reader.read(given)
            wrong = reader.difference(given, value)
        return ("wrong", f"accepted, but {wrong}") if wrong else ("right", "")
    except UnbraidError as error:
        said = str(error)
        if len(said) > 10_000 or not said.strip():
            return "wrong", f"an error of {len(said):,} letters"
        if name == "downloads" and not memory_and_downloads.download_may_fail(given):
            return "wrong", f"a good mirror was not used: {said}"
        return "named", said
    except HangError:
        return "wrong", f"a hang: more than {CASE_SECONDS} s"
    except BaseException as error:
        import traceback

        where = traceback.extract_tb(error.__traceback__)[-1]
        return "wrong", f"{type(error).__name__}: {str(error)[:300]} (at {Path(where.filename).name}:{where.lineno})"
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def run_worker(seed: int, counts: dict[str, int], skip: int) -> None:
    """Run all cases but the first `skip`, a line of JSON for each; memory above the bound is wrong too."""
    import torch

    torch.set_num_threads(1)
    import unbraid.data
    import unbraid.runs.fitting.training  # noqa: F401

    with open("/proc/self/status") as f:
        virtual = next(int(line.split()[1]) << 10 for line in f if line.startswith("VmSize"))
    resource.setrlimit(resource.RLIMIT_AS, (virtual + 4 * MAX_EXTRA_MEMORY,) * 2)
    place = Path(tempfile.mkdtemp(prefix="fuzz-"))
    first = peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    cases = [(name, case) for name, count in counts.items() for case in range(count)]
    try:
        for name, case in cases[skip:]:
            begun = time.monotonic()
            outcome, said = run_case(name, seed, case, place)
            now = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            if now > peak and (now - first) << 10 > MAX_EXTRA_MEMORY:
                outcome, said = "wrong", f"{(now - first) / 2**10:,.0f} MB of memory; {said}"
            peak = max(peak, now)
            print(json.dumps([name, case, outcome, said[:600], round(time.monotonic() - begun, 3)]), flush=True)
    finally:
        shutil.rmtree(place, ignore_errors=True)
