"""Records of the metrics: `Score`, which a metric returns, and `Metric`, which declares its properties."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal

import numpy as np

from unbraid.core.papers import papers_in

Protocol = Literal["paper", "dlib", "fast"]
PaperOrFast = Literal["paper", "fast"]
DciProtocol = Literal["paper", "lasso", "dlib", "fast"]
Interval = Literal["half", "bootstrap", "seeds"]


@dataclass(frozen=True)
class Score:
    """One score with its details.

    Args:
        name: the metric, with the protocol after an @ where one was named.
        value: the score.
        table: matrices and rows per factor or per unit.
        interval: (low, high), or None.
        settings: all settings of the protocol, and notes on the inputs.
        cite: the paper that defines the metric.

    >>> score = Score("mig", 0.5, {"gaps": np.array([0.4, 0.6])}, (0.45, 0.55), {"bins": 20}, "Chen et al. 2018")
    >>> float(score), score.as_dict()["table"]
    (0.5, {'gaps': [0.4, 0.6]})
    """

    name: str
    value: float
    table: dict[str, Any] = field(default_factory=dict)
    interval: tuple[float, float] | None = None
    settings: dict[str, Any] = field(default_factory=dict)
    cite: str = ""

    def __float__(self) -> float:
        return float(self.value)

    def __str__(self) -> str:
        if "skipped" in self.settings:
            return f"{self.name} skipped: {self.settings['skipped']}"
        spread = f" [{self.interval[0]:.3f}, {self.interval[1]:.3f}]" if self.interval else ""
        return f"{self.name} {self.value:.3f}{spread}"

    def as_dict(self) -> dict[str, Any]:
        """The score as plain data for JSON: arrays become lists, NaN and infinity become None."""
        return {field.name: to_jsonable(getattr(self, field.name)) for field in fields(self)}

    def with_interval(self, bounds: tuple[float, float] | None, /, **settings: Any) -> Score:
        """The same score with another interval.

        Args:
            bounds: (low, high), or None.
            settings: entries to add to the settings, such as how the interval was computed.
        """
        return replace(self, interval=bounds, settings={**self.settings, **settings})


@dataclass(frozen=True)
class Metric:
    """An entry of `METRICS`: a function and its declared properties, which tests/contracts and tests/laws check.

    Args:
        call: the function that computes the score.
        about: what the metric measures, in one line.
        span: the lowest and the highest value.
        direction: 'up' when larger is better, 'down' when smaller is better.
        chance: the score of random codes, a number or a function of the number of factors (None: no fixed level).
        noise: the largest distance from `chance` on a few thousand rows.
        needs: 'factors', 'codes', 'posteriors' (codes with scales), 'classes' (a one-hot unit), 'runs' or 'images'.
        protocols: the protocols that `battery` may choose.
        seeded: the score depends on a seed.
        scale_invariant: rescaling columns changes nothing.
        shift_invariant: shifting columns changes nothing, where rescaling does not.
        lowered_by: the changes that lower the score, among 'rotated', 'duplicated', 'missing' and 'noisy'.
        order_tolerance: the largest change of the score when columns are reordered.
        dead_tolerance: the largest change of the score when constant columns are added.
        rewards_constants: constant codes may score higher than informative ones.
        perfect: by protocol, a lower bound of the score of perfect codes where it is not 0.95.
        prunes: the metric leaves out collapsed units unless `prune` says otherwise.
        takes_function: the codes may be a function from label rows to codes.
        wide: the cost allows thousands of columns: no matrix of columns by columns, no fit per column.
        ceiling: the kind of bound that duplicate images set (see `ceilings`).
        protocol_ceilings: the kind of bound by protocol, where it differs.
        memory: the bytes that n rows of d columns need beyond a few copies of the codes, where these may be many.
        version: raised when the score can change for the same codes, labels and options.

    >>> from unbraid.metrics import METRICS
    >>> METRICS["mig"].direction, METRICS["factor_vae"].chance_level(5)
    ('up', 0.2)
    """

    call: Callable[..., Score]
    about: str
    span: tuple[float, float] = (0.0, 1.0)
    direction: str = "up"
    chance: float | Callable[[int], float] | None = 0.0
    noise: float = 0.05
    needs: str = "factors"
    protocols: tuple[str, ...] = ()
    seeded: bool = False
    scale_invariant: bool = True
    shift_invariant: bool = True
    lowered_by: tuple[str, ...] = ()
    order_tolerance: float = 1e-6
    dead_tolerance: float = 0.03
    rewards_constants: bool = False
    perfect: Mapping[str, float] = field(default_factory=dict)
    prunes: bool = False
    takes_function: bool = False
    wide: bool = False
    ceiling: str | None = None
    protocol_ceilings: Mapping[str, str] = field(default_factory=dict)
    memory: Callable[[int, int], float] | None = None
    version: int = 1

    def __call__(self, *arguments: Any, **settings: Any) -> Score:
        return self.call(*arguments, **settings)

    @property
    def papers(self) -> tuple[str, ...]:
        """Keys of `PAPERS`, read from the docstring of the function."""
        return papers_in(self.call.__doc__) or ("this library",)

    def chance_level(self, factors: int) -> float | None:
        """The chance level for this number of factors; None if it is not known or a custom metric cannot compute it.

        Args:
            factors: the number of factors.
        """
        try:
            chance = self.chance(factors) if callable(self.chance) else self.chance
            return None if chance is None else float(chance)
        except Exception:  # a custom function may raise anything; a missing level loses no score
            return None

    def ceiling_kind(self, protocol: str) -> str | None:
        """The kind of ceiling under this protocol.

        Args:
            protocol: the protocol.
        """
        return self.protocol_ceilings.get(protocol, self.ceiling)


def to_jsonable(value: Any) -> Any:
    """Convert a value to numbers, strings, lists and dicts that JSON can store.

    Args:
        value: the value.
    """
    if isinstance(value, np.ndarray):
        return to_jsonable(value.tolist())
    if isinstance(value, Mapping):
        return {str(k): to_jsonable(v) for k, v in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [to_jsonable(v) for v in value]
    if isinstance(value, np.generic):
        return to_jsonable(value.item())
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if value is None or isinstance(value, bool | int | str) else str(value)


def wilson_interval(hits: int, trials: int) -> tuple[float, float]:
    """The 95% Wilson interval of a proportion.

    Args:
        hits: the number of successes.
        trials: the number of trials.

    >>> low, high = wilson_interval(100, 100)
    >>> round(low, 3), high
    (0.963, 1.0)
    """
    from scipy.stats import binomtest

    bounds = binomtest(hits, trials).proportion_ci(method="wilson")
    return float(bounds.low), float(bounds.high)
