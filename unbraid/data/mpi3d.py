"""MPI3D (Gondal et al. 2019): a robot arm, photographed and simulated, from the published npz files."""

from __future__ import annotations

from pathlib import Path

from unbraid.data import store
from unbraid.data.dataset import Dataset, Pixels, Source
from unbraid.data.download import File, fetch
from unbraid.data.factors import Factors
from unbraid.data.npz import channels_first, copied
from unbraid.errors import choose, expect

CITE = "Gondal et al. 2019, On the transfer of inductive bias from simulation to the real world: MPI3D"
SITE = "https://storage.googleapis.com/disentanglement_dataset/Final_Dataset/"
NAMES = ("object_colour", "object_shape", "object_size", "camera_height", "background_colour",
         "first_axis", "second_axis")
SIZES = {  # factor sizes of each variant
    "toy": (6, 6, 2, 3, 3, 40, 40),
    "realistic": (6, 6, 2, 3, 3, 40, 40),
    "real": (6, 6, 2, 3, 3, 40, 40),
    "real_complex": (4, 4, 2, 3, 3, 40, 40),
}
FILES = {
    "toy": File(SITE + "mpi3d_toy.npz", "md5:55889cb7c7dfc655d6e0277beee88868"),
    "realistic": File(SITE + "mpi3d_realistic.npz", "md5:59a6225b88b635365f70c91b3e52f70f"),
    "real": File(SITE + "mpi3d_real.npz", "md5:0f33f609918fb5c97996692f91129802"),
}


def load(*, variant: str = "toy", path: str = "") -> Dataset:
    """1,036,800 RGB images (460,800 of real_complex), mapped from a copy in the cache (12.7 GB, or 5.7).

    path: the published npz (array 'images'); by default what 'unbraid data make mpi3d' put into the cache.
    """
    sizes = choose(variant, SIZES, "variant of mpi3d")
    where = Path(path).expanduser() if path else store.folder() / f"mpi3d_{variant}.npz"
    expect(where.is_file(), f"mpi3d {variant}: {where} does not exist", do=f"{SOURCE.get}.")
    classes = ("object_colour", "object_shape", "background_colour")
    factors = Factors.of(dict(zip(NAMES, sizes, strict=True)), classes=classes)
    name = f"mpi3d-{variant}-{store.state([where])}"
    array = copied(where, "images", (factors.count, 64, 64, 3), name, packed=channels_first)
    return Dataset("mpi3d", Pixels(array), factors, cite=CITE, notes={"variant": variant})


def _fetch(*, variant: str = "toy") -> None:
    fetch(choose(variant, FILES, "variant of mpi3d to fetch"), store.folder() / f"mpi3d_{variant}.npz")


SOURCE = Source(
    name="mpi3d", about="a robot arm: variant = toy, realistic, real or real_complex", load=load,
    size="1,036,800 × 3×64×64 (12.7 GB mapped)", cite=CITE, fetch=_fetch,
    factors="object_colour 6, object_shape 6, object_size 2, camera_height 3, background_colour 3, two axes 40",
    status=lambda: "ready" if (store.folder() / "mpi3d_toy.npz").is_file() else "needs a file: mpi3d_toy.npz",
    get="run 'unbraid data make mpi3d' (--set variant=real for that one), or path = the published npz",
)
