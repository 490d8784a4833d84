"""Gates: conditions on the instrument that a claim's runs must meet before its contrast is judged.

A gate looks at means over all seeds of the study's own runs, drops no seed, and never uses the claimed quantity itself to
prefer an answer. A claim whose gate fails is not tested here: the setting could not have shown the effect.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from unbraid.studies.framework.results import Results


@dataclass(frozen=True)
class Gate:
    """A condition and the numbers it was checked on.

    Args:
        text: the condition, as the page prints it.
        check: maps results to whether it is met and to the numbers as text; None where they were not measured.
    """

    text: str
    check: Callable[[Results], tuple[bool, str] | None]


@dataclass(frozen=True)
class GateOutcome:
    """The outcome of a gate.

    Args:
        text: the condition.
        passed: whether it is met; False where its numbers were not measured.
        found: the numbers as text.
    """

    text: str
    passed: bool
    found: str


def check_gates(gates: Sequence[Gate], results: Results) -> list[GateOutcome]:
    """Check the gates of a claim.

    Args:
        gates: the gates.
        results: the results of the study.
    """
    return [GateOutcome(gate.text, *(gate.check(results) or (False, "not measured"))) for gate in gates]


def _arm_means(results: Results, arms: Sequence[str], quantity: str) -> list[float] | None:
    """The mean of a quantity over the finished seeds of each arm; None if an arm has none."""
    values = [results.values(arm, quantity) for arm in arms]
    return [float(np.mean(each)) for each in values] if all(values) else None


def alive(arms: Sequence[str], quantity: str = "active", at_least: float = 1.0) -> Gate:
    """Every arm uses latents: its mean number of active ones is at least `at_least`.

    Args:
        arms: labels of the arms.
        quantity: name of the number of active latents.
        at_least: the smallest mean.
    """
    words = "arms are alive: {:g} active latents or more" if quantity == "active" else f"{quantity} is {{:g}} or more"
    return _every(words.format(at_least), arms, quantity, lambda v: v >= at_least)


def reconstructs(arms: Sequence[str], share: float = 0.9) -> Gate:
    """Every arm reconstructs better than the mean image: its reconstruction is at most `share` of the mean image's.

    Args:
        arms: labels of the arms.
        share: the largest ratio of `reconstruction` to `mean_image`, both in nats.
    """

    def check(results: Results) -> tuple[bool, str] | None:
        found, flat = (_arm_means(results, arms, quantity) for quantity in ("reconstruction", "mean_image"))
        if found is None or flat is None or not all(flat):
            return None
        largest = max(a / b for a, b in zip(found, flat, strict=True))
        return largest <= share, f"largest ratio {largest:.2f}"

    return Gate(f"arms reconstruct better than the mean image, by a ratio of {share:g} or less", check)


def explains(arms: Sequence[str], share: float = 0.6) -> Gate:
    """Every arm leaves at most `share` of the nats between a perfect model and the mean image: for images of grey levels.

    Args:
        arms: labels of the arms.
        share: the largest mean of `unexplained` (see `measurements.unexplained_share`).
    """
    text = f"arms leave {share:g} or less of the nats between a perfect model and the mean image"
    return _every(text, arms, "unexplained", lambda value: value <= share)


def in_range(quantity: str, arms: Sequence[str], chance: float, ceiling: float, above: float = 0.1) -> Gate:
    """A metric can tell arms apart: the best mean is `above` its chance level and below its ceiling.

    Args:
        quantity: name of the metric.
        arms: labels of the arms of the contrast.
        chance: what codes that know nothing score.
        ceiling: what the best arm must stay below.
        above: the distance from chance that one arm must reach.
    """

    def check(results: Results) -> tuple[bool, str] | None:
        means = _arm_means(results, arms, quantity)
        return None if means is None else (chance + above <= max(means) < ceiling, f"best mean {max(means):.3g}")

    return Gate(f"{quantity} is away from chance ({chance:g}) and ceiling ({ceiling:g})", check)


def lowers(quantity: str, arm: str, baseline: str, text: str = "") -> Gate:
    """A penalty works: its arm has less of what it penalises than the arm without it.

    Args:
        quantity: name of the penalised number, such as the exact total correlation.
        arm: label of the arm with the penalty.
        baseline: label of the arm without.
        text: the condition in words.
    """

    def check(results: Results) -> tuple[bool, str] | None:
        means = _arm_means(results, (arm, baseline), quantity)
        return None if means is None else (means[0] < means[1], f"{means[0]:.3g} against {means[1]:.3g}")

    return Gate(text or f"{quantity} of {arm} lies below that of {baseline}", check)


def carries(quantity: str, arms: Sequence[str], nats: float = 0.1) -> Gate:
    """A discrete code is used: it carries information in at least one arm.

    Args:
        quantity: name of the information in nats.
        arms: labels of the arms.
        nats: the smallest mean of the best arm.
    """

    def check(results: Results) -> tuple[bool, str] | None:
        means = [mean for arm in arms for mean in _arm_means(results, [arm], quantity) or ()]
        return (max(means) >= nats, f"best mean {max(means):.3g} nats") if means else None

    return Gate(f"the discrete code carries {nats:g} nats or more in one arm", check)


def at_most(quantity: str, arm: str, limit: float, text: str) -> Gate:
    """A baseline is trained: a number of its arm is at most a stated limit.

    Args:
        quantity: name of the number, such as the reconstruction.
        arm: label of the arm.
        limit: the limit.
        text: the condition in words.
    """
    return _every(text, [arm], quantity, lambda value: value <= limit)


def working_arms(
    arms: Sequence[str], quantity: str = "", chance: float = 0.0, ceiling: float = 0.95, at_least: float = 3.0
) -> tuple[Gate, ...]:
    """The usual gates of a contrast: arms are alive, reconstruct at half the nats of the mean image, and can be told apart.

    Args:
        arms: labels of the arms of the contrast.
        quantity: name of the metric; without one its range is not checked.
        chance: what codes that know nothing score.
        ceiling: what the best arm must stay below.
        at_least: the smallest mean number of active latents.
    """
    seen = (in_range(quantity, arms, chance, ceiling),) if quantity else ()
    return (alive(arms, at_least=at_least), reconstructs(arms, share=0.5), *seen)


def first_measured(*alternatives: Sequence[Gate]) -> tuple[Gate, ...]:
    """Gates of several grids: of each gate the first alternative whose arms were run, for grids that differ between scales.

    Args:
        alternatives: the gates of each grid in the same order, those of the preferred grid first.
    """

    def combine(gates: Sequence[Gate]) -> Gate:
        checks = [gate.check for gate in gates]
        return Gate(gates[0].text, lambda results: next((f for c in checks if (f := c(results)) is not None), None))

    return tuple(combine(gates) for gates in zip(*alternatives, strict=True))


def _every(text: str, arms: Sequence[str], quantity: str, met: Callable[[float], bool]) -> Gate:
    def check(results: Results) -> tuple[bool, str] | None:
        means = _arm_means(results, arms, quantity)
        if means is None:
            return None
        return all(map(met, means)), ", ".join(f"{a} {mean:.3g}" for a, mean in zip(arms, means, strict=True))

    return Gate(text, check)
