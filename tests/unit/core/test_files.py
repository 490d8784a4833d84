"""Files: whole or not at all, and never unpickled."""

import json
import os
import pickle
import resource
import signal
import subprocess
import sys

import numpy as np
import pytest
import torch

from unbraid.codes import Codes
from unbraid.core.errors import UnbraidError
from unbraid.core.files import (
    atomic_write,
    open_for_writing,
    open_regular,
    read_bytes,
    read_json,
    read_npy,
    read_npz,
    read_toml,
    sha256,
    write_json,
    write_npy,
    write_npz,
)
from unbraid.core.tensor_files import read_metadata, read_tensors, write_tensors
from unbraid.latent import Latent


def test_a_failed_write_leaves_the_old_file_and_no_litter(tmp_path):
    path = tmp_path / "a.json"
    write_json(path, {"old": 1})
    with pytest.raises(RuntimeError), atomic_write(path) as f:
        f.write(b"half")
        raise RuntimeError("killed")
    assert read_json(path) == {"old": 1}
    assert os.listdir(tmp_path) == ["a.json"]


def test_a_full_disk_is_a_clear_error_and_loses_nothing(tmp_path):
    path = tmp_path / "a.npy"
    write_npy(path, np.arange(10))
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))
        with pytest.raises(UnbraidError, match="cannot write .*a.npy.*unchanged"):
            write_npy(path, np.zeros(100_000))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)
    assert read_npy(path).tolist() == list(range(10))
    assert os.listdir(tmp_path) == ["a.npy"]


@pytest.mark.skipif(os.geteuid() == 0 and not os.path.exists("/proc"), reason="needs a folder that cannot be made")
def test_a_folder_that_cannot_be_made(tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(UnbraidError, match="cannot create the folder"):
        write_json(tmp_path / "file" / "below" / "a.json", {})


def test_json_has_no_nan(tmp_path):
    with pytest.raises(ValueError, match="JSON compliant"):
        write_json(tmp_path / "a.json", {"x": float("nan")})
    assert not (tmp_path / "a.json").exists()


class PickleBomb:
    """Would make a file if it were ever unpickled."""

    def __init__(self, path):
        self.path = str(path)

    def __reduce__(self):
        return (open, (self.path, "w"))


def test_pickled_arrays_are_refused(tmp_path):
    np.save(tmp_path / "p.npy", np.array([PickleBomb(tmp_path / "boom")], dtype=object), allow_pickle=True)
    with pytest.raises(UnbraidError, match="never unpickled"):
        read_npy(tmp_path / "p.npy")
    np.savez(tmp_path / "p.npz", mean=np.array([PickleBomb(tmp_path / "boom")], dtype=object))
    with pytest.raises(UnbraidError, match="never unpickled"):
        Codes.load(tmp_path / "p.npz")
    assert not (tmp_path / "boom").exists()


def damaged_copies(raw: bytes) -> list[bytes]:
    """Truncated, bit-flipped, empty and giant-header forms of a file."""
    flipped = bytearray(raw)
    flipped[-3] ^= 0xFF
    return [
        raw[: len(raw) // 2],
        raw[:7],
        b"",
        bytes(flipped),
        (2**62).to_bytes(8, "little") + raw[8:],
        pickle.dumps({"a": 1}),
    ]


def test_every_damage_to_tensors_is_named(tmp_path):
    path = tmp_path / "t.safetensors"
    write_tensors(path, {"w": torch.arange(12.0).reshape(3, 4)}, {"step": 3})
    tensors, note = read_tensors(path)
    assert note == {"step": 3}
    assert tensors["w"][2, 3] == 11
    for raw in damaged_copies(path.read_bytes()):
        path.write_bytes(raw)
        with pytest.raises(UnbraidError, match="t.safetensors"):
            read_tensors(path)


def test_every_damage_to_codes_is_named(tmp_path):
    path = tmp_path / "c.npz"
    Codes(np.random.default_rng(0).normal(size=(50, 3)), Latent.of(3)).save(path)
    assert Codes.load(path).mean.shape == (50, 3)
    raw = path.read_bytes()
    for bad in (raw[: len(raw) // 2], raw[:7], b"", raw[:60] + bytes([raw[60] ^ 255]) + raw[61:]):
        path.write_bytes(bad)
        with pytest.raises(UnbraidError):
            Codes.load(path)


@pytest.mark.parametrize("text", ['{"a": 1', "[" * 100_000, "\x00\x01"])
def test_damaged_json_and_toml_are_named(tmp_path, text):
    (tmp_path / "a.json").write_text(text)
    with pytest.raises(UnbraidError, match="a.json"):
        read_json(tmp_path / "a.json")
    (tmp_path / "a.toml").write_text(text)
    with pytest.raises(UnbraidError, match="a.toml"):
        read_toml(tmp_path / "a.toml")


def test_npz_round_trip_and_missing_file(tmp_path):
    write_npz(tmp_path / "a.npz", {"x": np.arange(3)})
    assert read_npz(tmp_path / "a.npz")["x"].tolist() == [0, 1, 2]
    with pytest.raises(UnbraidError, match="does not exist"):
        read_npz(tmp_path / "b.npz")


def test_a_killed_write_leaves_the_old_file(tmp_path):
    path = tmp_path / "a.json"
    write_json(path, {"old": 1})
    script = (
        "import os, sys\nfrom unbraid.core.files import atomic_write\n"
        f"with atomic_write({str(path)!r}) as f:\n    f.write(b'half'); f.flush(); os.kill(os.getpid(), 9)\n"
    )
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == -9
    assert json.loads(path.read_text()) == {"old": 1}


@pytest.mark.parametrize(
    "stamp",
    [
        '{"note": 3, "checksum": 4}',
        '{"note": "not json", "checksum": ""}',
        '{"note": "[]", "checksum": "x"}',
        "[]",
        "null",
        '{"checksum": "x"}',
    ],
)
def test_a_hostile_stamp_is_a_named_error(tmp_path, stamp):
    from safetensors.torch import save_file

    save_file({"a": torch.zeros(2)}, tmp_path / "x.safetensors", metadata={"unbraid": stamp})
    with pytest.raises(UnbraidError, match=r"damaged|altered|no metadata"):
        read_tensors(tmp_path / "x.safetensors")


def test_an_npz_that_would_fill_the_memory_is_refused(tmp_path):
    np.savez_compressed(tmp_path / "x.npz", mean=np.zeros((20_000, 2_000)))
    assert (tmp_path / "x.npz").stat().st_size < 1e6
    with pytest.raises(UnbraidError, match="would unpack to far more than numbers do: found 320 MB out of"):
        read_npz(tmp_path / "x.npz", "codes")
    np.savez(tmp_path / "y.npz", mean=np.zeros((200, 20)))
    assert read_npz(tmp_path / "y.npz")["mean"].shape == (200, 20)


def test_text_of_no_characters_is_named(tmp_path):
    words = np.array(["ab", "c"])
    words.view("u4")[0] = 0x110000
    np.save(tmp_path / "a.npy", words)
    np.savez(tmp_path / "a.npz", words=words, swapped=np.array("xy", ">U2"))
    for read, name in ((read_npy, "a.npy"), (read_npz, "a.npz")):
        with pytest.raises(UnbraidError, match="characters that do not exist"):
            read(tmp_path / name)
    np.savez(tmp_path / "b.npz", swapped=np.array("xy", ">U2"), empty=np.array([""]), none=np.array([], "U3"))
    assert str(read_npz(tmp_path / "b.npz")["swapped"]) == "xy"


def test_a_member_that_is_no_array_is_named(tmp_path):
    import zipfile

    with zipfile.ZipFile(tmp_path / "x.npz", "w") as archive:
        archive.writestr("mean.npy", b"no array at all")
    with pytest.raises(UnbraidError, match="'mean', which is not an array"):
        read_npz(tmp_path / "x.npz", "codes")


@pytest.mark.parametrize("kind", ["device", "pipe", "folder"])
def test_only_regular_files_are_read_or_written(tmp_path, kind):
    path = tmp_path / "x"
    {"device": lambda: path.symlink_to("/dev/zero"), "pipe": lambda: os.mkfifo(path), "folder": path.mkdir}[kind]()
    for read in (
        open_regular,
        read_bytes,
        read_json,
        read_toml,
        read_npy,
        read_npz,
        sha256,
        read_tensors,
        read_metadata,
    ):
        with pytest.raises(UnbraidError):  # at once, and without filling the memory
            read(path)
    with pytest.raises((UnbraidError, OSError)):
        open_for_writing(path)


def test_a_link_is_read_through_but_not_written_through(tmp_path):
    (tmp_path / "target").write_bytes(b"before")
    (tmp_path / "link").symlink_to(tmp_path / "target")
    assert read_bytes(tmp_path / "link") == b"before"
    for append in (False, True):
        with pytest.raises(UnbraidError, match="links are not followed"):
            open_for_writing(tmp_path / "link", append)
    assert (tmp_path / "target").read_bytes() == b"before"
    for append, found in ((False, b"ab"), (True, b"abab"), (False, b"ab")):
        with open_for_writing(tmp_path / "plain", append) as f:
            f.write(b"ab")
            assert f.name == str(tmp_path / "plain")
        assert (tmp_path / "plain").read_bytes() == found
