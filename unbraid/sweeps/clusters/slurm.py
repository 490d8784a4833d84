"""A sweep as a SLURM job array: the script, whose last job finishes what is left and prints the table."""

from __future__ import annotations

import re
import shlex
import sys
from dataclasses import dataclass
from pathlib import Path

from unbraid.core.errors import expect
from unbraid.runs.building.custom_parts import IMPORTED_MODULES

SIGNAL_LEAD_SECONDS = 120  # seconds between the signal and the time limit of a task
MIN_TASK_SECONDS = 300  # a task must start training before the signal arrives
TIME_PATTERN = re.compile(r"(?:(\d+)-(\d+)(?::(\d+))?(?::(\d+))?|(?:(\d+):)?(\d+):(\d+)|(\d+))", re.ASCII)


@dataclass(frozen=True)
class SlurmOptions:
    """What each task of the job array requests from SLURM.

    Args:
        shards: number of tasks.
        partition: the partition.
        account: the account that is charged.
        qos: the quality of service.
        time: time limit of a task.
        gpus: GPUs of a task.
        cpus: cores of a task, one run each.
        memory: memory of a task, such as '8G'.
        sbatch: further options of sbatch.
        setup: lines of bash before training.
    """

    shards: int = 8
    partition: str = ""
    account: str = ""
    qos: str = ""
    time: str = "04:00:00"
    gpus: int = 0
    cpus: int = 1
    memory: str = ""
    sbatch: tuple[str, ...] = ()
    setup: tuple[str, ...] = ()


def slurm_script(file: Path, out: Path, slurm: SlurmOptions, name: str = "sweep", retries: int = 0) -> str:
    """Write a bash script: `bash SCRIPT` submits the job array and its summary; under SLURM it is one task of either.

    Tasks may die, overlap or start late: each claims its runs in the shared directory, and finished runs are not repeated.
    A task that runs out of time writes checkpoints and requeues itself.

    Args:
        file: the sweep file.
        out: directory of the sweep.
        slurm: what each task requests.
        name: name of the SLURM job.
        retries: number of retries of a failed run.
    """
    check_slurm_options(slurm)
    retry = f" --retries {retries}" if retries else ""
    imports = [word for name in IMPORTED_MODULES for word in ("--import", name)]
    command = [sys.executable, "-m", "unbraid", "sweep", str(file.resolve()), "--out", str(out.resolve()), *imports]
    lines = [
        "#!/usr/bin/env bash",
        *[f"#SBATCH {option}" for option in sbatch_options(slurm, name, out.resolve())],
        "# bash THIS submits everything. Tasks may die, overlap or start late: finished runs are not repeated.",
        'if [ -n "${SLURM_ARRAY_TASK_ID:-}" ]; then',
        *[f"  {line}" for line in slurm.setup],
        f'  part="--shard $SLURM_ARRAY_TASK_ID/{slurm.shards}"',
        '  if [ -n "${UNBRAID_SUMMARY:-}" ]; then part=; fi',
        f"  {shlex.join(command)} --workers {slurm.cpus}{retry} $part &",
        "  run=$! again=",
        f"  # USR1: {SIGNAL_LEAD_SECONDS} s are left. TERM: cancelled, or requeued by SLURM. Both write checkpoints.",
        "  trap 'again=1; kill -TERM \"$run\" 2>/dev/null' USR1",
        "  trap 'kill -TERM \"$run\" 2>/dev/null' TERM",
        '  while wait "$run"; code=$?; kill -0 "$run" 2>/dev/null; do :; done  # a signal ends a wait early',
        '  if [ -n "$again" ] && [ "$code" -gt 2 ]; then',
        '    scontrol requeue "${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID"',
        "  fi",
        '  exit "$code"',
        "fi",
        "set -eu",
        f"mkdir -p {shlex.quote(str(out.resolve()))}",
        'array=$(sbatch --parsable "$0")',
        'UNBRAID_SUMMARY=1 sbatch --array=1 --dependency="afterany:${array%%;*}" --export=ALL "$0"',
        'echo "array ${array%%;*}; its summary follows when all tasks have ended"',
    ]
    return "\n".join(lines) + "\n"


def sbatch_options(slurm: SlurmOptions, name: str, out: Path) -> list[str]:
    """The options of sbatch. `--gpus-per-task` requires `--ntasks`.

    Args:
        slurm: what each task requests.
        name: name of the SLURM job.
        out: directory of the sweep.
    """
    optional = {"partition": slurm.partition, "account": slurm.account, "qos": slurm.qos, "mem": slurm.memory}
    return [
        f"--job-name={name}",
        f"--array=1-{slurm.shards}",
        f"--time={slurm.time}",
        "--ntasks=1",
        f"--cpus-per-task={slurm.cpus}",
        *([f"--gpus-per-task={slurm.gpus}"] if slurm.gpus else []),
        *[f"--{option}={value}" for option, value in optional.items() if value],
        f"--signal=B:USR1@{SIGNAL_LEAD_SECONDS}",
        "--requeue",
        "--open-mode=append",
        f"--output={shlex.quote(str(out / 'slurm-%A_%a.out'))}",
        *slurm.sbatch,
    ]


def check_slurm_options(slurm: SlurmOptions) -> None:
    """Raise an error for options that SLURM would refuse, or that would break out of their line of the script.

    Args:
        slurm: what each task requests.
    """
    expect(slurm.shards >= 1, "a job array needs at least one task", found=slurm.shards)
    for name in ("partition", "account", "qos", "memory"):
        text = getattr(slurm, name)
        expect(re.fullmatch(r"[\w.,:-]*", text, re.ASCII), f"{name} must be a plain word", found=repr(text),
               do="For example --partition gpu --memory 8G.")  # fmt: skip
    expect(parse_slurm_time(slurm.time) >= MIN_TASK_SECONDS,
           "a task needs some minutes: it receives a signal two minutes before its time limit",
           found=f"--time {slurm.time}", do="Give it --time 00:05:00 at least.")  # fmt: skip
    for line in slurm.sbatch:
        expect(line.startswith("-") and line.isprintable(), "--sbatch takes one option of sbatch", found=repr(line),
               do='For example --sbatch "--constraint=a100".')  # fmt: skip
    for line in slurm.setup:
        expect(line.strip() and line.isprintable(), "--setup takes one line of bash", found=repr(line),
               do='For example --setup "module load cuda"; give the option again for another line.')  # fmt: skip


def parse_slurm_time(time: str) -> int:
    """Convert a time in one of SLURM's formats to seconds.

    Args:
        time: the time, such as '04:00:00'.

    >>> [parse_slurm_time(time) for time in ("30", "90:00", "04:00:00", "1-12", "1-12:30", "1-00:00:01")]
    [1800, 5400, 14400, 129600, 131400, 86401]
    """
    match = TIME_PATTERN.fullmatch(time)
    expect(match, "a time of SLURM reads MINUTES, MINUTES:SECONDS, HOURS:MINUTES:SECONDS or DAYS-HOURS[:MINUTES[:SECONDS]]",
           found=repr(time), do="For example --time 04:00:00, or 2-12 for two days and a half.")  # fmt: skip
    assert match is not None
    days, *rest = (int(group or 0) for group in match.groups())
    day_hours, day_minutes, day_seconds, hours, minutes, secs, alone = rest
    return 86_400 * days + 3600 * (day_hours + hours) + 60 * (day_minutes + minutes + alone) + day_seconds + secs
