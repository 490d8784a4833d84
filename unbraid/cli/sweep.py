"""`unbraid sweep`: many runs from one file, on this machine, as one shard of a job array, or on a Ray cluster."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from unbraid.sweeps.planning.plan import Plan

File = Annotated[Path, typer.Argument(metavar="SWEEP.toml", help="The sweep's file, or the directory of one begun.")]
Out = Annotated[
    Path | None, typer.Option("--out", "-o", help="Where the runs go; default runs/NAME.", show_default=False)
]
Workers = Annotated[int, typer.Option(min=0, help="Runs at once, one thread each (0: one per core).")]
Retries = Annotated[
    int | None,
    typer.Option(min=0, help="Try failed runs again so often, from their checkpoints.", show_default="the file's"),
]
Shard = Annotated[
    str, typer.Option(metavar="I/N", help="Only every N-th run from the I-th on, for job arrays.", show_default=False)
]
Dry = Annotated[bool, typer.Option("--dry", help="Build every recipe; print names, time and disk. Nothing is written.")]
Show = Annotated[bool, typer.Option("--status", help="Say where every run is.")]
Clean = Annotated[bool, typer.Option("--clean", help="Remove failed and unfinished runs. Finished ones always stay.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="With --clean: do not ask.")]
Script = Annotated[
    str, typer.Option(metavar="slurm", help="Print a job-array script; its options follow.", show_default=False)
]
Shards = Annotated[int, typer.Option(min=1, help="With --script: tasks of the array.")]
Partition = Annotated[str, typer.Option(help="With --script: the partition.", show_default=False)]
Time = Annotated[str, typer.Option(help="With --script: time limit of a task.")]
Gpus = Annotated[
    float, typer.Option(min=0, help="With --script: GPUs of a task. With --engine ray: of a run, e.g. 0.25.")
]
Engine = Annotated[str, typer.Option(metavar="local|ray", help="Who does the runs: processes here, or a Ray cluster.")]
Address = Annotated[
    str,
    typer.Option(
        metavar="HOST:PORT",
        help="With --engine ray: the cluster, or 'auto' on one of its nodes; default: one started here.",
        show_default=False,
    ),
]
Cpus = Annotated[int, typer.Option(min=1, help="With --script: cores of a task, one run each.")]
Account = Annotated[str, typer.Option(help="With --script: the account that pays.", show_default=False)]
Qos = Annotated[str, typer.Option(help="With --script: the quality of service.", show_default=False)]
Sbatch = Annotated[
    list[str] | None,
    typer.Option(
        metavar="OPTION", help="With --script: one more option of sbatch; may be repeated.", show_default=False
    ),
]
Setup = Annotated[
    list[str] | None,
    typer.Option(metavar="LINE", help="With --script: bash before the work, e.g. 'module load cuda'; may be repeated.",
                 show_default=False),
]  # fmt: skip
Memory = Annotated[str, typer.Option(help="With --script: memory of a task, e.g. 8G.", show_default=False)]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No live table.")]


def sweep(
    file: File,
    out: Out = None,
    workers: Workers = 0,
    retries: Retries = None,
    shard: Shard = "",
    dry: Dry = False,
    show: Show = False,
    clean: Clean = False,
    yes: Yes = False,
    script: Script = "",
    shards: Shards = 8,
    partition: Partition = "",
    time: Time = "04:00:00",
    gpus: Gpus = 0.0,
    cpus: Cpus = 1,
    memory: Memory = "",
    account: Account = "",
    qos: Qos = "",
    sbatch: Sbatch = None,
    setup: Setup = None,
    engine: Engine = "local",
    address: Address = "",
    quiet: Quiet = False,
) -> None:
    """Train, encode, audit and score every run a file asks for, then compare them. The same command goes on where it was.

    Exit code: 0 all done, 1 some runs failed, 2 a mistake in what was asked, 130 stopped.
    """
    from dataclasses import fields, replace

    from unbraid.core.errors import choose, expect
    from unbraid.sweeps.clusters.slurm import SlurmOptions
    from unbraid.sweeps.clusters.slurm import slurm_script as written
    from unbraid.sweeps.planning.plan import build_plan
    from unbraid.sweeps.planning.sweep_file import Sweep

    asked = Sweep.load(file)
    folder = out or (file if file.is_dir() else Path("runs") / asked.name)
    whole = build_plan(asked, folder)
    whole = replace(whole, retries=asked.retries if retries is None else retries)
    expect(sum([dry, show, clean, bool(script)]) <= 1, "--dry, --status, --clean and --script are asked one at a time")
    extra = tuple(sbatch or ()), tuple(setup or ())
    batch = SlurmOptions(shards, partition, account, qos, time, int(gpus), cpus, memory, *extra)
    if script:
        choose(script, {"slurm": 0}, "batch system")
        expect(gpus == int(gpus), "a task of a job array takes whole GPUs", found=gpus)
        typer.echo(written(file, folder, batch, asked.name, whole.retries), nl=False)
        return
    beside = [f"--{f.name}" for f in fields(SlurmOptions) if f.name != "gpus" and getattr(batch, f.name) != f.default]
    expect(
        not beside, "these options are for --script", found=", ".join(beside), do="Add --script slurm, or drop them."
    )
    choose(engine, {"local": 0, "ray": 0}, "engine")
    expect(engine == "ray" or not (address or gpus), "--address and --gpus are for --engine ray (or --script)")
    part = _select_shard(whole, shard) if shard else whole
    if dry:
        _print_dry_run(part, workers)
    elif show:
        _status(part)
    elif clean:
        _clean(part, yes)
    else:
        _run_plan(part, workers, quiet, shard, (address, gpus) if engine == "ray" else None, asked.toml())


def _select_shard(whole: Plan, shard: str) -> Plan:
    from unbraid.core.errors import expect

    number, sign, of = shard.partition("/")
    expect(sign and number.isdecimal() and of.isdecimal(), "a shard reads I/N", found=repr(shard),
           do="For example --shard 3/8, or --shard $SLURM_ARRAY_TASK_ID/8.")  # fmt: skip
    return whole.shard(int(number), int(of))


def _keep_file(text: str, folder: Path) -> None:
    """The directory keeps the file it was last asked with, for --status and compare."""
    from unbraid.core.files import write_text
    from unbraid.sweeps.planning.sweep_file import SWEEP_FILE

    if not (folder / SWEEP_FILE).is_file() or (folder / SWEEP_FILE).read_text() != text:
        write_text(folder / SWEEP_FILE, text)


def _run_plan(part: Plan, workers: int, quiet: bool, shard: str, on_ray: tuple[str, float] | None, text: str) -> None:
    from unbraid.sweeps.display.live_display import LiveDisplay
    from unbraid.sweeps.display.summary import summary_lines
    from unbraid.sweeps.engine.scheduler import run_plan

    crew: Any = workers
    if on_ray is not None:
        from unbraid.sweeps.clusters.ray_driver import RayWorkerPool

        crew = RayWorkerPool(part, *on_ray, workers)
    _keep_file(text, part.folder)
    with LiveDisplay(quiet) as board:
        ended = run_plan(part, crew, board)
    if not shard:
        _table(part)
    typer.echo("\n".join(summary_lines(part, ended)))
    if not all(o.done for o in ended.values()):
        raise typer.Exit(1)


def _table(part: Plan) -> None:
    """The comparison over seeds; it reads what the runs wrote."""
    import shutil

    from unbraid.sweeps.display.results_table import results_table_lines

    for line in results_table_lines(part, max(80, min(160, shutil.get_terminal_size().columns))):
        typer.echo(line)


def _print_dry_run(part: Plan, workers: int) -> None:
    from unbraid.core.hardware import cpu_count
    from unbraid.core.progress import progress_bar
    from unbraid.sweeps.display.summary import format_bytes, format_duration
    from unbraid.sweeps.engine import job_results
    from unbraid.sweeps.planning.cost_estimate import WORKER_START_SECONDS, estimate_cost

    known = {job.name: job_results.read_result(part.folder, job) for job in part.jobs}
    done = sum(o is not None and o.done for o in known.values())
    for job in part.jobs:
        found = known[job.name]
        typer.echo(f"  {job.name}" + ("" if found is None else f"  {found.status}"))
    with progress_bar("building", len(part.jobs) - done) as advance:
        cost = estimate_cost(part, known, advance)
    at_once = min(workers or cpu_count(), max(1, len(part.jobs) - done))
    typer.echo(f"{len(part.jobs):,} runs in {part.folder}, {done:,} of them done")
    for name, why in cost.unbuildable.items():
        typer.echo(f"cannot be built: {name}: {why}")
    if cost.measured:
        typer.echo(
            f"to do: about {format_duration(cost.seconds / at_once + WORKER_START_SECONDS)} with {at_once} at a time ({format_duration(cost.seconds)} of "
            f"one core; scoring apart), {format_bytes(cost.disk_bytes)} of disk"
        )
    if cost.unbuildable:
        raise typer.Exit(1)


def _status(part: Plan) -> None:
    from unbraid.core.errors import expect
    from unbraid.sweeps.display.status import sweep_status
    from unbraid.sweeps.display.summary import summary_lines

    expect(part.folder.is_dir(), f"there is no directory {part.folder} yet", do="Begin it: unbraid sweep SWEEP.toml.")
    now = sweep_status(part)
    counts = {"running": now.running, "begun": now.started, "not begun": now.waiting, "not in the file": now.other}
    typer.echo("\n".join(summary_lines(part, now.done | now.failed)))
    for what, names in counts.items():
        if names:
            typer.echo(f"{len(names):,} {what}: {', '.join(names[:6])}{' …' if len(names) > 6 else ''}")


def _clean(part: Plan, yes: bool) -> None:
    from unbraid.core.errors import expect
    from unbraid.sweeps.display.status import leftovers, remove_leftovers
    from unbraid.sweeps.display.summary import format_bytes

    expect(part.folder.is_dir(), f"there is no directory {part.folder}", do="Nothing to clean.")
    found = leftovers(part)
    if not found:
        typer.echo("nothing to clean: no failed or unfinished run, no half-written file")
        return
    for path, size in found.items():
        typer.echo(f"  {path.relative_to(part.folder)}  {format_bytes(size)}")
    if yes or typer.confirm(f"Remove these {len(found)} ({format_bytes(sum(found.values()))})?", default=False):
        gone = remove_leftovers(part, list(found))
        typer.echo(f"{len(gone)} removed; finished runs are as they were")


def register(app: typer.Typer) -> None:
    """Add the verb to the app."""
    app.command()(sweep)
