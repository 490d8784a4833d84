"""The cost of a step on pairs relative to the plain step at the same batch: `python -m bench pairs`

Both are timed in alternation on one thread, and the median of the ratios is kept. A batch of pairs has twice the images.
"""

from __future__ import annotations

from typing import Any

import torch

from bench.objectives import PAIR_OBJECTIVES, step_cost_row


def rows() -> list[dict[str, Any]]:
    """One row per pair objective for a dense net at two batch sizes, and for a convolutional net."""
    torch.set_num_threads(1)
    settings = (("mlp", 64), ("mlp", 512), ("small32", 64))
    return [step_cost_row(name, batch, nets, rounds=15) for nets, batch in settings for name in PAIR_OBJECTIVES]
