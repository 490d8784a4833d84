"""Ranks without a shared disk fit and resume with `precision = "auto"`: started by torchrun from end_to_end/test_ranks.py."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from tests.toys import toy_data
from unbraid import Recipe, fit

if __name__ == "__main__":
    out = Path(sys.argv[1]) / f"disk of rank {os.environ['RANK']}" / "run"
    for steps in range(2, 14, 2):  # a script that fits many times forms as many groups
        budget = {"steps": steps, "batch": 16, "log_every": 2, "threads": 1, "device": "cpu", "precision": "auto"}
        recipe = Recipe(data="toy", latent=2, nets="decomposition_table1b", budget=budget)
        fit(recipe, out, resume=steps > 2, quiet=True, dataset=toy_data())
