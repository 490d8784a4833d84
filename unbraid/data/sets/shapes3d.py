"""3D Shapes (Burgess and Kim 2018): the original h5, or a ray-cast approximation of its 480,000 images in 10 MB."""

from __future__ import annotations

import colorsys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from unbraid.core.errors import UnbraidError, expect
from unbraid.core.progress import Advance
from unbraid.data.cache import array_cache
from unbraid.data.cache.checksums import RemoteFile, verify_published
from unbraid.data.cache.download import fetch
from unbraid.data.dataset import Dataset, Images, Pixels, Source
from unbraid.data.factors import Factor, Factors
from unbraid.data.formats.hdf5 import get_hdf5_array, open_hdf5
from unbraid.data.formats.npz_stream import nhwc_to_nchw
from unbraid.data.rendering import ray_caster

if TYPE_CHECKING:
    from torch import Tensor

CACHE_NAME = "shapes3d-geometry-1"
CITE = "Burgess & Kim 2018"
# MD5 as in disent (nmichlo/disent), bytes as in tensorflow_datasets/url_checksums/shapes3d.txt
FILE = RemoteFile(
    "https://storage.googleapis.com/3d-shapes/3dshapes.h5", "md5:099a2078d58cec4daad0702c55d06868", 267573662
)
HUES = tuple((np.arange(10) / 10).tolist())
SCALES = np.linspace(0.75, 1.25, 8)
SHAPES = ("cube", "cylinder", "sphere", "capsule")
ANGLES = np.linspace(-30, 30, 15)
SKY_COLOUR = (0.600, 0.886, 0.976)
BYTES_PER_LIGHT = 180  # stored value per unit of light, so that 255 is light 1.4
FACTORS = Factors(
    (
        Factor("floor_hue", 10, "circular", HUES),
        Factor("wall_hue", 10, "circular", HUES),
        Factor("object_hue", 10, "circular", HUES),
        Factor("scale", 8, "ordinal", tuple(SCALES.tolist())),
        Factor("shape", 4, "class", SHAPES),
        Factor("orientation", 15, "ordinal", tuple(ANGLES.tolist())),
    )
)


@dataclass(frozen=True)
class ShadedImages:
    """480 geometries, coloured on access: an image is Σ_k colour_k · light_k, clipped to 1.

    `take` returns one number per image (its grid index); `unpack` applies the colours on the device.

    Args:
        light: "480 5 4096" uint8: floor, wall, object, sky, highlight.
        shape: channels, height and width of one image.
    """

    light: np.ndarray
    shape: tuple[int, int, int] = (3, 64, 64)
    _tables: dict[str, tuple[Tensor, Tensor]] = field(init=False, default_factory=dict, repr=False, compare=False)

    def __len__(self) -> int:
        return 1000 * len(self.light)

    def take(self, index: np.ndarray) -> np.ndarray:
        """Return `index` itself as the stored rows; see `Images.take`."""
        return np.asarray(index, np.int64)

    def unpack(self, rows: Tensor) -> Tensor:
        """Convert `rows` to images; see `Images.unpack`."""
        import torch

        light, palette = self._tables_on(rows.device)
        layers = light.index_select(0, rows % len(self.light)).float()
        floor, wall, thing = (palette.index_select(0, rows // (len(self.light) * k) % 10) for k in (100, 10, 1))
        sky, white = palette[10].expand_as(floor), palette[11].expand_as(floor)
        colours = torch.stack([floor, wall, thing, sky, white], dim=2)  # "b 3 5"
        return torch.bmm(colours, layers).clamp_(max=1).view(-1, *self.shape)

    def _tables_on(self, device: Any) -> tuple[Tensor, Tensor]:
        """The geometries and the palette (10 hues, sky, white) on a device, copied once."""
        if str(device) not in self._tables:
            import torch

            palette = [*(colorsys.hsv_to_rgb(hue, 1, 1) for hue in HUES), SKY_COLOUR, (1, 1, 1)]
            self._tables[str(device)] = (
                torch.from_numpy(np.array(self.light)).to(device),
                torch.tensor(np.array(palette, np.float32) / np.float32(BYTES_PER_LIGHT), device=device),
            )
        return self._tables[str(device)]


def load(*, path: str = "", original: bool = False, size: int = 64) -> Dataset:
    """All 480,000 images in the original order (orientation varies fastest).

    Without the original file the images are ray-cast: an approximation with the same factors, not the original pixels.

    Args:
        path: the original 3dshapes.h5, copied once into the cache as a memory map of 5.9 GB.
        original: true uses the file that 'unbraid data make shapes3d --set original=true' downloaded.
        size: 64 as published, or 32 for work on a CPU, where each pixel is the mean light of four; ray-cast images
            only.
    """
    images: Images
    expect(size in (32, 64), "shapes3d must have one of two sizes", found=size, allowed=(32, 64))
    path = path or (str(verify_published(FILE, array_cache.cache_dir() / "3dshapes.h5")) if original else "")
    if path:
        expect(size == 64, "the original images are 64×64", found=size, do="Leave out size or path.")
        images = Pixels(_load_original(Path(path).expanduser()))
    else:
        light = array_cache.load_or_generate(CACHE_NAME, (480, 5, 4096), np.uint8, _render_all, 480)
        images = ShadedImages(light) if size == 64 else ShadedImages(halve_resolution(light), (3, 32, 32))
    return Dataset("shapes3d", images, FACTORS, cite=CITE, notes={"origin": path or "ray-cast likeness"})


def halve_resolution(light: np.ndarray) -> np.ndarray:
    """Halve the resolution of the `light` "n k h·w" of square images: the mean of every 2×2 pixels.

    Args:
        light: the images "n k h·w".

    >>> halve_resolution(np.arange(16, dtype=np.uint8).reshape(1, 1, 16)).tolist()
    [[[2, 4, 10, 12]]]
    """
    side = round(light.shape[2] ** 0.5)
    squares = light.reshape(*light.shape[:2], side // 2, 2, side // 2, 2)
    return np.rint(squares.mean(axis=(3, 5))).astype(np.uint8).reshape(*light.shape[:2], -1)


def _render_all(array: np.ndarray, advance: Advance) -> None:
    blocks = array.reshape(8, 4, 15, 5, 64, 64)
    for i, scale in enumerate(SCALES):
        for s, shape in enumerate(SHAPES):
            for k, angle in enumerate(ANGLES):
                light = ray_caster.render_light(ray_caster.Scene(), shape, scale, np.radians(angle))
                blocks[i, s, k] = np.rint(np.clip(light * BYTES_PER_LIGHT, 0, 255))
                advance()


def _load_original(path: Path) -> np.ndarray:
    with open_hdf5(path) as file:
        images, labels, n = get_hdf5_array(file, "images", path), get_hdf5_array(file, "labels", path), FACTORS.count
        expect(
            images.shape == (n, 64, 64, 3) and images.dtype == np.uint8,
            f"{path} must have the published layout",
            found=f"{images.shape} {images.dtype}",
            allowed=f"({n}, 64, 64, 3) uint8",
        )
        layout = f"{path} must have the published layout"
        expect(labels.shape == (n, 6), layout, found=f"labels {labels.shape}", allowed=f"({n}, 6)")
        ends = np.array(labels[[0, 1, n - 1]])
        expect(
            (ends[1] != ends[0]).tolist() == [False] * 5 + [True],
            f"{path} is not in the original order",
            do="Use a file in which orientation varies fastest.",
        )

        def fill(array: np.ndarray, advance: Advance) -> None:
            for start in range(0, n, 2000):
                try:
                    array[start : start + 2000] = nhwc_to_nchw(images[start : start + 2000])
                except OSError as error:
                    raise UnbraidError(f"{path} is damaged near image {start:,}: {error}.") from error
                advance(2000)

        name = f"shapes3d-original-{array_cache.file_fingerprint([path])}"
        return array_cache.load_or_generate(name, (n, 3, 64, 64), np.uint8, fill, n)


def _fetch(*, original: bool = False) -> None:
    if original:
        fetch(FILE, array_cache.cache_dir() / "3dshapes.h5")


SOURCE = Source(
    name="shapes3d",
    about="one object in a coloured room, ray-cast; or the original h5 by path",
    load=load,
    size="480,000 × 3×64×64, or 32×32 (10 MB; 5.9 GB for the original)",
    status=lambda: array_cache.generated_status(CACHE_NAME),
    cite=CITE,
    factors="floor_hue 10, wall_hue 10, object_hue 10, scale 8, shape 4, orientation 15",
    how_to_get="generated on first use in half a minute; the original: unbraid data make shapes3d --set original=true "
    "(268 MB), or path = 3dshapes.h5",
    fetch=_fetch,
)
