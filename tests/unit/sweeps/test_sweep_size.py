"""The maximum number of runs of a sweep."""

from __future__ import annotations

import pytest

from unbraid.core.errors import UnbraidError
from unbraid.sweeps.planning.sweep_file import Sweep


@pytest.mark.parametrize(
    "sections",
    [
        {"seeds": 10**30},
        {"seeds": 400, "grid": {"objective.beta": list(range(400))}},
        {"random": {"count": 10**12, "objective.beta": [1, 2]}},
        {"grid": {f"objective.x{i}": [1, 2, 3] * 20 for i in range(12)}},
    ],
    ids=["seeds", "seeds and grid", "random", "grid"],
)
def test_too_many_runs_are_an_error_before_any_is_made(sections):
    with pytest.raises(UnbraidError, match="a sweep has too many runs: found .*at most 100,000"):
        Sweep.of({"recipe": "beta_vae_2dshapes", **sections}).runs()
