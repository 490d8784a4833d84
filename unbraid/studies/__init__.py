"""Studies: one file per paper or question, with claims, tables and figures as code that runs.

`unbraid study` lists them, `unbraid study NAME` runs one or continues it.

>>> "pinwheel" in STUDIES
True
"""

from __future__ import annotations

from pathlib import Path

from unbraid.core.errors import choose
from unbraid.core.files import ensure_writable_folder, write_json
from unbraid.core.progress import Advance
from unbraid.studies.framework.study import Study, StudyOutput, no_progress
from unbraid.studies.trained import TRAINED_STUDIES

__all__ = ["STUDIES", "Study", "StudyOutput", "run_analytic_study"]


def _theory(out: Path, advance: Advance) -> StudyOutput:
    from unbraid.studies.analytic import theory

    return theory.main(out, advance)


def _hfvae_toy(out: Path, advance: Advance) -> StudyOutput:
    from unbraid.studies.analytic import hfvae_toy

    return hfvae_toy.main(out, advance)


def _isa_vae_toys(out: Path, advance: Advance) -> StudyOutput:
    from unbraid.studies.analytic import isa_vae_toys

    return isa_vae_toys.main(out, advance)


def _metric_sensitivity(out: Path, advance: Advance) -> StudyOutput:
    from unbraid.studies.analytic import metric_sensitivity

    return metric_sensitivity.main(out, advance)


def _priors_gallery(out: Path, advance: Advance) -> StudyOutput:
    from unbraid.studies.analytic import priors_gallery

    return priors_gallery.main(out, advance)


# Studies that train are the files of trained/. The others are imported when they run, because they import torch.
STUDIES: dict[str, Study] = {
    **TRAINED_STUDIES,
    "theory": Study(
        "what β does, and two warnings about minibatch estimates",
        "Mathieu et al. 2019; Kim & Mnih 2018",
        {"cpu": "1 min"},
        main=_theory,
        steps=3,
    ),
    "hfvae_toy": Study(
        "the four terms of the ELBO, each left out",
        "Esmaeili et al. 2018, Figs. 2, 3",
        {"cpu": "1 min"},
        main=_hfvae_toy,
        steps=5,
    ),
    "isa_vae_toys": Study(
        "what variational inference does to FA and ICA",
        "Stühmer et al. 2019, App. B",
        {"cpu": "3 min"},
        main=_isa_vae_toys,
        steps=405,
    ),
    "metric_sensitivity": Study(
        "two metrics against their settings",
        "Kim & Mnih 2018, Figs. 3, 16, 17",
        {"cpu": "2 min"},
        main=_metric_sensitivity,
        steps=37,
    ),
    "priors_gallery": Study(
        "densities of priors in the plane and on surfaces",
        "Mathieu et al. 2019, Figs. 5, 6; Stühmer et al. 2019, Figs. 2, 4",
        {"cpu": "15 s"},
        main=_priors_gallery,
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
