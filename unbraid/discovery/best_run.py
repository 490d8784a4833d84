"""The chosen run of a discovery in best/, with the names that users gave to its leaves."""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from pathlib import Path

import numpy as np

from unbraid.codes import Codes
from unbraid.core.errors import UnbraidError
from unbraid.core.files import is_file, read_bytes, write_bytes
from unbraid.discovery.factor_confidence import FOUND_CORRELATION, leaf_similarity
from unbraid.discovery.measurements import measure_without_labels
from unbraid.discovery.training_stages import RungRunner
from unbraid.runs.folder.file_names import LEDGER_FILE, MODEL_FILE, RECIPE_FILE, STATE_FILE
from unbraid.runs.folder.leaf_names import NAMES_FILE, read_leaf_names, write_leaf_names
from unbraid.runs.run import Run

BEST_FOLDER = "best"
COPIED_FILES = (RECIPE_FILE, LEDGER_FILE, MODEL_FILE, STATE_FILE)


def install_best(run: Run, stages: RungRunner, codes: Codes) -> tuple[Run, dict[str, str]]:
    """Copy the chosen run to best/; names of leaves are kept, or moved to the matching leaves of another run.

    Returns:
        The copy, and the names that match none of its leaves, with their former leaf.

    Args:
        run: the chosen run.
        stages: the rungs.
        codes: codes of the shared examples by the chosen run.
    """
    folder = stages.folder / BEST_FOLDER
    names, lost = _carry_names(folder, run, stages, codes)
    part, old = stages.folder / ".best.part", stages.folder / ".best.old"
    for place in (part, old):
        shutil.rmtree(place, ignore_errors=True)
    part.mkdir(parents=True)
    for file in COPIED_FILES:
        if is_file(run.path / file):
            write_bytes(part / file, read_bytes(run.path / file, limit=1 << 34))
    if names:
        write_leaf_names(part, names)
    if folder.exists():
        os.replace(folder, old)
    os.replace(part, folder)
    shutil.rmtree(old, ignore_errors=True)
    return Run.load(folder), lost


def _carry_names(folder: Path, run: Run, stages: RungRunner, codes: Codes) -> tuple[dict[str, str], dict[str, str]]:
    """Names of the leaves of a run that replaces best/, and those that match none of them."""
    if not is_file(folder / NAMES_FILE) and is_file(stages.folder / ".best.old" / NAMES_FILE):
        folder = stages.folder / ".best.old"  # a kill between two renames
    names = read_leaf_names(folder)
    if not names:
        return {}, {}
    with suppress(UnbraidError):
        before = Run.load(folder)
        if before.recipe.name == run.recipe.name:
            return names, {}
        old = measure_without_labels(before, stages.data).codes
        place = {leaf.name: i for i, leaf in enumerate(old.tree.leaves)}
        leaves = range(len(codes.tree.leaves))
        likeness = {leaf: [leaf_similarity(old, place[leaf], codes, j) for j in leaves] for leaf in names}
        moved: dict[str, str] = {}
        lost: dict[str, str] = {}
        for leaf in sorted(names, key=lambda leaf: -max(likeness[leaf])):  # of two names for one leaf, the better match
            match = codes.tree.leaves[int(np.argmax(likeness[leaf]))].name
            fits = max(likeness[leaf]) >= FOUND_CORRELATION and match not in moved
            if fits:
                moved[match] = names[leaf]
            else:
                lost[names[leaf]] = leaf
        return moved, lost
    return {}, {name: leaf for leaf, name in names.items()}
