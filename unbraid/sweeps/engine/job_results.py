"""What became of each run: `outcome.json` in its directory. A failure is a result, with its reason."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from unbraid.core.errors import UnbraidError
from unbraid.core.files import read_json, write_json, write_text
from unbraid.runs.folder.file_names import OUTCOME_FILE, RECIPE_FILE
from unbraid.sweeps.planning.plan import Job

LOG = "log.txt"
DONE, FAILED = "done", "failed"
FAILURE_KINDS = {
    "diverged": "its loss is no longer finite; the same bits would diverge again",
    "refused": "it cannot be trained or scored as asked, or the disk refused",
    "crashed": "an error nobody foresaw, or its process ended by itself",
    "killed": "its process was ended from outside",
}


@dataclass(frozen=True)
class JobResult:
    """Done or failed; of what kind and why; after how many tries; seconds by stage; headline scores; how it was scored."""

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
        """True for a run that was trained and scored."""
        return self.status == DONE

    def as_dict(self) -> dict[str, Any]:
        """The record as JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, table: dict[str, Any]) -> JobResult:
        """The record in a JSON object; fields of later versions are passed over."""
        known = {f.name for f in fields(cls)}
        return cls(**{key: value for key, value in table.items() if key in known})


def read_result(folder: Path, job: Job) -> JobResult | None:
    """The outcome recorded for a job; None when there is none, it is damaged, or the directory holds another recipe."""
    try:
        found = (
            read_json(folder / job.name / OUTCOME_FILE, "outcome")
            if (folder / job.name / OUTCOME_FILE).is_file()
            else None
        )
        outcome = JobResult.from_dict(found) if isinstance(found, dict) else None
    except (UnbraidError, TypeError):
        return None
    return outcome if outcome is not None and outcome.hash == job.hash else None


def record_result(folder: Path, job: Job, result: JobResult) -> JobResult:
    """Write an outcome beside the run; a failed run without a recipe gets it, so that it can be counted with its like.

    A disk that takes no more is no reason to lose the others: the outcome is then known to this walk only.
    """
    path = folder / job.name
    try:
        if not (path / RECIPE_FILE).exists():
            write_text(path / RECIPE_FILE, job.recipe.toml())
        write_json(path / OUTCOME_FILE, result.as_dict())
    except (UnbraidError, OSError):
        pass
    return result


def is_final(result: JobResult | None, score_digest: str, max_tries: int) -> bool:
    """True when nothing is left to do: done and scored as asked (if it is), or failed as often as is allowed."""
    if result is None:
        return False
    return score_digest in ("", result.scored) if result.done else result.tries >= max_tries


def allowed_tries(previous: JobResult | None, retries: int) -> int:
    """How many tries a job may have used up by the end of a walk that found it like this.

    A run that diverged would do so again, to the same bits; any other failure is worth one try by a new command.
    """
    if previous is None or previous.done:
        return 1 + retries
    return max(1 + retries, previous.tries + (previous.kind != "diverged"))
