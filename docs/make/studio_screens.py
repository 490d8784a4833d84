"""Take the screenshots of docs/studio.md: `python docs/make/studio_screens.py ADDRESS RUN FIRST SECOND`.

The pictures go to docs/pictures/studio. ADDRESS is what `unbraid studio RUNS --no-browser` prints; RUN is shown on the
pages of one run, FIRST and SECOND are compared.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from playwright.sync_api import sync_playwright
from report_screens import reduce_palette

OUT = Path(__file__).resolve().parents[1] / "pictures" / "studio"
SIZES = {"": (1440, 900), "-390": (390, 844)}  # by the end of the file's name


def main(address: str, run: str, first: str, second: str) -> None:
    """Save each page wide and narrow, light and dark, as far as docs/studio.md shows it."""
    pages = {
        "runs": ("/", ".ag-center-cols-container .ag-row", ("light", "dark-390")),
        "explore": (f"/explore?run={run}", "#map[data-ready]", ("light", "dark", "light-390", "dark-390")),
        "wall": (f"/wall?run={run}", "#walls[data-ready=yes]", ("light", "dark", "light-390", "dark-390")),
        "compare": (f"/wall?run={first}&run={second}", "#walls[data-ready=yes]", ("light", "dark-390")),
        "diagnostics": (f"/diagnostics?run={first}&run={second}", ".js-plotly-plot", ("light", "dark-390")),
        "train": ("/train", ".q-field", ("light", "dark-390")),
    }
    program = os.environ.get("UNBRAID_CHROMIUM") or shutil.which("chromium")
    with sync_playwright() as driver, tempfile.TemporaryDirectory() as folder:
        browser = driver.chromium.launch(executable_path=program, args=["--no-sandbox", "--disable-gpu"])
        for scheme in ("light", "dark"):
            for end, (width, height) in SIZES.items():
                context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme)
                tab = context.new_page()
                tab.set_default_timeout(180_000)
                tab.goto(address)
                for name, (path, ready, wanted) in pages.items():
                    if scheme + end not in wanted:
                        continue
                    tab.goto(address.split("/?")[0] + path)
                    tab.wait_for_selector(ready)
                    tab.wait_for_timeout(5000)
                    if name == "explore" and not end:
                        box = tab.locator("#map").bounding_box() or {}
                        point_at(tab, box["x"] + 0.7 * box["width"], box["y"] + 0.55 * box["height"])
                    full = name not in ("diagnostics", "explore") or (name == "explore" and bool(end))
                    save(tab, f"{name}-{scheme}{end}", full)
                share = Path(folder) / "explore.html"
                if not share.exists():
                    share.write_bytes(context.request.get(f"{address.split('/?')[0]}/studio/share?run={run}").body())
                tab.set_viewport_size({"width": min(width, 960), "height": min(height, 600) if width > 960 else height})
                tab.goto(share.as_uri())
                tab.wait_for_timeout(1500)
                save(tab, f"share-{scheme}{end}", False)
                context.close()
        browser.close()


def point_at(tab: Any, x: float, y: float) -> None:
    """Move the mouse to the right until the thumbnail of a point appears."""
    for step in range(60):
        tab.mouse.move(x + 2 * step, y)
        tab.wait_for_timeout(50)
        if tab.locator("#map-hint").is_visible():
            break
    tab.wait_for_timeout(500)


def save(tab: Any, name: str, full_page: bool) -> None:
    """Save what a tab shows with a palette."""
    tab.screenshot(path=OUT / f"{name}.png", full_page=full_page)
    reduce_palette(OUT / f"{name}.png")


if __name__ == "__main__":
    main(*sys.argv[1:])
