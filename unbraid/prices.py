"""Prices of terms, and other numbers that change with the step: a constant, a schedule, capacity, free bits.

Schedules are frozen records that a recipe writes as plain TOML. To add one: a class here, and its name in `SCHEDULES`.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, TypeAlias

from unbraid.core import options
from unbraid.core.errors import UnbraidError, choose, expect

FINAL_STEP = 10**12


class Schedule(ABC):
    """A price that depends on the step or on the nats. With `per_leaf` it charges the batch mean of each leaf."""

    per_leaf: ClassVar[bool] = False

    @abstractmethod
    def value_at(self, step: int) -> float:
        """The value at the training step `step`."""

    def charge(self, nats: Any, step: int) -> Any:
        """The cost of a term, by default price times nats.

        Args:
            nats: the batch mean of the term; of each leaf with `per_leaf`.
            step: the training step.
        """
        now = self.value_at(step)
        return nats if now == 1 else now * nats

    def rate(self, step: int) -> float:
        """The price per nat that the ledger shows at the training step `step`."""
        return self.value_at(step)

    def final_rate(self) -> float | None:
        """The price per nat after the last step; None when the price is a function of the nats."""
        return None if self.endpoints() is None else self.value_at(FINAL_STEP)

    def describe(self, key: str) -> str:
        """The price of the term `key` as the table of objectives prints it."""
        return f"{key} {schedule_name(self)} → {self.value_at(FINAL_STEP):g}"

    def endpoints(self) -> tuple[float, ...] | None:
        """The values between which it moves; None when the price is a function of the nats."""
        return (self.value_at(0), self.value_at(FINAL_STEP))

    def affine(self, factor: float, offset: float = 0.0) -> Schedule:
        """The schedule `factor` · price + `offset`, where that is of the same kind."""
        if isinstance(self, Linear | Cosine | Cyclic):
            return replace(self, start=factor * self.start + offset, stop=factor * self.stop + offset)
        raise UnbraidError(
            f"another price is computed from this schedule: found {schedule_name(self)}; "
            "allowed: a number, or schedule linear, cosine or cyclic."
        )

    def check(self, what: str) -> None:
        """Raise `UnbraidError` for numbers out of range; `what` names the price."""
        steps = getattr(self, "steps", 1)
        expect(steps >= 1, f"steps of {what} must be a whole number, 1 or more", found=steps)

    @classmethod
    def read_option(cls, plain: Any, what: str) -> Price:
        """See `parse_price`."""
        return parse_price(plain, what)


@dataclass(frozen=True)
class Constant(Schedule):
    """One number."""

    number: Any

    def value_at(self, step: int) -> float:
        """See `Schedule.value_at`."""
        return self.number

    def describe(self, key: str) -> str:
        """See `Schedule.describe`."""
        return f"{key} {format_number(self.number)}"


@dataclass(frozen=True)
class Linear(Schedule):
    """Linear from `start` to `stop` over `steps`, then constant.

    >>> Linear(0, 4, steps=10).value_at(5)
    2.0
    """

    start: float
    stop: float
    steps: int

    def value_at(self, step: int) -> float:
        """See `Schedule.value_at`."""
        return self.start + (self.stop - self.start) * min(step / self.steps, 1.0)


@dataclass(frozen=True)
class Cosine(Schedule):
    """Half a cosine from `start` to `stop` over `steps`, then constant."""

    start: float
    stop: float
    steps: int

    def value_at(self, step: int) -> float:
        """See `Schedule.value_at`."""
        return self.stop + (self.start - self.stop) * 0.5 * (1 + math.cos(math.pi * min(step / self.steps, 1.0)))


@dataclass(frozen=True)
class Cyclic(Schedule):
    """A sawtooth of period `steps`: linear during the first `rise` of each period, then constant (Fu et al. 2019)."""

    start: float
    stop: float
    steps: int
    rise: float = 0.5

    def value_at(self, step: int) -> float:
        """See `Schedule.value_at`."""
        return self.start + (self.stop - self.start) * min((step % self.steps) / (self.steps * self.rise), 1.0)

    def endpoints(self) -> tuple[float, ...]:
        """See `Schedule.endpoints`."""
        return (self.start, self.stop)

    def check(self, what: str) -> None:
        """See `Schedule.check`."""
        super().check(what)
        expect(0 < self.rise <= 1, f"rise of {what} must lie in (0, 1]", found=self.rise)


@dataclass(frozen=True)
class Geometric(Schedule):
    """Geometric from `start` to `stop` over `steps`, then constant: for temperatures."""

    start: float
    stop: float
    steps: int

    def value_at(self, step: int) -> float:
        """See `Schedule.value_at`."""
        return self.start * (self.stop / self.start) ** min(step / self.steps, 1.0)

    def check(self, what: str) -> None:
        """See `Schedule.check`."""
        super().check(what)
        expect(
            min(self.start, self.stop) > 0,
            f"a geometric schedule of {what} needs positive ends",
            found=(self.start, self.stop),
        )


@dataclass(frozen=True)
class Capacity(Schedule):
    """A function of the nats: γ·|term − C(step)|, C linear from 0 to `stop` nats (Burgess et al. 2018)."""

    gamma: float
    stop: float
    steps: int

    def value_at(self, step: int) -> float:
        """See `Schedule.value_at`: the capacity C, in nats."""
        return self.stop * min(step / self.steps, 1.0)

    def charge(self, nats: Any, step: int) -> Any:
        """See `Schedule.charge`: γ·|nats − C(step)| of the batch mean."""
        return self.gamma * (nats - self.value_at(step)).abs()

    def rate(self, step: int) -> float:
        """See `Schedule.rate`."""
        return self.gamma

    def describe(self, key: str) -> str:
        """See `Schedule.describe`."""
        return f"{key} ↦ {format_number(self.gamma)}·|{key} − C|"

    def endpoints(self) -> None:
        """See `Schedule.endpoints`."""


@dataclass(frozen=True)
class FreeBits(Schedule):
    """A function of the nats: β·Σ_l max(λ, term_l), the first λ nats of every leaf are free (Kingma et al. 2016).

    The maximum is of each leaf's mean over the batch, so a leaf below the floor gets no gradient.
    """

    floor: float
    price: float = 1.0
    per_leaf: ClassVar[bool] = True

    def value_at(self, step: int) -> float:
        """See `Schedule.value_at`: the floor λ, in nats per leaf."""
        return self.floor

    def charge(self, nats: Any, step: int) -> Any:
        """See `Schedule.charge`: of the batch means "l" of the leaves."""
        return self.price * nats.clamp_min(self.floor).sum()

    def rate(self, step: int) -> float:
        """See `Schedule.rate`: above the floor."""
        return self.price

    def describe(self, key: str) -> str:
        """See `Schedule.describe`."""
        price = "" if self.price == 1 else f"{format_number(self.price)}·"
        return f"{key} ↦ {price}Σ_l max({format_number(self.floor)}, {key}_l)"

    def endpoints(self) -> None:
        """See `Schedule.endpoints`."""

    def check(self, what: str) -> None:
        """See `Schedule.check`."""
        expect(self.floor >= 0, f"floor of {what} must be 0 nats or more", found=self.floor)


@dataclass(frozen=True)
class Step(Schedule):
    """`start`, multiplied by `factor` after every `steps` steps: for learning rates.

    >>> Step(0.1, 0.5, steps=10).value_at(25)
    0.025
    """

    start: float
    factor: float
    steps: int

    def value_at(self, step: int) -> float:
        """See `Schedule.value_at`."""
        return self.start * self.factor ** (step // self.steps)

    def check(self, what: str) -> None:
        """See `Schedule.check`."""
        super().check(what)
        expect(0 < self.factor <= 1, f"factor of {what} must lie in (0, 1]", found=self.factor)


@dataclass(frozen=True)
class WarmUp(Schedule):
    """Linear over `steps` from nearly 0 to the first value of `then`, a number or a schedule that starts there.

    >>> WarmUp(10, then=Cosine(1.0, 0.0, steps=100)).value_at(4)
    0.5
    """

    steps: int
    then: Price

    def value_at(self, step: int) -> float:
        """See `Schedule.value_at`."""
        first = value_at(self.then, 0)
        return first * ((step + 1) / self.steps) if step < self.steps else value_at(self.then, step - self.steps)

    def endpoints(self) -> tuple[float, ...] | None:
        """See `Schedule.endpoints`."""
        after = as_schedule(self.then).endpoints()
        return None if after is None else (0.0, *after)

    def check(self, what: str) -> None:
        """See `Schedule.check`."""
        super().check(what)
        expect(
            as_schedule(self.then).endpoints() is not None,
            f"'then' of {what} must be a number or a schedule between two numbers",
        )


@dataclass(frozen=True)
class Stages(Schedule):
    """One price after the other, each for its number of `steps`, counted from its own start; the last one stays.

    steps: how long each price but the last is charged. prices: numbers or schedules; a number first holds before it moves.

    >>> Stages([100, 50], [9.0, {"schedule": "linear", "start": 9, "stop": 1, "steps": 50}, 1.0]).value_at(125)
    5.0
    """

    steps: list[int]
    prices: list[Any]

    def _parsed(self) -> list[Price]:
        return [parse_price(price, "a price of stages") for price in self.prices]

    def value_at(self, step: int) -> float:
        """See `Schedule.value_at`."""
        *first, last = self._parsed()
        for price, steps in zip(first, self.steps, strict=True):
            if step < steps:
                return value_at(price, step)
            step -= steps
        return value_at(last, step)

    def endpoints(self) -> tuple[float, ...] | None:
        """See `Schedule.endpoints`."""
        found = [as_schedule(price).endpoints() for price in self._parsed()]
        return None if any(ends is None for ends in found) else tuple(end for ends in found if ends for end in ends)

    def check(self, what: str) -> None:
        """See `Schedule.check`."""
        expect(
            len(self.prices) == len(self.steps) + 1 and all(steps >= 1 for steps in self.steps),
            f"stages of {what} have a whole number of steps for every price but the last",
            found=f"{len(self.steps)} steps, {len(self.prices)} prices",
        )
        expect(self.endpoints() is not None, f"prices of {what} must be numbers or have two ends")


Price: TypeAlias = float | Schedule
SCHEDULES: dict[str, type[Schedule]] = {
    "linear": Linear,
    "cosine": Cosine,
    "cyclic": Cyclic,
    "geometric": Geometric,
    "step": Step,
    "warm_up": WarmUp,
    "stages": Stages,
    "capacity": Capacity,
    "free_bits": FreeBits,
}


def as_schedule(price: Price) -> Schedule:
    """Wrap `price` as a constant schedule if it is a number."""
    return price if isinstance(price, Schedule) else Constant(price)


def value_at(price: Price, step: int) -> float:
    """The value of a price at a step; of a capacity, C.

    Args:
        price: a number or a schedule.
        step: the training step.
    """
    return price.value_at(step) if isinstance(price, Schedule) else price


def schedule_name(price: Schedule) -> str:
    """The name of the schedule `price` in recipes."""
    return next((name for name, made in SCHEDULES.items() if type(price) is made), type(price).__name__.lower())


def format_number(number: Any) -> str:
    """Format `number`, or the symbol that stands for one."""
    return f"{number:g}" if isinstance(number, int | float) else str(number)


def parse_price(plain: Any, what: str = "price") -> Price:
    """Read a price: a number, or a table such as `{schedule = "linear", start = 0, stop = 4, steps = 1000}`.

    Args:
        plain: the value in the recipe.
        what: what the price is, for errors.

    >>> parse_price({"schedule": "linear", "start": 0, "stop": 4, "steps": 1000})
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
    name = plain.get("schedule", "")
    made = choose(name, SCHEDULES, "schedule")
    price = options.build_record(
        made, {k: v for k, v in plain.items() if k != "schedule"}, f"schedule {name!r} of {what}"
    )
    price.check(what)
    return price


def price_to_toml(price: Price) -> Any:
    """Write `price` as plain TOML, the inverse of `parse_price`."""
    if isinstance(price, Schedule):
        plain = {each.name: getattr(price, each.name) for each in fields(price)}  # type: ignore[arg-type]
        return {
            "schedule": schedule_name(price),
            **{key: price_to_toml(v) if isinstance(v, Schedule) else v for key, v in plain.items()},
        }
    return price
