"""`Scores`: the scores of one table of codes as a record, with one schema on disk."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import Any

from unbraid.core.dataframes import make_dataframe
from unbraid.core.errors import UnbraidError, expect
from unbraid.core.files import read_json, write_json
from unbraid.metrics.evaluation.records import Score, to_jsonable
from unbraid.runs.folder.file_names import SCORES_FILE

SCORES_SCHEMA = 2


@dataclass(frozen=True, repr=False, eq=False)
class Scores(Mapping[str, Score]):
    """Scores by metric name, with data and settings.

    Args:
        scores: the scores by metric name.
        settings: protocol, seeds, interval, seed, bins, prune, groups, data, split, left_out.
        rows: the number of codes.
        units: the names of the units.
        factors: the number of values of each factor.
        notes: remarks on dropped and missing values.
        ceilings: the highest scores that duplicate images allow, by metric, or None.

    >>> scores = Scores({"mig": Score("mig", 0.5), "dci": Score("dci", 0.75, {}, (0.7, 0.8))}, {"protocol": "fast"}, 100)
    >>> scores["dci"].value, list(scores)
    (0.75, ['mig', 'dci'])
    >>> print(scores)
    scores of 100 codes, protocol fast
      mig 0.500   dci 0.750 [0.700, 0.800]
    """

    scores: dict[str, Score]
    settings: dict[str, Any] = field(default_factory=dict)
    rows: int = 0
    units: tuple[str, ...] = ()
    factors: dict[str, int] = field(default_factory=dict)
    notes: dict[str, Any] = field(default_factory=dict)
    ceilings: dict[str, float] | None = None

    def __getitem__(self, name: str) -> Score:
        return self.scores[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.scores)

    def __len__(self) -> int:
        return len(self.scores)

    @property
    def skipped(self) -> dict[str, str]:
        """Metrics that could not run on these data, and the reasons."""
        return {name: s.settings["skipped"] for name, s in self.items() if "skipped" in s.settings}

    def __repr__(self) -> str:
        skipped = self.skipped
        shown = "   ".join(str(s).replace(" ", "\0") for n, s in self.items() if n not in skipped)
        lines = textwrap.wrap(shown, 78, break_long_words=False, break_on_hyphens=False)
        body = [f"  {line}".replace("\0", " ") for line in lines]
        return "\n".join([self.title, *body, *([f"  skipped: {', '.join(skipped)}"] if skipped else [])])

    @property
    def title(self) -> str:
        """One line on data and settings."""
        parts = [f"scores of {self.rows:,} codes", *([f"{len(self.units)} units"] if self.units else [])]
        if self.factors:
            parts.append(f"factors {', '.join(f'{name} {size}' for name, size in self.factors.items())}")
        settings = {key: self.settings.get(key) for key in ("data", "split", "protocol", "prune")}
        return ", ".join([*parts, *(f"{k} {v}" for k, v in settings.items() if v and v != "none")])

    def _repr_html_(self) -> str:
        rows = "".join(
            f'<tr><th style="text-align:left">{escape(n)}</th>'
            f"<td>{f'{s.value:.3f}' if math.isfinite(s.value) else '–'}</td>"
            f"<td>{f'{s.interval[0]:.3f}–{s.interval[1]:.3f}' if s.interval else ''}</td></tr>"
            for n, s in self.items()
        )
        heads = "<tr><th>metric</th><th>score</th><th>95%</th></tr>"
        return f"<p>{escape(self.title)}</p><table><thead>{heads}</thead><tbody>{rows}</tbody></table>"

    def to_frame(self) -> Any:
        """Return a pandas DataFrame with one row per metric: value, interval, protocol and ceiling."""
        ceilings = self.ceilings or {}
        columns = {
            "value": [s.value for s in self.values()],
            "low": [s.interval[0] if s.interval else math.nan for s in self.values()],
            "high": [s.interval[1] if s.interval else math.nan for s in self.values()],
            "protocol": [s.settings.get("protocol", "") for s in self.values()],
            "ceiling": [ceilings.get(name, math.nan) for name in self],
        }
        made = make_dataframe(columns, list(self))
        made.index.name = "metric"
        return made

    def as_dict(self) -> dict[str, Any]:
        """Return plain data, as in scores.json."""
        scores = {name: s.as_dict() for name, s in self.items()}
        for each in scores.values():
            del each["name"]
        parts = ("settings", "rows", "units", "factors", "notes", "ceilings", "skipped")
        return {"schema": SCORES_SCHEMA, **{part: to_jsonable(getattr(self, part)) for part in parts}, "scores": scores}

    def save(self, path: str | Path) -> Path:
        """Write the scores and return the path.

        Args:
            path: a folder, for its scores.json, or a file that ends in .json.
        """
        path = _scores_file(Path(path))
        write_json(path, self.as_dict())
        return path

    @classmethod
    def load(cls, path: str | Path) -> Scores:
        """Read scores of this version or an older one; damage is an error.

        Args:
            path: a folder, for its scores.json, or a file that ends in .json.
        """
        path = _scores_file(Path(path))
        found = read_json(path, "scores")
        try:
            return _from_json(found)
        except (LookupError, TypeError, ValueError, AttributeError, OverflowError) as error:
            if isinstance(error, UnbraidError):
                raise UnbraidError(f"scores {path}: {error}") from error
            raise UnbraidError(f"scores {path} are damaged ({error!r}). Score the codes again.") from error


def _scores_file(path: Path) -> Path:
    """The file of scores that a path names; the name of a run directory may end in .json too."""
    return path if path.suffix == ".json" and not path.is_dir() else path / SCORES_FILE


def _from_json(found: Any) -> Scores:
    if isinstance(found, list):  # the demo of 0.1 wrote a bare list
        found = {"scores": {s["name"]: s for s in found}}
    expect(isinstance(found, dict) and isinstance(found.get("scores"), dict), "this must be a table of scores")
    schema = found.get("schema", 1)
    expect(
        isinstance(schema, int) and 1 <= schema <= SCORES_SCHEMA,
        "these scores were written by another version",
        found=f"schema {schema!r}",
        allowed=f"1 to {SCORES_SCHEMA}",
        do="Score the codes again.",
    )
    scores = dict(_score_from_json(str(name), plain_score, schema) for name, plain_score in found["scores"].items())
    old = {key: found.get(key) for key in ("protocol", "seeds", "interval", "bins") if found.get(key) is not None}
    factors = found.get("factors") or {}
    sizes = factors if isinstance(factors, dict) else dict.fromkeys(factors, 0)
    settings = found["settings"] if schema > 1 else old
    expect(
        isinstance(settings, dict) and isinstance(found.get("notes") or {}, dict), "settings and notes must be tables"
    )
    return Scores(
        scores,
        dict(settings),
        int(found.get("rows") or 0),
        tuple(str(u) for u in found.get("units") or ()),
        {str(name): int(size) for name, size in sizes.items()},
        dict(found.get("notes") or {}),
        {str(n): float(v) for n, v in found["ceilings"].items()} if found.get("ceilings") else None,
    )


def _score_from_json(name: str, found: dict[str, Any], schema: int) -> tuple[str, Score]:
    """A score from plain data; a missing value is NaN."""
    settings = dict(found.get("settings") or {})
    if schema == 1 and name == "total_correlation" and settings.get("how") == "gaussian":
        name = "gaussian_total_correlation"  # 0.1 had one name for two quantities
    value = math.nan if found["value"] is None else float(found["value"])
    bounds = found.get("interval")
    interval = None if bounds is None else (float(bounds[0]), float(bounds[1]))
    return name, Score(name, value, dict(found.get("table") or {}), interval, settings, str(found.get("cite") or ""))
