"""The site in a real browser, narrow and wide, light and dark: nothing overflows, and search works."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[2]
WIDTHS = {"narrow": 390, "wide": 1440}


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    """The site, built once."""
    pytest.importorskip("sphinx")
    out = tmp_path_factory.mktemp("site")
    sys.path.insert(0, str(ROOT / "docs"))
    try:
        import make
    finally:
        sys.path.pop(0)
    done = make.build_site(out, "-d", str(out / ".doctrees"))
    assert done.returncode == 0, done.stdout + done.stderr
    return out


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", WIDTHS.values(), ids=WIDTHS)
def test_no_page_hangs_over_the_edge(site, tab, width, scheme):
    tab.set_viewport_size({"width": width, "height": 900})
    tab.emulate_media(color_scheme=scheme)
    over, unread = [], []
    for path in sorted(site.rglob("*.html")):
        tab.goto(path.as_uri())
        if tab.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth") > 1:
            over.append(path.name)
        if tab.evaluate("[...document.images].some(i => i.complete && !i.naturalWidth)"):
            unread.append(path.name)
    assert not over
    assert not unread
    light = tab.evaluate(
        "getComputedStyle(document.body).backgroundColor.match(/\\d+/g).slice(0, 3).reduce((a, b) => a + +b, 0)"
    )
    assert (light > 600) == (scheme == "light")


def test_search_finds_an_objective_without_a_server(site, tab):
    tab.goto((site / "search.html").as_uri() + "?q=hfvae")
    tab.wait_for_selector("#search-results li a")
    found = tab.eval_on_selector_all("#search-results li a", "links => links.map(a => a.getAttribute('href'))")
    assert any("objectives" in link for link in found)


@pytest.mark.parametrize(
    ("asked", "page"),
    [
        ("β-TCVAE", "reference/objectives.html"),
        ("beta-TCVAE", "reference/objectives.html"),
        ("install", "install.html"),
        ("out of memory", "troubleshooting.html"),
        ("tailor", "discover.html"),  # a word that only stands in the text
    ],
)
def test_search_finds_the_page_first(site, tab, asked, page):
    tab.goto((site / "search.html").as_uri() + f"?q={asked}")
    tab.wait_for_selector("#search-results li a")
    found = tab.eval_on_selector_all("#search-results li a", "links => links.map(a => a.getAttribute('href'))")
    assert found[0].split("#")[0] == page


@pytest.mark.parametrize("page", ["objectives", "data", "planning"])
def test_a_wide_table_does_not_scroll_beside_an_empty_margin(site, tab, page):
    tab.set_viewport_size({"width": 1440, "height": 900})
    tab.goto((site / f"{page}.html").as_uri())
    hidden = "[...document.querySelectorAll('.table-wrapper')].filter(t => t.scrollWidth > t.clientWidth + 1).length"
    assert tab.evaluate(hidden) == 0


def test_formulas_are_drawn_by_the_browser(site, tab):
    tab.goto((site / "index.html").as_uri())
    box = tab.locator("div.math math").bounding_box()
    assert box["width"] > 200
    assert box["height"] > 20
