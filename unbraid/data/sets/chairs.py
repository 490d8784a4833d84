"""3D Chairs (Aubry et al. 2014): rendered chair models from 31 azimuths and 2 elevations, in colour or as masks."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

from unbraid.core.errors import expect
from unbraid.core.progress import Advance
from unbraid.data.cache import array_cache
from unbraid.data.cache.checksums import RemoteFile, file_status, verify_published
from unbraid.data.cache.download import fetch
from unbraid.data.dataset import Bits, Dataset, Images, Pixels, Source
from unbraid.data.factors import Factor, Factors
from unbraid.data.formats import archives
from unbraid.data.formats.image_files import as_named_file, read_image, to_chw
from unbraid.data.sets.chair_models import centre_box, select_models

CITE = "Aubry et al. 2014; the 809 models as in Yang et al. 2015 and Dosovitskiy et al. 2015"
FILE_NAME = "rendered_chairs.tar"
# neither a checksum nor a size is published: what came is trusted only if all 1393 × 62 views are there and decode
FILE = RemoteFile(
    f"https://www.di.ens.fr/willow/research/seeing3Dchairs/data/{FILE_NAME}",
    mirrors=(RemoteFile(f"http://www.di.ens.fr/willow/research/seeing3Dchairs/data/{FILE_NAME}"),),
)
MEMBER_PATTERN = r"(?:^|/)([^/]+)/renders/image_\d+_p(\d+)_t(\d+)_r\d+\.png$"


def load(
    *,
    path: str = "",
    masks: bool = False,
    models: int = 1393,
    subset: str = "",
    split: str = "all",
    size: int = 64,
    crop: int = 400,
) -> Dataset:
    """Model × elevation 2 × azimuth 31: 86,366 images (1.1 GB in colour, 44 MB as masks).

    masks: True where the chair is, as DIP-VAE trains on. subset: which models, in which order (see
    docs/data.md): a text file of names, one a line; reduced_set1.mat, the list of Yang et al. 2015, nearest to the
    809 of Dosovitskiy et al. 2015; or 'distinct809', the 809 least alike, which is NOT the published list.
    split: 'train' is the first 80% of the models in their order, 'test' the rest. crop: the middle of the 600×600
    renderings that is kept.
    """
    where = Path(path).expanduser() if path else verify_published(FILE, array_cache.cache_dir() / FILE_NAME)
    expect(where.exists(), f"chairs: {where} does not exist", do=f"{SOURCE.how_to_get}.")
    expect(
        not masks or size % 8 == 0, "chairs: masks are packed to bits", found=f"size {size}", allowed="multiples of 8"
    )
    expect(split in ("all", "train", "test"), "chairs has no such split", found=repr(split), allowed="all, train, test")
    views = _find_views(where, models)
    chosen = _split_models(select_models(where, views, subset), split)
    files = [name for model in chosen for _, name in sorted(views[model].items())]
    rows = {name: i for i, name in enumerate(files)}

    def fill(array: np.ndarray, advance: Advance) -> None:
        for name, raw in archives.read_members(where, rows):
            pixels = to_chw(read_image(as_named_file(raw, name), size, box=centre_box(raw, name, crop)), 3)
            array[rows[name]] = np.packbits((pixels.min(axis=0) < 250).ravel()) if masks else pixels
            advance()

    stamp = array_cache.file_fingerprint(
        [where] if where.is_file() else [where / f for f in files], str(where.resolve()), size, crop, masks, files
    )
    shape = (len(files), size * size // 8) if masks else (len(files), 3, size, size)
    array = array_cache.load_or_generate(f"chairs-{stamp}", shape, np.uint8, fill, len(files))
    images: Images = Bits(array, (1, size, size)) if masks else Pixels(array)
    factors = Factors(
        (
            Factor("model", len(chosen), "class", tuple(chosen)),
            Factor("elevation", 2, "ordinal", (20, 30)),
            Factor("azimuth", 31, "circular"),
        )
    )
    return Dataset("chairs", images, factors, cite=CITE, notes={"split": split, "masks": masks})


def _find_views(path: Path, models: int) -> dict[str, dict[tuple[int, int], str]]:
    """For each model the file of each (elevation, azimuth); a model that lacks one is named."""
    views: dict[str, dict[tuple[int, int], str]] = {}
    for name in archives.member_names(path, MEMBER_PATTERN):
        match = re.search(MEMBER_PATTERN, name)
        if match:
            views.setdefault(match[1], {})[int(match[2]), int(match[3])] = name
    expect(
        len(views) == models,
        f"chairs: {path} must hold {models} models",
        found=len(views),
        do="Parts are missing; say models if you mean fewer.",
    )
    grid = sorted(next(iter(views.values())))
    for model, found in views.items():
        expect(
            len(found) == 62 and sorted(found) == grid,
            f"chairs: model {model} must have 2 × 31 views",
            found=len(found),
        )
    return views


def _split_models(models: list[str], split: str) -> list[str]:
    cut = round(0.8 * len(models))
    expect(split == "all" or 0 < cut < len(models), "chairs: too few models to split", found=len(models))
    return {"all": models, "train": models[:cut], "test": models[cut:]}[split]


SOURCE = Source(
    name="chairs",
    about="rendered chairs; masks = true for DIP-VAE's binary ones",
    load=load,
    cite=CITE,
    size="86,366 × 3×64×64 (1.1 GB) or masks (44 MB)",
    factors="model 1393, elevation 2, azimuth 31",
    status=lambda: file_status(FILE, array_cache.cache_dir() / FILE_NAME),
    fetch=lambda: fetch(FILE, array_cache.cache_dir() / FILE_NAME),
    official=True,
    how_to_get="run 'unbraid data make chairs' (3 GB), or path = rendered_chairs.tar or its folder",
)
