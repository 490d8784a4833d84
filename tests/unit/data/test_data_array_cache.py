"""The cache: nothing half-made, damaged or swapped is ever trusted."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import time

import numpy as np
import pytest

from unbraid.core.errors import UnbraidError
from unbraid.core.files import sha256
from unbraid.data.cache import array_cache


def counting_fill(value: int = 3):
    calls = []

    def fill(array, advance):
        calls.append(1)
        array[:] = value
        advance()

    return fill, calls


def generate(fill, name="a"):
    return array_cache.load_or_generate(name, (5, 4), np.uint8, fill, 1, quiet=True)


def test_made_once_then_mapped_read_only():
    fill, calls = counting_fill()
    first = generate(fill)
    second = generate(fill)
    assert len(calls) == 1
    assert (first == 3).all()
    assert (second == 3).all()
    assert not second.flags.writeable
    assert array_cache.is_cached("a")
    path = array_cache.cache_path("a")
    assert sha256(path) == json.loads(path.with_suffix(".json").read_text())["sha256"]


def test_a_failing_generation_leaves_nothing(cache):
    def fill(array, advance):
        array[:] = 9
        raise RuntimeError("lights out")

    with pytest.raises(RuntimeError, match="lights out"):
        generate(fill)
    assert not array_cache.is_cached("a")
    assert [p.name for p in cache.iterdir()] == ["a.lock"]
    good, calls = counting_fill()
    assert (generate(good) == 3).all()
    assert len(calls) == 1


KILLED_SCRIPT = """
    import numpy as np, time, sys
    from unbraid.data.cache import array_cache
    def fill(array, advance):
        array[:] = 9
        array.flush()
        print("started", flush=True)
        time.sleep(60)
    array_cache.load_or_generate("a", (5, 4), np.uint8, fill, 1, quiet=True)
"""


def test_a_killed_generation_is_swept_and_made_again(cache):
    command = [sys.executable, "-c", textwrap.dedent(KILLED_SCRIPT)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, env=dict(os.environ))
    assert process.stdout is not None
    assert process.stdout.readline() == b"started\n"
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    assert any(p.suffix == ".part" for p in cache.iterdir())
    assert not array_cache.is_cached("a")
    fill, calls = counting_fill()
    assert (generate(fill) == 3).all()
    assert len(calls) == 1
    assert sorted(p.name for p in cache.iterdir()) == ["a.json", "a.lock", "a.npy"]


TWO_PROCESSES_SCRIPT = """
    import numpy as np, time, sys
    from unbraid.data.cache import array_cache
    def fill(array, advance):
        open(sys.argv[1], "a").write("x")
        time.sleep(0.5)
        array[:] = 3
    print(int(array_cache.load_or_generate("a", (5, 4), np.uint8, fill, 1, quiet=True).sum()))
"""


def test_two_processes_at_once_make_it_once(tmp_path):
    command = [sys.executable, "-c", textwrap.dedent(TWO_PROCESSES_SCRIPT), str(tmp_path / "calls")]
    both = [subprocess.Popen(command, stdout=subprocess.PIPE, env=dict(os.environ)) for _ in range(2)]
    assert [p.communicate(timeout=60)[0] for p in both] == [b"60\n", b"60\n"]
    assert (tmp_path / "calls").read_text() == "x"


@pytest.mark.parametrize("damage", ["flip", "cut", "swap", "no description", "bad description"])
def test_damage_is_found_and_mended(damage):
    fill, calls = counting_fill()
    generate(fill)
    path = array_cache.cache_path("a")
    raw = bytearray(path.read_bytes())
    if damage == "flip":
        raw[-1] ^= 1
        path.write_bytes(raw)
        os.utime(path, ns=(0, time.time_ns() + 10**9))
    elif damage == "cut":
        path.write_bytes(raw[:-3])
    elif damage == "swap":
        other, _ = counting_fill(8)
        generate(other, "b")
        os.replace(array_cache.cache_path("b"), path)
    elif damage == "no description":
        path.with_suffix(".json").unlink()
    else:
        path.with_suffix(".json").write_text('{"sha256": 4')
    assert (generate(fill) == 3).all()
    assert len(calls) == 2


def test_names_cannot_leave_the_cache():
    with pytest.raises(UnbraidError, match="cache folder"):
        array_cache.cache_path("../../etc/passwd")


def test_another_layout_under_the_same_name_is_refused():
    fill, _ = counting_fill()
    generate(fill)
    with pytest.raises(UnbraidError, match="another layout"):
        array_cache.load_or_generate("a", (5, 5), np.uint8, fill, 1)


def test_too_little_room_is_said_before_work_starts():
    fill, calls = counting_fill()
    with pytest.raises(UnbraidError, match="not enough disk space"):
        array_cache.load_or_generate("huge", (1 << 50,), np.uint8, fill, 1)
    assert not calls


def test_folder_follows_the_environment(monkeypatch, tmp_path):
    monkeypatch.setenv("UNBRAID_CACHE", str(tmp_path / "x"))
    assert array_cache.cache_dir() == tmp_path / "x"
    monkeypatch.delenv("UNBRAID_CACHE")
    assert array_cache.cache_dir().parts[-2:] == (".cache", "unbraid")
