"""Small files in the layouts in which the data sets were published, written for the tests."""

from __future__ import annotations

import gzip
import io
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image


def rng() -> np.random.Generator:
    return np.random.default_rng(7)


def write_idx(path: Path, array: np.ndarray) -> None:
    head = bytes([0, 0, 8, array.ndim]) + np.array(array.shape, ">u4").tobytes()
    raw = head + array.astype(np.uint8).tobytes()
    path.write_bytes(gzip.compress(raw) if path.suffix == ".gz" else raw)


def mnist(folder: Path) -> dict[str, Any]:
    for part, n in (("train", 30), ("t10k", 12)):
        write_idx(folder / f"{part}-images-idx3-ubyte.gz", rng().integers(0, 256, (n, 28, 28)))
        write_idx(folder / f"{part}-labels-idx1-ubyte", np.arange(n) % 10)
    return {"path": str(folder)}


def write_norb(path: Path, array: np.ndarray) -> None:
    magic = {np.dtype("u1"): 0x1E3D4C55, np.dtype("i4"): 0x1E3D4C54}[array.dtype]
    sizes = [*array.shape, *([1] * (3 - array.ndim))]
    raw = np.array([magic, array.ndim, *sizes], "<u4").tobytes() + array.tobytes()
    path.write_bytes(gzip.compress(raw) if path.suffix == ".gz" else raw)


def smallnorb(folder: Path) -> dict[str, Any]:
    from unbraid.data.sets.smallnorb import FILE_STEMS

    for stem in FILE_STEMS.values():
        write_norb(folder / f"{stem}-dat.mat.gz", rng().integers(0, 256, (20, 2, 96, 96)).astype(np.uint8))
        write_norb(folder / f"{stem}-cat.mat", (np.arange(20) % 5).astype(np.int32))
        info = np.stack([np.arange(20) % 10, np.arange(20) % 9, 2 * (np.arange(20) % 18), np.arange(20) % 6], 1)
        write_norb(folder / f"{stem}-info.mat", info.astype(np.int32))
    return {"path": str(folder)}


def cars3d(folder: Path) -> dict[str, Any]:
    from scipy.io import savemat

    with tarfile.open(folder / "cars.tar.gz", "w:gz") as tar:
        for name in ("data/cars/list.txt", "data/cars/car_001_mesh.mat", "data/cars/car_017_mesh.mat"):
            file = io.BytesIO()
            if name.endswith("mat"):
                savemat(file, {"im": rng().integers(0, 256, (128, 128, 3, 24, 4)).astype(np.uint8)})
            member = tarfile.TarInfo(name)
            member.size = len(file.getvalue())
            tar.addfile(member, io.BytesIO(file.getvalue()))
    return {"path": str(folder / "cars.tar.gz"), "objects": 2}


def png_bytes(size: tuple[int, int], colour: tuple[int, int, int] = (200, 30, 90), start: int = 3) -> bytes:
    image = Image.new("RGB", size, (255, 255, 255))
    image.paste(colour, (size[0] // start, size[1] // start, size[0] // 2, size[1] // 2))
    file = io.BytesIO()
    image.save(file, "PNG")
    return file.getvalue()


def cell_array(names: list[str]) -> np.ndarray:
    """A MATLAB cell array of strings, 1×n."""
    array = np.empty((1, len(names)), object)
    array[0] = names
    return array


def chairs(folder: Path) -> dict[str, Any]:
    from scipy.io import savemat

    with tarfile.open(folder / "rendered_chairs.tar", "w") as tar:
        file = io.BytesIO()
        savemat(
            file,
            {"folder_names": cell_array(["ee5", "aa1", "bb2", "cc3", "dd4"]), "instance_names": cell_array(["a", "b"])},
        )
        member = tarfile.TarInfo("rendered_chairs/all_chair_names.mat")
        member.size = len(file.getvalue())
        tar.addfile(member, io.BytesIO(file.getvalue()))
        for m, model in enumerate(("aa1", "bb2", "cc3", "dd4", "ee5")):
            for i in range(62):
                raw = png_bytes((60, 60), (m * 40, i * 4, 10))
                member = tarfile.TarInfo(
                    f"rendered_chairs/{model}/renders/image_{i:03}_p{20 + 10 * (i // 31):03}_t{i % 31:03}_r096.png"
                )
                member.size = len(raw)
                tar.addfile(member, io.BytesIO(raw))
    return {"path": str(folder / "rendered_chairs.tar"), "models": 5}


def celeba(folder: Path) -> dict[str, Any]:
    with zipfile.ZipFile(folder / "img_align_celeba.zip", "w") as zipped:
        for i in range(1, 13):
            file = io.BytesIO()
            pixels = rng().integers(0, 256, (218, 178, 3)).astype(np.uint8)
            Image.fromarray(pixels).save(file, "JPEG")
            zipped.writestr(f"img_align_celeba/{i:06}.jpg", file.getvalue())
    rows = "\n".join(f"{i:06}.jpg  {'1' if i % 2 else '-1'} -1  1" for i in range(1, 13))
    (folder / "list_attr_celeba.txt").write_text(f"12\nSmiling Male Young\n{rows}\n")
    parts = "\n".join(f"{i:06}.jpg {(i > 8) + (i > 10)}" for i in range(1, 13))
    (folder / "list_eval_partition.txt").write_text(parts + "\n")
    return {"path": str(folder)}


def mpi3d(folder: Path) -> dict[str, Any]:
    """A grid of 12 images; the tests shrink `mpi3d.SIZES` to (2, 1, 1, 1, 1, 3, 2)."""
    np.savez(folder / "mpi3d_toy.npz", images=rng().integers(0, 256, (12, 64, 64, 3)).astype(np.uint8))
    return {"path": str(folder / "mpi3d_toy.npz")}


def olivetti(folder: Path) -> dict[str, Any]:
    from scipy.io import savemat

    savemat(folder / "olivettifaces.mat", {"faces": rng().integers(0, 256, (4096, 400)).astype(np.uint8)})
    return {"path": str(folder / "olivettifaces.mat")}


def coil20(folder: Path) -> dict[str, Any]:
    from scipy.io import savemat

    savemat(folder / "COIL20.mat", {"X": rng().random((1440, 1024)), "Y": np.repeat(np.arange(1, 21), 72)[:, None]})
    return {"path": str(folder / "COIL20.mat")}


def sphere_mesh(n: int = 24) -> tuple[np.ndarray, np.ndarray]:
    """A sphere of triangles, seen from outside counter-clockwise."""
    up, round_ = np.linspace(0, np.pi, n), np.linspace(0, 2 * np.pi, 2 * n, endpoint=False)
    u, r = (a.ravel() for a in np.meshgrid(up, round_, indexing="ij"))
    points = np.stack([np.sin(u) * np.cos(r), np.cos(u), np.sin(u) * np.sin(r)], axis=1)
    i, j = (a.ravel() for a in np.meshgrid(np.arange(n - 1), np.arange(2 * n), indexing="ij"))
    k = (j + 1) % (2 * n)
    a, b, c, d = i * 2 * n + j, i * 2 * n + k, (i + 1) * 2 * n + j, (i + 1) * 2 * n + k
    return points, np.concatenate([np.stack([a, b, c], 1), np.stack([b, d, c], 1)])


def faces3d(folder: Path) -> dict[str, Any]:
    points, triangles = sphere_mesh(10)
    modes = rng().normal(0, 0.02, (3, *points.shape))
    np.savez(
        folder / "model.npz",
        neutral=points,
        tri=triangles,
        identity=modes,
        expression=modes[:1],
        expression_names=np.array(["smile"]),
    )
    return {"model": str(folder / "model.npz"), "identities": 2, "size": 16}


def images(folder: Path) -> dict[str, Any]:
    for i in range(6):
        (folder / f"{i}.png").write_bytes(png_bytes((20, 24), (i * 20, 0, 0)))
    rows = "\n".join(f"{i}.png,{'ab'[i % 2]},{i * 10}" for i in range(6))
    (folder / "metadata.csv").write_text(f"file_name,shape,angle\n{rows}\n")
    return {"path": str(folder), "size": 16}


def vectors(folder: Path) -> dict[str, Any]:
    rows = "\n".join(f"{i * 0.1},{i * -0.2},{'xyz'[i % 3]}" for i in range(20))
    (folder / "table.csv").write_text(f"height,weight,kind\n{rows}\n")
    return {"path": str(folder / "table.csv"), "labels": ["kind"]}


LAYOUTS = {
    "mnist": mnist,
    "fashion_mnist": mnist,
    "smallnorb": smallnorb,
    "cars3d": cars3d,
    "chairs": chairs,
    "celeba": celeba,
    "mpi3d": mpi3d,
    "olivetti": olivetti,
    "coil20": coil20,
    "faces3d": faces3d,
    "images": images,
    "vectors": vectors,
}
