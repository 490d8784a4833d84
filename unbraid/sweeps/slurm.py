"""A sweep as a job array: the script for SLURM, with a last job that finishes what is left and prints the table."""

from __future__ import annotations

import shlex
import sys
from dataclasses import dataclass
from pathlib import Path

from unbraid.ground.errors import expect
from unbraid.runs.own import IMPORTED


@dataclass(frozen=True)
class Batch:
    """What to ask of the batch system for each task of the array."""

    shards: int = 8
    partition: str = ""
    time: str = "04:00:00"
    gpus: int = 0
    cpus: int = 1
    memory: str = ""


def script(file: Path, out: Path, batch: Batch, name: str = "sweep", retries: int = 0) -> str:
    """A bash script: `bash SCRIPT` submits the array and its summary; `sbatch --array=1-N SCRIPT shard` is one task of it.

    Tasks may die, overlap or come late: each claims the runs it works on in the shared directory, and what is finished is
    not done again.
    """
    expect(batch.shards >= 1, "a job array needs at least one task", found=batch.shards)
    for what, text in (("partition", batch.partition), ("time", batch.time), ("memory", batch.memory)):
        expect(text.replace("-", "").replace(":", "").replace("_", "").replace(".", "").isalnum() or not text,
               f"{what} must be a plain word", found=repr(text), do="For example --partition gpu --time 04:00:00.")  # fmt: skip
    retry = f" --retries {retries}" if retries else ""
    imports = [word for name in IMPORTED for word in ("--import", name)]
    command = [sys.executable, "-m", "unbraid", "sweep", str(file.resolve()), "--out", str(out.resolve()), *imports]
    sweep = shlex.join(command)
    log = shlex.quote(str(out.resolve() / "slurm-%A_%a.out"))
    lines = [
        "#!/usr/bin/env bash",
        f"#SBATCH --job-name={name}",
        f"#SBATCH --array=1-{batch.shards}",
        f"#SBATCH --time={batch.time}",
        f"#SBATCH --cpus-per-task={batch.cpus}",
        *([f"#SBATCH --partition={batch.partition}"] if batch.partition else []),
        *([f"#SBATCH --gpus-per-task={batch.gpus}"] if batch.gpus else []),
        *([f"#SBATCH --mem={batch.memory}"] if batch.memory else []),
        "#SBATCH --signal=B:TERM@120",
        "#SBATCH --requeue",
        f"#SBATCH --output={log}",
        "# Two minutes before its time is up a task is told, and leaves checkpoints; a requeued one goes on from them.",
        "# bash THIS submits everything. Tasks may die, overlap or come late: what is finished is not done again.",
        "set -eu",
        'if [ -n "${UNBRAID_SUMMARY:-}" ]; then',
        f"  exec {sweep} --workers {batch.cpus}{retry}",
        'elif [ -n "${SLURM_ARRAY_TASK_ID:-}" ]; then',
        f'  exec {sweep} --workers {batch.cpus} --shard "$SLURM_ARRAY_TASK_ID/{batch.shards}"{retry}',
        "fi",
        f"mkdir -p {shlex.quote(str(out.resolve()))}",
        'array=$(sbatch --parsable "$0")',
        'UNBRAID_SUMMARY=1 sbatch --array=1 --dependency="afterany:${array%%;*}" --export=ALL "$0"',
        'echo "array ${array%%;*}; its summary follows when all tasks have ended"',
    ]
    return "\n".join(lines) + "\n"
