"""What a sweep comes to in words: counts, the best so far, failures by name, times."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping

from unbraid.sweeps.outcomes import LOG, Outcome
from unbraid.sweeps.plan import Plan
from unbraid.sweeps.scoring import Scoring


def duration(seconds: float) -> str:
    """Seconds as people say them.

    >>> [duration(s) for s in (4.2, 75, 4000, 200_000)]
    ['4 s', '1 min 15 s', '1 h 06 min', '2 d 7 h']
    """
    s = round(seconds)
    if s < 60:
        return f"{s} s"
    if s < 3600:
        return f"{s // 60} min {s % 60:02d} s"
    return f"{s // 3600} h {s % 3600 // 60:02d} min" if s < 86400 else f"{s // 86400} d {s % 86400 // 3600} h"


def best(ended: Mapping[str, Outcome], score: Scoring | None) -> str:
    """The best run so far by the first metric that is asked for (else by the ELBO), as 'mig 0.41 (beta_vae-b4-s3-1f2a)'."""
    done = {name: o.scores for name, o in ended.items() if o.done and o.scores}
    if score is None or not done:
        return ""
    key, up = headline(score)
    known = {name: s[key] for name, s in done.items() if isinstance(s.get(key), int | float) and math.isfinite(s[key])}
    if not known:
        return ""
    name = (max if up else min)(known, key=lambda n: known[n])
    return f"{key} {known[name]:.4g} ({name})"


def headline(score: Scoring) -> tuple[str, bool]:
    """The number a live table follows, and whether more of it is better."""
    from unbraid.metrics import METRICS
    from unbraid.metrics.suite import base

    named = [name for name in score.chosen(True) if base(name) in METRICS]
    return (named[0], METRICS[base(named[0])].direction != "down") if named else ("elbo", True)


def summary(plan: Plan, ended: Mapping[str, Outcome], shown: int = 20) -> list[str]:
    """Lines for the end of a sweep: how many are done, and every failure with its kind, reason and log."""
    failed = {name: o for name, o in ended.items() if not o.done}
    lines = [f"{len(ended) - len(failed):,} of {len(plan.jobs):,} runs done in {plan.folder}"]
    if failed:
        kinds = ", ".join(f"{n} {kind}" for kind, n in Counter(o.kind for o in failed.values()).items())
        lines.append(f"{len(failed)} failed ({kinds}):")
        for name, o in list(failed.items())[:shown]:
            again = f" after {o.tries} tries" if o.tries > 1 else ""
            lines.append(f"  {name}  {o.kind}{again}: {o.reason} (log: {plan.folder / name / LOG})")
        lines += [f"  … and {len(failed) - shown} more"] if len(failed) > shown else []
    return lines


def bytes_of(count: float) -> str:
    """Bytes in the unit that fits.

    >>> bytes_of(1_234), bytes_of(56_000_000)
    ('1.2 kB', '56.0 MB')
    """
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.0f} B" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} TB"
