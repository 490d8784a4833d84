"""File locks: a second holder waits or gets an error, and a killed holder releases the lock."""

import errno
import subprocess
import sys

import pytest

from unbraid.core.errors import UnbraidError
from unbraid.core.locks import file_lock

HOLDING_SCRIPT = """
import sys, time
from unbraid.core.locks import file_lock
with file_lock(sys.argv[1]):
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


def test_a_disk_without_locks_is_used_without_one(tmp_path, monkeypatch):
    import fcntl

    def refuse(*arguments):
        raise OSError(errno.ENOLCK, "no locks available")

    monkeypatch.setattr(fcntl, "flock", refuse)
    with file_lock(tmp_path / "a.lock"):
        assert (tmp_path / "a.lock").exists()


def test_a_path_that_cannot_be_opened_is_an_error(tmp_path):
    (tmp_path / "a.lock").mkdir()
    with pytest.raises(UnbraidError, match="cannot open the lock"), file_lock(tmp_path / "a.lock"):
        pass
