"""`unbraid sweep`: many runs from one file, on this machine, as one shard of a job array, or on a Ray cluster."""

from __future__ import annotations

import shutil
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from unbraid.cli.options import Workers
from unbraid.cli.signatures import expand_records
from unbraid.core.errors import choose, expect

if TYPE_CHECKING:
    from unbraid.sweeps.clusters.slurm import SlurmOptions
    from unbraid.sweeps.planning.plan import Plan

File = Annotated[Path, typer.Argument(metavar="SWEEP.toml", help="The sweep file, or the directory of a sweep.")]
Out = Annotated[Path | None, typer.Option("--out", "-o", help="Directory; default runs/NAME.", show_default=False)]


def _option(help: str, **settings: Any) -> Any:
    return typer.Option(help=help, show_default=False, **settings)


@dataclass(frozen=True)
class EngineOptions:
    """Where and how the runs are trained."""

    workers: Workers = 0
    retries: Annotated[
        int | None, typer.Option(min=0, help="Retries of a failed run, from its checkpoint.", show_default="the file's")
    ] = None
    shard: Annotated[str, _option("Only every N-th run from the I-th on, for job arrays.", metavar="I/N")] = ""
    engine: Annotated[str, typer.Option(metavar="local|ray", help="Processes on this machine, or a Ray cluster.")] = (
        "local"
    )
    address: Annotated[
        str,
        _option("With --engine ray: the cluster, or 'auto' on one of its nodes; default: one is started on this machine.",
                metavar="HOST:PORT"),
    ] = ""  # fmt: skip
    gpus: Annotated[
        float, typer.Option(min=0, help="With --script: GPUs of a task. With --engine ray: GPUs of a run, e.g. 0.25.")
    ] = 0.0
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Show no live table.")] = False


@dataclass(frozen=True)
class ActionOptions:
    """What to do instead of training."""

    dry: Annotated[
        bool, typer.Option("--dry", help="Build every recipe; print names, time and disk. Write nothing.")
    ] = False
    show: Annotated[bool, typer.Option("--status", help="Print the status of every run.")] = False
    clean: Annotated[bool, typer.Option("--clean", help="Remove failed and unfinished runs. Finished runs stay.")] = (
        False
    )
    yes: Annotated[bool, typer.Option("--yes", "-y", help="With --clean: remove without confirmation.")] = False
    script: Annotated[str, _option("Print a job-array script.", metavar="slurm")] = ""


@dataclass(frozen=True)
class ScriptOptions:
    """What each task of a job array requests: the fields of `SlurmOptions` except `gpus`."""

    shards: Annotated[int, typer.Option(min=1, help="With --script: tasks of the array.")] = 8
    partition: Annotated[str, _option("With --script: the partition.")] = ""
    time: Annotated[str, typer.Option(help="With --script: time limit of a task.")] = "04:00:00"
    cpus: Annotated[int, typer.Option(min=1, help="With --script: cores of a task, one run each.")] = 1
    memory: Annotated[str, _option("With --script: memory of a task, e.g. 8G.")] = ""
    account: Annotated[str, _option("With --script: the account that is charged.")] = ""
    qos: Annotated[str, _option("With --script: the quality of service.")] = ""
    sbatch: Annotated[
        list[str] | None, _option("With --script: another option of sbatch; may be repeated.", metavar="OPTION")
    ] = None
    setup: Annotated[
        list[str] | None,
        _option("With --script: bash before training, e.g. 'module load cuda'; may be repeated.", metavar="LINE"),
    ] = None

    def slurm(self, gpus: float) -> SlurmOptions:
        """Return the options of SLURM.

        Args:
            gpus: GPUs of a task.
        """
        from unbraid.sweeps.clusters.slurm import SlurmOptions

        lists = {"sbatch": tuple(self.sbatch or ()), "setup": tuple(self.setup or ())}
        return SlurmOptions(gpus=int(gpus), **(asdict(self) | lists))


@expand_records
def sweep(file: File, *, out: Out = None, engine: EngineOptions, action: ActionOptions, script: ScriptOptions) -> None:
    """Train, encode, audit and score every run of a sweep file, then compare them. Run it again to continue.

    Exit code: 0 all runs done, 1 some runs failed, 2 invalid input, 130 stopped.
    """
    from unbraid.sweeps.clusters.slurm import SlurmOptions, slurm_script
    from unbraid.sweeps.planning.plan import build_plan
    from unbraid.sweeps.planning.sweep_file import Sweep

    spec = Sweep.load(file)
    folder = out or (file if file.is_dir() else Path("runs") / spec.name)
    plan = replace(build_plan(spec, folder), retries=spec.retries if engine.retries is None else engine.retries)
    actions = [action.dry, action.show, action.clean, bool(action.script)]
    expect(sum(actions) <= 1, "--dry, --status, --clean and --script exclude each other", do="Give one.")
    slurm = script.slurm(engine.gpus)
    if action.script:
        choose(action.script, {"slurm": 0}, "batch system")
        expect(engine.gpus == int(engine.gpus), "a task of a job array takes whole GPUs", found=engine.gpus)
        typer.echo(slurm_script(file, folder, slurm, spec.name, plan.retries), nl=False)
        return
    unused = [f"--{f.name}" for f in fields(SlurmOptions) if f.name != "gpus" and getattr(slurm, f.name) != f.default]
    expect(
        not unused, "these options require --script", found=", ".join(unused), do="Add --script slurm, or drop them."
    )
    choose(engine.engine, {"local": 0, "ray": 0}, "engine")
    on_ray = engine.engine == "ray"
    expect(on_ray or not (engine.address or engine.gpus), "--address and --gpus require --engine ray (or --script)")
    plan = _select_shard(plan, engine.shard) if engine.shard else plan
    if action.dry:
        _print_dry_run(plan, engine.workers)
    elif action.show:
        _print_status(plan)
    elif action.clean:
        _clean(plan, action.yes)
    else:
        _run_plan(plan, engine, spec.toml())


def _select_shard(plan: Plan, shard: str) -> Plan:
    number, slash, total = shard.partition("/")
    expect(slash and number.isdecimal() and total.isdecimal(), "a shard reads I/N", found=repr(shard),
           do="For example --shard 3/8, or --shard $SLURM_ARRAY_TASK_ID/8.")  # fmt: skip
    return plan.shard(int(number), int(total))


def _keep_file(text: str, folder: Path) -> None:
    """Keep a copy of the sweep file in the directory of the sweep, for --status and compare."""
    from unbraid.core.files import is_file, read_bytes, write_text
    from unbraid.sweeps.planning.sweep_file import SWEEP_FILE

    file = folder / SWEEP_FILE
    if not is_file(file) or read_bytes(file, "sweep") != text.encode():
        write_text(file, text)


def _run_plan(plan: Plan, engine: EngineOptions, sweep_toml: str) -> None:
    from unbraid.sweeps.display.live_display import LiveDisplay
    from unbraid.sweeps.display.results_table import results_table_lines
    from unbraid.sweeps.display.summary import summary_lines
    from unbraid.sweeps.engine.scheduler import run_plan

    workers: Any = engine.workers
    if engine.engine == "ray":
        from unbraid.sweeps.clusters.ray_driver import RayWorkerPool

        workers = RayWorkerPool(plan, engine.address, engine.gpus, engine.workers)
    _keep_file(sweep_toml, plan.folder)
    with LiveDisplay(engine.quiet) as display:
        results = run_plan(plan, workers, display)
    if not engine.shard:  # the comparison over seeds, read from the run directories
        width = max(80, min(160, shutil.get_terminal_size().columns))
        for line in results_table_lines(plan, width):
            typer.echo(line)
    typer.echo("\n".join(summary_lines(plan, results)))
    if not all(result.done for result in results.values()):
        raise typer.Exit(1)


def _print_dry_run(plan: Plan, workers: int) -> None:
    from unbraid.core.hardware import cpu_count
    from unbraid.core.progress import format_duration, progress_bar
    from unbraid.sweeps.display.summary import format_bytes
    from unbraid.sweeps.engine import job_results
    from unbraid.sweeps.planning.cost_estimate import WORKER_START_SECONDS, estimate_cost

    results = {job.name: job_results.read_result(plan.folder, job) for job in plan.jobs}
    done = sum(result is not None and result.done for result in results.values())
    for name, result in results.items():
        typer.echo(f"  {name}" + ("" if result is None else f"  {result.status}"))
    with progress_bar("building", len(plan.jobs) - done) as advance:
        cost = estimate_cost(plan, results, advance)
    at_once = min(workers or cpu_count(), max(1, len(plan.jobs) - done))
    typer.echo(f"{len(plan.jobs):,} runs in {plan.folder}, {done:,} of them done")
    for name, reason in cost.unbuildable.items():
        typer.echo(f"cannot be built: {name}: {reason}")
    if cost.measured:
        total = format_duration(cost.seconds / at_once + WORKER_START_SECONDS)
        typer.echo(
            f"to do: about {total} with {at_once} at a time ({format_duration(cost.seconds)} of one core; without "
            f"scoring), {format_bytes(cost.disk_bytes)} of disk"
        )
    if cost.unbuildable:
        raise typer.Exit(1)


def _print_status(plan: Plan) -> None:
    from unbraid.sweeps.display.status import sweep_status
    from unbraid.sweeps.display.summary import summary_lines

    expect(plan.folder.is_dir(), f"there is no directory {plan.folder} yet", do="Start it: unbraid sweep SWEEP.toml.")
    status = sweep_status(plan)
    typer.echo("\n".join(summary_lines(plan, status.done | status.failed)))
    counts = {"running": status.running, "unfinished": status.started, "not started": status.waiting,
              "not in the file": status.other}  # fmt: skip
    for label, names in counts.items():
        if names:
            typer.echo(f"{len(names):,} {label}: {', '.join(names[:6])}{' …' if len(names) > 6 else ''}")


def _clean(plan: Plan, yes: bool) -> None:
    from unbraid.sweeps.display.status import leftovers, remove_leftovers
    from unbraid.sweeps.display.summary import format_bytes

    expect(plan.folder.is_dir(), f"there is no directory {plan.folder}", do="Nothing to clean.")
    sizes = leftovers(plan)
    if not sizes:
        typer.echo("nothing to clean: no failed or unfinished run, no partial file")
        return
    for path, size in sizes.items():
        typer.echo(f"  {path.relative_to(plan.folder)}  {format_bytes(size)}")
    if yes or typer.confirm(f"Remove these {len(sizes)} ({format_bytes(sum(sizes.values()))})?", default=False):
        removed = remove_leftovers(plan, list(sizes))
        typer.echo(f"{len(removed)} removed; finished runs are unchanged")
