"""Results of a study: one row per run in one JSON file, from which every verdict is computed again."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from unbraid.core.errors import UnbraidError, expect
from unbraid.core.files import read_json, write_json

RESULTS_FILE = "results.json"
SCHEMA = 1


@dataclass(frozen=True)
class RunResult:
    """One run: its arm, seed and status, the numbers measured on it, and its cost in seconds.

    `versions` and `commit` say by which code it was measured (`provenance.measurement_versions`); rows written before
    these were stored have neither, which means version 1 of everything.
    """

    arm: str
    seed: int
    status: str = "done"
    numbers: dict[str, float] = field(default_factory=dict)
    seconds: float = 0.0
    reason: str = ""
    versions: dict[str, int] = field(default_factory=dict)
    commit: str = ""


@dataclass(frozen=True)
class Results:
    """All runs of a study at one scale, with their settings and provenance for the page.

    >>> found = Results("demo", "cpu", (RunResult("a", 0, numbers={"mig": 0.5}), RunResult("b", 0, numbers={"mig": 0.2})))
    >>> found.value("a", 0, "mig"), found.value("a", 1, "mig"), found.seeds("a", "b")
    (0.5, None, (0,))
    """

    study: str
    scale: str
    rows: tuple[RunResult, ...]
    metadata: dict[str, Any] = field(
        default_factory=dict
    )  # commit, run directories, checksum of the code, differences from the paper

    def row(self, arm: str, seed: int) -> RunResult | None:
        """The run of an arm with a seed, finished or not.

        Args:
            arm: the label of the arm.
            seed: the seed.
        """
        return next((row for row in self.rows if row.arm == arm and row.seed == seed), None)

    def value(self, arm: str, seed: int, quantity: str) -> float | None:
        """A number of one finished run, or None.

        Args:
            arm: the label of the arm.
            seed: the seed.
            quantity: the name of the number.
        """
        row = self.row(arm, seed)
        return None if row is None or row.status != "done" else row.numbers.get(quantity)

    def seeds(self, *arms: str) -> tuple[int, ...]:
        """The seeds that are finished in every one of these arms (in any arm, if none is named)."""
        done = [{row.seed for row in self.rows if row.arm == arm and row.status == "done"} for arm in arms]
        every = {row.seed for row in self.rows if row.status == "done"}
        return tuple(sorted(set.intersection(*done) if done else every))

    def values(self, arm: str, quantity: str) -> list[float]:
        """A number over the finished seeds of an arm.

        Args:
            arm: the label of the arm.
            quantity: the name of the number.
        """
        found = (self.value(arm, seed, quantity) for seed in self.seeds(arm))
        return [value for value in found if value is not None]

    @property
    def arms(self) -> tuple[str, ...]:
        """The arms in the order of their rows."""
        return tuple(dict.fromkeys(row.arm for row in self.rows))

    @property
    def quantities(self) -> tuple[str, ...]:
        """Every number that some run has."""
        return tuple(dict.fromkeys(name for row in self.rows for name in row.numbers))

    @property
    def failed_rows(self) -> tuple[RunResult, ...]:
        """Runs that did not finish, with their reasons; none is dropped silently."""
        return tuple(row for row in self.rows if row.status != "done")

    @property
    def mixed_versions(self) -> dict[str, list[int]]:
        """The measurements whose version differs between finished rows, with their versions; a missing one is 1."""
        done = [row for row in self.rows if row.status == "done"]
        names = {name for row in done for name in row.versions}
        found = {name: sorted({row.versions.get(name, 1) for row in done}) for name in sorted(names)}
        return {name: versions for name, versions in found.items() if len(versions) > 1}

    def save(self, folder: str | Path) -> Path:
        """Write `results.json`.

        Args:
            folder: the folder.
        """
        path = Path(folder) / RESULTS_FILE
        rows = [_row_dict(row) for row in self.rows]
        content = {"schema": SCHEMA, "study": self.study, "scale": self.scale, "about": self.metadata, "rows": rows}
        write_json(path, content)
        return path

    @classmethod
    def load(cls, path: str | Path) -> Results:
        """Read `results.json`, or the one in a folder.

        Args:
            path: the file or its folder.
        """
        path = Path(path)
        path = path / RESULTS_FILE if path.is_dir() else path
        plain = read_json(path, "results of a study")
        expect(isinstance(plain, dict) and plain.get("schema") == SCHEMA, f"{path} holds no results of a study",
               do="Give a file that 'unbraid study' wrote.")  # fmt: skip
        try:
            rows = tuple(RunResult(**row) for row in plain["rows"])
            return cls(plain["study"], plain["scale"], rows, plain["about"])
        except (KeyError, TypeError) as error:
            raise UnbraidError(f"results {path} are damaged: {error}.") from error


def _row_dict(row: RunResult) -> dict[str, Any]:
    """A row as plain data; provenance that was not recorded is left out."""
    plain = {**asdict(row), "numbers": round_numbers(row.numbers)}
    return {key: value for key, value in plain.items() if value or key not in ("versions", "commit")}


def round_numbers(numbers: dict[str, float]) -> dict[str, float]:
    """Round numbers to six digits, which keeps the committed files small.

    Args:
        numbers: the numbers by name.
    """
    return {name: float(f"{value:.6g}") for name, value in numbers.items()}
