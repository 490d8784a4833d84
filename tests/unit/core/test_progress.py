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
    assert line == "run: 950/1,000 0.5/s 1 min 40 s left\n"


def test_from_the_start_all_steps_count(monkeypatch, capsys):
    clock = iter([0.0, 100.0])
    monkeypatch.setattr(progress.time, "monotonic", lambda: next(clock))
    with progress.progress_bar("run", 1000) as advance:
        advance(500, "a note")
    assert capsys.readouterr().err == "run: 500/1,000  5/s  1 min 40 s left  a note\n"


def test_a_log_line_fits_80_columns(monkeypatch, capsys):
    clock = iter([0.0, 100.0])
    monkeypatch.setattr(progress.time, "monotonic", lambda: next(clock))
    with progress.progress_bar("beta_tcvae_colour_sprites seed 12", 123_456) as advance:
        advance(500, "rec 45.12 kl 20.31 tc 1.234 mi 12.22 dw 3.2 size 12.3")
    line = capsys.readouterr().err.rstrip("\n")
    assert len(line) == 80
    assert "left" in line


def test_a_bar_in_a_terminal_of_80_columns_has_room_for_the_terms():
    import io

    from rich.console import Console

    bar = progress.make_progress(123_456)
    bar.add_task(
        "beta_tcvae_colour_sprites_and_more seed 12", total=123_456, completed=7, note="rec 45.1 kl 20", speed="9/s"
    )
    out = io.StringIO()
    Console(file=out, width=80, color_system=None).print(bar.get_renderable())
    assert max(map(len, out.getvalue().splitlines())) <= 80
    assert "rec 45.1 kl" in out.getvalue()


def test_long_work_announces_its_time_once_and_short_work_does_not(monkeypatch, capsys):
    """The first step takes 5 s and is not counted: 2.5 s for 5 more of 1,000 steps are 500 s in all."""
    clock = iter([0.0, 5.0, 7.5, 8.0, 9.0])
    monkeypatch.setattr(progress.time, "monotonic", lambda: next(clock))
    with progress.progress_bar("run", 1000) as advance:
        for n in (1, 5, 1, 1):
            advance(n)
    assert capsys.readouterr().err == "run: about 8 min 20 s in all\n"
    clock = iter([0.0, 0.1, 2.5])
    with progress.progress_bar("run", 12) as advance:
        advance(1)
        advance(10)
    assert capsys.readouterr().err == ""


def test_rounds_of_unequal_steps_are_estimated_after_the_first(monkeypatch, capsys):
    clock = iter([0.0, 1.0, 9.0, 10.0])
    monkeypatch.setattr(progress.time, "monotonic", lambda: next(clock))
    with progress.progress_bar("scoring", 30, round_size=3) as advance:
        for _ in range(3):
            advance()
    assert capsys.readouterr().err == "scoring: about 1 min 40 s in all\n"
