"""`unbraid.discover`: from data without labels to a chosen model and factors with a confidence."""

from __future__ import annotations

import re
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unbraid.core.errors import TrainingInterrupted, UnbraidError, expect
from unbraid.core.files import ensure_writable_folder, is_file
from unbraid.core.hardware import cpu_count
from unbraid.core.locks import file_lock
from unbraid.core.progress import wrap_text
from unbraid.core.signals import TERMINATION_SIGNALS, handle_signals
from unbraid.discovery.best_run import BEST_FOLDER
from unbraid.discovery.data_inspection import DataSummary, prepare_data
from unbraid.discovery.factor_confidence import WEAK
from unbraid.discovery.measurements import MeasuringData
from unbraid.discovery.plan import PLAN_FILE, SEEDS, DiscoveryPlan, extend_plan
from unbraid.discovery.result_file import RESULT_FILE, read_discovery_result
from unbraid.discovery.results import CODES_TABLE, DATA_FOLDER, PAGE_FILE, refresh_names, write_results
from unbraid.discovery.stored_plan import DiscoveryRequest, check_not_moved, load_or_make_plan, measure_settings
from unbraid.discovery.time_limit import TimeLimit
from unbraid.discovery.training_stages import PROGRESS_FILE, RUNS_FOLDER, Progress, RungRunner
from unbraid.runs.folder.leaf_names import name_leaf
from unbraid.runs.run import Run

if TYPE_CHECKING:
    from unbraid.discovery.new_pictures import Transformed

MAX_MINUTES = 7 * 24 * 60


@dataclass(frozen=True)
class Discovery:
    """The result of a discovery, read from its folder.

    Args:
        folder: the folder.
        data: the summary of the data.
        plan: the plan.
        result: the content of discovery.json; empty after `dry`.

    >>> import numpy as np
    >>> from unbraid import discover
    >>> rows = np.random.default_rng(0).normal(size=(200, 4)).astype(np.float32)
    >>> found = discover(rows, tmp / "found", dry=True, quiet=True)
    >>> found.data.kind, found.complete
    ('vectors', False)
    """

    folder: Path
    data: DataSummary
    plan: DiscoveryPlan
    result: dict[str, Any]

    @classmethod
    def load(cls, folder: str | Path) -> Discovery:
        """Read the folder of a discovery.

        Args:
            folder: the folder.
        """
        folder = Path(folder)
        expect(
            is_file(folder / PLAN_FILE),
            f"{folder} is not the folder of a discovery",
            found=f"no {PLAN_FILE} in it",
            do="Make one with 'unbraid discover PICTURES --out DIR'.",
        )
        return cls(
            folder, DataSummary.load(folder / DATA_FOLDER), DiscoveryPlan.load(folder), read_discovery_result(folder)
        )

    @property
    def complete(self) -> bool:
        """Whether the plan was finished."""
        return bool(self.result.get("complete"))

    @property
    def factors(self) -> list[dict[str, Any]]:
        """Active leaves of the chosen run with confidence, information and kind, stable ones first."""
        return list(self.result.get("factors", []))

    @property
    def stable_factors(self) -> list[str]:
        """Leaves that most seeds find."""
        return [f["leaf"] for f in self.factors if f["status"] == "stable"]

    @property
    def best(self) -> Run:
        """The chosen run."""
        return Run.load(self.folder / BEST_FOLDER)

    @property
    def page(self) -> Path:
        """The page discovery.html."""
        return self.folder / PAGE_FILE

    @property
    def codes_table(self) -> Path:
        """The table codes.csv."""
        return self.folder / CODES_TABLE

    def name_factor(self, leaf: str, name: str) -> Discovery:
        """Name a leaf of the chosen run in its pages, codes.csv, figures and exports; return the discovery with the name.

        Args:
            leaf: the leaf, such as "z3".
            name: what it changes; '' removes the name.
        """
        best = self.best
        name_leaf(best.path, [each.name for each in best.recipe.tree.leaves], leaf, name)
        refresh_names(best.path)
        return Discovery.load(self.folder)

    def transform(self, pictures: Any, out: str | Path, **options: Any) -> Transformed:
        """Encode new pictures by the chosen run to a table of its stable factors.

        Args:
            pictures: a folder, one picture, an array or table file, or what `unbraid.data.of` accepts.
            out: the table to write, ending in .csv.
            options: further options of `unbraid.discovery.new_pictures.transform`.
        """
        from unbraid.discovery.new_pictures import transform

        return transform(self.best, pictures, out, **options)

    def lines(self) -> list[str]:
        """The result as lines of text."""
        if not self.result:
            return ["nothing is trained yet", *self.plan.lines()]
        shown = [f for f in self.factors if f["status"] != WEAK]
        names = {f["leaf"]: f"{f['leaf']} {f['name']!r}" if f["name"] else f["leaf"] for f in self.factors}
        width = max((len(names[f["leaf"]]) for f in shown), default=0)
        rows = [str(self.result.get("reason", "")), *(f"warning: {text}" for text in self.result.get("warnings", []))]
        for f in shown:
            nats = "" if f["nats"] is None else f"{f['nats']:.2f} nats, "
            found = f"found in {f['found']} of {f['seeds']} other seeds"
            rows.append(f"  {names[f['leaf']]:<{width}}  {f['status']:<13}  {found}, {nats}{f['kind']}")
        weak = [names[f["leaf"]] for f in self.factors if f["status"] == WEAK]
        return [*rows, f"  too weak to see: {', '.join(weak)}"] if weak else rows

    def __repr__(self) -> str:
        return "\n".join([f"discovery in {self.folder}", *self.lines()])

    def _repr_html_(self) -> str:
        from unbraid.discovery.notebook_view import discovery_html

        return discovery_html(self)


def discover(
    data: Any,
    out: str | Path = "discovery",
    *,
    minutes: float = 10.0,
    more: float = 0.0,
    dry: bool = False,
    size: int = 0,
    resize: str = "crop",
    max_pictures: int = 20_000,
    latents: int = 0,
    batch: int = 0,
    seeds: int = SEEDS,
    first_seed: int = 0,
    workers: int = 0,
    options: dict[str, Any] | None = None,
    quiet: bool = False,
) -> Discovery:
    """Find independent factors in data without labels, say how far each can be trusted, and choose a model.

    The data are inspected, a plan is made that fits the time, settings are trained with several seeds and dropped by
    successive halving, and the setting whose seeds agree most (UDR) is chosen. Ctrl-C leaves a valid result of what is
    there; the same call continues. A finished discovery is returned at once, and `more` adds minutes to it.

    Args:
        data: a folder, a file, the name of a data set, a `Dataset`, or anything that `unbraid.data.of` accepts.
        out: the folder of the result.
        minutes: time for the whole call, which decides the steps of the plan.
        more: minutes to add to a discovery whose plan is finished.
        dry: stop after the plan.
        size: side of the pictures in training; 0 chooses it.
        resize: 'crop', 'pad' or 'stretch': how pictures become squares.
        max_pictures: largest number of pictures used, which bounds memory.
        latents: number of continuous leaves; 0 chooses it.
        batch: pictures per step; 0 chooses it.
        seeds: seeds of every setting.
        first_seed: the first of them.
        workers: runs at once, one thread each; 0 means one per core.
        options: options of a named data set or of a file.
        quiet: print nothing.

    >>> import numpy as np
    >>> rows = np.random.default_rng(0).normal(size=(200, 4)).astype(np.float32)
    >>> discover(rows, tmp / "found", minutes=0.1, dry=True, quiet=True).plan.seeds
    3
    """
    start, folder, say = time.monotonic(), Path(out), _say_nothing if quiet else print_wrapped
    expect(0 < minutes <= MAX_MINUTES and 0 <= more <= MAX_MINUTES, "minutes must be positive",
           found=f"minutes {minutes:g}, more {more:g}", allowed=f"up to {MAX_MINUTES:,}")  # fmt: skip
    fields = {"size": size, "resize": resize, "max_pictures": max_pictures, "options": options, "quiet": quiet}
    ensure_writable_folder(folder)
    with file_lock(
        folder / ".lock", message=f"another process works in {folder}. Wait for it, or choose another --out."
    ):
        begun = is_file(folder / PROGRESS_FILE) or (folder / RUNS_FOLDER).is_dir()
        summary = prepare_data(data, folder / DATA_FOLDER, begun=begun, **fields)  # type: ignore[arg-type]
        say("\n".join(summary.lines()))
        workers = workers or cpu_count()
        requested = DiscoveryRequest(minutes, seeds, first_seed, workers, latents, batch)
        plan, is_new = load_or_make_plan(folder, summary, start, requested, begun, say)
        say("\n".join(plan.lines()))
        if dry:
            say(f"The plan is in {folder / PLAN_FILE}. Without --dry the training starts, or continues.")
            return Discovery.load(folder)
        finished = _finished_result(folder, plan)
        if finished is not None and not more:
            say("this discovery is finished; --more MINUTES continues it")
            return finished
        check_not_moved(folder, plan)
        examples = MeasuringData.load(plan.settings[0].recipe["data"], summary.nats)
        limit = TimeLimit(start + 60 * minutes) if is_new else None
        stages = RungRunner(folder, plan, examples, workers, quiet, say, limit)
        if more and (finished is not None or not plan.added):  # an interrupted extension is not extended again
            if not stages.is_complete:
                _train_and_report(stages, summary)
            stages = _add_minutes(stages, more)
        return _train_and_report(stages, summary)


def _finished_result(folder: Path, plan: DiscoveryPlan) -> Discovery | None:
    """The result of a plan that is finished to its last rung and whose pages are all there, else None."""
    if not Progress.load(folder).stages:  # damage is an error
        return None
    try:
        files = all(is_file(folder / name) for name in (RESULT_FILE, PAGE_FILE, CODES_TABLE))
        found = Discovery.load(folder) if files and Run.load(folder / BEST_FOLDER).state else None
    except UnbraidError:
        return None
    return found if found and found.complete and found.result.get("steps") == plan.rungs[-1].steps else None


def _add_minutes(stages: RungRunner, more: float) -> RungRunner:
    """Add a rung of more steps for the finalists of a finished plan."""
    start = time.monotonic()
    finalists = measure_settings([stages.settings[name] for name in stages.current], more)
    plan = extend_plan(stages.plan, finalists, more)
    plan.save(stages.folder)
    stages.say(f"added:      {more:g} minutes, {plan.rungs[-1].steps:,} steps per run")
    limit = TimeLimit(start + 60 * more)
    return RungRunner(stages.folder, plan, stages.data, stages.workers, stages.quiet, stages.say, limit)


def _train_and_report(stages: RungRunner, summary: DataSummary) -> Discovery:
    stop: BaseException | None = None
    try:
        stages.run()
    except (TrainingInterrupted, KeyboardInterrupt) as interruption:
        stop = interruption
        stages.say("\nstopped: writing the result of what is there")
    finally:
        stages.close()
    stages.say("comparing seeds and writing the pages")
    with finish_first(stages.say):
        result = write_results(stages, summary, complete=stop is None)
    found = Discovery(stages.folder, summary, stages.plan, result)
    if stop is not None:
        stages.say("\n".join(found.lines()))
        raise TrainingInterrupted(f"stopped; {found.page} shows what is there. The same command continues.") from None
    return found


@contextmanager
def finish_first(say: Callable[[str], None]) -> Iterator[None]:
    """Let a block end before Ctrl-C or a signal to terminate stops the program; a second one stops at once.

    Args:
        say: prints a line.
    """
    came: list[int] = []

    def note(number: int, frame: Any) -> None:
        came.append(number)
        if len(came) > 1:
            raise TrainingInterrupted("stopped before the pages were written; the same command writes them")
        say("\nstopping after the pages; once more stops at once")

    with handle_signals((signal.SIGINT, *TERMINATION_SIGNALS), note):
        yield


def _say_nothing(text: str) -> None:
    """Print nothing."""


def print_wrapped(text: str) -> None:
    """Print lines at the width of the terminal; what follows a heading such as 'data:   ' stays in its column.

    Args:
        text: the lines.
    """
    for line in text.split("\n"):
        head = re.match(r"\S* {2,}", line)
        print(wrap_text(line, head.end() if head else 0), flush=True)
