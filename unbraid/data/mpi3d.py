"""MPI3D (Gondal et al. 2019): a robot arm, photographed and simulated, from the published npz files."""

from __future__ import annotations

from pathlib import Path

from unbraid.data import store
from unbraid.data.dataset import Dataset, Pixels, Source
from unbraid.data.download import fetch
from unbraid.data.factors import Factor, Factors
from unbraid.data.npz import channels_first, copied
from unbraid.data.published import File, checked, status
from unbraid.ground.errors import UnbraidError, choose, expect

CITE = "Gondal et al. 2019"
NAMES = (
    "object_colour",
    "object_shape",
    "object_size",
    "camera_height",
    "background_colour",
    "horizontal_axis",
    "vertical_axis",
)
SIMPLE = (
    ("white", "green", "red", "blue", "brown", "olive"),
    ("cone", "cube", "cylinder", "hexagonal", "pyramid", "sphere"),
)
COMPLEX = (("yellow", "green", "olive", "red"), ("coffee-cup", "tennis-ball", "croissant", "beer-cup"))
COMMON = (("small", "large"), ("top", "center", "bottom"), ("purple", "sea green", "salmon"))
SIZES = {  # factor sizes of each variant
    "toy": (6, 6, 2, 3, 3, 40, 40),
    "realistic": (6, 6, 2, 3, 3, 40, 40),
    "real": (6, 6, 2, 3, 3, 40, 40),
    "real_complex": (4, 4, 2, 3, 3, 40, 40),
}
NOW = "https://huggingface.co/datasets/waleedgondal/mpi3d/resolve/main/"  # where the authors' README points
ONCE = "https://storage.googleapis.com/disentanglement_dataset/Final_Dataset/"  # where it pointed before
FILES = {  # MD5 of the former place as in disent (nmichlo/disent); none is published for the present one but realistic's
    "toy": File(NOW + "mpi3d_toy.npz", mirrors=(File(ONCE + "mpi3d_toy.npz", "md5:55889cb7c7dfc655d6e0277beee88868"),)),
    "realistic": File(
        NOW + "mpi3d_realistic.npz",
        "sha256:f6124f358e02846695cb3795acf8714f990c84cf02d495796898c133cf1ae866",
        mirrors=(File(ONCE + "mpi3d_realistic.npz", "md5:59a6225b88b635365f70c91b3e52f70f"),),
    ),
    "real": File(
        NOW + "mpi3d_real.npz", mirrors=(File(ONCE + "mpi3d_real.npz", "md5:0f33f609918fb5c97996692f91129802"),)
    ),
}
PLACES = {variant: f"mpi3d_{variant}.npz" for variant in SIZES} | {
    "real_complex": "real3d_complicated_shapes_ordered.npz"
}  # as published
DRIVE = "drive.google.com/file/d/1Tp8eTdHxgUMtsZv5uAoYAbJR1BOa_OQm"


def load(*, variant: str = "toy", path: str = "") -> Dataset:
    """1,036,800 RGB images (460,800 of real_complex), mapped from a copy in the cache (12.7 GB, or 5.7).

    path: the published npz (array 'images'); by default what 'unbraid data make mpi3d' put into the cache. Its
    CRC is checked while it is copied. The order is that of the factors, vertical_axis fastest.
    """
    sizes = choose(variant, SIZES, "variant of mpi3d")
    where = Path(path).expanduser() if path else store.folder() / PLACES[variant]
    if not path and variant in FILES:
        checked(FILES[variant], where)
    expect(where.is_file(), f"mpi3d {variant}: {where} does not exist", do=f"{SOURCE.get}.")
    factors = Factors(tuple(_factor(variant, i, size) for i, size in enumerate(sizes)))
    name = f"mpi3d-{variant}-{store.state([where])}"
    array = copied(where, "images", (factors.count, 64, 64, 3), name, packed=channels_first)
    return Dataset("mpi3d", Pixels(array), factors, cite=CITE, notes={"variant": variant})


def _factor(variant: str, i: int, size: int) -> Factor:
    """Factor number `i` with the authors' names of its values."""
    values: tuple[str, ...] = (*(COMPLEX if variant == "real_complex" else SIMPLE), *COMMON, (), ())[i]
    kind = "class" if i in (0, 1, 4) else "ordinal"
    return Factor(NAMES[i], size, kind, values if len(values) == size else ())


def _fetch(*, variant: str = "toy") -> None:
    if variant == "real_complex" and not (store.folder() / PLACES[variant]).is_file():
        raise UnbraidError(
            f"mpi3d real_complex is given out by Google Drive only, which asks for a click. Fetch "
            f"{PLACES[variant]} from {DRIVE} and put it into {store.folder()}, or give its path."
        )
    if variant != "real_complex":
        fetch(choose(variant, FILES, "variant of mpi3d"), store.folder() / PLACES[variant])


SOURCE = Source(
    name="mpi3d",
    about="a robot arm: variant = toy, realistic, real or real_complex",
    load=load,
    size="1,036,800 × 3×64×64 (12.7 GB mapped)",
    cite=CITE,
    fetch=_fetch,
    factors="object_colour 6, object_shape 6, object_size 2, camera_height 3, background_colour 3, horizontal_axis 40, "
    "vertical_axis 40",
    status=lambda: status(FILES["toy"], store.folder() / PLACES["toy"]),
    get="run 'unbraid data make mpi3d' (12.7 GB; --set variant=real for that one), or path = the published npz",
)
