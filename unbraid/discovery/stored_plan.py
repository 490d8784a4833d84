"""The plan of a discovery: the stored one if it still fits, or a new one from step times that are measured here."""

from __future__ import annotations

import filecmp
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from unbraid.core.errors import expect, join_names
from unbraid.core.files import is_file
from unbraid.discovery.data_inspection import ARRAY_FILE, DataSummary
from unbraid.discovery.plan import PLAN_FILE, CandidateSetting, DiscoveryPlan, candidate_settings, make_plan
from unbraid.discovery.results import DATA_FOLDER


@dataclass(frozen=True)
class DiscoveryRequest:
    """What a caller asks of the plan.

    Args:
        minutes: time for the whole call.
        seeds: seeds of every setting.
        first_seed: the first of them.
        workers: runs at once.
        latents: number of continuous leaves; 0 chooses it.
        batch: pictures per step; 0 chooses it.
    """

    minutes: float
    seeds: int
    first_seed: int
    workers: int
    latents: int
    batch: int


def data_file(plan: DiscoveryPlan) -> Path:
    """The file that the runs of a plan read.

    Args:
        plan: the plan.
    """
    return Path(str(plan.settings[0].recipe["data"]["path"]))


def check_not_moved(folder: Path, plan: DiscoveryPlan) -> None:
    """Refuse to continue a discovery that was moved: its runs know their data by the former path.

    Args:
        folder: the folder of the discovery.
        plan: its plan.
    """
    stored = data_file(plan)
    expect(
        _reads_own_data(folder, plan),
        f"{folder} was moved, so its runs cannot be continued here",
        found=f"{'other' if is_file(stored) else 'no'} data in {stored.parent}",
        do=f"Move the folder back to {stored.parent.parent}. Its pages, 'unbraid name' and 'unbraid transform' work here.",
    )


def _reads_own_data(folder: Path, plan: DiscoveryPlan) -> bool:
    """Whether the data at the path of a plan are those of its folder: another discovery may have taken a former place."""
    stored, own = data_file(plan), folder / DATA_FOLDER / ARRAY_FILE
    return is_file(stored) and is_file(own) and (stored.samefile(own) or filecmp.cmp(stored, own, shallow=False))


def load_or_make_plan(
    folder: Path,
    summary: DataSummary,
    begin: float,
    requested: DiscoveryRequest,
    begun: bool,
    say: Callable[[str], None],
) -> tuple[DiscoveryPlan, bool]:
    """The stored plan once training has begun, else a new one; and whether it is new.

    Args:
        folder: the folder of the discovery.
        summary: the summary of its data.
        begin: when the call began, by `time.monotonic`.
        requested: what the caller asks.
        begun: whether training has begun.
        say: prints a line.
    """
    candidates = candidate_settings(summary, folder / DATA_FOLDER, requested.latents, requested.batch)
    if is_file(folder / PLAN_FILE):
        plan = DiscoveryPlan.load(folder)
        others = _other_options(plan, requested, candidates)
        if plan.digest == summary.digest and (begun or (not others and _reads_own_data(folder, plan))):
            say(f"continues:  {folder / PLAN_FILE}, a plan of {plan.minutes:g} minute{'s' * (plan.minutes != 1)}")
            if others and not plan.added:
                say(f"note:       training has begun, so its {join_names(others)} stay; another --out makes a new plan")
            return plan, False
        expect(not begun, f"{folder} holds a discovery of other data", do="Choose another --out.")
    settings = measure_settings(candidates, requested.minutes)
    left = requested.minutes * 60 - (time.monotonic() - begin)
    plan = make_plan(settings, left, requested.minutes, requested.workers, summary.digest, requested.seeds)
    plan = replace(plan, first_seed=requested.first_seed)
    plan.save(folder)
    return plan, True


def _other_options(
    plan: DiscoveryPlan, requested: DiscoveryRequest, candidates: Sequence[CandidateSetting]
) -> list[str]:
    """Options in which a stored plan differs from what is asked for."""
    first, wanted = (settings[0].recipe for settings in (plan.settings, candidates))
    pairs = {
        "minutes": (plan.minutes, requested.minutes),
        "seeds": ((plan.seeds, plan.first_seed), (requested.seeds, requested.first_seed)),
        "latents": (first["latent"], wanted["latent"]),
        "batch": (first["budget"]["batch"], wanted["budget"]["batch"]),
    }
    return [name for name, (stored, asked) in pairs.items() if stored != asked]


def measure_settings(settings: Sequence[CandidateSetting], minutes: float) -> list[CandidateSetting]:
    """Time some steps of each setting on this machine; settings with the same nets and objective are timed once.

    Args:
        settings: the candidates.
        minutes: the time of the plan; short plans time fewer candidates.
    """
    from unbraid.runs.building.builders import build_parts
    from unbraid.sweeps.planning.cost_estimate import measure_step_seconds

    known: dict[tuple[str, str], float] = {}
    timed, dataset = [], None
    for setting in settings[: 2 if minutes < 2 else len(settings)]:
        key = (str(setting.recipe["nets"]), setting.name.split("-")[0])
        if key not in known:
            parts = build_parts(setting.run_recipe(0, 1), dataset)
            dataset = parts.dataset
            known[key] = measure_step_seconds(parts)
        timed.append(replace(setting, step_seconds=round(known[key], 6)))
    return timed
