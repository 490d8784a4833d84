"""Studies: one file per paper or question; each table and figure as code that runs.

`unbraid study` lists them, `unbraid study NAME --out DIR` runs one.

>>> sorted(STUDIES)
['hfvae_toy', 'isa_vae_toys', 'metric_sensitivity', 'theory']
"""

from __future__ import annotations

from pathlib import Path

from unbraid.ground.errors import choose
from unbraid.ground.files import writable, write_json
from unbraid.ground.progress import Advance
from unbraid.studies.study import Findings, Study, still

__all__ = ["STUDIES", "Findings", "Study", "run"]


def _theory(out: Path, advance: Advance) -> Findings:
    from unbraid.studies import theory

    return theory.main(out, advance)


def _hfvae_toy(out: Path, advance: Advance) -> Findings:
    from unbraid.studies import hfvae_toy

    return hfvae_toy.main(out, advance)


def _isa_vae_toys(out: Path, advance: Advance) -> Findings:
    from unbraid.studies import isa_vae_toys

    return isa_vae_toys.main(out, advance)


def _metric_sensitivity(out: Path, advance: Advance) -> Findings:
    from unbraid.studies import metric_sensitivity

    return metric_sensitivity.main(out, advance)


# Each is imported when it is called: the list must not wait for torch.
STUDIES: dict[str, Study] = {
    "theory": Study(
        "what β does, and two warnings about minibatch estimates",
        "Mathieu et al. 2019; Kim & Mnih 2018",
        call=_theory,
        steps=3,
    ),
    "hfvae_toy": Study(
        "the four terms of the ELBO, each left out", "Esmaeili et al. 2018, Figs. 2, 3", call=_hfvae_toy, steps=5
    ),
    "isa_vae_toys": Study(
        "what variational inference does to FA and ICA", "Stühmer et al. 2019, App. B", call=_isa_vae_toys, steps=405
    ),
    "metric_sensitivity": Study(
        "two metrics against their settings", "Kim & Mnih 2018, Figs. 3, 16, 17", call=_metric_sensitivity, steps=37
    ),
}


def run(name: str, out: str | Path, advance: Advance = still) -> Findings:
    """Run a study: its pictures and NAME.json go to the folder, its findings come back."""
    study, folder = choose(name, STUDIES, "study"), writable(Path(out))
    assert study.call is not None
    found = study.call(folder, advance)
    write_json(folder / f"{name}.json", {"study": name, "cite": study.cite, "numbers": found.numbers})
    return found
