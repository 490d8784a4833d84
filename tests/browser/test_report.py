"""The report in a real browser: wide and narrow, light and dark, nothing off the edge, every picture drawn."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from unbraid import Run, encode, score
from unbraid.figures.report import report
from unbraid.runs.auditing import audit

pytestmark = pytest.mark.slow
RUNS = Path(__file__).parents[1] / "data" / "runs_of_0_1"


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """A page over three stored runs, encoded, audited and scored."""
    root = tmp_path_factory.mktemp("report")
    runs = []
    for name in ("vae", "factor_vae", "hfvae_discrete"):
        shutil.copytree(RUNS / name, root / name)
        runs.append(Run.load(root / name))
        encode(runs[-1], quiet=True)
        audit(runs[-1], quiet=True)
        score(runs[-1], metrics="mig,dci,factor_vae", quiet=True)
    return report(runs, root / "report.html")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1440, 390])
def test_nothing_runs_off_the_edge_and_every_picture_is_there(page, tab, width, scheme):
    tab.set_viewport_size({"width": width, "height": 900})
    tab.emulate_media(color_scheme=scheme)
    tab.goto(page.as_uri())
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


def test_its_pictures_can_be_saved_as_png_and_svg(page, tab):
    tab.goto(page.as_uri())
    kinds = tab.evaluate("[...document.querySelectorAll('a[download]')].map(a => a.download.split('.').pop())")
    assert kinds.count("png") >= 5
    assert kinds.count("png") == kinds.count("svg")
