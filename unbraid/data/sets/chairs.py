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
# no checksum and no size are published: the file is accepted only if all 1393 × 62 views exist and decode
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

    Args:
        path: rendered_chairs.tar or its folder; by default in the cache.
        masks: binary images, 1 on the chair, as DIP-VAE trains on.
        models: number of models in the archive.
        subset: which models, and their order (see docs/data.md): a text file with one name per line;
            reduced_set1.mat, the list of Yang et al. 2015, closest to the 809 of Dosovitskiy et al. 2015; or
            'distinct809', the 809 most distinct models, which is NOT the published list.
        split: 'train' is the first 80% of the models, 'test' the rest.
        size: side of the images in pixels.
        crop: side of the central part of the 600×600 renderings that is kept.
    """
    source = Path(path).expanduser() if path else verify_published(FILE, array_cache.cache_dir() / FILE_NAME)
    expect(source.exists(), f"chairs: {source} does not exist", do=f"{SOURCE.how_to_get}.")
    expect(
        not masks or size % 8 == 0,
        "chairs: masks are packed to bits, so size must fit",
        found=f"size {size}",
        allowed="multiples of 8",
    )
    expect(split in ("all", "train", "test"), "chairs has no such split", found=repr(split), allowed="all, train, test")
    views = _find_views(source, models)
    chosen = _split_models(select_models(source, views, subset), split)
    files = [name for model in chosen for _, name in sorted(views[model].items())]
    rows = {name: i for i, name in enumerate(files)}

    def fill(array: np.ndarray, advance: Advance) -> None:
        for name, raw in archives.read_members(source, rows):
            pixels = to_chw(read_image(as_named_file(raw, name), size, box=centre_box(raw, name, crop)), 3)
            array[rows[name]] = np.packbits((pixels.min(axis=0) < 250).ravel()) if masks else pixels
            advance()

    stamp = archives.members_fingerprint(source, files, size, crop, masks, files)
    shape = (len(files), size * size // 8) if masks else (len(files), 3, size, size)
    array = array_cache.load_or_generate(f"chairs-{stamp}", shape, np.uint8, fill, len(files))
    images: Images = Bits(array, (1, size, size)) if masks else Pixels(array)
    items = Factor("model", len(chosen), "class", tuple(chosen)), Factor("elevation", 2, "ordinal", (20, 30))
    factors = Factors((*items, Factor("azimuth", 31, "circular")))
    return Dataset("chairs", images, factors, cite=CITE, notes={"split": split, "masks": masks})


def _find_views(path: Path, models: int) -> dict[str, dict[tuple[int, int], str]]:
    """File of each (elevation, azimuth) by model; a model that lacks one raises an error."""
    views: dict[str, dict[tuple[int, int], str]] = {}
    for name in archives.member_names(path, MEMBER_PATTERN):
        match = re.search(MEMBER_PATTERN, name)
        if match:
            views.setdefault(match[1], {})[int(match[2]), int(match[3])] = name
    expect(
        len(views) == models,
        f"chairs: {path} must hold {models} models",
        found=len(views),
        do="Files are missing; set models to use fewer.",
    )
    grid = sorted(next(iter(views.values())))
    for model, found in views.items():
        whole = len(found) == 62 and sorted(found) == grid
        expect(whole, f"chairs: model {model} must have 2 × 31 views", found=len(found))
    return views


def _split_models(models: list[str], split: str) -> list[str]:
    cut = round(0.8 * len(models))
    expect(split == "all" or 0 < cut < len(models), "chairs: too few models to split", found=len(models))
    return {"all": models, "train": models[:cut], "test": models[cut:]}[split]


SOURCE = Source(
    name="chairs",
    about="rendered chairs; masks = true for the binary masks of DIP-VAE",
    load=load,
    cite=CITE,
    size="86,366 × 3×64×64 (1.1 GB) or masks (44 MB)",
    factors="model 1393, elevation 2, azimuth 31",
    status=lambda: file_status(FILE, array_cache.cache_dir() / FILE_NAME),
    fetch=lambda: fetch(FILE, array_cache.cache_dir() / FILE_NAME),
    official=True,
    how_to_get="run 'unbraid data make chairs' (3 GB), or path = rendered_chairs.tar or its folder",
)
