"""The plan of a discovery: settings, seeds and rungs of successive halving, in steps.

Step times are measured once on this machine, and the plan is stored in steps. So the same data, plan and seeds give the
same result on any machine. Successive halving: Jamieson & Talwalkar 2016.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from unbraid.core.errors import expect
from unbraid.core.files import write_json
from unbraid.discovery.data_inspection import ARRAY_FILE, DataSummary, read_checked_record
from unbraid.discovery.price_scale import VECTOR_SIGMA, scaled_prices
from unbraid.runs.recipe import Recipe

PLAN_FILE = "plan.json"
SEEDS = 3  # of every setting
CONFIRMING_SEEDS = 2  # more seeds of the chosen setting, which count in the confidence of its factors
RUNG_RATIOS = (1.0, 2.5, 6.0)  # steps of the rungs, in those of the first
GOOD_FIRST_STEPS = 800  # steps of the first rung that allow one more setting
COMPARABLE_FIRST_STEPS = 60  # steps of the first rung that allow a second setting and confirming seeds
MIN_FIRST_STEPS = 40
USEFUL_STEPS = 1500  # of a run; shorter ones give a warning
FINALISTS = 2
LATENTS = 10
CLASSES = 10  # of the discrete leaf
CROWDING = 1.25  # a step takes this much longer while other workers run
RESERVED_SECONDS = 25.0  # for worker starts, measurements and pages
RESERVED_SHARE = 0.08
MAX_FIRST_STEPS = 20_000
LOWERING = 4.0  # a collapsed setting is tried again with prices divided by this
KIND_COMPLEXITY = 100.0  # of a discrete leaf, twice that of a critic, beside which prices decide
LOWERED = "-low"  # at the end of its name then


@dataclass(frozen=True)
class CandidateSetting:
    """A setting of the grid.

    Args:
        name: its name, which begins the names of its runs.
        label: its name for people.
        recipe: the recipe as plain tables, without seed and steps.
        complexity: rank of its simplicity; of settings that cannot be told apart the lowest is taken.
        step_seconds: measured seconds per step on one core.
    """

    name: str
    label: str
    recipe: dict[str, Any]
    complexity: float
    step_seconds: float = 0.0

    def run_recipe(self, seed: int, steps: int) -> Recipe:
        """The recipe of one run.

        Args:
            seed: the seed.
            steps: the number of steps.
        """
        plain = {**self.recipe, "name": f"{self.name}-s{seed}", "seed": seed}
        return Recipe.from_dict({**plain, "budget": {**self.recipe["budget"], "steps": steps}}, "plan")

    def lowered(self) -> CandidateSetting:
        """The same setting with all prices divided by `LOWERING`, for data on which it collapsed."""
        kind, price = divmod(self.complexity, KIND_COMPLEXITY)
        objective = {
            key: {k: _round(v / LOWERING) for k, v in value.items()}
            if key == "prices"
            else _round(value / LOWERING)
            if key in ("alpha", "beta", "gamma")
            else value
            for key, value in self.recipe["objective"].items()
        }
        return replace(
            self,
            name=f"{self.name}{LOWERED}",
            label=f"{self.label}, prices / {LOWERING:g}",
            recipe={**self.recipe, "objective": objective},
            complexity=kind * KIND_COMPLEXITY + price / LOWERING,
        )


@dataclass(frozen=True)
class Rung:
    """One rung of successive halving.

    Args:
        steps: steps of every run at the end of the rung.
        keep: settings that continue after it.
    """

    steps: int
    keep: int


@dataclass(frozen=True)
class DiscoveryPlan:
    """What is trained, in steps.

    Args:
        settings: the grid.
        rungs: the rungs, ascending.
        seeds: seeds of every setting.
        confirming: more seeds of the chosen setting.
        minutes: the time that was asked for.
        workers: workers that the steps were computed for.
        digest: digest of the data.
        first_seed: the first seed.
        added: rungs that were added after the plan was finished.
        adjusted: why there are fewer or more steps than planned at first, or "".
    """

    settings: tuple[CandidateSetting, ...]
    rungs: tuple[Rung, ...]
    seeds: int = SEEDS
    confirming: int = CONFIRMING_SEEDS
    minutes: float = 10.0
    workers: int = 2
    digest: str = ""
    first_seed: int = 0
    added: int = 0
    adjusted: str = ""

    @property
    def main_seeds(self) -> range:
        """Seeds of every setting."""
        return range(self.first_seed, self.first_seed + self.seeds)

    @property
    def confirming_seeds(self) -> range:
        """More seeds of the chosen setting."""
        return range(self.main_seeds.stop, self.main_seeds.stop + self.confirming)

    @property
    def seconds(self) -> float:
        """Estimated seconds of training on this plan's workers."""
        return _plan_steps(len(self.settings), self.rungs, self.seeds, self.confirming) * self.step_seconds

    @property
    def step_seconds(self) -> float:
        """Estimated seconds per step while all workers are busy."""
        mean = sum(s.step_seconds for s in self.settings) / len(self.settings)
        return mean * CROWDING / self.workers

    def lines(self) -> list[str]:
        """The plan as lines of text."""
        count = len(self.settings)
        rungs = ", ".join(f"{r.steps:,} (keep {r.keep})" if count > 1 else f"{r.steps:,}" for r in self.rungs)
        return [
            f"plan:       {count} setting{'s' if count > 1 else ''} × {self.seeds} seeds; steps per run {rungs}"
            + (f"; {self.confirming} more seeds of the chosen setting" if self.confirming else ""),
            *(f"            {s.label}: {1000 * s.step_seconds:.1f} ms per step" for s in self.settings),
            f"estimate:   {self.seconds / 60:.1f} minutes of training on {self.workers} "
            f"worker{'s' if self.workers > 1 else ''}, one thread each",
            *(
                [f"warning:    {self.minutes:g} minutes are too short on this machine: the smallest plan takes longer"]
                if self.seconds > 60 * self.minutes
                else []
            ),
            *([f"adjusted:   {self.adjusted}"] if self.adjusted else []),
            *([f"warning:    {self.short_warning}"] if self.short_warning else []),
        ]

    @property
    def short_warning(self) -> str:
        """A sentence about a plan with too few steps, with the minutes that would be enough; or ""."""
        last = self.rungs[-1].steps
        if last >= USEFUL_STEPS or not self.step_seconds:
            return ""
        rungs = [Rung(int(USEFUL_STEPS * ratio / RUNG_RATIOS[-1]), FINALISTS) for ratio in RUNG_RATIOS]
        seconds = _plan_steps(FINALISTS, rungs, self.seeds, CONFIRMING_SEEDS) * self.step_seconds
        minutes = math.ceil((seconds / (1 - RESERVED_SHARE) + RESERVED_SECONDS) / 60)
        return (
            f"{last:,} steps per run are few: expect rough reconstructions and factors that change with more training. "
            f"About {minutes:,} minute{'s' if minutes > 1 else ''} would give {USEFUL_STEPS:,} steps."
        )

    def save(self, folder: Path) -> None:
        """Write plan.json.

        Args:
            folder: the folder of the discovery.
        """
        write_json(folder / PLAN_FILE, {"schema": 1, **asdict(self)})

    @classmethod
    def load(cls, folder: Path) -> DiscoveryPlan:
        """Read plan.json.

        Args:
            folder: the folder of the discovery.
        """
        return read_checked_record(folder / PLAN_FILE, cls, "plan", "Delete it to plan again.")


def candidate_settings(
    data: DataSummary, array_folder: Path, latents: int = 0, batch: int = 0
) -> list[CandidateSetting]:
    """All settings that a plan may have, the most promising first.

    Args:
        data: the summary of the data.
        array_folder: the folder of the array.
        latents: number of continuous leaves; 0 chooses it.
        batch: pictures per step; 0 chooses it.
    """
    train = data.distinct - data.held_out
    batch = batch or min(64, train // 2)
    expect(
        2 <= batch <= train,
        "a batch must fit the training data",
        found=f"batch {batch}, {train:,} examples",
        do="Change --batch.",
    )
    path = str((array_folder / ARRAY_FILE).absolute())
    table: dict[str, Any] = {"name": "vectors", "path": path, "standardise": True} if data.is_vectors else {
        "name": "images", "path": path, "layout": "nchw"
    }  # fmt: skip
    gaussian = {"name": "gaussian", "sigma": VECTOR_SIGMA}
    shared: dict[str, Any] = {
        "about": "A run of unbraid discover.",
        "data": {**table, "split": "train", "test": data.test},
        "likelihood": gaussian if data.is_vectors else {"name": data.likelihood},
        "budget": {"batch": batch, "threads": 1, "log_every": 50, "checkpoint_every": 1000},
    }
    count = latents or (min(LATENTS, data.shape[0]) if data.is_vectors else LATENTS)
    nets = _nets(data)
    return [
        _make_setting(kind, beta, net, nets[net], count, data.scale, shared)
        for kind, beta, net in (
            ("beta_tcvae", 4.0, "conv"), ("beta_tcvae", 4.0, "broadcast"), ("beta_tcvae", 10.0, "broadcast"),
            ("beta_tcvae", 10.0, "conv"), ("hfvae", 4.0, "conv"), ("beta_tcvae", 2.0, "conv"), ("factor_vae", 6.0, "conv"),
        )
        if net in nets
    ]  # fmt: skip


def _nets(data: DataSummary) -> dict[str, dict[str, Any]]:
    """Nets that fit the size, by the kind of their decoder."""
    if data.is_vectors:
        return {"conv": {"name": "mlp"}}
    halvings = max(1, min(3, int(math.log2(data.shape[1])) - 2))
    channels = [16, 32, 32][:halvings]
    return {
        "conv": {"name": "conv", "channels": channels, "hidden": 128, "act": "leaky_relu"},
        "broadcast": {"name": "broadcast", "channels": channels, "act": "leaky_relu"},
    }


def _make_setting(
    kind: str, beta: float, net: str, nets: dict[str, Any], latents: int, scale: float, shared: dict[str, Any]
) -> CandidateSetting:
    prices = scaled_prices(beta, scale)
    decoder = {"mlp": "MLP", "conv": "transposed convolutions"}.get(nets["name"], "broadcast decoder")
    title = {"beta_tcvae": "β-TCVAE", "hfvae": "HFVAE with a discrete leaf", "factor_vae": "FactorVAE"}[kind]
    latent: Any = latents
    extra: dict[str, Any] = {}
    if kind == "beta_tcvae":
        objective: dict[str, Any] = {"name": "beta_tcvae", **prices}
    elif kind == "hfvae":
        latent = {"c": f"onehot({CLASSES})", "z": latents}
        base = prices["alpha"]
        objective = {"name": "row", "prices": {"mi": base, "tc": prices["beta"], "dw": base}}
        extra = {"posterior": {"temperature": 0.66, "discrete": "mass"}}
    else:
        objective = {
            "name": "row",
            "prices": {"kl": prices["alpha"], "tc_q@ratio": prices["beta"]},
            "critic": {"width": 128, "depth": 3, "lr": 1e-3},
        }
    return CandidateSetting(
        name=f"{kind}-b{beta:g}-{nets['name']}",
        label=f"{title}, price {prices['beta']:g} of total correlation, {decoder}",
        recipe={**shared, **extra, "latent": latent, "nets": nets, "objective": objective},
        complexity=KIND_COMPLEXITY * ("beta_tcvae", "hfvae", "factor_vae").index(kind) + beta,
    )


def make_plan(
    settings: Sequence[CandidateSetting], seconds: float, minutes: float, workers: int, digest: str, seeds: int = SEEDS
) -> DiscoveryPlan:
    """Fit settings and steps into a time.

    Args:
        settings: candidates with measured step times, the most promising first.
        seconds: seconds that remain.
        minutes: the time that was asked for.
        workers: number of workers.
        digest: digest of the data.
        seeds: seeds of every setting.
    """
    expect(seeds >= 2, "factors are confirmed by other seeds, so at least two are needed", found=seeds)
    core_seconds = max(1.0, (seconds - RESERVED_SECONDS) * (1 - RESERVED_SHARE)) * workers / CROWDING
    chosen, confirming = 1, 0
    first = int(core_seconds / _relative_cost(settings[:1], seeds, 0))
    for count in range(1, len(settings) + 1):
        steps = int(core_seconds / _relative_cost(settings[:count], seeds, CONFIRMING_SEEDS))
        if steps < (COMPARABLE_FIRST_STEPS if count <= FINALISTS else GOOD_FIRST_STEPS):
            break
        chosen, first, confirming = count, steps, CONFIRMING_SEEDS
    first = max(MIN_FIRST_STEPS, min(MAX_FIRST_STEPS, first // 20 * 20))
    plan = plan_in_steps(settings[:chosen], first, seeds, confirming)
    return replace(plan, minutes=minutes, workers=workers, digest=digest)


def plan_in_steps(
    settings: Sequence[CandidateSetting], first: int, seeds: int = SEEDS, confirming: int = CONFIRMING_SEEDS
) -> DiscoveryPlan:
    """A plan with a given number of steps in its first rung; the learning rate falls until the end of the last.

    Args:
        settings: the grid.
        first: steps of the first rung.
        seeds: seeds of every setting.
        confirming: more seeds of the chosen setting.
    """
    keeps = _keeps(len(settings))
    rungs = tuple(Rung(int(first * ratio), keep) for ratio, keep in zip(RUNG_RATIOS, keeps, strict=True))
    rate = {"schedule": "linear", "start": 2e-3, "stop": 2e-4, "steps": rungs[-1].steps}
    timed = tuple(replace(s, recipe={**s.recipe, "budget": {**s.recipe["budget"], "lr": rate}}) for s in settings)
    return DiscoveryPlan(timed, rungs, seeds, confirming)


def extend_plan(plan: DiscoveryPlan, finalists: Sequence[CandidateSetting], minutes: float) -> DiscoveryPlan:
    """Add a rung of more steps for the finalists.

    Args:
        plan: the plan so far.
        finalists: settings that continue.
        minutes: minutes to add.
    """
    core_seconds = max(1.0, (minutes * 60 - RESERVED_SECONDS) * (1 - RESERVED_SHARE)) * plan.workers / CROWDING
    mean = sum(s.step_seconds for s in finalists) / len(finalists)
    base, steps, confirming = plan.rungs[-1].steps, core_seconds / mean, plan.confirming
    if not confirming and CONFIRMING_SEEDS * base <= steps / 2:  # a short plan had no time for them
        confirming, steps = CONFIRMING_SEEDS, steps - CONFIRMING_SEEDS * base
    more = max(MIN_FIRST_STEPS, int(steps / (len(finalists) * plan.seeds + confirming)) // 20 * 20)
    rungs = (*plan.rungs, Rung(base + more, FINALISTS))
    return replace(
        plan, rungs=rungs, confirming=confirming, minutes=plan.minutes + minutes, added=plan.added + 1, adjusted=""
    )


def _keeps(count: int) -> tuple[int, ...]:
    """Settings kept after each rung; after the last rung one is chosen of those that reached it.

    After the first rung all that are alive continue: neither UDR nor the ELBO of so short a training says which setting will
    be the best (docs/discover.md).
    """
    finalists = min(FINALISTS, count)
    return count, finalists, finalists


def _relative_cost(settings: Sequence[CandidateSetting], seeds: int, confirming: int) -> float:
    """Seconds of the whole plan for one step in the first rung, at the mean step time."""
    rungs = [Rung(ratio, keep) for ratio, keep in zip(RUNG_RATIOS, _keeps(len(settings)), strict=True)]  # type: ignore[arg-type]
    mean = sum(s.step_seconds for s in settings) / len(settings)
    return _plan_steps(len(settings), rungs, seeds, confirming) * mean


def _plan_steps(count: int, rungs: Sequence[Rung], seeds: int, confirming: int) -> float:
    """Steps of all runs of a plan."""
    total, done = 0.0, 0.0
    for rung in rungs:
        total += count * seeds * (rung.steps - done)
        count, done = rung.keep, rung.steps
    return total + confirming * done


def _round(value: float) -> float:
    return float(f"{value:.3g}")
