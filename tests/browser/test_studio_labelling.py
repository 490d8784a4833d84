"""The page to label by hand in a real browser, by keys alone."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.slow


def test_keys_mark_images_and_the_file_follows(signed_in_tab, studio):
    page, file = signed_in_tab, studio["root"] / "vae" / "labels.csv"
    page.go("/label?run=vae")
    grid = page.get_by_role("listbox", name="Images to label")
    page.wait_for_selector("#grid[data-ready=yes]")
    page.locator("#values").fill("round, square, <b>x</b>")
    page.locator("#values").press("Tab")
    grid.focus()
    for key in ("1", "2", "3", "ArrowLeft", "Backspace"):
        page.keyboard.press(key)
    page.get_by_text("2 images have a value of class, saved in labels.csv.").wait_for()
    lines = file.read_text().splitlines()
    assert lines[0] == "image,class"
    assert [line.split(",")[1] for line in lines[1:]] == ["round", "square"]
    assert page.locator("#command").inner_text().startswith("Train with them: unbraid train … --labels")
    for control in ("#factor", "#values", "#legend button"):
        assert page.locator(control).first.evaluate("e => getComputedStyle(e).borderTopWidth") == "1px", (
            "looks like one"
        )
    page.locator("#factor").fill("size")
    page.locator("#factor").press("Tab")
    grid.focus()
    page.keyboard.press("2")
    page.get_by_text("1 image has a value of size").wait_for()
    assert file.read_text().splitlines()[0] == "image,class,size"
    page.reload()
    page.wait_for_selector("#grid[data-ready=yes]")
    assert page.locator("#cell0 span").inner_text() == "round"
    assert page.locator("#grid b").count() == 0  # values are text
