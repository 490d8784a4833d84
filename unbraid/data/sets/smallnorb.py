"""smallNORB (LeCun et al. 2004): toys under 9 elevations, 18 azimuths and 6 lights, from the published mat files."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np

from unbraid.core.errors import UnbraidError, expect
from unbraid.core.files import read_bytes
from unbraid.data.cache import array_cache
from unbraid.data.cache.checksums import RemoteFile, kind_mismatch, verify_published
from unbraid.data.cache.download import fetch
from unbraid.data.dataset import Dataset, Pixels, Source
from unbraid.data.factors import Factor, Factors
from unbraid.data.formats import archives
from unbraid.data.formats.image_files import resize_images

CITE = "LeCun et al. 2004"
BASE_URL = "https://cs.nyu.edu/~ylclab/data/norb-v1.0-small/"
FILE_STEMS = {"train": "smallnorb-5x46789x9x18x6x2x96x96-training", "test": "smallnorb-5x01235x9x18x6x2x96x96-testing"}
# of the .gz: MD5 as in disent (nmichlo/disent), bytes as in tensorflow_datasets/url_checksums/smallnorb.txt
CHECKSUMS = {
    ("train", "dat"): ("66054832f9accfe74a0f4c36a75bc0a2", 131896188),
    ("train", "cat"): ("23c8b86101fbf0904a000b43d3ed2fd9", 348),
    ("train", "info"): ("51dee1210a742582ff607dfd94e332e3", 71052),
    ("test", "dat"): ("e4ad715691ed5a3a5f138751a4ceb071", 130799817),
    ("test", "cat"): ("5aa791cd7e6016cf957ce9bdb93b8603", 347),
    ("test", "info"): ("a9454f3864d7fd4bb3ea7fc3eb84924e", 10428),
}
CLASSES = ("animal", "human", "plane", "truck", "car")
ELEMENT_TYPES: dict[int, np.dtype] = {0x1E3D4C55: np.dtype("u1"), 0x1E3D4C54: np.dtype("<i4")}
FACTORS = Factors(
    (
        Factor("category", 5, "class", CLASSES),
        Factor("instance", 10, "class"),
        Factor("elevation", 9, "ordinal", tuple(range(30, 75, 5))),
        Factor("azimuth", 18, "circular", tuple(range(0, 360, 20))),
        Factor("lighting", 6, "class"),
    ),
    grid=False,
)


def load(*, path: str = "", split: str = "all", size: int = 64, camera: str = "left") -> Dataset:
    """24,300 images each in 'train' and 'test', which have different instances.

    Images are reduced from 96×96 as in disentanglement_lib (Lanczos).

    Args:
        path: the folder of the six mat files; by default in the cache.
        split: 'train', 'test' or 'all'.
        size: side of the images in pixels.
        camera: 'left' (as in disentanglement_lib, whose factors leave out the instance) or 'right'.
    """
    splits = {"train": ("train",), "test": ("test",), "all": ("train", "test")}
    expect(split in splits, "smallnorb has no such split", found=repr(split), allowed=splits)
    expect(camera in ("left", "right"), "smallnorb has two cameras", found=repr(camera), allowed="left, right")
    folder = Path(path).expanduser() if path else array_cache.cache_dir() / "smallnorb"
    if not path:
        for part, kind in CHECKSUMS:
            if part in splits[split] and (found := _find_file(folder, part, kind)).suffix == ".gz":
                verify_published(_remote_file(part, kind), found)
    parts = [_load_split(folder, part, size, camera) for part in splits[split]]
    images, labels = (np.concatenate(column) for column in zip(*parts, strict=True))
    return Dataset("smallnorb", Pixels(images[:, None]), FACTORS, labels, cite=CITE, notes={"split": split})


def _load_split(folder: Path, split: str, size: int, camera: str) -> tuple[np.ndarray, np.ndarray]:
    images, category, info = (read_norb_matrix(_find_file(folder, split, kind)) for kind in ("dat", "cat", "info"))
    n = len(images)
    expect(
        images.ndim == 4 and images.shape[1:] == (2, 96, 96),
        f"smallnorb {split} must hold pairs of 96×96 images",
        found=f"shape {images.shape}",
        do="dat, cat and info files may be swapped.",
    )
    expect(
        category.shape == (n,) and info.shape == (n, 4),
        f"smallnorb {split} must have one label row per pair of images",
        found=f"{images.shape}, {category.shape}, {info.shape}",
        do="The files do not belong together.",
    )
    labels = np.column_stack([category, info[:, 0], info[:, 1], info[:, 2] // 2, info[:, 3]]).astype(np.int64)
    expect(
        (labels >= 0).all() and (labels < np.array(FACTORS.sizes)).all(),
        f"smallnorb {split}: labels out of range",
        do="The info file is damaged.",
    )
    return resize_images(images[:, int(camera == "right")], size, lanczos=True), labels


def read_norb_matrix(path: Path) -> np.ndarray:
    """Read the matrix at `path` in the NORB format: magic number, number of axes, at least three sizes, values.

    Args:
        path: the file.
    """
    raw = read_bytes(path, "matrix", limit=1 << 31)
    raw = archives.gunzip(path, raw) if raw[:2] == b"\x1f\x8b" else raw
    head = np.frombuffer(raw[:8].ljust(8, b"\0"), "<u4")
    expect(
        int(head[0]) in ELEMENT_TYPES and 1 <= head[1] <= 4,
        f"{path} is not a NORB matrix of bytes or integers",
        found=f"first bytes {raw[:8].hex(' ')}",
    )
    kind, axes = ELEMENT_TYPES[int(head[0])], int(head[1])
    start = 8 + 4 * max(3, axes)  # three sizes are always written
    shape = np.frombuffer(raw[8:start].ljust(start - 8, b"\0"), "<u4").astype(np.int64)[:axes]
    need = start + math.prod(shape.tolist()) * kind.itemsize
    expect(
        len(raw) == need, f"matrix {path} is truncated or too long", found=f"{len(raw):,} bytes", allowed=f"{need:,}"
    )
    return np.frombuffer(raw, kind, offset=start).reshape(shape.tolist())


def _find_file(folder: Path, split: str, kind: str) -> Path:
    stem = f"{FILE_STEMS[split]}-{kind}.mat"
    for candidate in (folder / stem, folder / f"{stem}.gz"):
        if candidate.is_file():
            return candidate
    raise UnbraidError(f"no {stem}[.gz] in {folder}. {SOURCE.how_to_get}.")


def _status() -> str:
    try:
        found = [_find_file(array_cache.cache_dir() / "smallnorb", split, kind) for split, kind in CHECKSUMS]
        packed = [path for path in found if path.suffix == ".gz"]
        return next((f"needs a file: {path} is {wrong}" for path in packed if (wrong := kind_mismatch(path))), "ready")
    except UnbraidError:
        return "needs a file: six mat files"


def _fetch() -> None:
    for split, kind in CHECKSUMS:
        fetch(_remote_file(split, kind), array_cache.cache_dir() / "smallnorb" / f"{FILE_STEMS[split]}-{kind}.mat.gz")


def _remote_file(split: str, kind: str) -> RemoteFile:
    md5, size = CHECKSUMS[split, kind]
    return RemoteFile(f"{BASE_URL}{FILE_STEMS[split]}-{kind}.mat.gz", f"md5:{md5}", size)


SOURCE = Source(
    name="smallnorb",
    about="photographs of toys under rotation and light",
    load=load,
    size="48,600 × 1×64×64 (199 MB)",
    factors="category 5, instance 10, elevation 9, azimuth 18, lighting 6",
    status=_status,
    cite=CITE,
    fetch=_fetch,
    official=True,
    how_to_get="run 'unbraid data make smallnorb' (263 MB), or path = the folder of the six mat files",
)
