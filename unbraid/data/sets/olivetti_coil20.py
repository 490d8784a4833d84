"""Small data sets in one MATLAB file each: Olivetti faces and COIL-20."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

from unbraid.core.errors import UnbraidError, expect
from unbraid.data.cache import array_cache
from unbraid.data.cache.checksums import RemoteFile, file_status, verify_published
from unbraid.data.cache.download import fetch
from unbraid.data.dataset import Dataset, Pixels, Source
from unbraid.data.factors import Factor, Factors
from unbraid.data.formats import archives, image_files
from unbraid.data.formats.mat5 import read_mat

OLIVETTI_CITE = "Samaria & Harter 1994"
COIL_CITE = "Nene et al. 1996"
# SHA-256 as in scikit-learn (sklearn/datasets/_olivetti_faces.py)
OLIVETTI_FILE = RemoteFile(
    "https://ndownloader.figshare.com/files/5976027",
    "sha256:b612fb967f2dc77c9c62d3e1266e0c73d5fca46a4b8906c18e454d41af987794",
)
COIL_SITE = "https://www.cs.columbia.edu/CAVE/databases/SLAM_coil-20_coil-100/coil-20/"
COIL_ZIP = "coil-20-proc.zip"
COIL_FILE = RemoteFile(COIL_SITE + COIL_ZIP)  # no checksum is published; the zip has a CRC of every image


def _find_file(path: str, *names: str) -> Path:
    """Return the first of these files in the folder `path`, or `path` itself."""
    source = Path(path).expanduser()
    return next((source / name for name in names if (source / name).is_file()), source)


def load_olivetti(*, path: str = "") -> Dataset:
    """400 faces of 64×64 (1.6 MB): 40 persons, 10 images each.

    Args:
        path: olivettifaces.mat (array 'faces' 4096×400), or its folder; by default in the cache.
    """
    source = (
        _find_file(path, "olivettifaces.mat")
        if path
        else verify_published(OLIVETTI_FILE, array_cache.cache_dir() / "olivettifaces.mat")
    )
    expect(
        source.is_file(),
        f"olivetti: {source} {'holds no olivettifaces.mat' if source.is_dir() else 'does not exist'}",
        do=f"{OLIVETTI_SOURCE.how_to_get}.",
    )
    faces = read_mat(source).get("faces")
    if faces is None or faces.shape != (4096, 400):
        raise UnbraidError(
            f"olivetti: {source} must hold 'faces' of shape (4096, 400): "
            f"found {None if faces is None else faces.shape}."
        )
    images = _to_uint8(faces, f"olivetti: {source}").T.reshape(400, 64, 64).swapaxes(1, 2)[:, None]  # stored by columns
    factors = Factors((Factor("person", 40, "class"), Factor("picture", 10, "class")))
    return Dataset("olivetti", Pixels(np.ascontiguousarray(images)), factors, cite=OLIVETTI_CITE)


def load_coil20(*, path: str = "", size: int = 0) -> Dataset:
    """1,440 images: 20 objects rotated in 72 steps of 5°.

    Args:
        path: COIL20.mat (32×32), coil-20-proc.zip (128×128), a folder that holds one of them, or a folder of
            obj1__0.png to obj20__71.png; by default in the cache.
        size: resize the images to this side; 0 keeps their size.
    """
    source = _find_file(path, "COIL20.mat", COIL_ZIP) if path else verify_published(COIL_FILE, _coil_path())
    expect(source.exists(), f"coil20: {source} does not exist", do=f"{COIL_SOURCE.how_to_get}.")
    images = _read_coil_matrix(source, size) if source.suffix == ".mat" else _read_coil_images(source, size)
    angles = tuple(range(0, 360, 5))
    factors = Factors((Factor("object", 20, "class"), Factor("angle", 72, "circular", angles)))
    return Dataset("coil20", Pixels(images[:, None]), factors, cite=COIL_CITE)


def _read_coil_matrix(path: Path, size: int) -> np.ndarray:
    arrays = read_mat(path)
    pixels = next((arrays[name] for name in ("X", "fea") if name in arrays), None)
    label = next((arrays[name].ravel() for name in ("Y", "gnd") if name in arrays), None)
    if pixels is None or label is None or pixels.shape != (1440, 1024) or label.shape != (1440,):
        raise UnbraidError(
            f"coil20: {path} must hold X or fea (1440×1024) and Y or gnd (1440): found "
            f"{', '.join(f'{name} {array.shape}' for name, array in arrays.items())}."
        )
    expect(
        np.array_equal(np.sort(label), np.repeat(np.arange(1, 21), 72)),
        f"coil20: {path} must have 72 views of each of the objects 1 to 20",
    )
    grey = _to_uint8(pixels[np.argsort(label, kind="stable")], f"coil20: {path}")
    return image_files.resize_images(grey.reshape(1440, 32, 32).swapaxes(1, 2), size or 32)


def _to_uint8(pixels: np.ndarray, source_name: str) -> np.ndarray:
    """Convert grey levels (0 to 255, or 0 to 1) to bytes; other values raise an error."""
    expect(pixels.dtype.kind in "uif", f"{source_name} must hold grey levels", found=f"{pixels.dtype}")
    expect(np.isfinite(pixels).all(), f"{source_name} must hold grey levels", found="NaN or infinity")
    low, high = pixels.min(), pixels.max()
    expect(
        low >= 0 and high <= 255,
        f"{source_name} must hold grey levels",
        found=f"{low:g} to {high:g}",
        allowed="0 to 255, or 0 to 1",
    )
    return np.rint(pixels * (255.0 if high <= 1 else 1.0)).astype(np.uint8)


def _read_coil_images(path: Path, size: int) -> np.ndarray:
    found: dict[str, int] = {}
    for name in archives.member_names(path, r"(^|/)obj\d+__\d+\.(png|pgm)$"):
        thing, view = map(int, re.findall(r"obj(\d+)__(\d+)\.", name)[-1])
        found[name] = 72 * (thing - 1) + view if view < 72 else -1
    expect(
        sorted(found.values()) == list(range(1440)),
        f"coil20: {path} must hold obj1__0 to obj20__71, once each",
        found=f"{len(found)} such images",
    )
    raw = (
        (name, image_files.read_image(image_files.as_named_file(content, name), size, grey=True))
        for name, content in archives.read_members(path, found)
    )
    first, pixels = next(raw)
    images = np.empty((1440, *pixels.shape), np.uint8)
    images[found[first]] = pixels
    for name, pixels in raw:
        expect(
            pixels.shape == images.shape[1:],
            "coil20: all images must have the same size",
            found=f"another size in {name}",
            do="Set size, such as size = 32, to resize them.",
        )
        images[found[name]] = pixels
    return images


def _coil_path() -> Path:
    """Path of the file in the cache: COIL20.mat if it exists, else the zip that can be downloaded."""
    matrix = array_cache.cache_dir() / "COIL20.mat"
    return matrix if matrix.is_file() else array_cache.cache_dir() / COIL_ZIP


OLIVETTI_SOURCE = Source(
    name="olivetti",
    about="grey portraits",
    load=load_olivetti,
    size="400 × 1×64×64 (1.6 MB)",
    factors="person 40, picture 10",
    status=lambda: file_status(OLIVETTI_FILE, array_cache.cache_dir() / "olivettifaces.mat"),
    cite=OLIVETTI_CITE,
    fetch=lambda: fetch(OLIVETTI_FILE, array_cache.cache_dir() / "olivettifaces.mat"),
    how_to_get="run 'unbraid data make olivetti' (3 MB), or path = olivettifaces.mat (cs.nyu.edu/~roweis/data/)",
)
COIL_SOURCE = Source(
    name="coil20",
    about="grey photographs of rotated objects",
    load=load_coil20,
    size="1,440 × 1×128×128 (24 MB), or 32×32",
    factors="object 20, angle 72",
    cite=COIL_CITE,
    fetch=lambda: fetch(COIL_FILE, _coil_path()),
    status=lambda: file_status(COIL_FILE, _coil_path()),
    how_to_get="run 'unbraid data make coil20' (12 MB), or path = COIL20.mat, coil-20-proc.zip or its folder",
)
