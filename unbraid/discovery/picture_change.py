"""How much a leaf changes a picture: the difference of its two ends over that of two pictures of the data."""

from __future__ import annotations

import numpy as np

from unbraid.codes import Codes
from unbraid.runs.evaluation.leaf_summary import median_row
from unbraid.runs.run import Run

MIN_CHANGE = 0.2  # below, the ends of a strip look alike
CLEAR_NATS = 0.5  # a leaf with more is believed even if it changes few pixels
ENDS = (0.01, 0.99)  # quantiles of the codes


def picture_changes(best: Run, codes: Codes, leaves: list[int], pixels: np.ndarray) -> dict[str, float]:
    """For each leaf, the RMS difference of one typical picture at its ends, over that of two random pictures.

    Args:
        best: the run.
        codes: codes of all examples.
        leaves: positions of the leaves.
        pixels: some examples "n c h w" in [0, 1].
    """
    spread = float(np.sqrt(2 * pixels.var(0).mean()))
    start = codes.mean[median_row(codes)]
    changes = {}
    for i in leaves:
        columns, name = codes.tree.slices[i], codes.tree.leaves[i].name
        if codes.tree.leaves[i].kind != "real":
            strip = best.traverse(start, name)
        else:
            code = codes.mean[:, columns]
            widest = int(code.std(0).argmax())
            strip = best.traverse(start, columns.start + widest, np.quantile(code[:, widest], ENDS))
        differences = ((strip[:, None] - strip[None]) ** 2).reshape(len(strip), len(strip), -1).mean(-1)
        changes[name] = round(float(np.sqrt(differences.max()) / max(spread, 1e-9)), 3)
    return changes
