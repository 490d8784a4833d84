"""What a study is: claims, arms and seeds, written down before anything runs; and what one without training hands back."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unbraid.core.progress import Advance
from unbraid.studies.framework.effects import Effect

if TYPE_CHECKING:
    from unbraid.runs.recipe import Recipe
    from unbraid.runs.run import Run
    from unbraid.studies.framework.results import Results

SCALES = ("tiny", "cpu", "paper")


@dataclass(frozen=True)
class Claim:
    """One sentence of a paper, and the contrast that judges it.

    `effect` gives a number per seed, positive on the claimed side. `printed` is the paper's number in words, `gap` its size
    in the effect's unit; where the paper prints none, `least` is the smallest effect of interest. `headline` claims want
    ten seeds or more, else the verdict is a pilot's. `most` > 0: its arms have only the first so many seeds (see `Arm`).
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

    @property
    def margin(self) -> float:
        """Effects within ± this count as none: a fifth of the paper's gap, or the smallest effect of interest."""
        return abs(self.paper_effect) / 5 if self.paper_effect is not None else (self.min_effect or 0.0)


@dataclass(frozen=True)
class Arm:
    """One setting of one method: a recipe, told apart from the others by its label. `method` groups arms in pictures.

    `most` > 0 gives an arm that no headline claim needs only the first so many seeds: seeds are spent where they decide.
    """

    label: str
    recipe: Mapping[str, Any]
    method: str = ""
    setting: float | None = None
    max_seeds: int = 0


@dataclass(frozen=True)
class StudyOutput:
    """The numbers of a study that trains nothing, a short table of them to print, and the pictures it wrote.

    >>> StudyOutput(("what", "value"), [("mig", "0.5")], {"mig": 0.5}).numbers
    {'mig': 0.5}
    """

    columns: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]
    numbers: dict[str, Any]
    pictures: tuple[str, ...] = ()


@dataclass(frozen=True)
class Study:
    """An entry of `STUDIES`.

    A study that trains has `arms(scale)`, seeds per scale, the metrics to score, `measure(run)` for numbers of its own, and
    `figures(results, runs folder, out)`; `together(runs)` gives numbers that need all runs of one arm at once, a dict for each.
    One that only draws has `call(out, advance)`, which advances `steps` times.

    >>> from unbraid.studies import STUDIES
    >>> STUDIES["pinwheel"].cite
    'Mathieu et al. 2019, Sec. 6.2 and Fig. 3'
    """

    about: str
    cite: str
    cost: Mapping[str, str] = field(default_factory=dict)
    claims: tuple[Claim, ...] = ()
    arms: Callable[[str], Sequence[Arm]] | None = None
    seeds: Mapping[str, Sequence[int]] = field(default_factory=dict)
    score: Mapping[str, Any] = field(default_factory=dict)
    measure: Callable[[Run], dict[str, float]] | None = None
    measure_jointly: Callable[[Sequence[Run]], Sequence[dict[str, float]]] | None = None
    figures: Callable[[Results, Path, Path], Sequence[str]] | None = None
    deviations: str = ""
    main: Callable[[Path, Advance], StudyOutput] | None = None
    steps: int = 0


def study_recipes(study: Study, name: str, scale: str, seeds: Sequence[int]) -> list[tuple[Arm, int, Recipe]]:
    """Every run of a study at one scale: its arm, its seed and its recipe, seed by seed: one cut short has whole pairs."""
    from unbraid.runs.recipe import Recipe

    assert study.arms is not None
    return [
        (arm, seed, Recipe.from_dict({**arm.recipe, "name": f"{name}-{arm.label}", "seed": seed}, f"study {name!r}"))
        for place, seed in enumerate(seeds)
        for arm in study.arms(scale)
        if not arm.max_seeds or place < arm.max_seeds
    ]


def no_progress(n: int = 1, note: str = "") -> None:
    """An `advance` that shows nothing."""
