"""The report in a real browser: wide and narrow, light and dark: nothing overflows, every figure is drawn."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from unbraid import Run, encode, pretrained, score
from unbraid.figures.report import report
from unbraid.runs.evaluation.auditing import audit

pytestmark = pytest.mark.slow
OLD_RUNS = Path(__file__).parents[1] / "data" / "runs_of_0_1"


@pytest.fixture(scope="module")
def report_page(tmp_path_factory):
    """A page over three stored runs, encoded, audited and scored."""
    root = tmp_path_factory.mktemp("report")
    runs = []
    for name in ("vae", "factor_vae", "hfvae_discrete"):
        shutil.copytree(OLD_RUNS / name, root / name)
        runs.append(Run.load(root / name))
        encode(runs[-1], quiet=True)
        audit(runs[-1], quiet=True)
        score(runs[-1], metrics="mig,dci,factor_vae", quiet=True)
    return report(runs, root / "report.html")


@pytest.fixture(scope="module")
def single_run_page(tmp_path_factory):
    """A page of one run whose name is as long as sweeps make them."""
    path = tmp_path_factory.mktemp("single") / "beta_tcvae_colour_sprites_broadcast_leaky_relu_beta6_seed0"
    shutil.copytree(pretrained("beta_tcvae_colour_sprites").path, path)
    run = Run.load(path)
    encode(run, quiet=True)
    return report(run)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1440, 390])
def test_nothing_runs_off_the_edge_and_every_picture_is_there(report_page, tab, width, scheme):
    tab.set_viewport_size({"width": width, "height": 900})
    tab.emulate_media(color_scheme=scheme)
    tab.goto(report_page.as_uri())
    assert tab.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
    tables = "[...document.querySelectorAll('.wide')].filter(e => e.getClientRects().length)"
    assert tab.evaluate(f"{tables}.length") >= 2
    assert tab.evaluate(f"{tables}.every(e => e.scrollWidth <= e.clientWidth + 1)")
    broken = "[...document.images].filter(i => i.getClientRects().length && !(i.complete && i.naturalWidth)).length"
    assert tab.evaluate("document.images.length") >= 5
    assert tab.evaluate(broken) == 0
    sheet = "getComputedStyle(document.body).backgroundColor.match(/\\d+/g).slice(0, 3).map(Number)"
    ground = sum(tab.evaluate(sheet)) / 3
    assert ground > 200 if scheme == "light" else ground < 70
    assert "mig" in tab.inner_text("body")
    assert "the best mean is marked" in tab.inner_text("body")


def test_its_pictures_can_be_saved_as_png_and_svg(report_page, tab):
    tab.goto(report_page.as_uri())
    kinds = tab.evaluate("[...document.querySelectorAll('a[download]')].map(a => a.download.split('.').pop())")
    assert kinds.count("png") >= 5
    assert kinds.count("png") == kinds.count("svg")


def test_the_numbers_of_a_heat_map_keep_their_ink_in_the_dark(single_run_page, tab):
    tab.emulate_media(color_scheme="dark")
    tab.goto(single_run_page.as_uri())
    tab.goto(tab.get_attribute("img[alt^='Leaves and factors']", "src"))  # the picture by itself
    fills = "[...document.querySelectorAll('text')].map(t => [t.parentNode.id, t.style.fill, getComputedStyle(t).fill])"
    found = tab.evaluate(fills)
    cells = [(asked, seen) for name, asked, seen in found if name.startswith("cell")]
    words = [seen for name, _, seen in found if not name.startswith("cell")]
    assert len(cells) > 20
    assert all(asked == seen for asked, seen in cells), "cells have the same ground in the dark"
    assert {"rgb(34, 34, 34)", "rgb(255, 255, 255)"} <= {seen for _, seen in cells}
    assert set(words) == {"rgb(223, 227, 234)"}, "names stand on the page and turn light"


@pytest.mark.parametrize("width", [1440, 390])
def test_one_run_with_a_long_name_fits_and_a_picture_that_does_not_says_so(single_run_page, tab, width):
    tab.set_viewport_size({"width": width, "height": 900})
    tab.goto(single_run_page.as_uri())
    assert tab.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
    hints = tab.evaluate(
        "[...document.querySelectorAll('.pan')].filter(e => e.getClientRects().length)"
        ".map(e => [e.scrollWidth > e.clientWidth, getComputedStyle(e.nextElementSibling, '::before').content != 'none'])"
    )
    assert "the best mean is marked" not in tab.inner_text("body"), "there is one"
    assert len(hints) >= 5
    assert all(wider == told for wider, told in hints)
    assert any(told for _, told in hints) == (width == 390)
