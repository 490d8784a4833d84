"""The summary of a sweep as text: counts, the best run, failures, durations and sizes."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping

from unbraid.sweeps.engine.job_results import LOG, JobResult
from unbraid.sweeps.planning.plan import Plan
from unbraid.sweeps.planning.scoring import Scoring


def best_run(results: Mapping[str, JobResult], score: Scoring | None) -> str:
    """Format the best run by the first requested metric (else by the ELBO), as 'mig 0.41 (beta_vae-b4-s3-1f2a)'.

    Args:
        results: results by run name.
        score: what was measured.
    """
    done = {name: o.scores for name, o in results.items() if o.done and o.scores}
    if score is None or not done:
        return ""
    metric, higher_is_better = headline_metric(score)
    values = {name: s[metric] for name, s in done.items() if isinstance(s.get(metric), int | float)}
    values = {name: value for name, value in values.items() if math.isfinite(value)}
    if not values:
        return ""
    name = (max if higher_is_better else min)(values, key=lambda n: values[n])
    return f"{metric} {values[name]:.4g} ({name})"


def headline_metric(score: Scoring) -> tuple[str, bool]:
    """The metric by which the live display ranks runs, and whether higher is better.

    Args:
        score: what is measured.
    """
    from unbraid.metrics import METRICS
    from unbraid.metrics.evaluation.battery import strip_protocol

    named = [name for name in score.select_metrics(True) if strip_protocol(name) in METRICS]
    return (named[0], METRICS[strip_protocol(named[0])].direction != "down") if named else ("elbo", True)


def summary_lines(plan: Plan, results: Mapping[str, JobResult], max_failures: int = 20) -> list[str]:
    """The lines at the end of a sweep: the number of finished runs, and every failure with kind, reason and log.

    Args:
        plan: the plan.
        results: results by run name.
        max_failures: number of failures to list.
    """
    failed = {name: o for name, o in results.items() if not o.done}
    lines = [f"{len(results) - len(failed):,} of {len(plan.jobs):,} runs done in {plan.folder}"]
    if failed:
        kinds = ", ".join(f"{n} {kind}" for kind, n in Counter(o.kind for o in failed.values()).items())
        lines.append(f"{len(failed)} failed ({kinds}):")
        for name, o in list(failed.items())[:max_failures]:
            again = f" after {o.tries} tries" if o.tries > 1 else ""
            lines.append(f"  {name}  {o.kind}{again}: {o.reason} (log: {plan.folder / name / LOG})")
        lines += [f"  … and {len(failed) - max_failures} more"] if len(failed) > max_failures else []
    return lines


def format_bytes(count: float) -> str:
    """Format a number of bytes in a suitable unit.

    Args:
        count: number of bytes.

    >>> format_bytes(1_234), format_bytes(56_000_000)
    ('1.2 kB', '56.0 MB')
    """
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.0f} B" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} TB"
