"""Subsets of the 1393 models of 3D Chairs: a list of names, the list of Yang et al. 2015, or the most distinct models.

DIP-VAE (Kumar et al. 2017) trains on the 809 models that Dosovitskiy et al. 2015 kept after removing near duplicates,
with 80% of the models for training and 20% for testing. No list of names is known to be published with it. Yang et al.
2015 (deepRotator) train on a similarly reduced set and publish theirs as chair/reduced_set1.mat: `selected` holds
positions in `folder_names` of all_chair_names.mat, which is part of rendered_chairs.tar. This follows their script; the
file itself was not available for a test.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from unbraid.core.errors import UnbraidError, expect
from unbraid.core.files import read_bytes
from unbraid.core.progress import Advance
from unbraid.data.cache import array_cache
from unbraid.data.formats import archives
from unbraid.data.formats.image_files import as_named_file, read_image, to_chw
from unbraid.data.formats.mat5 import parse_mat

Views = Mapping[str, Mapping[tuple[int, int], str]]
SUBSET_HELP = (
    "The list of Dosovitskiy et al. 2015 (809 models) is not part of unbraid; the closest published one is that of "
    "Yang et al. 2015, chair/reduced_set1.mat of github.com/jimeiyang/deepRotator. Give that file, a text file with one "
    "name per line, or subset = 'distinct809' (a selection of this library, not that list)."
)
NAMES_FILE = "all_chair_names.mat"
MASK_SIZE = 32  # side of the compared masks in pixels


def select_models(archive_path: Path, views: Views, subset: str) -> list[str]:
    """List the models of a subset in its order; all models, sorted, without one.

    Args:
        archive_path: rendered_chairs.tar or its folder.
        views: file names by model and (elevation, azimuth).
        subset: 'distinctN', a text file of names, or a .mat file like reduced_set1.mat; empty for all models.
    """
    models = sorted(views)
    if not subset:
        return models
    count = re.fullmatch(r"distinct(\d+)", subset)
    if count:
        what = f"chairs: subset {subset!r} must have 2 to {len(models)} models"
        expect(1 < int(count[1]) <= len(models), what, found=count[1])
        return [models[i] for i in select_distinct(_silhouettes(archive_path, models, views), int(count[1]))]
    path = Path(subset).expanduser()
    expect(path.is_file(), f"chairs: there is no list of models {subset!r}", do=SUBSET_HELP)
    wanted = _read_selected_names(archive_path, path) if path.suffix == ".mat" else _read_name_list(path)
    known = set(models)
    missing = [name for name in wanted if name not in known]
    expect(
        wanted and not missing,
        f"chairs: every model of {subset} must exist",
        found=f"{len(missing)} missing{f', such as {missing[0]!r}' if missing else ''}" if wanted else "an empty list",
        do=SUBSET_HELP,
    )
    repeated = len(wanted) - len(set(wanted))
    expect(not repeated, f"chairs: {subset} lists a model twice", found=f"{repeated} repeated")
    return wanted


def _read_name_list(path: Path) -> list[str]:
    try:
        return read_bytes(path, "list of models", limit=1 << 24).decode().split()
    except UnicodeDecodeError as error:
        raise UnbraidError(f"chairs: {path} is not a text file of model names. {SUBSET_HELP}") from error


def _read_selected_names(archive_path: Path, path: Path) -> list[str]:
    """Names that `selected` of reduced_set1.mat refers to: positions from 1, or one boolean per model."""
    inside = archives.member_names(archive_path, rf"(^|/){re.escape(NAMES_FILE)}$")
    expect(
        len(inside) == 1,
        f"chairs: {path.name} refers to {NAMES_FILE}, which must be in {archive_path}",
        found=f"{len(inside)} such files",
        do="Use rendered_chairs.tar as published, or give a text file of names.",
    )
    listed = _read_mat_array(next(archives.read_members(archive_path, inside))[1], "folder_names", NAMES_FILE)
    names = [str(np.asarray(name).ravel()[0]) for name in listed.ravel()]
    selected = _read_mat_array(read_bytes(path, "list of models", limit=1 << 24), "selected", str(path)).ravel()
    truth = selected.dtype == bool or (len(selected) == len(names) and set(np.unique(selected).tolist()) <= {0, 1})
    places = np.flatnonzero(selected) if truth else selected.astype(np.int64) - 1
    expect(
        len(places) and places.min() >= 0 and places.max() < len(names),
        f"chairs: {path} must select from {NAMES_FILE}",
        found=f"positions {places.min() + 1} to {places.max() + 1} of {len(names)}" if len(places) else "nothing",
    )
    return [names[i] for i in places]


def _read_mat_array(raw: bytes, key: str, name: str) -> np.ndarray:
    array = parse_mat(raw, f"chairs: {name}").get(key)
    if array is None or array.dtype.kind not in "biufO":
        raise UnbraidError(f"chairs: {name} has no list {key!r}.")
    return array


def select_distinct(masks: np.ndarray, count: int) -> list[int]:
    """Select the most distinct binary rows, in ascending order, by always adding the row farthest from those selected.

    Distance is 1 − |a ∧ b| / |a ∨ b|. The first row is the one with the largest total distance to all others; ties go
    to the first row, so the selection depends on the rows alone. It is not the selection of Dosovitskiy et al. 2015.

    Args:
        masks: rows of 0 and 1.
        count: number of rows to select.

    >>> select_distinct(np.array([[1, 1, 0, 0], [1, 1, 0, 0], [0, 0, 1, 1], [1, 1, 1, 0]]), 3)
    [0, 2, 3]
    """
    rows = masks.astype(np.float32)
    area = rows.sum(axis=1)

    def distance(i: int) -> np.ndarray:
        both = rows @ rows[i]
        return 1 - both / np.maximum(area + area[i] - both, 1)

    first = int(np.argmax(sum(distance(i).astype(np.float64) for i in range(len(rows)))))
    selected, nearest = [first], distance(first)
    while len(selected) < count:
        nearest[selected] = -1
        selected.append(int(np.argmax(nearest)))
        nearest = np.minimum(nearest, distance(selected[-1]))
    return sorted(selected)


def _silhouettes(archive_path: Path, models: list[str], views: Views) -> np.ndarray:
    """Masks of each model in four views, a quarter turn apart at the lower elevation, 32×32 each, cached."""
    low = min(elevation for elevation, _ in views[models[0]])
    angles = sorted(azimuth for elevation, azimuth in views[models[0]] if elevation == low)
    quarters = [angles[round(k * len(angles) / 4)] for k in range(4)]
    rows = {views[model][low, angle]: (i, k) for i, model in enumerate(models) for k, angle in enumerate(quarters)}

    def fill(array: np.ndarray, advance: Advance) -> None:
        for name, raw in archives.read_members(archive_path, rows):
            pixels = to_chw(read_image(as_named_file(raw, name), MASK_SIZE, box=centre_box(raw, name, 600)), 3)
            array[rows[name]] = (pixels.min(axis=0) < 250).ravel()
            advance()

    stamp, shape = archives.members_fingerprint(archive_path, rows), (len(models), 4, MASK_SIZE * MASK_SIZE)
    array = array_cache.load_or_generate(f"chairs-masks-{stamp}", shape, np.uint8, fill, len(rows))
    return array.reshape(len(models), -1)


def centre_box(raw: bytes, name: str, crop: int) -> tuple[int, int, int, int]:
    """Box of the central `crop` pixels (of 600), by the size in the PNG header.

    Args:
        raw: bytes of the PNG.
        name: name of the file in errors.
        crop: side of the box in an image of 600×600.
    """
    expect(raw[:8] == b"\x89PNG\r\n\x1a\n" and len(raw) > 24, f"chairs: {name} is not a PNG", do="It is damaged.")
    width, height = int.from_bytes(raw[16:20], "big"), int.from_bytes(raw[20:24], "big")
    side = round(min(width, height) * crop / 600)
    left, top = (width - side) // 2, (height - side) // 2
    return left, top, left + side, top + side
