"""dSprites, regenerated from its published geometry (Matthey et al. 2017): 737,280 binary images of 64×64."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np

from unbraid.core.errors import expect
from unbraid.core.progress import Advance
from unbraid.data.cache import array_cache
from unbraid.data.cache.checksums import RemoteFile, verify_published
from unbraid.data.cache.download import fetch
from unbraid.data.dataset import Bits, Dataset, Images, Source
from unbraid.data.factors import Factor, Factors
from unbraid.data.formats.hdf5 import get_hdf5_array, open_hdf5
from unbraid.data.formats.npz_stream import copy_to_cache
from unbraid.data.rendering import sprite_outlines
from unbraid.data.rendering.dsprites_variants import VARIANTS, SpriteVariant

CACHE_NAME = "dsprites-1"
CITE = "Matthey et al. 2017"
FILE_NAME = "dsprites_ndarray_co1sh3sc6or40x32y32_64x64.npz"  # the published hdf5 holds the same and needs h5py
MD5 = "md5:7da33b31b13a06f4b04a70402ce90c2e"  # as in the package latte; no size is published
FILE = RemoteFile(
    f"https://raw.githubusercontent.com/google-deepmind/dsprites-dataset/master/{FILE_NAME}",
    MD5,
    mirrors=(RemoteFile(f"https://github.com/google-deepmind/dsprites-dataset/raw/master/{FILE_NAME}", MD5),),
)
SCALES = np.linspace(0.5, 1, 6)
ANGLES = np.linspace(0, 2 * np.pi, 40)
POSITIONS = 16 + 32 * np.arange(32) / 31
FACTORS = Factors(
    (
        Factor("shape", 3, "class", sprite_outlines.SHAPES),
        Factor("scale", 6, "ordinal", tuple(SCALES.tolist())),
        Factor("orientation", 40, "circular", tuple(ANGLES.tolist())),
        *(Factor(axis, 32, "ordinal", tuple(np.linspace(0, 1, 32).tolist())) for axis in "xy"),
    )
)


def load(*, variant: str = "plain", path: str = "", original: bool = False, seed: int = 0) -> Dataset:
    """All images in the original order (y varies fastest), bit-packed and memory-mapped from the cache: 377 MB on disk.

    A pixel is on if its centre lies inside the outline; vertices are rounded to 1/256 pixel. Every frame that the
    authors published is reproduced exactly. The total of on-pixels is 128,328,871, against 128,328,862 in the
    original, so this is the set regenerated, not the original file.

    Args:
        variant: 'plain', or 'color', 'noisy', 'scream' (Locatello et al. 2019), drawn by seed and index.
        path: the original npz or hdf5, used instead; `count_differences(path)` compares the two.
        original: true uses the file that 'unbraid data make dsprites --set original=true' downloaded.
        seed: seed of the variants.
    """
    variants = ("plain", *VARIANTS)
    expect(variant in variants, "dsprites has no such variant", found=repr(variant), allowed=variants)
    path = path or (str(verify_published(FILE, array_cache.cache_dir() / FILE_NAME)) if original else "")
    array = _load_original(Path(path).expanduser()) if path else _load_regenerated()
    images: Images = Bits(array, (1, 64, 64))
    if variant != "plain":
        images = SpriteVariant(images, variant, seed)
    return Dataset("dsprites", images, FACTORS, cite=CITE, notes={"origin": path or "regenerated", "variant": variant})


def count_differences(path: str) -> dict[str, int]:
    """Compare the original file at `path` with the regenerated set: differing pixels and images, on-pixels of each.

    Args:
        path: the original .npz or .hdf5.
    """
    theirs, ours = _load_original(Path(path).expanduser()), _load_regenerated()
    pixels = images = on_theirs = on_ours = 0
    for start in range(0, len(ours), 8192):
        a, b = theirs[start : start + 8192], ours[start : start + 8192]
        bits = np.unpackbits(a ^ b, axis=1).sum(axis=1, dtype=np.int64)
        pixels, images = pixels + int(bits.sum()), images + int((bits > 0).sum())
        on_theirs += int(np.unpackbits(a).sum(dtype=np.int64))
        on_ours += int(np.unpackbits(b).sum(dtype=np.int64))
    return {"pixels": pixels, "images": images, "on_original": on_theirs, "on_regenerated": on_ours}


def _load_regenerated() -> np.ndarray:
    render = partial(sprite_outlines.render_sprites, scales=SCALES, angles=ANGLES, positions=POSITIONS, size=64)
    return array_cache.load_or_generate(CACHE_NAME, (FACTORS.count, 512), np.uint8, render, 720)


def _load_original(path: Path) -> np.ndarray:
    """Bits of the published npz or hdf5 (array 'imgs' of zeros and ones), packed once into the cache."""
    expect(
        path.is_file(),
        f"dsprites: {path} does not exist",
        do="Leave out path and original to regenerate the set, or fetch it: unbraid data make dsprites --set "
        "original=true.",
    )
    name, shape = f"dsprites-original-{array_cache.file_fingerprint([path])}", (FACTORS.count, 64, 64)
    if path.suffix == ".npz":
        return copy_to_cache(path, "imgs", shape, name, _pack_bits)
    with open_hdf5(path) as file:
        imgs = get_hdf5_array(file, "imgs", path)
        expect(imgs.shape == shape, f"dsprites: {path} must hold 'imgs' of {shape}", found=f"shape {imgs.shape}")
        expect(imgs.dtype.kind in "bui", f"dsprites: {path} must hold zeros and ones", found=f"'imgs' of {imgs.dtype}")

        def fill(array: np.ndarray, advance: Advance) -> None:
            for start in range(0, shape[0], 4096):
                array[start : start + 4096] = _pack_bits(imgs[start : start + 4096])
                advance(len(array[start : start + 4096]))

        return array_cache.load_or_generate(name, (shape[0], 512), np.uint8, fill, shape[0])


def _pack_bits(rows: np.ndarray) -> np.ndarray:
    expect(
        rows.max(initial=0) <= 1,
        "dsprites images must hold zeros and ones",
        found=f"{rows.max()}",
        do="Check that it is the published file.",
    )
    return np.packbits(rows.reshape(len(rows), -1), axis=1)


def _fetch(*, original: bool = False) -> None:
    if original:
        fetch(FILE, array_cache.cache_dir() / FILE_NAME)


SOURCE = Source(
    name="dsprites",
    about="binary sprites in the original order, regenerated from the published geometry",
    load=load,
    size="737,280 × 1×64×64 (377 MB)",
    factors="shape 3, scale 6, orientation 40, x 32, y 32",
    status=lambda: array_cache.generated_status(CACHE_NAME),
    cite=CITE,
    how_to_get="generated on first use in seconds; original: unbraid data make dsprites --set original=true, or path",
    fetch=_fetch,
)
