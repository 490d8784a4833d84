"""Work through the rungs of a plan: train, measure, drop settings. Every decision is stored before the next rung starts.

A decision depends only on measurements of finished runs. So a discovery that was killed continues to the same choice.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from unbraid.core.errors import UnbraidError, expect
from unbraid.core.files import is_file, read_json, write_json
from unbraid.core.progress import format_duration
from unbraid.discovery.halving import SettingRecord, record_setting, select_survivors, settings_to_lower
from unbraid.discovery.measurements import MeasuringData, RunMeasurement, measure_without_labels
from unbraid.discovery.plan import CandidateSetting, DiscoveryPlan
from unbraid.discovery.selection import Candidate, Choice, PairMean, choose_setting
from unbraid.discovery.time_limit import TimeLimit, remaining_steps
from unbraid.runs.run import Run
from unbraid.sweeps.display.live_display import LiveDisplay
from unbraid.sweeps.engine.job_runner import trained_run
from unbraid.sweeps.engine.scheduler import gpus_for_workers, run_plan
from unbraid.sweeps.engine.worker_pool import LocalWorkerPool
from unbraid.sweeps.planning.plan import Job, Plan

PROGRESS_FILE, RUNS_FOLDER = "progress.json", "runs"
RETRIES = 2  # of a run whose worker was killed: a missing seed would change the choice
MAX_LOWERINGS = 2  # how often the prices of a collapsed setting are divided by 4


@dataclass
class Stage:
    """A finished rung.

    Args:
        steps: steps of its runs.
        records: measurements of its settings.
        kept: settings that continue, best first.
        dropped: reason for each setting that stopped.
    """

    steps: int
    records: list[SettingRecord]
    kept: list[str]
    dropped: dict[str, str]


@dataclass
class Progress:
    """Decisions so far.

    Args:
        stages: the finished rungs.
        lowered: settings that were added with lower prices.
    """

    stages: list[Stage] = field(default_factory=list)
    lowered: list[CandidateSetting] = field(default_factory=list)

    def save(self, folder: Path) -> None:
        """Write progress.json.

        Args:
            folder: the folder of the discovery.
        """
        stages = [{**vars(s), "records": [r.as_plain() for r in s.records]} for s in self.stages]
        lowered = [asdict(s) for s in self.lowered]
        write_json(folder / PROGRESS_FILE, {"schema": 1, "stages": stages, "lowered": lowered})

    @classmethod
    def load(cls, folder: Path) -> Progress:
        """Read progress.json; without one nothing is done yet.

        Args:
            folder: the folder of the discovery.
        """
        if not is_file(folder / PROGRESS_FILE):
            return cls()
        table = read_json(folder / PROGRESS_FILE, "progress")
        try:
            stages = [
                Stage(
                    int(s["steps"]),
                    [SettingRecord.from_plain(r) for r in s["records"]],
                    list(s["kept"]),
                    dict(s["dropped"]),
                )
                for s in table["stages"]
            ]
            return cls(stages, [CandidateSetting(**s) for s in table["lowered"]])
        except (TypeError, KeyError, ValueError, AttributeError) as error:
            raise UnbraidError(f"{folder / PROGRESS_FILE} is damaged: {error!r}. Delete it to decide again.") from error

    def dropped(self) -> dict[str, str]:
        """Every setting that stopped, with the steps and the reason."""
        return {name: f"after {s.steps:,} steps: {why}" for s in self.stages for name, why in s.dropped.items()}


class WarmWorkers:
    """Local workers that stay alive between rungs, because a worker needs seconds to load torch; see `WorkerPool`.

    Args:
        count: maximum number of workers.
        gpus: GPUs to distribute the workers over.
    """

    def __init__(self, count: int, gpus: Sequence[str] = ()):
        pool = LocalWorkerPool(count, gpus)
        self.idle_workers, self.busy_workers, self.poll, self.close = (
            pool.idle_workers, pool.busy_workers, pool.poll, pool.stop,
        )  # fmt: skip

    def stop(self) -> None:
        """Keep idle workers; a busy one means that the rung was interrupted, and then all are stopped."""
        if self.busy_workers():
            self.close()


class RungRunner:
    """The rungs of one discovery.

    Args:
        folder: the folder of the discovery.
        plan: the plan.
        data: examples that runs are measured on.
        workers: number of workers.
        quiet: show no live display.
        say: prints a line.
        limit: the time of a call that made its plan; a plan that is continued is never adjusted.
    """

    def __init__(
        self,
        folder: Path,
        plan: DiscoveryPlan,
        data: MeasuringData,
        workers: int,
        quiet: bool,
        say: Callable[[str], None],
        limit: TimeLimit | None = None,
    ):
        self.limit = limit
        self.folder, self.plan, self.data, self.workers, self.quiet, self.say = folder, plan, data, workers, quiet, say
        self.progress = Progress.load(folder)
        self.pool: WarmWorkers | None = None

    def close(self) -> None:
        """Stop the workers."""
        if self.pool is not None:
            self.pool.close()
            self.pool = None

    @property
    def settings(self) -> dict[str, CandidateSetting]:
        """All settings by name, those with lower prices too."""
        return {s.name: s for s in (*self.plan.settings, *self.progress.lowered)}

    @property
    def current(self) -> list[str]:
        """Settings that are still in the race."""
        stages = self.progress.stages
        return stages[-1].kept if stages else [s.name for s in self.plan.settings]

    @property
    def is_complete(self) -> bool:
        """Whether every rung is done."""
        return len(self.progress.stages) >= len(self.plan.rungs)

    def run(self) -> None:
        """Do the remaining rungs, and the confirming seeds of the chosen setting."""
        while not self.is_complete:
            self._run_rung(len(self.progress.stages))
            self._keep_time()
        choice = self.choose()
        if choice is not None and self.plan.confirming:
            self.say(f"confirming: {self.plan.confirming} more seeds of {self.settings[choice.name].label}")
            self.train([choice.name], self.plan.confirming_seeds, self.plan.rungs[-1].steps)

    def _remaining_seconds(self) -> float:
        """Estimated seconds until the plan is finished, at the speed so far."""
        finished = len(self.progress.stages)
        growing, fixed = remaining_steps(self.plan, finished, len(self.current), self._confirmed_steps())
        measured = self.limit.seconds / self.limit.steps if self.limit is not None and self.limit.steps else 0.0
        return (growing + fixed) * (measured or self.plan.step_seconds)

    def _confirmed_steps(self) -> int:
        """Steps that every confirming seed of the leading setting has; 0 before they are trained."""
        choice = self.choose()
        runs = [self.finished_run(choice.name, seed) for seed in self.plan.confirming_seeds] if choice else []
        return min((0 if run is None else int(run.state["step"]) for run in runs), default=0)

    def _keep_time(self) -> None:
        """Make the rest of the plan shorter or longer if it would miss the time by much, and store it."""
        if self.limit is None:
            return
        plan = self.limit.adjust(self.plan, len(self.progress.stages), len(self.current), self._confirmed_steps())
        if plan != self.plan:
            self.plan = plan
            plan.save(self.folder)
            self.say(f"adjusted:   {plan.adjusted}")

    def _run_rung(self, number: int) -> None:
        rung, names = self.plan.rungs[number], self.current
        seeds = self.plan.main_seeds
        total = len(self.plan.rungs)
        many = "s" if len(names) > 1 else ""
        left = format_duration(self._remaining_seconds())
        self.say(f"rung {number + 1} of {total}: {len(names)} setting{many} to {rung.steps:,} steps; about {left} left")
        failed = self.train(names, seeds, rung.steps)
        records = [self.record(name, rung.steps, seeds, failed) for name in names]
        tried = list(names)
        for _ in range(MAX_LOWERINGS):
            lower = [self.settings[name].lowered() for name in settings_to_lower(records, rung.keep)]
            lower = [s for s in lower if s.name not in tried]
            if not lower:
                break
            self.say(f"collapse: {len(lower)} setting(s) start again with prices divided by 4")
            known = {s.name for s in self.progress.lowered}
            self.progress.lowered += [s for s in lower if s.name not in known]
            failed |= self.train([s.name for s in lower], seeds, rung.steps)
            records += [self.record(s.name, rung.steps, seeds, failed) for s in lower]
            tried += [s.name for s in lower]
        nets = {s.name: str(s.recipe["nets"]["name"]) for s in self.settings.values()}
        kept, dropped = select_survivors(records, rung.keep, nets)
        expect(
            kept,
            "no run of the plan could be trained",
            found=next(iter(failed.values()), "no finished run"),
            do=f"See the logs in {self.folder / RUNS_FOLDER}.",
        )
        self.progress.stages.append(Stage(rung.steps, records, kept, dropped))
        self.progress.save(self.folder)

    def train(self, names: Sequence[str], seeds: Sequence[int] | range, steps: int) -> dict[str, str]:
        """Train runs to a number of steps; return the reason of each that failed.

        Args:
            names: settings.
            seeds: seeds.
            steps: steps of each run.
        """
        pairs = [(self.settings[name], seed) for seed in seeds for name in names]
        jobs = [(self.run_name(s.name, seed), s.run_recipe(seed, steps)) for s, seed in pairs]
        tasks = tuple(Job(recipe, recipe.hash, name) for name, recipe in jobs)
        plan = Plan(self.folder / RUNS_FOLDER, tasks, retries=RETRIES)
        if self.pool is None:
            self.pool = WarmWorkers(self.workers, gpus_for_workers(plan))
        with LiveDisplay(self.quiet, estimate=False) as display:
            results = run_plan(plan, self.pool, display)
        if self.limit is not None:
            begun = {r.name: r.steps for stage in self.progress.stages for r in stage.records}
            trained = sum(r.seconds.get("train", 0.0) for r in results.values())
            self.limit.record_training(trained / self.workers, sum(steps - begun.get(s.name, 0) for s, _ in pairs))
        return {name: f"{result.kind}: {result.reason}" for name, result in results.items() if not result.done}

    def record(self, name: str, steps: int, seeds: Sequence[int] | range, failed: dict[str, str]) -> SettingRecord:
        """Measure the runs of a setting.

        Args:
            name: the setting.
            steps: steps of its runs.
            seeds: its seeds.
            failed: runs that failed.
        """
        start = time.monotonic()
        measured = [self.measure(name, seed) for seed in seeds if self.run_name(name, seed) not in failed]
        count = sum(self.run_name(name, seed) in failed for seed in seeds)
        record = record_setting(name, steps, [m for m in measured if m is not None], count)
        if self.limit is not None:
            self.limit.record_measuring(time.monotonic() - start)
        return record

    def measure(self, name: str, seed: int) -> RunMeasurement | None:
        """Measure one run; None if it has never been finished.

        Args:
            name: its setting.
            seed: its seed.
        """
        run = self.finished_run(name, seed)
        return None if run is None else measure_without_labels(run, self.data)

    def finished_run(self, name: str, seed: int) -> Run | None:
        """Load a run with the weights of its last finished rung; None if there is none.

        Args:
            name: its setting.
            seed: its seed.
        """
        path = self.folder / RUNS_FOLDER / self.run_name(name, seed)
        for place in (path, path / "before"):
            try:
                run = trained_run(place)
            except UnbraidError:
                continue
            if run is not None:
                return run
        return None

    @staticmethod
    def run_name(setting: str, seed: int) -> str:
        """Name of a run directory.

        Args:
            setting: the setting.
            seed: the seed.
        """
        return f"{setting}-s{seed}"

    def choose(self) -> Choice | None:
        """Choose a setting of the last finished rung; None before the first."""
        if not self.progress.stages:
            return None
        stage = self.progress.stages[-1]
        candidates = [self._candidate(r) for r in stage.records if r.seeds and r.name in stage.kept]
        labels = {name: s.label for name, s in self.settings.items()}
        return choose_setting(candidates, labels, stopped=bool(self.progress.dropped()))

    def _candidate(self, record: SettingRecord) -> Candidate:
        plain = record.ranking
        values = {
            key: float("nan") if plain.get(key) is None else plain[key] for key in ("mean", "error", "low", "high")
        }
        agreement = PairMean(**values, pairs=int(plain.get("pairs", 0)))
        complexity = self.settings[record.name].complexity
        return Candidate(record.name, complexity, agreement, not record.collapsed, record.gain)
