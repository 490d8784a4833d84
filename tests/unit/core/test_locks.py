"""One lock: a second holder is refused or waits, a killed holder frees it, Windows has its own way."""

import errno
import os
import subprocess
import sys
import types

import pytest

from unbraid.core import locks
from unbraid.core.errors import UnbraidError
from unbraid.core.locks import file_lock

HOLDING_SCRIPT = """
import sys, time
from unbraid.core.locks import locked
with locked(sys.argv[1]):
    print("held", flush=True)
    time.sleep(60)
"""


def test_a_killed_holder_frees_it_and_a_patient_one_waits(tmp_path):
    holder = subprocess.Popen([sys.executable, "-c", HOLDING_SCRIPT, str(tmp_path / "a.lock")], stdout=subprocess.PIPE)
    try:
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(UnbraidError, match="too long"), file_lock(tmp_path / "a.lock"):
            pass
        with pytest.raises(UnbraidError, match=r"^busy here\.$"), file_lock(tmp_path / "a.lock", 0.15, "busy here."):
            pass
    finally:
        holder.kill()
        holder.wait()
        holder.stdout.close()
    with file_lock(tmp_path / "a.lock"), pytest.raises(UnbraidError, match="too long"), file_lock(tmp_path / "a.lock"):
        pass


def test_windows_locks_one_byte(tmp_path, monkeypatch):
    calls = []
    held = types.SimpleNamespace(LK_NBLCK=2, locking=lambda *given: calls.append(given))
    monkeypatch.setitem(sys.modules, "msvcrt", held)
    monkeypatch.setattr(locks, "os", types.SimpleNamespace(**{**vars(os), "name": "nt"}))
    with file_lock(tmp_path / "a.lock"):
        assert [given[1:] for given in calls] == [(2, 1)]

    def taken(*given):
        raise OSError(errno.EACCES, "held")

    held.locking = taken
    with pytest.raises(UnbraidError, match="too long"), file_lock(tmp_path / "a.lock"):
        pass


def test_a_disk_without_locks_is_used_without_one(tmp_path, monkeypatch):
    import fcntl

    def none(*given):
        raise OSError(errno.ENOLCK, "no locks available")

    monkeypatch.setattr(fcntl, "flock", none)
    with file_lock(tmp_path / "a.lock"):
        assert (tmp_path / "a.lock").exists()


def test_a_place_that_cannot_be_opened_is_named(tmp_path):
    (tmp_path / "a.lock").mkdir()
    with pytest.raises(UnbraidError, match="cannot open the lock"), file_lock(tmp_path / "a.lock"):
        pass
