"""MPI3D (Gondal et al. 2019): a robot arm, photographed and simulated, from the published npz files."""

from __future__ import annotations

from pathlib import Path

from unbraid.core.errors import UnbraidError, choose, expect
from unbraid.data.cache import array_cache
from unbraid.data.cache.checksums import RemoteFile, file_status, verify_published
from unbraid.data.cache.download import fetch
from unbraid.data.dataset import Dataset, Pixels, Source
from unbraid.data.factors import Factor, Factors
from unbraid.data.formats.npz_stream import copy_to_cache, nhwc_to_nchw

CITE = "Gondal et al. 2019"
FACTOR_NAMES = (
    "object_colour",
    "object_shape",
    "object_size",
    "camera_height",
    "background_colour",
    "horizontal_axis",
    "vertical_axis",
)
SIMPLE_VALUES = (
    ("white", "green", "red", "blue", "brown", "olive"),
    ("cone", "cube", "cylinder", "hexagonal", "pyramid", "sphere"),
)
COMPLEX_VALUES = (("yellow", "green", "olive", "red"), ("coffee-cup", "tennis-ball", "croissant", "beer-cup"))
COMMON_VALUES = (("small", "large"), ("top", "center", "bottom"), ("purple", "sea green", "salmon"))
FACTOR_SIZES = {  # by variant
    **dict.fromkeys(("toy", "realistic", "real"), (6, 6, 2, 3, 3, 40, 40)),
    "real_complex": (4, 4, 2, 3, 3, 40, 40),
}
BASE_URL = "https://huggingface.co/datasets/waleedgondal/mpi3d/resolve/main/"  # linked by the authors' README
FORMER_BASE_URL = "https://storage.googleapis.com/disentanglement_dataset/Final_Dataset/"  # linked before
CHECKSUMS = {  # present and former; MD5 as in disent (nmichlo/disent); of the present files only realistic has a checksum
    "toy": ("", "md5:55889cb7c7dfc655d6e0277beee88868"),
    "realistic": (
        "sha256:f6124f358e02846695cb3795acf8714f990c84cf02d495796898c133cf1ae866",
        "md5:59a6225b88b635365f70c91b3e52f70f",
    ),
    "real": ("", "md5:0f33f609918fb5c97996692f91129802"),
}
# as published
FILE_NAMES = {variant: f"mpi3d_{variant}.npz" for variant in CHECKSUMS}
FILE_NAMES["real_complex"] = "real3d_complicated_shapes_ordered.npz"
FILES = {
    name: RemoteFile(
        BASE_URL + FILE_NAMES[name], now, mirrors=(RemoteFile(FORMER_BASE_URL + FILE_NAMES[name], before),)
    )
    for name, (now, before) in CHECKSUMS.items()
}
DRIVE_URL = "drive.google.com/file/d/1Tp8eTdHxgUMtsZv5uAoYAbJR1BOa_OQm"


def load(*, variant: str = "toy", path: str = "") -> Dataset:
    """1,036,800 RGB images (460,800 of real_complex), memory-mapped from a copy in the cache (12.7 GB, or 5.7 GB).

    The order is that of the factors, vertical_axis fastest.

    Args:
        variant: toy, realistic, real or real_complex.
        path: the published npz (array 'images'); by default the download of 'unbraid data make mpi3d' in the cache.
            Its CRC is checked during the copy.
    """
    sizes = choose(variant, FACTOR_SIZES, "variant of mpi3d")
    source = Path(path).expanduser() if path else array_cache.cache_dir() / FILE_NAMES[variant]
    if not path and variant in FILES:
        verify_published(FILES[variant], source)
    expect(source.is_file(), f"mpi3d {variant}: {source} does not exist", do=f"{SOURCE.how_to_get}.")
    factors = Factors(tuple(_build_factor(variant, i, size) for i, size in enumerate(sizes)))
    name = f"mpi3d-{variant}-{array_cache.file_fingerprint([source])}"
    array = copy_to_cache(source, "images", (factors.count, 64, 64, 3), name, nhwc_to_nchw)
    return Dataset("mpi3d", Pixels(array), factors, cite=CITE, notes={"variant": variant})


def _build_factor(variant: str, i: int, size: int) -> Factor:
    """Factor number `i` with the authors' names of its values."""
    objects = COMPLEX_VALUES if variant == "real_complex" else SIMPLE_VALUES
    values: tuple[str, ...] = (*objects, *COMMON_VALUES, (), ())[i]
    kind = "class" if i in (0, 1, 4) else "ordinal"
    return Factor(FACTOR_NAMES[i], size, kind, values if len(values) == size else ())


def _fetch(*, variant: str = "toy") -> None:
    if variant == "real_complex" and not (array_cache.cache_dir() / FILE_NAMES[variant]).is_file():
        raise UnbraidError(
            f"mpi3d real_complex is available from Google Drive only, which asks for confirmation. Download "
            f"{FILE_NAMES[variant]} from {DRIVE_URL} and save it in {array_cache.cache_dir()}, or give its path."
        )
    if variant != "real_complex":
        fetch(choose(variant, FILES, "variant of mpi3d"), array_cache.cache_dir() / FILE_NAMES[variant])


SOURCE = Source(
    name="mpi3d",
    about="a robot arm: variant = toy, realistic, real or real_complex",
    load=load,
    size="1,036,800 × 3×64×64 (12.7 GB mapped)",
    cite=CITE,
    fetch=_fetch,
    factors="object_colour 6, object_shape 6, object_size 2, camera_height 3, background_colour 3, horizontal_axis 40, "
    "vertical_axis 40",
    status=lambda: file_status(FILES["toy"], array_cache.cache_dir() / FILE_NAMES["toy"]),
    how_to_get="run 'unbraid data make mpi3d' (12.7 GB; --set variant=real for another), or path = the published npz",
)
