"""Successive halving: which settings continue after a rung, and why the others stop."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from unbraid.discovery.measurements import RunMeasurement
from unbraid.discovery.plan import LOWERED
from unbraid.discovery.selection import VARIANTS, Agreement, as_plain, measure_agreement

MIN_ACTIVE = 2  # leaves that a setting must use on average
MIN_GAIN = 0.05  # of the gainable nats; a reconstruction below it is no better than the mean picture
MIN_JUDGED_STEPS = 300  # before, a run may have learned too little: it is not called collapsed, nor a leaf stable
WORST_GAIN = 0.5  # of the best gain; settings below it reconstruct too badly to be compared


@dataclass(frozen=True)
class SettingRecord:
    """Measurements of one setting at one rung.

    Args:
        name: the setting.
        steps: steps of its runs.
        seeds: seeds that finished.
        failed: runs that failed.
        active: mean number of active leaves.
        elbo: mean held-out ELBO in nats.
        gain: mean share of the gainable nats.
        agreement: UDR over its seeds as plain numbers, by variant; empty below two seeds.
        models: agreement of each run with the others.
        leaves: leaves of its models.
    """

    name: str
    steps: int
    seeds: tuple[int, ...]
    failed: int
    active: float
    elbo: float
    gain: float
    agreement: dict[str, dict[str, Any]]
    models: tuple[float, ...] = ()
    leaves: int = MIN_ACTIVE

    @property
    def collapsed(self) -> bool:
        """Whether its runs use fewer than two leaves (of one: none), or reconstruct no better than the mean picture."""
        return self.active < min(MIN_ACTIVE, self.leaves) or self.gain < MIN_GAIN

    @property
    def ranking(self) -> dict[str, Any]:
        """The variant of UDR that ranks settings; folders of earlier versions have the mean of the published two."""
        return self.agreement.get("ratio") or self.agreement.get("both") or {"mean": 0.0}

    @property
    def udr(self) -> float:
        """UDR by correlation ratios; 0 below two seeds."""
        return float(self.ranking["mean"])

    def as_plain(self) -> dict[str, Any]:
        """The record as JSON; without a finished run there is no ELBO."""
        plain = {key: list(v) if isinstance(v, tuple) else v for key, v in asdict(self).items()}
        return {**plain, "elbo": self.elbo if math.isfinite(self.elbo) else None}

    @classmethod
    def from_plain(cls, table: dict[str, Any]) -> SettingRecord:
        """Read a record from JSON.

        Args:
            table: the result of `as_plain`.
        """
        elbo = -math.inf if table["elbo"] is None else float(table["elbo"])
        return cls(**{**table, "seeds": tuple(table["seeds"]), "elbo": elbo, "models": tuple(table["models"])})


def record_setting(name: str, steps: int, runs: Sequence[RunMeasurement], failed: int = 0) -> SettingRecord:
    """Summarise the runs of a setting.

    Args:
        name: the setting.
        steps: steps of its runs.
        runs: measurements of the runs that finished.
        failed: number of runs that failed.
    """
    agreement: Agreement | None = measure_agreement([run.codes for run in runs]) if len(runs) > 1 else None
    plain = {} if agreement is None else {key: as_plain(getattr(agreement, key)) for key in VARIANTS}
    return SettingRecord(
        name,
        steps,
        tuple(run.seed for run in runs),
        failed,
        float(np.mean([run.active for run in runs])) if runs else 0.0,
        round(float(np.mean([run.elbo for run in runs])), 3) if runs else -math.inf,
        round(float(np.mean([run.gain for run in runs])), 4) if runs else 0.0,
        plain,
        () if agreement is None else tuple(round(v, 4) for v in agreement.models),
        len(runs[0].codes.tree.leaves) if runs else MIN_ACTIVE,
    )


def select_survivors(
    records: Sequence[SettingRecord], keep: int, nets: Mapping[str, str] | None = None
) -> tuple[list[str], dict[str, str]]:
    """Return the settings that continue, best first, and the reason for each that stops.

    Settings that failed or collapsed stop. If more than `keep` are left, those that gain less than half of the best gain
    stop too, and of the rest the largest UDR continue; one place goes to the best setting with another decoder, because
    which decoder fits the data shows only after long training. Runs of fewer than 300 steps are ranked by UDR alone.

    Args:
        records: one record per setting.
        keep: number of settings that continue.
        nets: the nets of each setting.
    """
    dropped: dict[str, str] = {}
    for r in records:
        if len(r.seeds) < 2:
            dropped[r.name] = f"{r.failed} of its runs failed" if r.failed else "fewer than two runs finished"
        elif r.steps >= MIN_JUDGED_STEPS and r.collapsed:
            dropped[r.name] = f"collapsed: {r.active:.1f} active leaves, {100 * r.gain:.0f}% of the gainable nats"
    alive = [r for r in records if r.name not in dropped]
    if len(alive) > keep:
        best = max(r.gain for r in alive)
        blurred = [r for r in alive if r.steps >= MIN_JUDGED_STEPS and r.gain < WORST_GAIN * best]
        dropped |= {
            r.name: f"reconstructs too badly: {100 * r.gain:.0f}% of the gainable nats against {100 * best:.0f}%"
            for r in blurred
        }
    alive = sorted((r for r in alive if r.name not in dropped), key=lambda r: (-r.udr, -r.elbo))
    dropped |= {r.name: f"UDR {r.udr:.2f}, below {keep} other settings" for r in alive[keep:]}
    kept = [r.name for r in alive[:keep]]
    if nets and keep > 1 and len({nets[name] for name in kept}) == 1:
        other = next((r.name for r in alive[keep:] if nets[r.name] != nets[kept[0]]), None)
        if other is not None:
            dropped[kept[-1]] = f"UDR {alive[keep - 1].udr:.2f}; its place went to a setting with another decoder"
            kept[-1] = other
            del dropped[other]
    if not kept:  # something must be shown: the least bad setting
        usable = [r for r in records if r.seeds]
        kept = [max(usable, key=lambda r: (r.gain, r.elbo)).name] if usable else []
        dropped.pop(kept[0], None) if kept else None
    return kept, dropped


def settings_to_lower(records: Sequence[SettingRecord], keep: int) -> list[str]:
    """Settings to try again with lower prices: those that collapsed, if fewer than `keep` others are alive.

    Runs of fewer than 300 steps are not judged: they may only have learned too little. A setting that was lowered already
    is not lowered again, but its successor may be.

    Args:
        records: one record per setting.
        keep: number of settings that continue.
    """
    alive = sum(len(r.seeds) > 1 and not r.collapsed for r in records)
    judged = [r for r in records if len(r.seeds) > 1 and r.steps >= MIN_JUDGED_STEPS]
    lowered = {r.name.removesuffix(LOWERED) for r in records if r.name.endswith(LOWERED)}
    judged = [r for r in judged if r.name not in lowered]
    collapsed = sorted((r for r in judged if r.collapsed), key=lambda r: -r.gain)
    return [r.name for r in collapsed[: max(0, keep - alive)]]
