"""The map of the explorer in a real browser: axes, colours, thumbnails, clicks, keys, marked codes, given names."""

from __future__ import annotations

import json

import numpy as np
import pytest
from PIL import Image

pytestmark = pytest.mark.slow


@pytest.fixture
def map_page(signed_in_tab):
    """The explorer of a run with its map drawn."""
    signed_in_tab.set_viewport_size({"width": 1440, "height": 900})
    signed_in_tab.go("/explore?run=vae")
    signed_in_tab.wait_for_selector("#map[data-ready]")
    return signed_in_tab


def point_position(page, point: int) -> tuple[float, float]:
    """The pixel of a point of the map, computed from the protocol's numbers."""
    asked = {
        "ask": "map",
        "run": "vae",
        **{k: page.locator(f"#map-{k}").input_value() for k in ("across", "up", "colour")},
    }
    found = page.evaluate("async (asked) => (await live.ask(asked)).head", asked)
    x, y = np.array(found["x"]), np.array(found["y"])
    box, pad = page.locator("#map").bounding_box(), 10

    def share(values):
        wide = np.ptp(values) or 1
        return (values[point] - values.min() + 0.04 * wide) / (1.08 * wide)

    width, height = box["width"] - 2 - 2 * pad, box["height"] - 2 - 2 * pad
    return box["x"] + 1 + pad + share(x) * width, box["y"] + 1 + pad + (1 - share(y)) * height


def test_a_point_shows_its_image_and_a_click_goes_there(map_page):
    page = map_page
    x, y = point_position(page, 5)
    page.mouse.move(x, y)
    page.wait_for_selector("#map-hint[data-point]:not([hidden])")
    point = int(page.locator("#map-hint").get_attribute("data-point"))
    asked = page.evaluate("async (point) => (await live.ask({ask: 'point', run: 'vae', point})).head", point)
    assert page.locator("#map-hint span").text_content() == asked["label"]
    page.mouse.click(x, y)
    page.wait_for_function(f"document.getElementById('index').value === '{asked['index']}'")
    page.wait_for_timeout(500)
    assert np.allclose(page.evaluate("Array.from(code)"), asked["z"], atol=1e-4)


def test_axes_and_colours_can_be_chosen(map_page):
    page = map_page
    names = page.locator("#map-across option").all_text_contents()
    assert names[:2] == ["PCA 1", "PCA 2"]
    colours = page.locator("#map-colour option").all_text_contents()
    assert "reconstruction error" in colours
    for colour in colours:
        page.locator("#map-colour").select_option(colour)
        page.wait_for_selector(f'#map[data-ready$="|{colour}"]')
    page.locator("#map-colour").select_option("reconstruction error")
    page.wait_for_selector("#map-legend .ramp")
    column = page.locator("#map-across option").nth(2).get_attribute("value")
    page.locator("#map-across").select_option(column)
    page.locator("#map-up").select_option(page.locator("#map-up option").nth(3).get_attribute("value"))
    page.wait_for_selector(f'#map[data-ready^="{column}|"]')


def test_a_click_beside_the_points_moves_both_columns(map_page):
    page = map_page
    columns = [page.locator("#map-up option").nth(i).get_attribute("value") for i in (2, 3)]
    page.locator("#map-across").select_option(columns[0])
    page.locator("#map-up").select_option(columns[1])
    page.wait_for_selector(f'#map[data-ready^="{columns[0]}|{columns[1]}|"]')
    before, box = page.evaluate("Array.from(code)"), page.locator("#map").bounding_box()
    page.mouse.click(box["x"] + 3, box["y"] + 3)
    page.wait_for_timeout(500)
    after = page.evaluate("Array.from(code)")
    assert after[:2] != before[:2]
    assert after[2:] == before[2:]


def test_keys_walk_through_the_map(map_page):
    page = map_page
    page.locator("#map").focus()
    page.keyboard.press("ArrowRight")
    page.wait_for_selector("#map-hint[data-point]:not([hidden])")
    before = page.locator("#index").input_value()
    page.keyboard.press("ArrowRight")
    page.wait_for_timeout(400)
    page.keyboard.press("Enter")
    page.wait_for_function(f"document.getElementById('index').value !== '{before}'")


def test_a_code_outside_the_training_range_is_marked(map_page):
    page = map_page
    assert page.locator("#range").is_hidden()
    page.evaluate("go(content.seen[1].map((v, i) => (i === 0 ? v + 5 : code[i])))")
    page.wait_for_selector("#image.outside")
    assert "Outside the training range" in page.locator("#range").text_content()
    page.get_by_role("button", name="Reset").click()
    page.wait_for_selector("#image:not(.outside)")
    assert page.locator("#range").is_hidden()


def test_a_picture_unlike_the_data_is_marked(map_page, tmp_path):
    noise = np.random.default_rng(0).integers(0, 2, (8, 8), np.uint8) * 255
    Image.fromarray(noise).save(tmp_path / "noise.png")
    map_page.set_input_files("#file", tmp_path / "noise.png")
    map_page.get_by_text("Unlike the training images").wait_for()


def test_a_given_name_leads_and_is_shown_as_text(signed_in_tab, studio):
    hostile, leaf = "<img src=x onerror=alert(1)>", "z1"
    path = studio["root"] / "full_posterior" / "names.json"
    path.write_text(json.dumps({leaf: hostile}))
    try:
        signed_in_tab.go("/explore?run=full_posterior")
        signed_in_tab.wait_for_selector("#explorer[data-ready=yes]")
        heads = [field.input_value() for field in signed_in_tab.locator(".leaf .head input.name").all()]
        assert hostile in heads, "the name can be edited where it stands"
        assert signed_in_tab.locator(".leaf img").count() == 0
        assert f"{hostile} ({leaf})" in signed_in_tab.locator("#node option").all_text_contents()
        signed_in_tab.go("/diagnostics?run=full_posterior")
        signed_in_tab.get_by_text("Audit now").wait_for()
        leads = "[...document.querySelectorAll('.xtick text')].some(t => t.textContent.endsWith('(z1)'))"
        signed_in_tab.wait_for_function(leads)
    finally:
        path.unlink()
