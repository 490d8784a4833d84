"""The site as `make docs` builds it: no warning, nothing asked from outside, links and anchors that lead somewhere."""

from __future__ import annotations

import re
import subprocess
import sys
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urldefrag

import pytest

ROOT = Path(__file__).parents[2]


class PageLinks(HTMLParser):
    """What a page asks for, where it leads, and what can be led to."""

    def __init__(self, text: str):
        super().__init__()
        self.requests: list[str] = []
        self.links: list[str] = []
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """See `HTMLParser`."""
        given = {name: value or "" for name, value in attrs}
        if "id" in given:
            self.anchors.add(given["id"])
        if "name" in given and tag == "a":
            self.anchors.add(given["name"])
        self.requests += [given[name] for name in ("src", "srcset", "data", "poster") if name in given]
        if tag == "link":
            self.requests.append(given.get("href", ""))
        if tag == "a" and "href" in given:
            self.links.append(given["href"])


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    """The site, built once; a warning fails."""
    pytest.importorskip("sphinx")
    out = tmp_path_factory.mktemp("site")
    sys.path.insert(0, str(ROOT / "docs"))
    try:
        import make
    finally:
        sys.path.pop(0)
    done = make.build_site(out, "-d", str(out / ".doctrees"))
    assert done.returncode == 0, done.stdout + done.stderr
    assert not make.broken_links()
    return out


def test_no_page_asks_for_anything_outside(site):
    pages = sorted(site.rglob("*.html"))
    assert len(pages) > 60
    for path in pages:
        page = PageLinks(path.read_text())
        outside = [url for url in page.requests if re.match(r"(https?:)?//", url)]
        assert not outside, f"{path.name} asks for {outside}"
    for path in [*site.rglob("*.css"), *site.rglob("*.js")]:
        found = re.findall(
            r"(?:url\(|@import\s+|fetch\(|src=)[\"']?(?:https?:)?//[^\"')\s]+", path.read_text(errors="replace")
        )
        assert not found, f"{path.name} asks for {found}"


@pytest.mark.slow
def test_every_link_and_anchor_leads_somewhere(site):
    pages = {path: PageLinks(path.read_text()) for path in site.rglob("*.html")}
    broken = []
    for path, page in pages.items():
        for link in page.links:
            if re.match(r"(https?|mailto):", link):
                continue
            place, anchor = urldefrag(link)
            there = (path.parent / unquote(place)).resolve() if place else path
            known = pages.get(there)
            if not there.exists() or (anchor and known is not None and unquote(anchor) not in known.anchors):
                broken.append(f"{path.relative_to(site)} → {link}")
    assert not broken, broken[:20]


@pytest.mark.slow
def test_the_site_holds_what_the_code_says_and_can_be_searched(site):
    from unbraid.catalogue import KINDS

    for kind, known in KINDS.items():
        text = unescape((site / "reference" / f"{kind}.html").read_text())  # an @ is written as an entity
        for name in known.entries():
            assert name in text, f"{kind}: {name}"
    index = (site / "searchindex.js").read_text()
    assert '"hfvae"' in index or "hfvae:" in index
    assert (site / "search.html").is_file()
    assert "shapes3d_traversals" in (site / "index.html").read_text()


def test_every_page_states_the_version(site):
    from unbraid import __version__

    for name in ("index.html", "tutorials/sweep.html"):
        assert f"unbraid {__version__}" in re.sub(r"<[^>]+>", "", (site / name).read_text().split("<body")[1])


def test_versions_are_listed_the_newest_first(tmp_path):
    sys.path.insert(0, str(ROOT / "docs"))
    try:
        import make
    finally:
        sys.path.pop(0)
    for name in ("0.2.0", "0.10.0", "0.9.1", "api"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "index.html").write_text("x")
    (tmp_path / "1.0.0").mkdir()  # not built
    assert make.write_versions_page(tmp_path) == ["0.10.0", "0.9.1", "0.2.0"]
    page = PageLinks((tmp_path / make.VERSIONS_PAGE).read_text())
    assert page.links == ["0.10.0/index.html", "0.9.1/index.html", "0.2.0/index.html"]
    assert re.search(r"^docs-version: .*\n\t.*docs/make\.py --version", (ROOT / "Makefile").read_text(), re.MULTILINE)


def test_the_program_that_builds_it_is_the_one_of_make_docs():
    lines = (ROOT / "Makefile").read_text()
    assert re.search(r"^docs: .*\n\t.*docs/make\.py", lines, re.MULTILINE)
    made = ["docs/api/x", "docs/reference/x", "site/x"]  # files in them: the folders need not be there yet
    shown = subprocess.run(["git", "-C", str(ROOT), "check-ignore", *made], capture_output=True, text=True)
    assert len(shown.stdout.split()) == 3, "what the build makes is not committed"
