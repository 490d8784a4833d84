"""The page of a discovery and the editable names of the explorer in a real browser, wide and narrow, light and dark."""

from __future__ import annotations

import numpy as np
import pytest

import unbraid
from unbraid.discovery import plan as plans

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def discovery(tmp_path_factory):
    """A tiny discovery of bars that differ in position and brightness."""
    pictures = np.zeros((60, 8, 8), np.uint8)
    for k in range(60):
        pictures[k, :, k % 6 : k % 6 + 2] = 100 + 15 * (k // 6)
    patch = pytest.MonkeyPatch()
    patch.setattr(plans, "MIN_FIRST_STEPS", 60)
    try:
        out = tmp_path_factory.mktemp("page") / "found"
        return unbraid.discover(pictures, out, minutes=0.05, seeds=2, latents=3, workers=1, quiet=True)
    finally:
        patch.undo()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1440, 390])
def test_the_page_fits_and_every_picture_is_there(discovery, tab, width, scheme):
    tab.set_viewport_size({"width": width, "height": 900})
    tab.emulate_media(color_scheme=scheme)
    tab.goto(discovery.page.as_uri())
    tab.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
    assert tab.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
    assert tab.evaluate("document.images.length") >= 2 + len(discovery.factors)
    assert tab.evaluate("[...document.images].filter(i => !(i.complete && i.naturalWidth)).length") == 0
    ground = sum(tab.evaluate("getComputedStyle(document.body).backgroundColor.match(/\\d+/g).slice(0, 3).map(Number)"))
    assert ground > 600 if scheme == "light" else ground < 210


def test_a_name_is_edited_kept_in_the_browser_and_offered_as_a_command(discovery, tab):
    tab.goto((discovery.folder / "explore.html").as_uri())
    tab.evaluate("document.getElementById('folded').open = true")
    name = tab.locator("input.name").first
    leaf = name.get_attribute("aria-label").removeprefix("Name of ")
    name.fill("it's <b>width</b>")
    name.press("Enter")
    commands = tab.locator("#commands")
    assert commands.inner_text() == f"unbraid name best {leaf} 'it'\\''s <b>width</b>'"
    tab.reload()
    assert tab.locator(f"input.name[aria-label='Name of {leaf}']").input_value() == "it's <b>width</b>"
