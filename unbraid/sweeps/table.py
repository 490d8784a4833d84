"""The table a sweep ends in: runs grouped by what was swept, over seeds."""

from __future__ import annotations

from unbraid.sweeps import outcomes
from unbraid.sweeps.plan import Plan


def table(plan: Plan) -> list[str]:
    """One line per run with its headline numbers."""
    found = {job.name: o.scores for job in plan.jobs if (o := outcomes.read(plan.folder, job)) is not None and o.done}
    keys = list(dict.fromkeys(key for scores in found.values() for key in scores))[:5]
    width = max(map(len, found), default=3) + 2
    head = f"{'run':<{width}}" + "".join(f"{key:>12}" for key in keys)
    return [head] + [
        f"{name:<{width}}" + "".join(f"{s[k]:>12.4g}" if k in s else f"{'':>12}" for k in keys)
        for name, s in found.items()
    ]
