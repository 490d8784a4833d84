"""What became of each run: `outcome.json` in its directory. A failure is a result, with its reason."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from unbraid.ground.errors import UnbraidError
from unbraid.ground.files import read_json, write_json, write_text
from unbraid.runs.run import OUTCOME, RECIPE
from unbraid.sweeps.plan import Job

LOG = "log.txt"
DONE, FAILED = "done", "failed"
KINDS = {
    "diverged": "its loss is no longer finite; the same bits would diverge again",
    "refused": "it cannot be trained or scored as asked, or the disk refused",
    "crashed": "an error nobody foresaw, or its process ended by itself",
    "killed": "its process was ended from outside",
}


@dataclass(frozen=True)
class Outcome:
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

    def plain(self) -> dict[str, Any]:
        """The record as JSON."""
        return asdict(self)

    @classmethod
    def of(cls, plain: dict[str, Any]) -> Outcome:
        """The record in a JSON object; fields of later versions are passed over."""
        known = {f.name for f in fields(cls)}
        return cls(**{key: value for key, value in plain.items() if key in known})


def read(folder: Path, job: Job) -> Outcome | None:
    """The outcome recorded for a job; None when there is none, it is damaged, or the directory holds another recipe."""
    try:
        found = read_json(folder / job.name / OUTCOME, "outcome") if (folder / job.name / OUTCOME).is_file() else None
        outcome = Outcome.of(found) if isinstance(found, dict) else None
    except (UnbraidError, TypeError):
        return None
    return outcome if outcome is not None and outcome.hash == job.hash else None


def record(folder: Path, job: Job, outcome: Outcome) -> Outcome:
    """Write an outcome beside the run; a failed run without a recipe gets it, so that it can be counted with its like.

    A disk that takes no more is no reason to lose the others: the outcome is then known to this walk only.
    """
    path = folder / job.name
    try:
        if not (path / RECIPE).exists():
            write_text(path / RECIPE, job.recipe.toml())
        write_json(path / OUTCOME, outcome.plain())
    except (UnbraidError, OSError):
        pass
    return outcome


def settled(outcome: Outcome | None, scored: str, most: int) -> bool:
    """True when nothing is left to do: done and scored as asked (if it is), or failed as often as is allowed."""
    if outcome is None:
        return False
    return scored in ("", outcome.scored) if outcome.done else outcome.tries >= most


def tries(before: Outcome | None, retries: int) -> int:
    """How many tries a job may have used up by the end of a walk that found it like this.

    A run that diverged would do so again, to the same bits; any other failure is worth one try by a new command.
    """
    if before is None or before.done:
        return 1 + retries
    return max(1 + retries, before.tries + (before.kind != "diverged"))
