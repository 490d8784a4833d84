"""The result of each run, in `outcome.json` of its directory. A failure is a result too, with its reason."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from unbraid.core.errors import UnbraidError
from unbraid.core.files import read_json, write_json, write_text
from unbraid.runs.folder.file_names import OUTCOME_FILE, RECIPE_FILE
from unbraid.sweeps.planning.plan import Job

LOG = "log.txt"
DONE, FAILED = "done", "failed"


@dataclass(frozen=True)
class JobResult:
    """The result of one run.

    Args:
        status: 'done' or 'failed'.
        kind: kind of failure: 'diverged' (the loss is not finite), 'refused' (an error of the recipe, the data or the
            disk), 'crashed' (an unexpected error) or 'killed' (the process was ended from outside).
        reason: the error message.
        tries: number of tries so far.
        hash: hash of the recipe.
        scored: digest of the scoring.
        seconds: seconds of each stage.
        scores: the main numbers.
    """

    status: str
    kind: str = ""
    reason: str = ""
    tries: int = 1
    hash: str = ""
    scored: str = ""
    seconds: dict[str, float] = field(default_factory=dict)
    scores: dict[str, float] = field(default_factory=dict)

    @property
    def done(self) -> bool:
        """Whether the run was trained and scored."""
        return self.status == DONE

    @classmethod
    def from_dict(cls, table: dict[str, Any]) -> JobResult:
        """Read a result from a JSON object; fields of later versions are ignored.

        Args:
            table: the JSON object.
        """
        known = {f.name for f in fields(cls)}
        return cls(**{key: value for key, value in table.items() if key in known})


def read_result(folder: Path, job: Job) -> JobResult | None:
    """Read the result of a job; None when there is none, it is damaged, or it belongs to another recipe.

    Args:
        folder: directory of the sweep.
        job: the job.
    """
    path = folder / job.name / OUTCOME_FILE
    try:
        table = read_json(path, "outcome") if path.is_file() else None
        result = JobResult.from_dict(table) if isinstance(table, dict) else None
    except (UnbraidError, TypeError):
        return None
    return result if result is not None and result.hash == job.hash else None


def record_result(folder: Path, job: Job, result: JobResult) -> JobResult:
    """Write a result, and return it. A failed run without a recipe also gets the recipe, so that tables can count it.

    When the disk is full, only this process knows the result; the other runs continue.

    Args:
        folder: directory of the sweep.
        job: the job.
        result: its result.
    """
    path = folder / job.name
    with suppress(UnbraidError, OSError):
        if not (path / RECIPE_FILE).exists():
            write_text(path / RECIPE_FILE, job.recipe.toml())
        write_json(path / OUTCOME_FILE, asdict(result))
    return result


def is_final(result: JobResult | None, score_digest: str, max_tries: int) -> bool:
    """Whether nothing is left to do: the run is done and scored as requested, or it has failed `max_tries` times.

    Args:
        result: the result so far.
        score_digest: digest of the requested scoring; "" for none.
        max_tries: total number of tries allowed.
    """
    if result is None:
        return False
    return score_digest in ("", result.scored) if result.done else result.tries >= max_tries


def allowed_tries(previous: JobResult | None, retries: int) -> int:
    """Total number of tries that a new sweep allows a job.

    A run that diverged would diverge again, bit for bit. After any other failure a new command tries once more.

    Args:
        previous: the result that an earlier sweep recorded.
        retries: number of retries of a failed run.
    """
    if previous is None or previous.done:
        return 1 + retries
    return max(1 + retries, previous.tries + (previous.kind != "diverged"))
