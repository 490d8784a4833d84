"""Numbers that change with the step: frozen records, so that a recipe stays plain TOML."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, fields
from typing import Any, TypeAlias

from unbraid.ground.errors import UnbraidError, choose, expect


@dataclass(frozen=True)
class Linear:
    """From `start` to `stop` in a straight line over `steps`, then constant.

    >>> Linear(0, 4, steps=10).at(5)
    2.0
    """

    start: float
    stop: float
    steps: int

    def at(self, step: int) -> float:
        """The value at a step."""
        return self.start + (self.stop - self.start) * min(step / self.steps, 1.0)


@dataclass(frozen=True)
class Cosine:
    """From `start` to `stop` along half a cosine over `steps`, then constant."""

    start: float
    stop: float
    steps: int

    def at(self, step: int) -> float:
        """The value at a step."""
        return self.stop + (self.start - self.stop) * 0.5 * (1 + math.cos(math.pi * min(step / self.steps, 1.0)))


@dataclass(frozen=True)
class Cyclic:
    """A saw-tooth of period `steps`: up in a line during the first `rise` of each period, then constant (Fu et al. 2019)."""

    start: float
    stop: float
    steps: int
    rise: float = 0.5

    def at(self, step: int) -> float:
        """The value at a step."""
        return self.start + (self.stop - self.start) * min((step % self.steps) / (self.steps * self.rise), 1.0)


@dataclass(frozen=True)
class Geometric:
    """From `start` to `stop` by a constant factor over `steps`, then constant: for temperatures."""

    start: float
    stop: float
    steps: int

    def at(self, step: int) -> float:
        """The value at a step."""
        return self.start * (self.stop / self.start) ** min(step / self.steps, 1.0)


@dataclass(frozen=True)
class Capacity:
    """A price that is a function: γ·|term − C(step)|, C rising in a line from 0 to `stop` nats (Burgess et al. 2018)."""

    gamma: float
    stop: float
    steps: int

    def at(self, step: int) -> float:
        """The capacity C at a step, in nats."""
        return self.stop * min(step / self.steps, 1.0)


Schedule: TypeAlias = Linear | Cosine | Cyclic | Geometric | Capacity
Price: TypeAlias = float | Schedule
SCHEDULES: dict[str, type] = {
    "linear": Linear,
    "cosine": Cosine,
    "cyclic": Cyclic,
    "geometric": Geometric,
    "capacity": Capacity,
}


def value(price: Price, step: int) -> float:
    """A number, or a schedule's value at a step (for a capacity: C)."""
    return price.at(step) if isinstance(price, Schedule) else price


def read(plain: Any, what: str = "price") -> Price:
    """A number, or a table such as `{schedule = "linear", start = 0, stop = 4, steps = 1000}`.

    >>> read({"schedule": "linear", "start": 0, "stop": 4, "steps": 1000})
    Linear(start=0.0, stop=4.0, steps=1000)
    """
    if isinstance(plain, Schedule):
        return plain
    if isinstance(plain, int | float) and not isinstance(plain, bool):
        expect(math.isfinite(plain), f"{what} must be a finite number", found=plain)
        return float(plain)
    expect(
        isinstance(plain, dict),
        f"{what} must be a number or a schedule",
        found=repr(plain),
        do='For example 4, or {schedule = "linear", start = 0, stop = 4, steps = 1000}.',
    )
    made = choose(plain.get("schedule", ""), SCHEDULES, "schedule")
    options = {k: v for k, v in plain.items() if k != "schedule"}
    names = [f.name for f in fields(made)]
    for key, number in options.items():
        expect(key in names, f"schedule {plain['schedule']!r} of {what} takes no {key!r}", allowed=names)
        expect(
            isinstance(number, int | float) and not isinstance(number, bool) and math.isfinite(number),
            f"{key!r} of {what} must be a finite number",
            found=repr(number),
        )
        expect(
            key != "steps" or (number >= 1 and number == int(number)),
            f"steps of {what} must be a whole number, 1 or more",
            found=number,
        )
        expect(key != "rise" or 0 < number <= 1, f"rise of {what} must lie in (0, 1]", found=number)
    geometric = plain["schedule"] == "geometric"
    expect(
        not geometric or min(options.get("start", 1), options.get("stop", 1)) > 0,
        f"a geometric schedule of {what} needs positive ends",
        found=options,
    )
    try:
        return made(**{k: int(v) if k == "steps" else float(v) for k, v in options.items()})
    except TypeError as error:
        raise UnbraidError(
            f"schedule {plain['schedule']!r} of {what} needs {', '.join(names)}; found {', '.join(options) or 'nothing'}."
        ) from error


def write(price: Price) -> Any:
    """The inverse of `read`: plain TOML."""
    if isinstance(price, Schedule):
        name = next(n for n, made in SCHEDULES.items() if isinstance(price, made))
        return {"schedule": name, **asdict(price)}
    return price
