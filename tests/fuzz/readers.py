"""The readers under fire: for each how a hostile input is made, how the library reads it, and what it must have read."""

from __future__ import annotations

import gzip
import io
import json
import os
import shutil
import tarfile
import tomllib
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from tests.fuzz import reference_parsers
from tests.fuzz.mutations import Rng, corrupt_bytes, corrupt_npy, corrupt_table, corrupt_text, corrupt_zip

OLD_RUNS = Path(__file__).parents[1] / "data" / "runs_of_0_1"


@dataclass(frozen=True)
class Reader:
    """One door of the library.

    `make(rng, folder)` writes a hostile input and returns it; `read` gives it to the library; `unlike(input, value)` says
    how an accepted value differs from what the input holds, or ''. `weight` is its share of the campaign.
    """

    weight: float
    make: Callable[[Rng, Path], Any]
    read: Callable[[Any], Any]
    difference: Callable[[Any, Any], str]


def random_uint8(*shape: int, seed: int = 7) -> np.ndarray:
    """Bytes that no other seed gives."""
    return np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)


def written_bytes(write: Callable[[io.BytesIO], Any]) -> bytes:
    """What a writer of files writes."""
    file = io.BytesIO()
    write(file)
    return file.getvalue()


def pick(options: list[Any], rng: Rng) -> Any:
    """One of them."""
    return options[int(rng.integers(len(options)))]


# arrays ------------------------------------------------------------------------------------------------------------


@cache
def npy_seeds() -> list[bytes]:
    arrays = [
        random_uint8(6, 8, 8),
        random_uint8(5, 8, 9, 3),
        random_uint8(5, 3, 8, 9),
        random_uint8(6, 8, 8) > 99,
        (random_uint8(4, 8, 8) / 255).astype(np.float32),
        random_uint8(4, 8, 8) / 255,
        np.asfortranarray(random_uint8(4, 8, 8)),
        random_uint8(4, 8, 8).astype(np.int64),
    ]
    return [written_bytes(lambda f, a=a: np.save(f, a)) for a in arrays]


def make_npy(rng: Rng, folder: Path) -> Path:
    path = folder / "x.npy"
    path.write_bytes(corrupt_npy(pick(npy_seeds(), rng), rng))
    return path


def load_images(path: Path, **options: Any) -> Any:
    from unbraid.data import load

    return load("images", path=str(path), **options)


def load_vectors(path: Path, **options: Any) -> Any:
    from unbraid.data import load

    return load("vectors", path=str(path), **options)


def npy_difference(path: Path, data: Any) -> str:
    return reference_parsers.images_difference(data, reference_parsers.parse_npy(path.read_bytes()))


@cache
def npz_seeds() -> list[bytes]:
    images, kinds = random_uint8(6, 8, 8), np.arange(6) % 3
    tables: list[dict[str, Any]] = [
        {"images": images, "labels": kinds},
        {"images": images},
        {"images": images, "label": np.array(list("abcabc"))},
        {"imgs": images / 255, "labels": np.array([0.5, 1.5, 0.5, 2.5, 1.5, 0.5])},
    ]
    return [written_bytes(lambda f, t=t: np.savez_compressed(f, **t)) for t in tables]


def make_npz(rng: Rng, folder: Path) -> Path:
    path = folder / "x.npz"
    path.write_bytes(corrupt_zip(pick(npz_seeds(), rng), rng, corrupt_npy))
    return path


def npz_difference(path: Path, data: Any) -> str:
    arrays = reference_parsers.parse_npz(path.read_bytes())
    many = [a for a in arrays.values() if a.ndim >= 3]
    name = next((n for n in ("labels", "label") if n in arrays), "")
    labels = arrays.get(name)
    columns = {} if labels is None else {"label": labels} if labels.ndim == 1 else _number_columns("label", labels)
    wrong = reference_parsers.images_difference(data, many[0]) if len(many) == 1 else f"{len(many)} arrays of images"
    return wrong or reference_parsers.labels_difference(data, columns)


def _number_columns(name: str, table: np.ndarray) -> dict[str, Any]:
    return {f"{name}_{i}": column for i, column in enumerate(table.T)}


@cache
def hdf5_seeds() -> list[bytes]:
    import h5py

    def write(file: io.BytesIO, variant: str) -> None:
        with h5py.File(file, "w", libver="latest" if variant == "latest" else "earliest") as f:
            if variant == "gzip":
                f.create_dataset("images", data=random_uint8(6, 8, 8), compression="gzip", chunks=(6, 8, 8))
            else:
                f["images"] = random_uint8(6, 8, 8)
            if variant == "words":
                f.create_dataset("labels", data=list("abcabc"), dtype=h5py.string_dtype())
            elif variant != "bare":
                f["labels"] = np.arange(6) % 3

    return [written_bytes(partial(write, variant=how)) for how in ("plain", "gzip", "words", "bare", "latest")]


def make_hdf5(rng: Rng, folder: Path) -> Path:
    path = folder / "x.h5"
    path.write_bytes(corrupt_bytes(pick(hdf5_seeds(), rng), rng))
    return path


def hdf5_difference(path: Path, data: Any) -> str:
    """Pixels as they lie in the file's bytes; where these are packed or missing, as zlib unpacks the one chunk."""
    import h5py

    with h5py.File(path) as file:
        arrays: dict[str, Any] = {}
        file.visititems(lambda name, item: arrays.update({name: item}) if isinstance(item, h5py.Dataset) else None)
        many = [item for item in arrays.values() if len(item.shape or ()) in (3, 4)]
        stored, start = many[0], many[0].id.get_offset()
        if start is not None and stored.dtype.kind in "buif":
            raw = path.read_bytes()[start : start + stored.nbytes]
            images = np.frombuffer(raw.ljust(stored.nbytes, b"\0"), stored.dtype).reshape(stored.shape)
        else:
            images = stored[()]
        name = next((n for n in ("labels", "label") if n in arrays), "")
        columns: dict[str, Any] = {}
        if name:
            words = arrays[name].dtype.kind == "O"
            values = arrays[name].asstr()[()] if words else arrays[name][()]
            columns = {"label": values} if values.ndim == 1 else _number_columns("label", values)
        return reference_parsers.images_difference(data, np.asarray(images)) or reference_parsers.labels_difference(
            data, columns
        )


# tables ------------------------------------------------------------------------------------------------------------

TABLES = [
    "shape,x,y\n" + "".join(f"{'abc'[i % 3]},{i % 4},{i * 0.5}\n" for i in range(12)),
    "shape;x;y\n" + "".join(f"{'abc'[i % 3]};{i % 4};{i * 0.5}\n" for i in range(12)),
    "shape\tx\ty\n" + "".join(f"{'abc'[i % 3]}\t{i % 4}\t{i * 0.5}\n" for i in range(12)),
    ",x,y\n" + "".join(f"{i},{i % 4},{i * 0.37}\n" for i in range(12)),
    "a\r\n" + "".join(f"{i % 2}\r\n" for i in range(12)),
    '"the name","b"\n' + "".join(f'"x, {i % 3}","say ""{i % 2}"""\n' for i in range(12)),
]


def make_csv(rng: Rng, folder: Path) -> Path:
    path = folder / ("x.tsv" if rng.random() < 0.1 else "x.csv")
    path.write_bytes(corrupt_text(pick(TABLES, rng), rng))
    return path


def read_table(path: Path) -> Any:
    from unbraid.data.formats.label_files import read_columns

    return read_columns(path)


def csv_difference(path: Path, columns: Any) -> str:
    text = path.read_bytes().decode("utf-8-sig")
    tried = []
    for delimiter in (",", ";", "\t", "|"):
        rows = reference_parsers.parse_table(text, delimiter)
        header, body = [name.strip() for name in rows[0]], rows[1:]
        if not set(columns) <= set(header) or any(len(row) != len(header) for row in body):
            continue
        fields = zip(*body, strict=True) if body else [()] * len(header)
        expected = {name: [field.strip() for field in column] for name, column in zip(header, fields, strict=True)}
        if all(_same_words(list(map(str, columns[n])), expected[n], delimiter) for n in columns):
            named = [n for n in set(header) - set(columns) if n and not n.startswith("Unnamed: ")]
            lost = [n for n in named if not _is_row_index(expected[n])]
            return f"columns lost: {lost}" if lost else ""
        tried.append(delimiter)
    return f"no reading by {tried or 'any delimiter'} gives these columns"


def _same_words(found: list[str], expected: list[str], delimiter: str) -> bool:
    """Word for word; where fields are not parted by commas, 1,5 may be read as the number 1.5."""
    dotted = [word.replace(",", ".") for word in expected] if delimiter != "," else expected
    return found in (expected, dotted)


def _is_row_index(column: list[str]) -> bool:
    """Whether a column counts its rows."""
    return column in ([str(i) for i in range(len(column))], [str(i + 1) for i in range(len(column))])


def make_vectors_csv(rng: Rng, folder: Path) -> Path:
    path = folder / "v.csv"
    rows = "".join(f"{i * 0.5},{-i},{i**2}e-1\n" for i in range(8))
    path.write_bytes(corrupt_text(f"a,b,c\n{rows}", rng))
    return path


def vectors_difference(path: Path, data: Any) -> str:
    text = path.read_bytes().decode("utf-8-sig")
    names = data.notes["columns"]
    for delimiter in (",", ";", "\t", "|"):
        rows = reference_parsers.parse_table(text, delimiter)
        header = [name.strip() for name in rows[0]]
        if set(names) <= set(header) and all(len(row) == len(header) for row in rows[1:]):
            try:
                expected = np.array([[float(row[header.index(n)]) for n in names] for row in rows[1:]])
            except ValueError:
                continue
            found = data.pixels(np.arange(len(data)))[:, :, 0, 0]
            if found.shape == expected.shape and np.allclose(found, expected, rtol=1e-6, atol=1e-38):
                return "" if np.isfinite(found).all() else "a number that is none"
    return "other numbers"


@cache
def parquet_seeds() -> list[bytes]:
    import pyarrow as pa
    from PIL import Image
    from pyarrow import parquet

    pictures = [
        written_bytes(lambda f, i=i: Image.fromarray(random_uint8(8, 8, seed=i)).save(f, "PNG")) for i in range(5)
    ]
    numbers = {"a": [0.5, 1, 2, 3, 4], "b": [1, 2, 3, 4, 5], "v": [[1.0, 2.0]] * 5}
    tables = [pa.table(numbers), pa.table({"image": pictures, "kind": list("abcab")})]
    return [
        written_bytes(lambda f, t=t, c=c: parquet.write_table(t, f, compression=c))
        for t in tables
        for c in ("none", "snappy")
    ]


def make_parquet(rng: Rng, folder: Path) -> tuple[Path, str]:
    place = int(rng.integers(4))
    path = folder / "x.parquet"
    path.write_bytes(corrupt_bytes(parquet_seeds()[place], rng))
    return path, "vectors" if place < 2 else "images"


def read_parquet(inputs: tuple[Path, str]) -> Any:
    path, kind = inputs
    return load_vectors(path) if kind == "vectors" else load_images(path)


def parquet_difference(inputs: tuple[Path, str], data: Any) -> str:
    from PIL import Image
    from pyarrow import parquet as tables

    table = tables.read_table(io.BytesIO(inputs[0].read_bytes()), use_threads=False).to_pydict()
    if inputs[1] == "images":
        raw = table[next(n for n, c in table.items() if isinstance(c[0], bytes))]
        images = np.stack([np.asarray(Image.open(io.BytesIO(r))) for r in raw])
        words = {n: c for n, c in table.items() if not isinstance(c[0], bytes)}
        return reference_parsers.images_difference(data, images) or reference_parsers.labels_difference(data, words)
    rows = [np.array(c, float).reshape(len(data), -1) for c in table.values()]
    found = data.pixels(np.arange(len(data)))[:, :, 0, 0]
    return "" if np.allclose(found, np.concatenate(rows, axis=1), rtol=1e-6) else "other numbers"


# published files ---------------------------------------------------------------------------------------------------


@cache
def mat_seeds() -> list[bytes]:
    from scipy.io import savemat

    arrays = [
        {"x": random_uint8(4, 5)},
        {"faces": random_uint8(6, 4) / 3, "y": np.arange(3)},
        {"z": np.arange(6, dtype=np.int16).reshape(2, 3)},
    ]
    return [written_bytes(lambda f, a=a, c=c: savemat(f, a, do_compression=c)) for a in arrays for c in (False, True)]


def make_mat(rng: Rng, folder: Path) -> Path:
    path = folder / "x.mat"
    path.write_bytes(corrupt_bytes(pick(mat_seeds(), rng), rng))
    return path


def read_mat(path: Path) -> Any:
    from unbraid.data.formats.mat5 import read_mat

    return read_mat(path)


def mat_difference(path: Path, arrays: Any) -> str:
    expected = reference_parsers.parse_mat(path.read_bytes())
    for name, found in arrays.items():
        if found.dtype.kind not in "buif":
            continue  # words and cells, which no loader takes
        if name not in expected:
            return f"an array {name!r} that is not there"
        if found.shape != expected[name].shape or not np.array_equal(found, expected[name], equal_nan=True):
            return f"other numbers in {name!r}"
    return ""


def idx_bytes(array: np.ndarray) -> bytes:
    return bytes([0, 0, 8, array.ndim]) + np.array(array.shape, ">u4").tobytes() + array.astype(np.uint8).tobytes()


def make_idx(rng: Rng, folder: Path) -> Path:
    for stem, array in (("images-idx3-ubyte", random_uint8(12, 28, 28)), ("labels-idx1-ubyte", np.arange(12) % 10)):
        raw, path = idx_bytes(array), folder / f"t10k-{stem}.gz"
        fate = rng.random()
        if fate < 0.3:
            path.write_bytes(gzip.compress(raw, 1))
        elif fate < 0.7:  # spoil what is inside, or the packed bytes
            path.write_bytes(gzip.compress(corrupt_bytes(raw, rng), 1))
        else:
            path.write_bytes(corrupt_bytes(gzip.compress(raw, 1), rng))
    return folder


def read_mnist(folder: Path) -> Any:
    from unbraid.data import load

    return load("mnist", path=str(folder), split="test")


def idx_difference(folder: Path, data: Any) -> str:
    images, labels = (
        reference_parsers.parse_idx((folder / f"t10k-{s}.gz").read_bytes())
        for s in ("images-idx3-ubyte", "labels-idx1-ubyte")
    )
    return reference_parsers.images_difference(data, images) or (
        "" if data.labels()[:, 0].tolist() == labels.tolist() else "other labels"
    )


def make_norb(rng: Rng, folder: Path) -> Path:
    array = random_uint8(3, 2, 4, 4) if rng.random() < 0.5 else np.arange(6, dtype=np.int32)
    magic = 0x1E3D4C55 if array.dtype == np.uint8 else 0x1E3D4C54
    sizes = [*array.shape, *([1] * (3 - array.ndim))]
    raw = np.array([magic, array.ndim, *sizes], "<u4").tobytes() + array.tobytes()
    path = folder / "x.mat"
    path.write_bytes(gzip.compress(corrupt_bytes(raw, rng), 1) if rng.random() < 0.5 else corrupt_bytes(raw, rng))
    return path


def read_norb(path: Path) -> Any:
    from unbraid.data.sets.smallnorb import read_norb_matrix

    return read_norb_matrix(path)


def array_difference(parse: Callable[[bytes], np.ndarray], path: Path, found: np.ndarray) -> str:
    expected = parse(path.read_bytes())
    return "" if found.shape == expected.shape and np.array_equal(found, expected) else "other numbers"


@cache
def image_seeds() -> list[tuple[str, bytes]]:
    from PIL import Image

    grey, rgb = Image.fromarray(random_uint8(9, 8)), Image.fromarray(random_uint8(9, 8, 3))
    kinds = [
        ("png", grey),
        ("png", rgb),
        ("jpg", rgb),
        ("bmp", grey),
        ("gif", grey),
        ("tif", rgb),
        ("webp", rgb),
        ("ppm", rgb),
    ]
    return [("png", b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 8\n(run) system\n")] + [
        (end, written_bytes(lambda f, e=end, p=p: p.save(f, {"jpg": "JPEG", "tif": "TIFF"}.get(e, e.upper()))))
        for end, p in kinds
    ]


def make_image_folder(rng: Rng, folder: Path) -> tuple[Path, bool]:
    place = folder / "photos"
    for i in range(3):
        end, raw = pick(image_seeds(), rng)
        (place / "ab"[i % 2]).mkdir(parents=True, exist_ok=True)
        (place / "ab"[i % 2] / f"{i}.{end}").write_bytes(corrupt_bytes(raw, rng) if rng.random() < 0.5 else raw)
    if rng.random() < 0.2:
        (place / "metadata.csv").write_bytes(corrupt_text("file_name,kind\na/0.png,1\nb/1.png,2\n", rng))
    return place, bool(rng.random() < 0.4)


def read_image_folder(inputs: tuple[Path, bool]) -> Any:
    return load_images(inputs[0], skip_damaged=inputs[1])


def image_folder_difference(inputs: tuple[Path, bool], data: Any) -> str:
    import warnings

    from PIL import Image

    files = sorted(p for p in inputs[0].rglob("*") if p.is_file() and p.suffix != ".csv")
    lost = {Path(name).name for name in data.notes.get("damaged", [])}
    kept = [f for f in files if f.name not in lost]
    if len(kept) != len(data):
        return f"{len(data)} images of {len(kept)}"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for i, file in enumerate(kept):
            with Image.open(file) as image:
                plain = np.asarray(image.convert("RGB" if data.shape[0] == 3 else "L"))
                plain = (
                    _blend_on_white(image, data.shape[0])
                    if "A" in image.getbands() or "transparency" in image.info
                    else plain
                )
                deep = image.mode[0] in "IF"
            expected = plain[None] if plain.ndim == 2 else plain.transpose(2, 0, 1)
            if not deep and not np.array_equal(np.rint(255 * data.pixels(i)[0]), expected):
                return f"other pixels in {file.name}"
    return ""


def _blend_on_white(image: Any, channels: int) -> np.ndarray:
    clear = np.asarray(image.convert("RGBA")).astype(float)
    flat = np.rint(clear[..., :3] * clear[..., 3:] / 255 + 255 - clear[..., 3:]).astype(np.uint8)
    from PIL import Image

    return np.asarray(Image.fromarray(flat).convert("RGB" if channels == 3 else "L"))


@cache
def archive_seeds() -> list[tuple[str, bytes]]:
    def write_tar(file: io.BytesIO, mode: str) -> None:
        with tarfile.open(fileobj=file, mode=mode, format=tarfile.USTAR_FORMAT) as tar:  # type: ignore[call-overload]
            for name, size in (("d/a.png", 300), ("d/b.png", 700), ("d/list.txt", 20)):
                member = tarfile.TarInfo(name)
                member.size = size
                tar.addfile(member, io.BytesIO(random_uint8(size).tobytes()))

    def write_zip(file: io.BytesIO) -> None:
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("d/a.png", random_uint8(300).tobytes())
            archive.writestr("d/b.png", random_uint8(700).tobytes())

    return [
        ("x.tar", written_bytes(partial(write_tar, mode="w"))),
        ("x.tar.gz", written_bytes(partial(write_tar, mode="w:gz"))),
        ("x.zip", written_bytes(write_zip)),
    ]


def make_archive(rng: Rng, folder: Path) -> Path:
    name, raw = pick(archive_seeds(), rng)
    (folder / name).write_bytes(corrupt_bytes(raw, rng))
    return folder / name


def read_archive(path: Path) -> dict[str, bytes]:
    from unbraid.data.formats import archives

    return dict(archives.read_members(path, archives.member_names(path, r"\.png$")))


def archive_difference(path: Path, found: dict[str, bytes]) -> str:
    raw = path.read_bytes()
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            expected = {n: archive.read(n) for n in found}
    else:
        try:
            expected = reference_parsers.parse_tar(gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw)
        except ValueError:  # numbers that are not octal, which GNU tar may write
            with tarfile.open(path) as tar:
                expected = {m.name: tar.extractfile(m).read() for m in tar if m.isfile()}  # type: ignore[union-attr]
    wrong = [n for n, content in found.items() if expected.get(n) != content]
    return f"other bytes in {wrong[0]!r}" if wrong else ""


# recipes and runs --------------------------------------------------------------------------------------------------


@cache
def recipe_seeds() -> list[str]:
    return [(run / "recipe.toml").read_text() for run in sorted(OLD_RUNS.iterdir())]


def make_recipe(rng: Rng, folder: Path) -> Path:
    import tomli_w

    path, text = folder / "recipe.toml", pick(recipe_seeds(), rng)
    if rng.random() < 0.4:
        path.write_bytes(corrupt_text(text, rng))
        return path
    table = corrupt_table(tomllib.loads(text), rng)
    try:
        path.write_text(tomli_w.dumps(table))
    except (TypeError, AttributeError, ValueError):  # what TOML cannot say
        path.write_bytes(corrupt_text(text, rng))
    return path


def read_recipe(path: Path) -> Any:
    """The recipe, and the model that is built of it: what a run would begin with."""
    from unbraid.runs.building.builders import build_parts
    from unbraid.runs.recipe import Recipe

    found = Recipe.load(path)
    return found, build_parts(found)


def recipe_difference(path: Path, value: Any) -> str:
    said, (found, _) = tomllib.loads(path.read_bytes().decode()), value
    plain = found.as_dict()
    for key in ("seed", "name", "temperature"):
        if key in said and plain.get(key, said[key]) != said[key]:
            return f"{key} = {said[key]!r} became {plain.get(key)!r}"
    for section in ("objective", "budget", "data"):
        for key, given in (said.get(section) if isinstance(said.get(section), dict) else {}).items():
            kept = plain.get(section, {}).get(key, given)
            if kept != given and not (isinstance(given, (list, tuple)) and list(kept) == list(given)):
                return f"{section}.{key} = {given!r} became {kept!r}"
    return ""


SWEEP = """name = "beta"
recipe = "beta_vae_2dshapes"
seeds = 2
[set]
"budget.steps" = 20
[grid]
"objective.beta" = [1, 2, 4]
[score]
metrics = ["mig"]
"""


def make_sweep(rng: Rng, folder: Path) -> Path:
    import tomli_w

    path = folder / "sweep.toml"
    if rng.random() < 0.4:
        path.write_bytes(corrupt_text(SWEEP, rng))
        return path
    table = corrupt_table(tomllib.loads(SWEEP), rng)
    try:
        path.write_text(tomli_w.dumps(table))
    except (TypeError, AttributeError, ValueError):  # what TOML cannot say
        path.write_bytes(corrupt_text(SWEEP, rng))
    return path


def read_sweep(path: Path) -> Any:
    from unbraid.sweeps.planning.sweep_file import Sweep

    return Sweep.load(path).runs()


def sweep_difference(path: Path, runs: Any) -> str:
    """As many runs as seeds times values, each with its own value."""
    said = tomllib.loads(path.read_bytes().decode())
    if set(said) - {"name", "recipe", "seeds", "set", "grid", "score"}:
        return ""
    seeds = said.get("seeds", 1)
    count = seeds if isinstance(seeds, int) else len(seeds)
    for values in said.get("grid", {}).values():
        count *= len(values) if isinstance(values, list) else 1
    wrong = [s for r, s in runs if "objective.beta" in s and r.objective.get("beta") != s["objective.beta"]]
    return "" if len(runs) == count and not wrong else f"{len(runs)} runs of {count}, {len(wrong)} with other values"


def make_run(name: str, corrupt: Callable[[bytes, Rng], bytes], rng: Rng, folder: Path, kind: str = "vae") -> Path:
    """A copy of an old run in which one file is spoiled."""
    path = folder / "run"
    shutil.copytree(OLD_RUNS / kind, path)
    (path / name).write_bytes(corrupt((OLD_RUNS / kind / name).read_bytes(), rng))
    return path


def corrupt_json(raw: bytes, rng: Rng) -> bytes:
    """JSON with hostile values, or spoiled text."""
    if rng.random() < 0.3:
        return corrupt_text(raw.decode(), rng)
    if b"}\n{" in raw:
        lines = [line for line in raw.decode().split("\n") if line]
        place = int(rng.integers(len(lines)))
        lines[place] = json.dumps(corrupt_table(json.loads(lines[place]), rng))
        return ("\n".join(lines) + "\n").encode()
    return json.dumps(corrupt_table(json.loads(raw), rng)).encode()


def open_run(path: Path) -> Any:
    """The state of a run, and a sample of its model."""
    from unbraid import Run

    run = Run.load(path)
    return run.state, run.sample(2)


def run_difference(path: Path, value: Any) -> str:
    state, images = value
    if json.dumps(state, sort_keys=True) != json.dumps(json.loads((path / "run.json").read_bytes()), sort_keys=True):
        return "another state"
    return "" if np.isfinite(images).all() and images.shape == (2, 1, 8, 8) else f"samples of shape {images.shape}"


def make_run_of_pipes(rng: Rng, folder: Path) -> tuple[Path, str]:
    """A copy of an old run in which one file is a pipe, a link to a device, or a link that leads nowhere."""
    path, name = (
        folder / "run",
        pick(["run.json", "recipe.toml", "ledger.jsonl", "model.safetensors", "codes.npz"], rng),
    )
    shutil.copytree(OLD_RUNS / "vae", path)
    (path / name).unlink()
    target = pick(["/dev/zero", "/dev/full", "/dev/tty", str(path), "nowhere", ""], rng)
    (path / name).symlink_to(target) if target else os.mkfifo(path / name)
    return path, name


def read_run_of_pipes(inputs: tuple[Path, str]) -> Any:
    """Every file of a run."""
    from unbraid import Run

    run = Run.load(inputs[0])
    return run.recipe, run.state, run.ledger(), run.sample(1), run.codes()


def pipes_difference(inputs: tuple[Path, str], _: Any) -> str:
    return f"{inputs[1]} is no file and was read"


def read_ledger(path: Path) -> Any:
    from unbraid import Run

    return Run.load(path).ledger()


def ledger_difference(path: Path, rows: Any) -> str:
    lines = (path / "ledger.jsonl").read_bytes().split(b"\n")[:-1]
    same = json.dumps(rows, sort_keys=True) == json.dumps([json.loads(line) for line in lines], sort_keys=True)
    return "" if same else "other rows"


def read_scores(path: Path) -> Any:
    """The scores of a run, and its audit."""
    from unbraid import Run
    from unbraid.runs.evaluation.scores import Scores

    return Scores.load(path), Run.load(path).saved_audit()


def scores_difference(path: Path, value: Any) -> str:
    said = json.loads((path / "scores.json").read_bytes())
    said = said.get("scores", said) if isinstance(said, dict) else said
    pairs = said.items() if isinstance(said, dict) else ((s["name"], s) for s in said)
    for name, score in pairs:
        found = value[0][name if name in value[0] else f"gaussian_{name}"].value  # 0.1 had one name for two quantities
        number = np.nan if score["value"] is None else float(score["value"])
        if not (found == number or np.isnan([found, number]).all()):
            return f"{name}: {score['value']!r} became {found!r}"
    audit = json.loads((path / "audit.json").read_bytes())
    return "" if json.dumps(audit, sort_keys=True) == json.dumps(value[1], sort_keys=True) else "another audit"


def read_codes(path: Path) -> Any:
    """The codes of a run, after a metric has taken them: it must refuse those that are no numbers."""
    from unbraid import Codes, metrics

    codes = Codes.load(path / "codes.npz")
    metrics.mig(codes) if codes.values is not None else metrics.METRICS["total_correlation"](codes)
    return codes


def codes_difference(path: Path, codes: Any) -> str:
    arrays = reference_parsers.parse_npz((path / "codes.npz").read_bytes())
    for name in ("mean", "scale", "values", "kl", "index"):
        found = getattr(codes, name)
        if (found is None) != (name not in arrays) or (
            found is not None and not np.array_equal(found, arrays[name], equal_nan=found.dtype.kind == "f")
        ):
            return f"other {name}"
    wide = codes.tree.width == codes.mean.shape[1]
    return "" if wide and codes.mean.ndim == 2 and np.isfinite(codes.mean).all() else "codes that no metric can take"


def model_difference(path: Path, value: Any) -> str:
    from unbraid import Run

    expected = reference_parsers.parse_safetensors((path / "model.safetensors").read_bytes())
    for name, tensor in Run.load(path).model.state_dict().items():
        if not np.array_equal(tensor.numpy(), expected[name]):
            return f"other weights in {name}"
    return run_difference(path, value)


def resume_run(path: Path) -> Any:
    """A stopped run goes on."""
    from unbraid import Run, fit

    return fit(Run.load(path).recipe, path, resume=True, force=True, quiet=True)


def resume_difference(_: Path, run: Any) -> str:
    steps = [row["step"] for row in run.ledger()]
    weights = reference_parsers.parse_safetensors((run.path / "model.safetensors").read_bytes())
    finite = all(np.isfinite(w).all() for w in weights.values() if w.dtype.kind == "f")
    return "" if steps == [0, 2, 4, 5] and run.state["status"] == "done" and finite else f"steps {steps}"
