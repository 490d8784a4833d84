"""The page of benchmarks: a new table takes the place of the old one, and everything else stays."""

from __future__ import annotations

import bench.__main__ as page


def row(name: str, ratio: float) -> dict:
    return {"name": name, "ours": 0.1, "baseline": 0.2, "ratio": ratio, "limit": "> 2", "note": "n"}


def test_what_is_said_below_a_table_stays_with_its_own_tables(tmp_path, monkeypatch):
    monkeypatch.setattr(page, "PAGE", tmp_path / "benchmarks.md")
    assert page.write_page({"core": [row("step", 3.0)], "peers": [row("vae", 1.5)]}, "a machine") == 1
    below = "Made by hand.\n\n| part | now |\n|---|---|\n| layer | 5 ms |\n\nThe end."
    page.PAGE.write_text(f"{page.PAGE.read_text().rstrip()}\n\n{below}\n")
    assert page.write_page({"peers": [row("vae", 2.5)]}, "another machine") == 0
    text = page.PAGE.read_text()
    assert text.count(below) == 1
    assert "| vae | 100.00 ms | 200.00 ms | 2.5 | > 2 | n |" in text
    assert "1.5" not in text
    assert "Machine: a machine" in text.split("## peers")[0]
