"""Small sets that come as one MATLAB file: Olivetti faces and COIL-20."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

from unbraid.data import pictures, store
from unbraid.data.dataset import Dataset, Pixels, Source
from unbraid.data.factors import Factor, Factors
from unbraid.errors import UnbraidError, expect

OLIVETTI = "Samaria, Harter 1994, Parameterisation of a stochastic model for human face identification"
COIL = "Nene, Nayar, Murase 1996, Columbia Object Image Library (COIL-20)"


def read_mat(path: Path) -> dict[str, np.ndarray]:
    """The arrays of a .mat file; damage is named."""
    from scipy.io import loadmat

    expect(path.is_file(), f"{path} does not exist")
    try:
        return {name: array for name, array in loadmat(path).items() if isinstance(array, np.ndarray)}
    except Exception as error:  # scipy raises many kinds on damaged files
        raise UnbraidError(f"cannot read {path}: {error}. It is damaged, cut off or no .mat file.") from error


def load_olivetti(*, path: str = "") -> Dataset:
    """400 faces of 64×64 (1.6 MB): 40 persons, 10 pictures each, from olivettifaces.mat (array 'faces' 4096×400)."""
    where = Path(path).expanduser() if path else store.folder() / "olivettifaces.mat"
    expect(where.is_file(), f"olivetti: {where} does not exist", do=f"{OLIVETTI_SOURCE.get}.")
    faces = read_mat(where).get("faces")
    if faces is None or faces.shape != (4096, 400):
        raise UnbraidError(f"olivetti: {where} must hold 'faces' of shape (4096, 400): found "
                           f"{None if faces is None else faces.shape}.")
    images = faces.T.reshape(400, 64, 64).swapaxes(1, 2)[:, None]  # MATLAB writes columns first
    factors = Factors((Factor("person", 40, "class"), Factor("picture", 10, "class")))
    return Dataset("olivetti", Pixels(np.ascontiguousarray(images)), factors, cite=OLIVETTI)


def load_coil20(*, path: str = "", size: int = 0) -> Dataset:
    """1,440 pictures: 20 objects turned by 72 steps of 5°. path: COIL20.mat (32×32) or a folder of obj1__0.png…"""
    where = Path(path).expanduser() if path else store.folder() / "COIL20.mat"
    expect(where.exists(), f"coil20: {where} does not exist", do=f"{COIL_SOURCE.get}.")
    images = _coil_folder(where, size) if where.is_dir() else _coil_matrix(where, size)
    angles = tuple(range(0, 360, 5))
    factors = Factors((Factor("object", 20, "class"), Factor("angle", 72, "circular", angles)))
    return Dataset("coil20", Pixels(images[:, None]), factors, cite=COIL)


def _coil_matrix(path: Path, size: int) -> np.ndarray:
    arrays = read_mat(path)
    pixels = next((arrays[name] for name in ("X", "fea") if name in arrays), None)
    label = next((arrays[name].ravel() for name in ("Y", "gnd") if name in arrays), None)
    if pixels is None or label is None or pixels.shape != (1440, 1024) or label.shape != (1440,):
        raise UnbraidError(f"coil20: {path} must hold X or fea (1440×1024) and Y or gnd (1440): found "
                           f"{', '.join(f'{name} {array.shape}' for name, array in arrays.items())}.")
    pixels = pixels[np.argsort(label, kind="stable")]
    expect((np.bincount(label.astype(int), minlength=21)[1:] == 72).all(), f"coil20: {path} must have 72 views each")
    scale = 255 if pixels.max() <= 1 else 1
    images = np.rint(pixels.reshape(1440, 32, 32).swapaxes(1, 2) * scale).astype(np.uint8)
    return pictures.resized(images, size or 32)


def _coil_folder(folder: Path, size: int) -> np.ndarray:
    found = {}
    for file in pictures.found(folder):
        match = re.fullmatch(r"obj(\d+)__(\d+)", file.stem)
        if match:
            found[int(match[1]) - 1, int(match[2])] = file
    expect(sorted(found) == [(i, k) for i in range(20) for k in range(72)],
           f"coil20: {folder} must hold obj1__0 to obj20__71", found=f"{len(found)} such pictures")
    return pictures.decoded([found[key] for key in sorted(found)], folder, size=size, grey=True)[:, 0]


def _status(file: str) -> str:
    return "ready" if (store.folder() / file).is_file() else f"needs a file: {file}"


OLIVETTI_SOURCE = Source(
    name="olivetti", about="grey portraits", load=load_olivetti, size="400 × 1×64×64 (1.6 MB)",
    factors="person 40, picture 10", status=lambda: _status("olivettifaces.mat"), cite=OLIVETTI,
    get="path = olivettifaces.mat (cs.nyu.edu/~roweis/data/olivettifaces.mat)",
)
COIL_SOURCE = Source(
    name="coil20", about="grey photographs of turned objects", load=load_coil20, size="1,440 × 1×32×32 (1.5 MB)",
    factors="object 20, angle 72", status=lambda: _status("COIL20.mat"), cite=COIL,
    get="path = COIL20.mat, or the folder of obj1__0.png to obj20__71.png",
)
