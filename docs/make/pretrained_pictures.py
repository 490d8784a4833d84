"""Draw traversals of the runs in pretrained/ for the README: docs/pictures/*_traversals.png.

`python docs/make/pretrained_pictures.py` takes a minute, and another one to make both data sets the first time.
"""

from __future__ import annotations

from pathlib import Path

import unbraid
from unbraid.figures import traversals

PICTURES = Path(__file__).resolve().parents[1] / "pictures"
START_IMAGES = {"dsprites": None, "shapes3d": 30007}  # the image to start from; None is the middle of all factors


def main() -> None:
    """Encode a part of each set, so that rows can be named, and draw."""
    for data, image in START_IMAGES.items():
        run = unbraid.pretrained(f"beta_tcvae_{data}")
        codes = unbraid.encode(run, max_images=20_000, save=False)
        drawn = traversals.traversals(run, codes, title="", steps=9, image=image)
        drawn.savefig(PICTURES / f"{data}_traversals.png", dpi=100)


if __name__ == "__main__":
    main()
