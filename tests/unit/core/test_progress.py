"""The bar's speed and time left are of this process's own work."""

from __future__ import annotations

import re

from unbraid.core import progress


def test_a_run_that_goes_on_counts_only_its_own_steps_towards_the_speed(monkeypatch, capsys):
    """900 of 1,000 steps were done before; 50 more in 100 seconds are 0.5 a second, and 100 seconds are left."""
    clock = iter([0.0, 100.0])
    monkeypatch.setattr(progress.time, "monotonic", lambda: next(clock))
    with progress.progress_bar("run", 1000, initial=900) as advance:
        advance(50)
    line = re.sub(" +", " ", capsys.readouterr().err)
    assert line == "run: 950/1,000 0.5/s 100 s left \n"


def test_from_the_start_all_steps_count(monkeypatch, capsys):
    clock = iter([0.0, 100.0])
    monkeypatch.setattr(progress.time, "monotonic", lambda: next(clock))
    with progress.progress_bar("run", 1000) as advance:
        advance(500, "a note")
    assert capsys.readouterr().err == "run: 500/1,000  5/s  100 s left  a note\n"
