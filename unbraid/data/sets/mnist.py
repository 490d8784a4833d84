"""MNIST and Fashion-MNIST from their idx files (LeCun et al. 1998; Xiao et al. 2017), 28 or 32 pixels wide."""

from __future__ import annotations

import hashlib
import math
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from unbraid.core.errors import UnbraidError, expect
from unbraid.core.files import read_bytes
from unbraid.data.cache import array_cache
from unbraid.data.cache.checksums import RemoteFile, kind_mismatch
from unbraid.data.cache.download import fetch
from unbraid.data.dataset import Dataset, Pixels, Source
from unbraid.data.factors import Factor, Factors
from unbraid.data.formats import archives

DIGITS = tuple("0123456789")
CLOTHES = ("t-shirt", "trouser", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "ankle boot")
CITES = {
    "mnist": "LeCun et al. 1998; thickness and slant as in Castro et al. 2019",
    "fashion_mnist": "Xiao et al. 2017",
}
BASE_URLS = {  # in the order of attempts
    "mnist": ("https://ossci-datasets.s3.amazonaws.com/mnist/", "https://storage.googleapis.com/cvdf-datasets/mnist/"),
    "fashion_mnist": (
        "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
        "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion/",
    ),
}
# of the archives: MD5 as in torchvision/datasets/mnist.py, bytes as in tensorflow_datasets/url_checksums/(fashion_)mnist.txt;
# and MD5 of the decompressed files, because many copies were compressed again
CHECKSUMS = {
    "mnist": {
        "train-images-idx3-ubyte": ("f68b3c2dcbeaaa9fbdd348bbdeb94873", 9912422, "6bbc9ace898e44ae57da46a324031adb"),
        "train-labels-idx1-ubyte": ("d53e105ee54ea40749a09fcbcd1e9432", 28881, "a25bea736e30d166cdddb491f175f624"),
        "t10k-images-idx3-ubyte": ("9fb629c4189551a2d022fa330f9573f3", 1648877, "2646ac647ad5339dbf082846283269ea"),
        "t10k-labels-idx1-ubyte": ("ec29112dd5afa0611ce80d1b7f02629c", 4542, "27ae3e4e09519cfbb04c329615203637"),
    },
    "fashion_mnist": {
        "train-images-idx3-ubyte": ("8d4fb7e6c68d591d4c3dfef9ec88bf0d", 26421880, "f4a8712d7a061bf5bd6d2ca38dc4d50a"),
        "train-labels-idx1-ubyte": ("25c81989df183df01b3e8a0aad5dffbe", 29515, "9018921c3c673c538a1fc5bad174d6f9"),
        "t10k-images-idx3-ubyte": ("bef4ecab320f06d8554ea6380940ec79", 4422102, "8181f5470baa50b63fa0f6fddb340f0a"),
        "t10k-labels-idx1-ubyte": ("bb300cfdad3c16e7a12a480ee83cd310", 5148, "15d484375f8d13e6eb1aabb0c3f46965"),
    },
}


def _load(name: str, path: str, split: str, size: int) -> Dataset:
    splits = {"train": ["train"], "test": ["t10k"], "all": ["train", "t10k"]}
    expect(split in splits, f"{name} has no such split", found=repr(split), allowed=splits)
    expect(size in (28, 32), f"{name} must have one of two sizes", found=size, allowed=(28, 32))
    folder = Path(path).expanduser() if path else array_cache.cache_dir() / name
    images, labels = (
        np.concatenate([_read_verified(folder, name, f"{part}-{kind}", axes, not path) for part in splits[split]])
        for kind, axes in (("images-idx3-ubyte", 3), ("labels-idx1-ubyte", 1))
    )
    expect(
        len(images) == len(labels),
        f"{name} in {folder}: there must be one label per image",
        found=f"{len(images):,} images, {len(labels):,} labels",
        do="The files belong to different splits or sets.",
    )
    expect(images.shape[1:] == (28, 28), f"{name} images must be 28×28", found=images.shape[1:])
    expect(
        labels.size == 0 or labels.max() < 10, f"{name} must have ten classes", found=f"label {labels.max(initial=0)}"
    )
    pad = (size - 28) // 2
    pixels = np.pad(images, ((0, 0), (pad, pad), (pad, pad)))[:, None]
    factors = Factors((Factor("class", 10, "class", DIGITS if name == "mnist" else CLOTHES),), grid=False)
    table, cite = labels[:, None].astype(np.int64), CITES[name]
    return Dataset(name, Pixels(pixels), factors, table, cite=cite, notes={"split": split})


def _read_verified(folder: Path, name: str, stem: str, axes: int, strict: bool) -> np.ndarray:
    """Read one idx file; raise if it is known to be another one, or if `strict` and it is not the published one."""
    path = _find_file(folder, name, stem)
    raw = read_bytes(path, "idx file", limit=1 << 31)
    content = archives.gunzip(path, raw) if raw[:2] == b"\x1f\x8b" else raw
    found = {hashlib.md5(part, usedforsecurity=False).hexdigest() for part in (raw, content)}
    for other, sums in CHECKSUMS.items():
        for file, (archive, _, plain) in sums.items():
            if {archive, plain} & found:
                wanted, real = f"{stem} of {name}", f"{file} of {other}"
                expect(wanted == real, f"{name}: {path} must be {wanted}", found=real, do="The files were swapped.")
                return _parse_idx(path, content, axes)
    array = _parse_idx(path, content, axes)
    expect(
        not strict,
        f"{name}: {path} is not the published file",
        found="another MD5",
        do=f"Delete it and run 'unbraid data make {name}'. To use files of your own, keep them in another folder and "
        'set path = "...".',
    )
    return array


def _parse_idx(path: Path, raw: bytes, axes: int) -> np.ndarray:
    expect(
        raw[:4] == bytes([0, 0, 8, axes]),
        f"{path} must be an idx file of unsigned bytes with {axes} axes",
        found=f"first bytes {raw[:4].hex(' ')}",
        do="Images and labels may be swapped.",
    )
    shape = np.frombuffer(raw[4 : 4 + 4 * axes].ljust(4 * axes, b"\0"), ">u4").astype(np.int64)
    need = 4 + 4 * axes + math.prod(shape.tolist())
    expect(
        len(raw) == need,
        f"idx file {path} is truncated or too long",
        found=f"{len(raw):,} bytes",
        allowed=f"{need:,}",
        do="Fetch it again.",
    )
    return np.frombuffer(raw, np.uint8, offset=4 + 4 * axes).reshape(shape.tolist())


def _find_file(folder: Path, name: str, stem: str) -> Path:
    """Find the file `stem`, also with '.' for the second '-' and with .gz, as in common copies."""
    dotted = stem.replace("-idx", ".idx")
    for candidate in (stem, f"{stem}.gz", dotted, f"{dotted}.gz"):
        if (folder / candidate).is_file():
            return folder / candidate
    raise UnbraidError(
        f"no {stem}[.gz] in {folder}. Run 'unbraid data make {name}' with a network connection, "
        "or set path to the folder of the files."
    )


def _status(name: str) -> str:
    try:
        found = [_find_file(array_cache.cache_dir() / name, name, stem) for stem in CHECKSUMS[name]]
        return next((f"needs a file: {path} is {wrong}" for path in found if (wrong := kind_mismatch(path))), "ready")
    except UnbraidError:
        return "needs a file: four idx files"


def _fetch(name: str) -> None:
    for stem, (md5, size, _) in CHECKSUMS[name].items():
        first, *others = (RemoteFile(f"{site}{stem}.gz", f"md5:{md5}", size) for site in BASE_URLS[name])
        fetch(replace(first, mirrors=tuple(others)), array_cache.cache_dir() / name / f"{stem}.gz")


def _build_source(name: str, about: str) -> Source:
    def load(*, path: str = "", split: str = "train", size: int = 28) -> Dataset:
        """60,000 training and 10,000 test images (47 MB in memory for 'train' at 28×28).

        Args:
            path: the folder of the idx files; by default in the cache.
            split: 'train', 'test' or 'all'.
            size: 28 is the original; 32 pads two dark pixels on every side, for nets of 32×32.
        """
        return _load(name, path, split, size)

    return Source(
        name=name,
        about=about,
        load=load,
        size="60,000 + 10,000 × 1×28×28 (55 MB), or 32×32",
        factors="class 10",
        status=partial(_status, name),
        cite=CITES[name],
        fetch=partial(_fetch, name),
        official=True,
        how_to_get=f"run 'unbraid data make {name}' ({11 if name == 'mnist' else 30} MB), "
        "or path = the folder of the idx files",
    )


SOURCE = _build_source("mnist", "handwritten digits")
FASHION_SOURCE = _build_source("fashion_mnist", "clothes in the format of MNIST")
