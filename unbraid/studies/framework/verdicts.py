"""Verdicts: the claims of one page judged by one rule, from one effect per seed.

The interval of a claim is the t interval over seeds at its Holm-adjusted level among the claims of the page; a claim about
all seeds at once, such as their median, has the percentile interval of a bootstrap over seeds.
holds:          the interval lies on the claimed side of 0.
does not hold:  it lies on the other side, or entirely within ± the claim's margin (a fifth of the paper's effect).
undecided:      otherwise; the number of seeds that would decide is reported.
not tested:     a gate of the claim failed (see `gates`); it is judged by no contrast and leaves the Holm adjustment.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from unbraid.comparing.statistics import (
    Contrast,
    holm_adjust,
    holm_levels,
    one_sample_contrast,
    seeds_for_equivalence,
    seeds_needed,
    smallest_gap,
)
from unbraid.core.errors import expect
from unbraid.studies.framework.gates import GateOutcome, check_gates
from unbraid.studies.framework.results import Results
from unbraid.studies.framework.study import Claim

HOLDS, DOES_NOT_HOLD, UNDECIDED, NOT_TESTED = "holds", "does not hold", "undecided", "not tested here"
HEADLINE_SEEDS = 10  # a headline claim with fewer is marked as a pilot


@dataclass(frozen=True)
class Verdict:
    """Decision on a claim and its statistics. Effects are positive on the claimed side.

    Args:
        claim: name of the claim.
        decision: 'holds', 'does not hold' or 'undecided'.
        contrast: the contrast at the Holm-adjusted level; its bootstrap interval is that at 95%.
        low: lower end of the 95% interval.
        high: upper end of the 95% interval.
        p: Holm-adjusted p value.
        n_claims: number of claims in the adjustment.
        margin: half-width of the range of effects that count as none.
        detectable_gap: effect that this study detects with 80% power.
        required_seeds: seeds that decide with 80% power if the effect is as found; None if above ten thousand.
        pilot: a headline claim with too few seeds.
        missing_seeds: seeds without an effect.
        note: remark for the reader.
        gates: outcomes of the claim's gates.
        blind: the detectable effect is larger than the paper's, so these seeds cannot decide it.
        rank_p: p value of Wilcoxon's signed-rank test before Holm, as that of the contrast; NaN below six seeds.
    """

    claim: str
    decision: str
    contrast: Contrast
    low: float
    high: float
    p: float
    n_claims: int
    margin: float
    detectable_gap: float
    required_seeds: int | None = None
    pilot: bool = False
    missing_seeds: tuple[int, ...] = ()
    note: str = ""
    gates: tuple[GateOutcome, ...] = ()
    blind: bool = False
    rank_p: float = float("nan")

    @property
    def ranks_disagree(self) -> bool:
        """One of t and rank test rejects 0 at the claim's own Holm level, the other does not.

        With n seeds the smallest p value of the rank test is 2/2ⁿ; where that is above the level, it cannot disagree.
        """
        c = self.contrast
        alpha = 1 - c.level
        return 2.0 ** (1 - c.n) < alpha and self.rank_p == self.rank_p and (self.rank_p < alpha) != (c.p < alpha)

    def lines(self) -> list[str]:
        """Return the verdict as the two lines of a page."""
        c = self.contrast
        failed = [gate for gate in self.gates if not gate.passed]
        if self.decision == NOT_TESTED:
            measured = f"ours {c.mean:+.3g}  n = {c.n} seeds" if c.n else "ours  0 seeds"
            unmet = "; ".join(f"{gate.text}: {gate.found}" for gate in failed)
            return [measured, f"NOT TESTED HERE  (not met: {unmet})"]
        if c.n < 2:
            ours = f"ours {c.mean:+.3g}  1 seed" if c.n else "ours  0 seeds"
            return [f"{ours}: no interval", "NOT JUDGED  (needs 2 seeds or more)"]
        found = [f"ours {c.mean:+.3g}", f"95% [{self.low:+.3g}, {self.high:+.3g}]", f"n = {c.n} seeds"]
        found += [f"{c.n_positive} of {c.n} above 0", *([f"d = {c.effect:.2g}"] if c.effect == c.effect else [])]
        found += [f"detectable gap {self.detectable_gap:.2g}"]
        found += [f"bootstrap [{c.bootstrap[0]:+.3g}, {c.bootstrap[1]:+.3g}]"]
        why = [f"Holm over {self.n_claims} claim{'' if self.n_claims == 1 else 's'}: p = {self.p:.2g}"]
        if self.decision == UNDECIDED:
            many = "more than 10,000 seeds would be needed"
            why += [many if self.required_seeds is None else f"{self.required_seeds} seeds would decide"]
        why += [self.note] if self.note else []
        if self.blind and self.decision == UNDECIDED:
            why += ["these seeds cannot see an effect of the paper's size"]
        if self.ranks_disagree:
            both = f"p = {self.rank_p:.2g}, t test {c.p:.2g}, before Holm at level {1 - c.level:.2g}"
            why += [f"the rank test disagrees: {both}"]
        why += [f"gates passed: {len(self.gates)}"] if self.gates else []
        if self.missing_seeds:
            plural = "s" if len(self.missing_seeds) > 1 else ""
            why += [f"no effect from seed{plural} {', '.join(map(str, self.missing_seeds))}"]
        return ["  ".join(found), f"{self.decision.upper()}{' (pilot)' if self.pilot else ''}  ({'; '.join(why)})"]

    def as_dict(self) -> dict[str, Any]:
        """Return plain values for JSON; unknown numbers are None."""
        c = self.contrast
        numbers = {
            "effect": c.mean, "low": self.low, "high": self.high, "level": c.level, "judged_low": c.low, "judged_high": c.high,
            "deviation": c.deviation, "d": c.effect, "p_holm": self.p, "margin": self.margin, "smallest": self.detectable_gap,
            "bootstrap_low": c.bootstrap[0], "bootstrap_high": c.bootstrap[1],
        }  # fmt: skip
        known = {key: float(f"{value:.6g}") if value == value else None for key, value in numbers.items()}
        return {
            "claim": self.claim,
            "verdict": self.decision,
            **known,
            "n": c.n,
            "above": c.n_positive,
            "claims": self.n_claims,
            "seeds": self.required_seeds,
            "pilot": self.pilot,
            "missing": list(self.missing_seeds),
            "note": self.note,
            "gates": [[gate.text, gate.passed, gate.found] for gate in self.gates],
        }


def judge_claims(claims: Sequence[Claim], results: Results, seeds: Sequence[int] | None = None) -> list[Verdict]:
    """Judge every claim of a page.

    Args:
        claims: the claims.
        results: the results of the study.
        seeds: seeds to use; None for the finished ones. Seeds without an effect are listed in the verdict.
    """
    used = tuple(results.seeds() if seeds is None else seeds)
    every = sorted({row.seed for row in results.rows})
    few = [used if not claim.max_seeds else [s for s in used if s in every[: claim.max_seeds]] for claim in claims]
    effects = [{s: claim.effect(results, s) for s in some} for claim, some in zip(claims, few, strict=True)]
    checked = [tuple(check_gates(claim.gates, results)) for claim in claims]
    tested = [all(gate.passed for gate in gates) for gates in checked]
    kept = [i for i, yes in enumerate(tested) if yes]
    judged = iter(judge_effects([claims[i] for i in kept], [effects[i] for i in kept], results))
    verdicts = [
        next(judged) if yes else replace(judge_effects([claim], [effect], results)[0], decision=NOT_TESTED, pilot=False)
        for claim, effect, yes in zip(claims, effects, tested, strict=True)
    ]
    return [replace(verdict, gates=gates) for verdict, gates in zip(verdicts, checked, strict=True)]


def judge_effects(
    claims: Sequence[Claim], effects: Sequence[Mapping[int, float | None]], results: Results | None = None
) -> list[Verdict]:
    """Judge the claims of one page from their effects.

    Args:
        claims: the claims.
        effects: per claim a map from seed to effect; None if a run is missing.
        results: the results, which claims about all seeds at once need (`Claim.pooled`).

    >>> claim = Claim("a", "A above B", "Fig. 1", effect=lambda results, seed: None, paper_effect=0.1)
    >>> effects = [{0: 0.1, 1: 0.12, 2: 0.11}, {0: 0.0, 1: 0.001, 2: -0.001}, {0: 0.1, 1: -0.3}]
    >>> [v.decision for v in judge_effects([claim] * 3, effects)]
    ['holds', 'does not hold', 'undecided']
    """
    count = f"{len(effects)} of {len(claims)}"
    expect(len(claims) == len(effects), "there must be effects for every claim", found=count)
    known = [{s: float(e) for s, e in found.items() if e is not None and e == e} for found in effects]
    p = [_contrast(claim, found, results, draws=1).p for claim, found in zip(claims, known, strict=True)]
    levels, adjusted = holm_levels(p), holm_adjust(p)
    tests = sum(value == value for value in p)
    usable = [level if level == level else 0.95 for level in levels]
    missing = [tuple(s for s in every if s not in found) for every, found in zip(effects, known, strict=True)]
    return [
        _judge_claim(claim, found, level, float(a), tests, lost, results)
        for claim, found, level, a, lost in zip(claims, known, usable, adjusted, missing, strict=True)
    ]


def _contrast(
    claim: Claim, effect_by_seed: Mapping[int, float], results: Results | None, level: float = 0.95, draws: int = 2000
) -> Contrast:
    """Effects against 0 by the t test, or, for a claim about all seeds at once, by its bootstrap.

    The bootstrap's p value is twice the smaller share of draws on one side of 0, so the interval at level 1 − α excludes 0
    where p < α. Its deviation is the standard error times √n.
    """
    c = one_sample_contrast(list(effect_by_seed.values()), level, draws)
    if claim.pooled is None or results is None or c.n < 2:
        return c
    value, drawn = claim.pooled(results, list(effect_by_seed))
    low, high = (float(end) for end in np.quantile(drawn, [0.5 - level / 2, 0.5 + level / 2]))
    p = min(1.0, 2 * float(min((drawn <= 0).mean(), (drawn >= 0).mean())))
    deviation = float(drawn.std()) * c.n**0.5
    found = replace(c, mean=value, low=low, high=high, deviation=deviation, p=p, bootstrap=(low, high))
    return replace(found, effect=float("nan"))


def _judge_claim(
    claim: Claim,
    effect_by_seed: Mapping[int, float],
    level: float,
    p: float,
    n_tests: int,
    missing: tuple[int, ...],
    results: Results | None,
) -> Verdict:
    plain = _contrast(claim, effect_by_seed, results)  # at 95%: both intervals of the page
    c = replace(_contrast(claim, effect_by_seed, results, level, draws=1), bootstrap=plain.bootstrap)
    decision, note = _decide(c, claim.margin)
    seeds = None
    if decision == UNDECIDED and c.n >= 2:
        routes = (
            seeds_needed(c.mean, c.deviation, level),
            seeds_for_equivalence(c.mean, claim.margin, c.deviation, level),
        )
        seeds = min((max(n, c.n + 1) for n in routes if n is not None), default=None)
    gap = smallest_gap(c.deviation, c.n, level)  # the effect that these seeds detect with 80% power
    return Verdict(
        claim.name, decision, c, plain.low, plain.high, p, n_tests, claim.margin, gap, seeds,
        claim.headline and c.n < HEADLINE_SEEDS, missing, note,
        blind=claim.paper_effect is not None and c.n > 1 and gap > abs(claim.paper_effect),
        rank_p=float("nan") if claim.pooled else _rank_p(list(effect_by_seed.values())),
    )  # fmt: skip


def _rank_p(values: Sequence[float]) -> float:
    """The p value of Wilcoxon's signed-rank test; NaN where it cannot reach 0.05."""
    if len(values) < 6 or not any(values):
        return float("nan")
    from scipy import stats

    return float(stats.wilcoxon(values).pvalue)


def _decide(contrast: Contrast, margin: float) -> tuple[str, str]:
    """Apply the rule; return the decision and a remark for the reader."""
    if contrast.low > 0:
        return HOLDS, f"but smaller than {margin:.2g}" if contrast.high < margin else ""
    if contrast.high < 0:
        return DOES_NOT_HOLD, "the effect has the opposite sign"
    if -margin < contrast.low and contrast.high < margin:
        return DOES_NOT_HOLD, f"the effect is within ±{margin:.2g}"
    return UNDECIDED, ""
