"""Take screenshots of a report page: `python docs/make/report_screens.py demo/report.html` → docs/pictures/report/*.png."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

from PIL import Image
from playwright.sync_api import sync_playwright

OUT = Path(__file__).resolve().parents[1] / "pictures" / "report"


def main(page: Path) -> None:
    """Save the first screens of a page, wide and narrow, and its first heat maps, each light and dark."""
    OUT.mkdir(exist_ok=True)
    program = os.environ.get("UNBRAID_CHROMIUM") or shutil.which("chromium")
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=program, args=["--no-sandbox"])
        for scheme in ("light", "dark"):
            for width, height in ((1440, 1800), (390, 1600)):
                context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme)
                tab = context.new_page()
                tab.goto(page.resolve().as_uri())
                path = OUT / f"{scheme}-{width}.png"
                tab.screenshot(path=path)
                reduce_palette(path)
                if width > 1000:
                    maps = tab.locator("figure", has=tab.locator("img[alt^='Leaves and factors']")).first
                    maps.screenshot(path=OUT / f"{scheme}-heat-maps.png")
                    reduce_palette(OUT / f"{scheme}-heat-maps.png")
                context.close()
        browser.close()


def reduce_palette(path: Path) -> None:
    """Save an image with a palette."""
    Image.open(path, formats=("PNG",)).convert("RGB").quantize(256).save(path, optimize=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
