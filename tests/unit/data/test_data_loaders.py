"""Loaders of published files: right pixels under right labels, and damage by name."""

from __future__ import annotations

import gzip
import io
import tarfile
import zipfile

import data_layouts
import numpy as np
import pytest
from PIL import Image

from unbraid.core.errors import UnbraidError
from unbraid.data import load
from unbraid.data.formats import archives
from unbraid.data.formats.image_files import resize_images
from unbraid.data.sets import mnist, mpi3d, shapes3d


def test_mnist_pixels_and_padding(tmp_path):
    options = data_layouts.mnist(tmp_path)
    small, large = load("mnist", **options), load("mnist", **options, size=32)
    expected = data_layouts.rng().integers(0, 256, (30, 28, 28))
    assert np.allclose(small.pixels(np.arange(30))[:, 0], expected / 255, atol=1e-6)
    assert np.array_equal(large.pixels([4])[0, 0, 2:-2, 2:-2], small.pixels([4])[0, 0])
    assert large.pixels([4])[0, 0, :2].max() == 0
    assert len(load("mnist", **options, split="all")) == 42
    assert load("fashion_mnist", **options, split="test").factors.items[0].values[9] == "ankle boot"


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        ("cut", "truncated"),
        ("cut gzip", "damaged or truncated"),
        ("swapped", "may be swapped"),
        ("partial", "30 images, 12 labels"),
        ("long", "too long"),
        ("gone", "no train-labels-idx1-ubyte"),
    ],
)
def test_damaged_mnist_is_named(tmp_path, damage, message):
    options = data_layouts.mnist(tmp_path)
    images, labels = tmp_path / "train-images-idx3-ubyte.gz", tmp_path / "train-labels-idx1-ubyte"
    if damage == "cut":
        labels.write_bytes(labels.read_bytes()[:-1])
    elif damage == "cut gzip":
        images.write_bytes(images.read_bytes()[:-100])
    elif damage == "swapped":
        images.write_bytes(labels.read_bytes())
    elif damage == "partial":
        labels.write_bytes((tmp_path / "t10k-labels-idx1-ubyte").read_bytes())
    elif damage == "long":
        labels.write_bytes(labels.read_bytes() + b"\0")
    else:
        labels.unlink()
    with pytest.raises(UnbraidError, match=message):
        load("mnist", **options)


def test_the_real_mnist(reference_data):
    data = load("mnist", path=str(reference_data / "mnist"), split="test")
    assert len(data) == 10_000
    assert np.bincount(data.labels()[:, 0]).tolist() == [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]
    assert load("fashion_mnist", path=str(reference_data / "fashion_mnist"), split="test").labels()[:3, 0].tolist() == [
        9,
        2,
        1,
    ]


def test_real_faces_and_objects(reference_data):
    faces = load("olivetti", path=str(reference_data / "faces" / "olivettifaces.mat"))
    assert faces.labels([399]).tolist() == [[39, 9]]
    coil = load("coil20", path=str(reference_data / "coil20" / "COIL20.mat"))
    step = np.abs(coil.pixels(np.arange(72)) - coil.pixels((np.arange(72) + 1) % 72)).mean()
    far = np.abs(coil.pixels(np.arange(72)) - coil.pixels((np.arange(72) + 36) % 72)).mean()
    assert step < far / 2, "neighbouring angles look alike"


def test_smallnorb_labels_and_cameras(tmp_path):
    options = data_layouts.smallnorb(tmp_path)
    left, right = load("smallnorb", **options, size=96), load("smallnorb", **options, size=96, camera="right")
    raw = data_layouts.rng().integers(0, 256, (20, 2, 96, 96))
    assert np.allclose(left.pixels([3])[0, 0], raw[3, 0] / 255, atol=1e-6)
    assert np.allclose(right.pixels([3])[0, 0], raw[3, 1] / 255, atol=1e-6)
    assert left.labels([17]).tolist() == [[2, 7, 8, 17, 5]]
    assert len(load("smallnorb", **options, split="test")) == 20


@pytest.mark.parametrize("damage", ["swap", "cut", "labels"])
def test_damaged_smallnorb_is_named(tmp_path, damage):
    from unbraid.data.sets.smallnorb import FILE_STEMS

    options = data_layouts.smallnorb(tmp_path)
    cat, info = (tmp_path / f"{FILE_STEMS['train']}-{kind}.mat" for kind in ("cat", "info"))
    if damage == "swap":
        cat.write_bytes(info.read_bytes())
    elif damage == "cut":
        info.write_bytes(info.read_bytes()[:-4])
    else:
        data_layouts.write_norb(info, np.full((20, 4), 99, np.int32))
    with pytest.raises(UnbraidError, match=r"label row|truncated|out of range"):
        load("smallnorb", **options)


def test_cars_are_in_the_order_elevation_azimuth_object(tmp_path):
    data = load("cars3d", **data_layouts.cars3d(tmp_path))
    assert data.factors.sizes == (4, 24, 2)
    image = data_layouts.rng().integers(0, 256, (128, 128, 3, 24, 4)).astype(np.uint8)[..., 5, 3]
    small = Image.fromarray(image)
    small.thumbnail((64, 64), Image.Resampling.LANCZOS)  # as disentanglement_lib does
    expected = np.asarray(small).transpose(2, 0, 1) / 255
    mean = image.reshape(64, 2, 64, 2, 3).mean(axis=(1, 3))
    assert abs(resize_images(image[None], 64)[0] - mean).max() <= 1  # Pillow rounds after each axis
    assert np.allclose(data.pixels(data.factors.index([3, 5, 1]))[0], expected, atol=1e-6)
    with pytest.raises(UnbraidError, match="Files are missing"):
        load("cars3d", path=str(tmp_path / "cars.tar.gz"))


def test_chairs_masks_splits_and_subsets(tmp_path):
    options = data_layouts.chairs(tmp_path)
    data, masks = load("chairs", **options, size=32, crop=600), load("chairs", **options, size=32, crop=600, masks=True)
    assert data.factors.sizes == (5, 2, 31)
    assert masks.images.take(np.array([0])).shape == (1, 32 * 32 // 8)
    white = (data.pixels([70]) * 255 >= 250).all(axis=1)
    assert np.array_equal(masks.pixels([70])[:, 0] > 0, ~white)
    train, test = (load("chairs", **options, split=split, size=16) for split in ("train", "test"))
    assert train.factors.items[0].values == ("aa1", "bb2", "cc3", "dd4")
    assert test.factors.items[0].values == ("ee5",)
    (tmp_path / "list.txt").write_text("cc3\naa1\n")
    few = load("chairs", **options, subset=str(tmp_path / "list.txt"), size=16)
    assert few.factors.items[0].values == ("cc3", "aa1")
    (tmp_path / "list.txt").write_text("zz9\n")
    with pytest.raises(UnbraidError, match="1 missing"):
        load("chairs", **options, subset=str(tmp_path / "list.txt"))


@pytest.mark.parametrize("selected", [np.array([[5, 1, 3]]), np.array([[1, 0, 1, 0, 1]]), np.eye(5, dtype=bool)[[2]]])
def test_chairs_take_the_list_of_yang(tmp_path, selected):
    from scipy.io import savemat

    options = data_layouts.chairs(tmp_path)
    savemat(tmp_path / "reduced_set1.mat", {"selected": selected})
    data = load("chairs", **options, subset=str(tmp_path / "reduced_set1.mat"), size=16)
    expected = {3: ("dd4", "ee5", "bb2"), 5: ("ee5", "bb2", "dd4") if selected.dtype != bool else ("bb2",)}
    assert data.factors.items[0].values == expected[selected.size]


def test_chairs_distinct_leaves_out_doubles_and_is_ours(tmp_path):
    options = data_layouts.chairs(tmp_path)  # all five have one outline
    with tarfile.open(options["path"], "a") as tar:
        for i in range(62):
            raw = data_layouts.png_bytes((60, 60), start=8)
            member = tarfile.TarInfo(
                f"rendered_chairs/bb1/renders/image_{i:03}_p{20 + 10 * (i // 31):03}_t{i % 31:03}_r096.png"
            )
            member.size = len(raw)
            tar.addfile(member, io.BytesIO(raw))
    options["models"] = 6
    first = load("chairs", **options, subset="distinct2", size=16)
    assert first.factors.items[0].values == ("aa1", "bb1")
    assert load("chairs", **options, subset="distinct6", size=16).factors.sizes == (6, 2, 31)
    with pytest.raises(UnbraidError, match="2 to 6 models"):
        load("chairs", **options, subset="distinct809")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, r"no list of models .*reduced_set1\.mat.*distinct809"),
        (b"\xff\xfe\x00", "not a text file"),
        (b"aa1 aa1", "lists a model twice"),
        (b"", "an empty list"),
        (b"zz9", "1 missing, such as 'zz9'"),
        ({"selected": np.array([[9]])}, "positions 9 to 9 of 5"),
        ({"chosen": np.array([[1]])}, "has no list 'selected'"),
        ({"selected": np.array(["ab"])}, "no list"),
        ("cut", "damaged"),
    ],
)
def test_wrong_lists_of_chairs_are_named(tmp_path, content, message):
    from scipy.io import savemat

    options, path = (
        data_layouts.chairs(tmp_path),
        tmp_path / ("list.mat" if isinstance(content, (dict, str)) else "list.txt"),
    )
    if isinstance(content, dict):
        savemat(path, content)
    elif content == "cut":
        savemat(path, {"selected": np.arange(1, 6)})
        path.write_bytes(path.read_bytes()[:-20])
    elif content is not None:
        path.write_bytes(content)
    with pytest.raises(UnbraidError, match=message):
        load("chairs", **options, subset=str(path))


def test_coil20_pictures_in_a_zip_or_a_folder(tmp_path):
    with zipfile.ZipFile(tmp_path / "coil-20-proc.zip", "w") as zipped:
        for i in range(20):
            for k in range(72):
                file = io.BytesIO()
                Image.fromarray(np.full((8, 8), 5 * i + k, np.uint8)).save(file, "PNG")
                zipped.writestr(f"coil-20-proc/obj{i + 1}__{k}.png", file.getvalue())
    data = load("coil20", path=str(tmp_path / "coil-20-proc.zip"))
    assert data.shape == (1, 8, 8)
    assert np.rint(data.pixels(data.factors.index([11, 30]))[0, 0, 0, 0] * 255) == 85
    assert load("coil20", path=str(tmp_path / "coil-20-proc.zip"), size=4).shape == (1, 4, 4)
    with zipfile.ZipFile(tmp_path / "coil-20-proc.zip") as zipped:
        zipped.extractall(tmp_path / "folder")
    again = load("coil20", path=str(tmp_path / "folder"))
    assert np.array_equal(again.pixels(np.arange(1440)), data.pixels(np.arange(1440)))
    (tmp_path / "folder" / "coil-20-proc" / "obj3__7.png").unlink()
    with pytest.raises(UnbraidError, match="once each: found 1439"):
        load("coil20", path=str(tmp_path / "folder"))


def test_celeba_official_parts(tmp_path):
    options = data_layouts.celeba(tmp_path)
    parts = [load("celeba", **options, official=True, split=split) for split in ("train", "valid", "test")]
    assert [len(part) for part in parts] == [8, 2, 2]
    assert parts[2].images.index.tolist() == [10, 11]
    with pytest.raises(UnbraidError, match="'valid' needs official"):
        load("celeba", **options, split="valid")
    partition = tmp_path / "list_eval_partition.txt"
    text = partition.read_text()
    for damaged, message in (
        (text.replace(" 2", " 3"), "line 11 is damaged"),
        ("\n".join(text.splitlines()[:-1]), "truncated"),
    ):
        partition.write_text(damaged)
        with pytest.raises(UnbraidError, match=message):
            load("celeba", **options, official=True, split="train")


def test_celeba_attributes_and_missing_pictures(tmp_path):
    options = data_layouts.celeba(tmp_path)
    data = load("celeba", **options)
    assert data.factors.names == ("Smiling", "Male", "Young")
    assert data.labels([0, 1]).tolist() == [[1, 0, 1], [0, 0, 1]]
    parts = [len(load("celeba", **options, split=s, test=0.25)) for s in ("train", "test")]
    assert parts == [9, 3]
    table = tmp_path / "list_attr_celeba.txt"
    text = table.read_text()
    table.write_text(text.replace("000012.jpg", "000099.jpg"))
    with pytest.raises(UnbraidError, match=r"1 of 12 missing, such as 000099\.jpg"):
        load("celeba", **options)
    table.write_text("\n".join(text.splitlines()[:-2]))
    with pytest.raises(UnbraidError, match="truncated"):
        load("celeba", **options)


def test_mpi3d_streams_and_names_damage(tmp_path, monkeypatch):
    monkeypatch.setitem(mpi3d.FACTOR_SIZES, "toy", (2, 1, 1, 1, 1, 3, 2))
    options = data_layouts.mpi3d(tmp_path)
    data = load("mpi3d", **options)
    raw = data_layouts.rng().integers(0, 256, (12, 64, 64, 3))
    assert np.allclose(data.pixels([7])[0], raw[7].transpose(2, 0, 1) / 255, atol=1e-6)
    assert data.factors.names[5:] == ("horizontal_axis", "vertical_axis")
    with pytest.raises(UnbraidError, match="another layout"):
        load("mpi3d", **options, variant="real")
    monkeypatch.setitem(mpi3d.FACTOR_SIZES, "real_complex", (1, 4, 1, 1, 3, 1, 1))
    named = load("mpi3d", **options, variant="real_complex").factors.items
    assert (named[1].values[2], named[4].values, named[5].values) == (
        "croissant",
        ("purple", "sea green", "salmon"),
        (),
    )
    path = tmp_path / "mpi3d_toy.npz"
    whole = path.read_bytes()
    path.write_bytes(whole[:5000] + bytes([whole[5000] ^ 1]) + whole[5001:])
    with pytest.raises(UnbraidError, match="Bad CRC"):
        load("mpi3d", **options)
    path.write_bytes(whole[:-200])
    with pytest.raises(UnbraidError, match="damaged"):
        load("mpi3d", **options)


def test_the_original_shapes3d(tmp_path, monkeypatch):
    h5py = pytest.importorskip("h5py")
    from unbraid.data.factors import Factors

    monkeypatch.setattr(shapes3d, "FACTORS", Factors.of(dict(zip("abcdef", (2, 1, 1, 2, 1, 3), strict=True))))
    images = data_layouts.rng().integers(0, 256, (12, 64, 64, 3)).astype(np.uint8)
    labels = shapes3d.FACTORS.labels(np.arange(12)).astype(float)
    for name, order in (("good", np.arange(12)), ("turned", np.arange(12)[::-1].reshape(3, 4).T.ravel())):
        with h5py.File(tmp_path / f"{name}.h5", "w") as file:
            file["images"], file["labels"] = images[order], labels[order]
    data = load("shapes3d", path=str(tmp_path / "good.h5"))
    assert np.allclose(data.pixels([5])[0], images[5].transpose(2, 0, 1) / 255, atol=1e-6)
    with pytest.raises(UnbraidError, match="original order"):
        load("shapes3d", path=str(tmp_path / "turned.h5"))


def test_faces_rendered_by_the_user(tmp_path):
    array = data_layouts.rng().integers(0, 256, (2, 21, 11, 11, 8, 8)).astype(np.uint8)
    np.save(tmp_path / "f.npy", array)
    data = load("faces3d", path=str(tmp_path / "f.npy"))
    assert data.factors.names == ("identity", "azimuth", "elevation", "light")
    assert np.allclose(data.pixels(data.factors.index([1, 20, 3, 7]))[0, 0], array[1, 20, 3, 7] / 255, atol=1e-6)
    np.save(tmp_path / "g.npy", array[0, 0])
    with pytest.raises(UnbraidError, match="21 × 11 × 11"):
        load("faces3d", path=str(tmp_path / "g.npy"))
    with pytest.raises(UnbraidError, match="Python objects"):
        load("faces3d", path=str(tmp_path / "g.pth"))
    with pytest.raises(UnbraidError, match="neither"):
        load("faces3d")


def test_archives_are_read_in_memory_and_never_unpacked(tmp_path):
    inside = tmp_path / "in"
    inside.mkdir()
    with zipfile.ZipFile(inside / "a.zip", "w") as zipped:
        zipped.writestr("../../escape.txt", "x")
    with tarfile.open(inside / "a.tar", "w") as tar:
        member = tarfile.TarInfo("/absolute/../escape.txt")
        member.size = 1
        tar.addfile(member, io.BytesIO(b"x"))
        link = tarfile.TarInfo("link.txt")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        tar.addfile(link)
    for name in ("a.zip", "a.tar"):
        found = archives.member_names(inside / name, "txt$")
        assert len(found) == 1, "links are no files"
        assert dict(archives.read_members(inside / name, found)) == {found[0]: b"x"}
    assert sorted(p.name for p in tmp_path.rglob("*")) == ["a.tar", "a.zip", "in"]
    (inside / "cut.tar.gz").write_bytes(gzip.compress((inside / "a.tar").read_bytes())[:-30])
    with pytest.raises(UnbraidError, match="truncated"):
        list(archives.read_members(inside / "cut.tar.gz", archives.member_names(inside / "cut.tar.gz", ".")))


def test_published_checksums_are_complete():
    for sums in mnist.CHECKSUMS.values():
        assert len(sums) == 4
        assert all(len(md5) == len(plain) == 32 and size > 4000 for md5, size, plain in sums.values())


def test_one_wrong_bit_in_a_compressed_archive_is_found(tmp_path):
    options = data_layouts.cars3d(tmp_path)
    path = tmp_path / "cars.tar.gz"
    raw = bytearray(path.read_bytes())
    raw[len(raw) // 2] ^= 1
    path.write_bytes(raw)
    with pytest.raises(UnbraidError, match="truncated, damaged or not an archive"):
        load("cars3d", **options)


def test_a_file_that_unpacks_to_far_more_is_cut_off(tmp_path, monkeypatch):
    options = data_layouts.mnist(tmp_path)
    monkeypatch.setattr(archives, "MAX_MEMBER_BYTES", 100_000)
    (tmp_path / "train-images-idx3-ubyte.gz").write_bytes(gzip.compress(bytes(10_000_000)))
    with pytest.raises(UnbraidError, match="too large for this data set: found 100,001 bytes"):
        load("mnist", **options)


@pytest.mark.parametrize("sizes", [(2**31, 2**31, 4), (2**32 - 1,) * 3])
def test_sizes_that_overflow_are_named(tmp_path, sizes):
    options = data_layouts.mnist(tmp_path)
    (tmp_path / "train-images-idx3-ubyte.gz").write_bytes(bytes([0, 0, 8, 3]) + np.array(sizes, ">u4").tobytes())
    with pytest.raises(UnbraidError, match="truncated or too long: found 16 bytes"):
        load("mnist", **options)
    options = data_layouts.smallnorb(tmp_path)
    from unbraid.data.sets.smallnorb import FILE_STEMS

    head = np.array([0x1E3D4C55, 3, *sizes], "<u4").tobytes()
    (tmp_path / f"{FILE_STEMS['train']}-dat.mat.gz").write_bytes(head)
    with pytest.raises(UnbraidError, match="truncated or too long"):
        load("smallnorb", **options)


def test_pickled_arrays_are_refused_wherever_they_are_given(tmp_path):
    array = np.array([{"a": 1}], object)
    np.save(tmp_path / "x.npy", array, allow_pickle=True)
    np.savez(tmp_path / "mpi3d_toy.npz", images=array)
    np.savez(tmp_path / "x.npz", images=array)
    for name, file in (
        ("images", "x.npy"),
        ("images", "x.npz"),
        ("vectors", "x.npy"),
        ("faces3d", "x.npy"),
        ("mpi3d", "mpi3d_toy.npz"),
        ("dsprites", "x.npz"),
    ):
        with pytest.raises(UnbraidError, match=r"Python objects|another layout|damaged or of another"):
            load(name, path=str(tmp_path / file))


def test_a_chair_behind_a_link_is_no_chair(tmp_path):
    options = data_layouts.chairs(tmp_path)
    with tarfile.open(options["path"], "a") as tar:
        for i in range(62):
            link = tarfile.TarInfo(f"x/zz6/renders/image_{i:03}_p020_t{i:03}_r096.png")
            link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
            tar.addfile(link)
    assert load("chairs", **options, size=16).factors.sizes == (5, 2, 31)


def test_text_that_is_no_table_is_named(tmp_path):
    (tmp_path / "t.csv").write_bytes(b'a,b\n1,"' + b"2" * 70_000 + b'"\n')
    with pytest.raises(UnbraidError, match="not a table of text"):
        load("vectors", path=str(tmp_path / "t.csv"))
    (tmp_path / "t.csv").write_bytes(b"a,b\n1,2\r3,4\n")  # any line ending will do
    assert load("vectors", path=str(tmp_path / "t.csv")).pixels([0, 1]).reshape(2, 2).tolist() == [[1, 2], [3, 4]]


def test_a_folder_that_holds_the_mat_file_will_do(tmp_path):
    from unbraid.data.sets import olivetti_coil20

    (tmp_path / "olivettifaces.mat").write_bytes(b"")
    (tmp_path / "COIL20.mat").write_bytes(b"")
    assert olivetti_coil20._find_file(str(tmp_path), "olivettifaces.mat") == tmp_path / "olivettifaces.mat"
    with pytest.raises(UnbraidError, match=r"cannot read .*COIL20\.mat"):
        load("coil20", path=str(tmp_path))
