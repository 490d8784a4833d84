"""Types of the options that `encode`, `score` and `audit` share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, TypedDict

Split = Literal["", "train", "valid", "test", "all", "held_out"]
Device = Literal["", "auto", "cpu", "cuda", "mps", "xpu"] | str  # or one with an index, such as "cuda:1"
Protocol = Literal["fast", "dlib", "paper"]
Interval = Literal["half", "bootstrap", "seeds"]
Prune = Literal["none", "kl", "variance"]


class DataSelection(TypedDict, total=False):
    """Which images of a run are used; see `unbraid.runs.evaluation.data_selection.select_data`."""

    split: Split
    leave_out: str | Sequence[str]


class TableOptions(TypedDict, total=False):
    """Options of `unbraid.metrics.as_table`."""

    prune: Prune
    least: float | None
    groups: Any
    kinds: Sequence[str] | None
    names: Sequence[str] | None
    keep_text: str | Sequence[str]


class BatteryOptions(TypedDict, total=False):
    """Options of `unbraid.metrics.battery`."""

    protocol: Protocol
    seeds: int
    interval: Interval
    seed: int
    bins: int


class ScoreOptions(BatteryOptions, TableOptions):
    """The options of `score` that decide the numbers."""
