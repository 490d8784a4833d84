"""The exported page in a real browser: its pixels match torch, keys and controls work, all offline."""

from __future__ import annotations

import base64
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.exported_page import IMAGE_SHAPES, random_codes, random_model
from unbraid.export.decoder_layers import decoder_layers, pack_half_precision
from unbraid.export.html import write_explorer
from unbraid.model import NETS
from unbraid.runs.run import Run

pytestmark = pytest.mark.slow
OLD_RUNS = Path(__file__).parents[1] / "data" / "runs_of_0_1"
DECODE_SCRIPT = """([layers, numbers, codes]) => {
  const ready = unpack(layers, halves(numbers)), out = [];
  const text = (array) => {
    let found = "";
    for (const byte of new Uint8Array(array.buffer)) found += String.fromCharCode(byte);
    return btoa(found);
  };
  const canvas = document.createElement("canvas");
  for (const code of codes) {
    const image = decode(ready, code), {c, h, w, x} = image;
    paint(canvas, image);
    out.push({c, h, w, x: text(x), shown: text(canvas.getContext("2d").getImageData(0, 0, w, h).data)});
  }
  return out;
}"""


def open_all_leaves(page) -> None:
    """Unfold uninformative leaves too: these runs were hardly trained."""
    page.evaluate("document.getElementById('folded').open = true")


@pytest.fixture
def open_page(tab, tmp_path):
    """Open the exported page of a stored run from disk, offline."""

    def open_run(name: str):
        path = write_explorer(Run.load(OLD_RUNS / name), tmp_path / "explore.html")
        tab.context.set_offline(True)
        tab.goto(path.as_uri())
        open_all_leaves(tab)
        return tab

    return open_run


@pytest.mark.parametrize("name", sorted(NETS))
def test_pixels_are_those_of_torch(open_page, name):
    model = random_model(name, shape=IMAGE_SHAPES.get(name, (3, 64, 64)))
    z = random_codes(model.tree, 50, seed=1)
    with torch.no_grad():
        expected = model.decode(torch.from_numpy(z)).numpy()
    layers, numbers = pack_half_precision(decoder_layers(model))
    found = open_page("vae").evaluate(DECODE_SCRIPT, [layers, base64.b64encode(numbers).decode(), z.tolist()])
    for image, truth in zip(found, expected, strict=True):
        assert (image["c"], image["h"], image["w"]) == truth.shape
        last = np.moveaxis(truth, 0, -1)
        decoded = np.frombuffer(base64.b64decode(image["x"]), "<f4").reshape(last.shape)
        assert np.abs(decoded - last).max() < 5e-3
        if image["h"] > 1:
            shown = np.frombuffer(base64.b64decode(image["shown"]), np.uint8).reshape(*last.shape[:2], 4)
            assert (shown[..., 3] == 255).all()
            assert np.abs(shown[..., :3].astype(float) - 255 * last).max() <= 2


def canvas_pixels(page) -> np.ndarray:
    """The pixels of the canvas after the requested frame is painted."""
    script = """() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => {
      const c = document.getElementById("image");
      done(Array.from(c.getContext("2d").getImageData(0, 0, c.width, c.height).data));
    })))"""
    return np.array(page.evaluate(script))


def test_keys_move_sliders_and_pixels_follow(open_page):
    page = open_page("vae")
    before = canvas_pixels(page)
    first = page.locator("input[type=range]").first
    first.focus()
    value = float(first.input_value())
    for _ in range(12):
        page.keyboard.press("ArrowRight" if value < 0 else "ArrowLeft")
    moved = float(first.input_value())
    assert abs(moved - value) > 0.5
    after = canvas_pixels(page)
    assert np.abs(after - before).max() > 5
    page.keyboard.press("r")
    assert np.array_equal(canvas_pixels(page), before)
    page.keyboard.press("p")
    assert not np.array_equal(canvas_pixels(page), before)


def test_the_page_shows_what_torch_decodes(open_page):
    page = open_page("hfvae_discrete")
    run = Run.load(OLD_RUNS / "hfvae_discrete")
    for label in page.locator(".choices label").all():
        label.click()
        code = page.evaluate("() => Array.from(code)")
        truth = 255 * run.decode(code)[0]
        assert np.abs(canvas_pixels(page).reshape(*truth.shape[1:], 4)[..., 0] - truth[0]).max() <= 2


def test_a_discrete_leaf_is_a_choice_reached_by_keys(open_page):
    page = open_page("hfvae_discrete")
    group = page.get_by_role("radiogroup").first
    assert group.get_attribute("aria-label")
    radios = group.get_by_role("radio")
    radios.nth(0).check()
    first = canvas_pixels(page)
    radios.nth(0).focus()
    page.keyboard.press("ArrowRight")
    assert radios.nth(1).is_checked()
    assert not np.array_equal(canvas_pixels(page), first)


def test_touch_sets_a_slider_at_390_pixels(chromium, tmp_path):
    path = write_explorer(Run.load(OLD_RUNS / "vae"), tmp_path / "explore.html")
    context = chromium.new_context(viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True)
    page = context.new_page()
    page.goto(path.as_uri())
    open_all_leaves(page)
    slider = page.locator("input[type=range]").first
    slider.scroll_into_view_if_needed()
    box = slider.bounding_box()
    page.touchscreen.tap(box["x"] + 0.9 * box["width"], box["y"] + box["height"] / 2)
    assert float(slider.input_value()) > 1
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    context.close()


def test_animation_moves_and_stops(open_page):
    page = open_page("vae")
    before = canvas_pixels(page)
    page.get_by_role("button", name="Animate").click()
    page.wait_for_timeout(600)
    assert not np.array_equal(canvas_pixels(page), before)
    page.get_by_role("button", name="Animate").click()
    still = canvas_pixels(page)
    page.wait_for_timeout(300)
    assert np.array_equal(canvas_pixels(page), still)


def test_a_generator_of_a_game_is_explored_too(open_page):
    page = open_page("info_gan")
    run = Run.load(OLD_RUNS / "info_gan")
    truth = 255 * run.decode(page.evaluate("() => Array.from(code)"))[0, 0]
    assert np.abs(canvas_pixels(page).reshape(*truth.shape, 4)[..., 0] - truth).max() <= 2
