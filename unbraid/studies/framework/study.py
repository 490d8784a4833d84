"""Study records: claims, arms and seeds, fixed before anything runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unbraid.core.progress import Advance
from unbraid.studies.framework.effects import Effect, PooledEffect
from unbraid.studies.framework.gates import Gate

if TYPE_CHECKING:
    from unbraid.runs import Recipe, Run
    from unbraid.studies.framework.results import Results

SCALES = ("tiny", "cpu", "paper")


@dataclass(frozen=True)
class Claim:
    """One statement of a paper and the contrast that judges it.

    Args:
        name: short name.
        text: the statement.
        source: paper and location.
        effect: one number per seed, positive on the claimed side.
        paper_value: the paper's number as text.
        paper_effect: size of the paper's effect, in the unit of `effect`.
        min_effect: smallest effect of interest, if the paper prints no number.
        unit: unit of the effect.
        headline: the claim needs ten seeds or more; with fewer, its verdict is marked as a pilot.
        max_seeds: if above 0, the claim's arms have only the first so many seeds (see `Arm`).
        gates: conditions that must be met before the claim is judged (see `gates`).
        question: the threshold or contrast is ours, no paper prints it.
        pooled: for a claim about all seeds at once, such as their median: judged in place of the mean of `effect`.
    """

    name: str
    text: str
    source: str
    effect: Effect
    paper_value: str = ""
    paper_effect: float | None = None
    min_effect: float | None = None
    unit: str = ""
    headline: bool = False
    max_seeds: int = 0
    gates: tuple[Gate, ...] = ()
    question: bool = False
    pooled: PooledEffect | None = None

    @property
    def margin(self) -> float:
        """Half-width of the range of effects that count as none: a fifth of the paper's effect, or `min_effect`."""
        return abs(self.paper_effect) / 5 if self.paper_effect is not None else (self.min_effect or 0.0)


@dataclass(frozen=True)
class Arm:
    """One setting of one method.

    Args:
        label: unique label.
        recipe: recipe of its runs, without name and seed.
        method: group of the arm in figures.
        setting: value of the setting.
        max_seeds: if above 0, only the first so many seeds are run: for expensive arms that no headline claim needs.
        seed_offset: what is added to the study's seed: arms that differ in nothing else are restarts of one setting.
    """

    label: str
    recipe: Mapping[str, Any]
    method: str = ""
    setting: float | None = None
    max_seeds: int = 0
    seed_offset: int = 0


@dataclass(frozen=True)
class StudyOutput:
    """Output of a study without training.

    Args:
        columns: heads of the printed table.
        rows: rows of the printed table.
        numbers: all numbers, for JSON.
        pictures: file names of the figures.

    >>> StudyOutput(("what", "value"), [("mig", "0.5")], {"mig": 0.5}).numbers
    {'mig': 0.5}
    """

    columns: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]
    numbers: dict[str, Any]
    pictures: tuple[str, ...] = ()


@dataclass(frozen=True)
class Study:
    """An entry of `STUDIES`: a study that trains has `arms`, one that does not has `main`.

    Args:
        about: the question in one line.
        cite: paper and location.
        cost: time on one core by scale, as text.
        claims: the claims to judge.
        controls: contrasts whose answer is known; they show that the measurement works.
        arms: maps a scale to arms.
        seeds: seeds by scale.
        measure: numbers of one run.
        measure_jointly: numbers that need several runs at once, one dict per run.
        joint_group: maps the label of an arm and a seed to the group that is measured jointly; by default the arm.
        figures: draws figures from results and runs folder into a folder, and returns their file names.
        deviations: how the setting differs from the paper.
        main: runs a study without training: folder and progress callback to output.
        steps: how often `main` advances its progress.

    >>> from unbraid.studies import STUDIES
    >>> STUDIES["pinwheel"].cite
    'Mathieu et al. 2019, Sec. 6.2 and Fig. 3'
    """

    about: str
    cite: str
    cost: Mapping[str, str] = field(default_factory=dict)
    claims: tuple[Claim, ...] = ()
    controls: tuple[Claim, ...] = ()
    arms: Callable[[str], Sequence[Arm]] | None = None
    seeds: Mapping[str, Sequence[int]] = field(default_factory=dict)
    measure: Callable[[Run], dict[str, float]] | None = None
    measure_jointly: Callable[[Sequence[Run]], Sequence[dict[str, float]]] | None = None
    joint_group: Callable[[str, int], object] = lambda arm, seed: arm
    figures: Callable[[Results, Path, Path], Sequence[str]] | None = None
    deviations: str = ""
    main: Callable[[Path, Advance], StudyOutput] | None = None
    steps: int = 0


def arm_recipe_fields(arm: Arm, name: str, seed: int) -> dict[str, Any]:
    """Fields of the recipe of one run.

    Args:
        arm: the arm.
        name: name of the study.
        seed: the study's seed.
    """
    return {**arm.recipe, "name": f"{name}-{arm.label}", "seed": seed + arm.seed_offset}


def study_recipes(study: Study, name: str, scale: str, seeds: Sequence[int]) -> list[tuple[Arm, int, Recipe]]:
    """Return arm, seed and recipe of every run, seed by seed, so that an interrupted study has complete pairs.

    Args:
        study: the study.
        name: its name.
        scale: 'tiny', 'cpu' or 'paper'.
        seeds: the seeds.
    """
    from unbraid.runs import Recipe

    assert study.arms is not None
    return [
        (arm, seed, Recipe.from_dict(arm_recipe_fields(arm, name, seed), f"study {name!r}"))
        for place, seed in enumerate(seeds)
        for arm in study.arms(scale)
        if not arm.max_seeds or place < arm.max_seeds
    ]


def no_progress(n: int = 1, note: str = "") -> None:
    """A progress callback that shows nothing.

    Args:
        n: number of finished steps.
        note: text for the progress bar.
    """
