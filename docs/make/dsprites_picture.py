"""The README's second picture: the traversals of the run `beta_tcvae_dsprites` of pretrained/, docs/pictures/dsprites_traversals.png.

`python docs/make/dsprites_picture.py` takes half a minute, and a few seconds more to draw dSprites the first time.
"""

from __future__ import annotations

from pathlib import Path

import unbraid
from unbraid.figures import traversals

PICTURES = Path(__file__).resolve().parents[1] / "pictures"


def main() -> None:
    """Encode a part of the set, so that rows can be named; draw."""
    run = unbraid.pretrained("beta_tcvae_dsprites")
    codes = unbraid.encode(run, most=20_000, save=False)
    traversals.traversals(run, codes, title="", steps=9).savefig(PICTURES / "dsprites_traversals.png", dpi=100)


if __name__ == "__main__":
    main()
