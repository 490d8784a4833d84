"""A campaign of one trial for each fault, as a part of `make test-all`."""

from __future__ import annotations

import os
import shutil
import subprocess

import pytest

from tests.faults.__main__ import markdown_table, run_campaign
from tests.faults.catalogue import CHEAP, FAULTS
from tests.faults.trials import Trial, kill_processes
from tests.suite_summary import PAGE


@pytest.mark.slow
@pytest.mark.parametrize("fault", [name for name in FAULTS if not name.startswith("Ray")])
def test_nothing_is_lost_and_the_end_is_the_same(fault):
    if fault == "disk full" and (os.geteuid() != 0 or shutil.which("mount") is None):
        pytest.skip("only root can mount a small disk")
    trials = run_campaign(1, seed=1, only=fault, quiet=True)
    assert len(trials) == CHEAP.get(fault, 1)
    for trial in trials:
        assert trial.struck or fault in CHEAP, trial  # a fit of a moment may be over before it is struck
        assert trial.same, trial
        assert not trial.lost, trial
    assert any(trial.struck for trial in trials)


@pytest.mark.slow
def test_nothing_is_lost_on_a_ray_cluster_either():
    pytest.importorskip("ray")
    trials = run_campaign(1, seed=1, only="Ray", quiet=True)
    assert [t.fault for t in trials] == [name for name in FAULTS if name.startswith("Ray")]
    assert all(t.passed for t in trials), trials


def test_the_table_counts_what_was_lost_and_not_what_was_never_struck():
    trials = [
        Trial("disk full", True, 2, 1, False),
        Trial("disk full", True, 1, 0, True),
        Trial("disk full", False, 4, 0, True),
    ]
    assert [t.passed for t in trials] == [False, True, False]
    assert markdown_table(trials).splitlines()[-1] == "| disk full | 2 | 3 | 1 | 1 |"
    assert "<!-- faults: begin -->" in PAGE.read_text()


def test_nobody_to_kill_is_nothing_struck():
    assert not kill_processes([])
    one = subprocess.Popen(["sleep", "60"])
    assert kill_processes([one.pid])
    one.wait()
    assert not kill_processes([one.pid])
