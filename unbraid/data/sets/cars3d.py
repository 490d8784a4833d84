"""Cars3D (Reed et al. 2015): 183 cars seen from 24 azimuths and 4 elevations, from the published mat files."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from unbraid.core.errors import UnbraidError, expect
from unbraid.core.progress import Advance
from unbraid.data.cache import array_cache
from unbraid.data.cache.checksums import RemoteFile, file_status, verify_published
from unbraid.data.cache.download import fetch
from unbraid.data.dataset import Dataset, Pixels, Source
from unbraid.data.factors import Factor, Factors
from unbraid.data.formats import archives
from unbraid.data.formats.image_files import resize_images
from unbraid.data.formats.mat5 import parse_mat

CITE = "Reed et al. 2015"
FILE_NAME = "nips2015-analogy-data.tar.gz"
MD5 = "md5:4e866a7919c1beedf53964e6f7a23686"  # as in disent (nmichlo/disent); no size is published
FILE = RemoteFile(
    f"http://www.scottreed.info/files/{FILE_NAME}",
    MD5,
    mirrors=(RemoteFile(f"http://www-personal.umich.edu/~reedscot/files/{FILE_NAME}", MD5),),
)


def load(*, path: str = "", objects: int = 183, size: int = 64) -> Dataset:
    """Elevation 4 × azimuth 24 × object 183 RGB images (216 MB at 64×64).

    Images are reduced from 128×128 as in disentanglement_lib (Lanczos). Objects are in the order of their numbers.

    Args:
        path: nips2015-analogy-data.tar.gz, or a folder with car_001_mesh.mat and so on; by default the download of
            'unbraid data make cars3d' in the cache.
        objects: number of cars.
        size: side of the images in pixels.
    """
    source = Path(path).expanduser() if path else verify_published(FILE, array_cache.cache_dir() / FILE_NAME)
    expect(source.exists(), f"cars3d: {source} does not exist", do=f"{SOURCE.how_to_get}.")
    files = archives.member_names(source, r"(^|/)car_\d+_mesh\.mat$")
    expect(
        len(files) == objects,
        f"cars3d: {source} must hold one mat file for each of {objects} cars",
        found=len(files),
        do="Files are missing; set objects to use fewer.",
    )

    def fill(array: np.ndarray, advance: Advance) -> None:
        for name, raw in archives.read_members(source, files):
            car = _parse_car(raw, name)  # "128 128 3 24 4"
            views = resize_images(np.moveaxis(car, (4, 3), (0, 1)), size, lanczos=True)
            array[:, :, files.index(name)] = np.moveaxis(views, -1, 2)
            advance()

    stamp = archives.members_fingerprint(source, files, size)
    array = array_cache.load_or_generate(f"cars3d-{stamp}", (4, 24, objects, 3, size, size), np.uint8, fill, objects)
    factors = Factors((Factor("elevation", 4), Factor("azimuth", 24, "circular"), Factor("object", objects, "class")))
    return Dataset("cars3d", Pixels(array.reshape(-1, 3, size, size)), factors, cite=CITE)


def _parse_car(raw: bytes, name: str) -> np.ndarray:
    image = parse_mat(raw, f"cars3d: {name}").get("im")
    if image is None:
        raise UnbraidError(f"cars3d: {name} holds no array 'im'.")
    expect(
        image.shape == (128, 128, 3, 24, 4) and image.dtype == np.uint8,
        f"cars3d: {name} must have the published layout",
        found=f"{image.shape} {image.dtype}",
        allowed="(128, 128, 3, 24, 4) uint8",
    )
    return image


SOURCE = Source(
    name="cars3d",
    about="rendered cars under rotation",
    load=load,
    size="17,568 × 3×64×64 (216 MB)",
    factors="elevation 4, azimuth 24, object 183",
    cite=CITE,
    fetch=lambda: fetch(FILE, array_cache.cache_dir() / FILE_NAME),
    status=lambda: file_status(FILE, array_cache.cache_dir() / FILE_NAME),
    how_to_get="run 'unbraid data make cars3d' (300 MB), or path = the archive or the folder of its mat files",
)
