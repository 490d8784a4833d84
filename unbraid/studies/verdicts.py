"""Verdicts: the claims of one page judged by one rule, from effects seed by seed.

The interval of a claim is the t interval over seeds at its Holm-adjusted level among the claims of the page.
holds:          the interval lies on the claimed side of 0.
does not hold:  it lies on the other side, or wholly inside ± the claim's margin (a fifth of the paper's gap).
undecided:      anything else, with the number of seeds that would decide.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from unbraid.comparing.statistics import (
    Contrast,
    holm,
    holm_levels,
    interval,
    one_sample,
    seeds_for_nothing,
    seeds_needed,
    smallest_gap,
)
from unbraid.ground.errors import expect
from unbraid.studies.results import Results
from unbraid.studies.study import Claim

HOLDS, DOES_NOT, UNDECIDED = "holds", "does not hold", "undecided"
HEADLINE_SEEDS = 10  # a headline claim judged on fewer is a pilot


@dataclass(frozen=True)
class Verdict:
    """A claim's word with the numbers behind it. Effects are positive on the claimed side.

    contrast is at the Holm-adjusted level, low and high at 95%. smallest: the gap this study could have seen with 80%
    power. seeds: how many would decide with 80% power if the effect is what was found; None when over ten thousand would.
    """

    claim: str
    word: str
    contrast: Contrast
    low: float
    high: float
    p: float
    claims: int
    margin: float
    smallest: float
    seeds: int | None = None
    pilot: bool = False
    missing: tuple[int, ...] = ()
    note: str = ""

    def lines(self) -> list[str]:
        """The verdict in two lines, as a page prints it."""
        c = self.contrast
        if c.n < 2:
            return [
                f"ours {c.mean:+.3g}  1 seed: no interval" if c.n else "ours  0 seeds: no interval",
                f"{self.word.upper()}  (needs 2 seeds or more)",
            ]
        ours = [
            f"ours {c.mean:+.3g}",
            f"95% [{self.low:+.3g}, {self.high:+.3g}]",
            f"n = {c.n} seeds",
            f"{c.for_it} of {c.n} above 0",
        ]
        ours += [f"d = {c.effect:.2g}"] if c.effect == c.effect else []
        ours += [f"smallest gap we could see {self.smallest:.2g}"]
        ours += [f"bootstrap [{c.bootstrap[0]:+.3g}, {c.bootstrap[1]:+.3g}]"]
        why = [f"Holm over {self.claims} claim{'' if self.claims == 1 else 's'}: p = {self.p:.2g}"]
        if self.word == UNDECIDED:
            why += [
                "more than 10,000 seeds would be needed" if self.seeds is None else f"{self.seeds} seeds would decide"
            ]
        why += [self.note] if self.note else []
        why += (
            [f"no effect from seed{'s' if len(self.missing) > 1 else ''} {', '.join(map(str, self.missing))}"]
            if self.missing
            else []
        )
        return ["  ".join(ours), f"{self.word.upper()}{' (pilot)' if self.pilot else ''}  ({'; '.join(why)})"]

    def as_dict(self) -> dict[str, Any]:
        """Plain numbers for JSON; what is not known is None."""
        c = self.contrast
        numbers = {
            "effect": c.mean, "low": self.low, "high": self.high, "level": c.level, "judged_low": c.low, "judged_high": c.high,
            "deviation": c.deviation, "d": c.effect, "p_holm": self.p, "margin": self.margin, "smallest": self.smallest,
            "bootstrap_low": c.bootstrap[0], "bootstrap_high": c.bootstrap[1],
        }  # fmt: skip
        known = {key: float(f"{value:.6g}") if value == value else None for key, value in numbers.items()}
        counts = {"n": c.n, "above": c.for_it, "claims": self.claims, "seeds": self.seeds, "pilot": self.pilot}
        return {
            "claim": self.claim,
            "verdict": self.word,
            **known,
            **counts,
            "missing": list(self.missing),
            "note": self.note,
        }


def verdicts(claims: Sequence[Claim], results: Results, seeds: Sequence[int] | None = None) -> list[Verdict]:
    """Every claim of a page, judged on the finished seeds (or on those named; what they lack is listed, never dropped)."""
    asked = tuple(results.seeds() if seeds is None else seeds)
    every = sorted({row.seed for row in results.rows})
    few = [asked if not claim.most else [s for s in asked if s in every[: claim.most]] for claim in claims]
    effects = [{s: claim.effect(results, s) for s in some} for claim, some in zip(claims, few, strict=True)]
    return judged(claims, effects)


def judged(claims: Sequence[Claim], effects: Sequence[Mapping[int, float | None]]) -> list[Verdict]:
    """The claims of one page from their effects, seed → number, or None where a run is missing.

    >>> claim = Claim("a", "A above B", "Fig. 1", effect=lambda results, seed: None, gap=0.1)
    >>> [v.word for v in judged([claim] * 3, [{0: 0.1, 1: 0.12, 2: 0.11}, {0: 0.0, 1: 0.001, 2: -0.001}, {0: 0.1, 1: -0.3}])]
    ['holds', 'does not hold', 'undecided']
    """
    expect(
        len(claims) == len(effects), "there must be effects for every claim", found=f"{len(effects)} of {len(claims)}"
    )
    known = [{s: float(e) for s, e in found.items() if e is not None and e == e} for found in effects]
    first = [one_sample(list(found.values()), draws=1) for found in known]
    p = [c.p for c in first]
    levels, adjusted = holm_levels(p), holm(p)
    tests = sum(value == value for value in p)
    return [
        _judge(
            claim, found, level if level == level else 0.95, float(a), tests, tuple(s for s in asked if s not in found)
        )
        for claim, asked, found, level, a in zip(claims, effects, known, levels, adjusted, strict=True)
    ]


def _judge(
    claim: Claim, found: Mapping[int, float], level: float, p: float, tests: int, missing: tuple[int, ...]
) -> Verdict:
    values = list(found.values())
    c, plain = one_sample(values, level), interval(values)
    word, note = _word(c, claim.margin)
    seeds = None
    if word == UNDECIDED and c.n >= 2:
        routes = [seeds_needed(c.mean, c.deviation, level), seeds_for_nothing(c.mean, claim.margin, c.deviation, level)]
        seeds = min((max(n, c.n + 1) for n in routes if n is not None), default=None)
    return Verdict(
        claim.name, word, c, plain.low, plain.high, p, tests, claim.margin, smallest_gap(c.deviation, c.n, level),
        seeds, claim.headline and c.n < HEADLINE_SEEDS, missing, note,
    )  # fmt: skip


def _word(c: Contrast, margin: float) -> tuple[str, str]:
    """The word by the rule, and what a reader should know beside it."""
    if c.low > 0:
        return HOLDS, f"but smaller than {margin:.2g}" if c.high < margin else ""
    if c.high < 0:
        return DOES_NOT, "it is on the other side"
    if -margin < c.low and c.high < margin:
        return DOES_NOT, f"the effect is within ±{margin:.2g}"
    return UNDECIDED, ""
