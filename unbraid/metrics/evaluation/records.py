"""What a metric returns, and what it declares about itself."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from unbraid.core.papers import papers_in


@dataclass(frozen=True)
class Score:
    """One number with everything behind it.

    table: matrices and per-factor or per-code rows. interval: (low, high) or None. settings: the protocol in full.

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
        """Plain data, for JSON: arrays become lists, NaN and infinity become None."""
        return {
            name: to_jsonable(getattr(self, name))
            for name in ("name", "value", "table", "interval", "settings", "cite")
        }

    def with_interval(self, bounds: tuple[float, float] | None, /, **settings: Any) -> Score:
        """The same score with an interval, and a word on how it was found."""
        return replace(self, interval=bounds, settings={**self.settings, **settings})


@dataclass(frozen=True)
class Metric:
    """An entry of `METRICS`: the function, and the claims that the tests hold it to.

    span: the lowest and highest value. direction: 'up' when more is better, 'down' when less is.
    chance: what codes that know nothing score, as a number or a function of the number of factors (None: no level),
    and noise: how far from it a few thousand rows may fall. needs: 'factors', 'codes', 'posteriors' (codes with
    scales), 'runs' or 'images'.
    rescaled: unchanged when columns are rescaled. lowered: the damages that lower it, among 'rotated', 'duplicated',
    'missing', 'noisy'. ceiling: how duplicate images bound it (see `ceilings`), under: where a protocol's is another.
    memory: the bytes that n rows of d columns take beside a few copies of the codes, where that can be much.

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
    lowered_by: tuple[str, ...] = ()
    ceiling: str | None = None
    protocol_ceilings: Mapping[str, str] = field(default_factory=dict)
    memory: Callable[[int, int], float] | None = None

    def __call__(self, *arguments: Any, **settings: Any) -> Score:
        return self.call(*arguments, **settings)

    @property
    def papers(self) -> tuple[str, ...]:
        """Keys into `PAPERS`, as the function's docstring names them."""
        return papers_in(self.call.__doc__) or ("this library",)

    def chance_level(self, factors: int) -> float | None:
        """The chance level with this many factors."""
        return self.chance(factors) if callable(self.chance) else self.chance

    def ceiling_kind(self, protocol: str) -> str | None:
        """The kind of ceiling under a protocol."""
        return self.protocol_ceilings.get(protocol, self.ceiling)


def to_jsonable(value: Any) -> Any:
    """Numbers, strings, lists and dicts that JSON can hold."""
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


def wilson_interval(hits: float, trials: int, z: float = 1.96) -> tuple[float, float]:
    """The Wilson interval of a proportion: never below 0 or above 1, sensible at both ends.

    >>> low, high = wilson_interval(100, 100)
    >>> round(low, 3), high
    (0.963, 1.0)
    """
    p = hits / trials
    middle, scale = p + z * z / (2 * trials), 1 + z * z / trials
    half = z * math.sqrt(p * (1 - p) / trials + z * z / (4 * trials * trials))
    # the ends are exact: rounding must not put the interval beside its own proportion
    low = 0.0 if hits == 0 else (middle - half) / scale
    return low, 1.0 if hits == trials else (middle + half) / scale
