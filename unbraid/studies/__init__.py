"""Studies: one file per paper or question, with claims, tables and figures as code that runs.

`unbraid study` lists them, `unbraid study NAME` runs one or continues it.

>>> "pinwheel" in STUDIES
True
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path

from unbraid.core.errors import choose
from unbraid.core.files import ensure_writable_folder, write_json
from unbraid.core.progress import Advance
from unbraid.studies.framework.study import Study, StudyOutput, no_progress
from unbraid.studies.trained import TRAINED_STUDIES

__all__ = ["STUDIES", "Study", "StudyOutput", "run_analytic_study"]


def _analytic_main(module: str) -> Callable[[Path, Advance], StudyOutput]:
    """The function `main` of a study without training, whose module imports torch and is imported when it runs."""

    def main(out: Path, advance: Advance) -> StudyOutput:
        return import_module(f"unbraid.studies.analytic.{module}").main(out, advance)

    return main


# Studies that train are the files of trained/.
STUDIES: dict[str, Study] = {
    **TRAINED_STUDIES,
    "theory": Study(
        "what β does, and two warnings about minibatch estimates",
        "Mathieu et al. 2019; Kim & Mnih 2018",
        {"cpu": "1 min"},
        main=_analytic_main("theory"),
        steps=3,
    ),
    "hfvae_toy": Study(
        "the four terms of the ELBO, each left out",
        "Esmaeili et al. 2018, Figs. 2, 3",
        {"cpu": "1 min"},
        main=_analytic_main("hfvae_toy"),
        steps=5,
    ),
    "isa_vae_toys": Study(
        "what variational inference does to FA and ICA",
        "Stühmer et al. 2019, App. B",
        {"cpu": "3 min"},
        main=_analytic_main("isa_vae_toys"),
        steps=405,
    ),
    "metric_sensitivity": Study(
        "two metrics against their settings",
        "Kim & Mnih 2018, Figs. 3, 16, 17",
        {"cpu": "2 min"},
        main=_analytic_main("metric_sensitivity"),
        steps=37,
    ),
    "priors_gallery": Study(
        "densities of priors in the plane and on surfaces",
        "Mathieu et al. 2019, Figs. 5, 6; Stühmer et al. 2019, Figs. 2, 4",
        {"cpu": "15 s"},
        main=_analytic_main("priors_gallery"),
        steps=16,
    ),
}


def run_analytic_study(name: str, out: str | Path, advance: Advance = no_progress) -> StudyOutput:
    """Run a study without training: write its figures and NAME.json, and return its output.

    Args:
        name: name of the study.
        out: folder for the files; created if missing.
        advance: progress callback.

    >>> run_analytic_study("nothing", tmp)    # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    unbraid.core.errors.UnbraidError: unknown study 'nothing'. ...
    """
    study, folder = choose(name, STUDIES, "study"), ensure_writable_folder(Path(out))
    assert study.main is not None
    found = study.main(folder, advance)
    write_json(folder / f"{name}.json", {"study": name, "cite": study.cite, "numbers": found.numbers})
    return found
