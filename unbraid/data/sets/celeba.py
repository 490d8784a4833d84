"""CelebA (Liu et al. 2015): aligned faces of celebrities with 40 attributes, cropped to 64×64."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from unbraid.core.errors import UnbraidError, expect
from unbraid.core.files import read_bytes
from unbraid.core.progress import Advance
from unbraid.data.cache import array_cache
from unbraid.data.cache.checksums import RemoteFile, file_status, verify_checksum, verify_published
from unbraid.data.dataset import Dataset, Pixels, Source
from unbraid.data.factors import Factor, Factors
from unbraid.data.formats import archives
from unbraid.data.formats.image_files import as_named_file, read_image, to_chw
from unbraid.data.subsets.splits import take_subset

CITE = "Liu et al. 2015"
ATTRIBUTES_FILE, PARTITION_FILE = "list_attr_celeba.txt", "list_eval_partition.txt"
HOME_PAGE = "mmlab.ie.cuhk.edu.hk/projects/CelebA.html"
FILES = {  # MD5 as in torchvision/datasets/celeba.py, bytes as in tensorflow_datasets/url_checksums/celeb_a.txt
    "img_align_celeba.zip": RemoteFile(HOME_PAGE, "md5:00d2c5bc6d35e252742224ab0c1e8fcb", 1443490838),
    ATTRIBUTES_FILE: RemoteFile(HOME_PAGE, "md5:75e246fa4810816ffd6ee81facbd244c", 26721026),
    PARTITION_FILE: RemoteFile(HOME_PAGE, "md5:d32c9cbf5e040fd4025c592c306e6668", 2836386),
}


def load(*, path: str = "", split: str = "all", size: int = 64, crop: int = 128, official: bool = False) -> Dataset:
    """202,599 faces (2.5 GB, memory-mapped): the centre of 178×218, shifted down by 12 to the face, resized.

    Args:
        path: a folder with img_align_celeba.zip or img_align_celeba/ and list_attr_celeba.txt; by default in the cache.
        split: a random split, as in the papers; with official = true the published splits 'train', 'valid' and 'test'
            (162,770, 19,867 and 19,962) of list_eval_partition.txt.
        size: side of the images in pixels.
        crop: side of the crop in pixels.
        official: true selects the published splits instead of a random one.
    """
    allowed = ("all", "train", "valid", "test") if official else ("all", "train", "test")
    expect(
        split in allowed,
        "celeba has no such split",
        found=repr(split),
        allowed=allowed,
        do="" if official else "'valid' needs official = true.",
    )
    expect(0 < crop <= 178, "celeba: the crop must fit into 178×218", found=crop)
    folder = Path(path).expanduser() if path else array_cache.cache_dir() / "celeba"
    expect(folder.is_dir(), f"celeba: there is no folder {folder}", do=f"{SOURCE.how_to_get}.")
    images_path = next((p for p in (folder / "img_align_celeba", folder / "img_align_celeba.zip") if p.exists()), None)
    if images_path is None:
        raise UnbraidError(
            f"celeba: neither img_align_celeba/ nor img_align_celeba.zip is in {folder}. {SOURCE.how_to_get}."
        )
    if not path:
        for name, file in FILES.items():
            verify_published(file, folder / name)
    names, attributes, table = read_attributes(folder / ATTRIBUTES_FILE)
    files = {Path(name).name: name for name in archives.member_names(images_path, r"\.(jpg|png)$")}
    missing = [name for name in names if name not in files and Path(name).with_suffix(".png").name not in files]
    expect(
        not missing,
        f"celeba: {images_path} must hold every image that {ATTRIBUTES_FILE} lists",
        found=f"{len(missing):,} of {len(names):,} missing, such as {missing[0] if missing else ''}",
    )
    rows = {files.get(name) or files[Path(name).with_suffix(".png").name]: i for i, name in enumerate(names)}
    left, top = (178 - crop) // 2, (218 - crop) // 2
    down = min(12, 218 - crop - top)
    box = (left, top + down, left + crop, top + down + crop)

    def fill(array: np.ndarray, advance: Advance) -> None:
        for name, raw in archives.read_members(images_path, rows):
            array[rows[name]] = to_chw(read_image(as_named_file(raw, name), size, box=box), 3)
            advance()

    sources = [images_path] if images_path.is_file() else [images_path / name for name in rows]
    stamp = array_cache.file_fingerprint([*sources, folder / ATTRIBUTES_FILE], str(folder.resolve()), size, crop)
    array = array_cache.load_or_generate(f"celeba-{stamp}", (len(names), 3, size, size), np.uint8, fill, len(names))
    factors = Factors(tuple(Factor(name, 2, "class", ("no", "yes")) for name in attributes), grid=False)
    dataset = Dataset("celeba", Pixels(array), factors, table, cite=CITE)
    if split == "all" or not official:
        return dataset
    part = replace(dataset, notes={**dataset.notes, "split": split})
    return take_subset(part, read_partition(folder / PARTITION_FILE, names, split), f"official {split}")


def read_attributes(path: Path) -> tuple[list[str], list[str], np.ndarray]:
    """Read file names, attribute names and the table of 0 and 1 from the list_attr_celeba.txt at `path`.

    Args:
        path: the file.
    """
    lines = read_bytes(path, "attributes", limit=1 << 28).decode("utf-8", "replace").splitlines()
    expect(
        len(lines) > 2 and lines[0].strip().isdigit(), f"{path}: the first line must be a count, the second the names"
    )
    count, attributes = int(lines[0]), lines[1].split()
    rows = [line.split() for line in lines[2:] if line.strip()]
    expect(len(rows) == count, f"{path} is truncated", found=f"{len(rows):,} rows", allowed=f"{count:,}")
    for number, row in enumerate(rows, 3):
        expect(
            len(row) == len(attributes) + 1 and set(row[1:]) <= {"-1", "1"},
            f"{path}, line {number} is damaged",
            allowed=f"a file name and {len(attributes)} of -1 or 1",
        )
    table = np.array([[value == "1" for value in row[1:]] for row in rows], np.int64)
    return [row[0] for row in rows], attributes, table


def read_partition(path: Path, names: list[str], split: str) -> np.ndarray:
    """Read the indices of the images in one split of list_eval_partition.txt ('train' is 0, 'valid' 1, 'test' 2).

    Args:
        path: the file.
        names: file names of all images.
        split: name of the split.
    """
    text = read_bytes(path, "partition", limit=1 << 28).decode("utf-8", "replace")
    rows = [line.split() for line in text.splitlines()]
    for number, row in enumerate(rows, 1):
        expect(
            len(row) == 2 and row[1] in ("0", "1", "2"),
            f"{path}, line {number} is damaged",
            allowed="a file name and 0, 1 or 2",
        )
    part = dict(rows)
    expect(
        len(part) == len(rows) and set(part) == set(names),
        f"{path} must list the images of {ATTRIBUTES_FILE}, once each",
        found=f"{len(rows):,} lines for {len(names):,} images",
        do="It is truncated or of another data set.",
    )
    wanted = str(("train", "valid", "test").index(split))
    return np.array([i for i, name in enumerate(names) if part[name] == wanted], np.int64)


def _status(folder: Path) -> str:
    wanted = [ATTRIBUTES_FILE] if (folder / "img_align_celeba").is_dir() else ["img_align_celeba.zip", ATTRIBUTES_FILE]
    return next((status for name in wanted if (status := file_status(FILES[name], folder / name)) != "ready"), "ready")


def _fetch() -> None:
    """Verify the files in the cache; list those to download manually, since Google Drive asks for confirmation."""
    folder = array_cache.cache_dir() / "celeba"
    unpacked = (folder / "img_align_celeba").is_dir()
    needed = [ATTRIBUTES_FILE] if unpacked else ["img_align_celeba.zip", ATTRIBUTES_FILE]
    missing = [name for name in needed if not (folder / name).is_file()]
    if missing:
        wanted = "\n".join(f"  {name}: {file.num_bytes:,} bytes, {file.checksum}" for name, file in FILES.items())
        raise UnbraidError(
            f"celeba cannot be downloaded by a program: its licence forbids redistribution, and Google Drive asks for "
            f"confirmation. Download from {HOME_PAGE}\n{wanted}\n(the last only for official = true) and save them in "
            f"{folder}, or set path to their folder. Missing there: {', '.join(missing)}."
        )
    for name, file in FILES.items():
        if (folder / name).is_file():
            verify_checksum(file, folder / name, delete=False)


SOURCE = Source(
    name="celeba",
    about="faces with 40 attributes",
    load=load,
    size="202,599 × 3×64×64 (2.5 GB mapped)",
    factors="40 attributes of 2",
    cite=CITE,
    fetch=_fetch,
    status=lambda: _status(array_cache.cache_dir() / "celeba"),
    how_to_get="manual download (its licence forbids redistribution): img_align_celeba.zip and list_attr_celeba.txt "
    f"from {HOME_PAGE}, then path = their folder",
)
