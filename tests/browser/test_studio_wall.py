"""Traversals in a real browser: size of the cells, exports, and several runs aligned next to each other."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree

import pytest
from PIL import Image

pytestmark = pytest.mark.slow


def open_wall(page, runs: str, width: int = 1440):
    """Open the traversals of runs and unfold dead rows."""
    page.set_viewport_size({"width": width, "height": 900})
    page.go(f"/wall?{runs}")
    page.wait_for_selector("#walls[data-ready=yes]")
    page.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
    page.wait_for_timeout(300)
    return page


def cell_width(page) -> float:
    return page.locator(".cells canvas").first.bounding_box()["width"]


def clipped_rows(page) -> int:
    return page.evaluate(
        "Array.from(document.querySelectorAll('.cells')).filter(c => c.scrollWidth > c.clientWidth + 1).length"
    )


def test_cells_follow_the_width_and_the_size_can_be_chosen(signed_in_tab):
    page = open_wall(signed_in_tab, "run=hfvae_discrete")
    wide = cell_width(page)
    assert clipped_rows(page) == 0
    page.set_viewport_size({"width": 700, "height": 900})
    page.wait_for_function(f"document.querySelector('.cells canvas').getBoundingClientRect().width < {wide}")
    assert clipped_rows(page) == 0
    page.locator("#size").fill("150")
    page.wait_for_timeout(200)
    assert cell_width(page) == pytest.approx(150, abs=1)
    page.get_by_role("button", name="Fit the width").click()
    page.wait_for_timeout(200)
    assert cell_width(page) < wide


def test_png_svg_and_gif_are_saved(signed_in_tab, tmp_path):
    page = open_wall(signed_in_tab, "run=hfvae_discrete")
    for kind in ("PNG", "SVG", "GIF"):
        with page.expect_download() as waiting:
            page.get_by_role("button", name=f"Save {kind}").click()
        path = tmp_path / f"wall.{kind.lower()}"
        waiting.value.save_as(path)
        assert waiting.value.suggested_filename.endswith(f"hfvae_discrete-traversals.{kind.lower()}")
        if kind == "SVG":
            root = ElementTree.parse(path).getroot()
            assert len(root.findall("{http://www.w3.org/2000/svg}image")) > 8
        else:
            with Image.open(path) as saved:
                assert saved.format == kind
                assert saved.size[0] > 100
                assert kind == "PNG" or saved.n_frames > 8


def test_runs_are_aligned_next_to_each_other(signed_in_tab):
    page = open_wall(signed_in_tab, "run=vae&run=full_posterior&run=conv")
    assert page.locator(".heads h2").all_text_contents() == ["vae", "full_posterior", "conv"]
    assert clipped_rows(page) == 0
    assert page.evaluate("document.documentElement.scrollWidth") <= 1440
    table = " ".join(page.locator(".comparison").all_text_contents())
    assert "objective" in table or "nets" in table or "posterior" in table
    assert "mig" in table, "the scores of runs that have them"
    partners = page.evaluate("shown[1].rows.filter(row => row.partner).length")
    name, cells = (page.locator(f".wallrow {part}").first.bounding_box() for part in (".leafname", ".cells"))
    assert name["y"] + name["height"] <= cells["y"] + 1, "names are above the pictures, which get the whole width"
    assert cell_width(page) > 40, "pictures of three runs are large enough to see"
    columns = page.evaluate("document.querySelector('.aligned:not(.heads)').children.length")
    assert columns % 3 == 0
    assert partners >= 1


def test_three_runs_fit_a_phone(signed_in_tab):
    page = open_wall(signed_in_tab, "run=vae&run=full_posterior&run=conv", 390)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    assert page.locator(".runname").first.is_visible()
