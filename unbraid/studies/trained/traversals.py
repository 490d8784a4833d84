"""Gallery of traversals from an image and from code 0, for one seed; it has no claims.

Esmaeili et al. 2018, Figs. 5, 8, 11; Kim & Mnih 2018, Figs. 6, 13–15. Data sets that need a licence are at scale `paper`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unbraid.studies.framework.paper_numbers import ESMAEILI, KIM
from unbraid.studies.framework.results import Results
from unbraid.studies.framework.shared_settings import printed_settings
from unbraid.studies.framework.study import Arm, Study

if TYPE_CHECKING:
    from unbraid.runs.run import Run

TREE = {"digit": "onehot(10)", "style": 10}
HFVAE_OBJECTIVE: dict[str, Any] = {"name": "hfvae", "beta": 4.0, "gamma": 3.0}
RATE = {"schedule": "linear", "start": 5e-3, "stop": 5e-4, "steps": 2500}  # as in hfvae_zero_shot
TEMPERATURE = {"schedule": "linear", "start": 1.0, "stop": 0.5, "steps": 2000}
BUDGET: dict[str, dict[str, Any]] = {
    "tiny": {"batch": 64, "steps": 12, "threads": 1, "log_every": 4},
    "cpu": {"batch": 64, "steps": 2500, "lr": RATE, "threads": 1, "log_every": 50},
}
PAPER_ARMS = {  # label → recipe that the paper prints
    "mnist-hfvae": "hfvae_mnist_printed",
    "mnist-beta": "beta_vae_mnist_hfvae",
    "fashion-hfvae": "hfvae_fashion_mnist_printed",
    "celeba-hfvae": "hfvae_celeba",
    "celeba-beta_hfvae": "beta_vae_celeba_hfvae",
    "dsprites-beta": "beta_vae_2dshapes_printed",
    "dsprites-factor": "factor_vae_2dshapes_printed",
    "faces3d-beta": "beta_vae_faces3d",
    "faces3d-factor": "factor_vae_faces3d",
    "chairs-beta": "beta_vae_chairs",
    "chairs-factor": "factor_vae_chairs",
    "celeba-beta": "beta_vae_celeba",
    "celeba-factor": "factor_vae_celeba",
    "shapes3d-beta": "beta_vae_shapes3d",
    "shapes3d-factor": "factor_vae_shapes3d",
}


def arms(scale: str) -> list[Arm]:
    """HFVAE and β-VAE on digits and clothes; at `paper` also 2D Shapes, Chairs, 3D Faces and CelebA.

    Args:
        scale: 'tiny', 'cpu' or 'paper'.
    """
    if scale == "paper":
        return [Arm(label, printed_settings(recipe), label.split("-")[1]) for label, recipe in PAPER_ARMS.items()]
    sets: dict[str, dict[str, Any]] = {"strokes": {"name": "strokes"}}
    if scale != "tiny":
        sets |= {"mnist": {"name": "mnist", "size": 32}, "fashion": {"name": "fashion_mnist", "size": 32}}
    made = []
    for short, data in sets.items():
        table = {**data, **({"subsample": 400} if scale == "tiny" else {})}
        base = {"data": table, "nets": {"name": "hfvae_table3"}, "budget": BUDGET[scale]}
        mixed = {"latent": TREE, "objective": HFVAE_OBJECTIVE, "posterior": {"temperature": TEMPERATURE}}
        made.append(Arm(f"{short}-hfvae", {**base, **mixed}, "HFVAE"))
        made.append(
            Arm(f"{short}-beta", {**base, "latent": 10, "objective": {"name": "beta_vae", "beta": 4.0}}, "β-VAE")
        )
    return made


def measure(run: Run) -> dict[str, float]:
    """Reconstruction, number of active leaves, and class information of a discrete leaf.

    Args:
        run: the run.
    """
    from unbraid.runs.evaluation.auditing import audit

    books = audit(run, components=10_000, rows=512, quiet=True)
    nats = books["leaf_mi"]
    found = {"reconstruction": books["nats"]["reconstruction"], "in_use": sum(value > 0.1 for value in nats.values())}
    discrete = [nats[leaf.name] for leaf in run.model.tree.leaves if leaf.kind != "real"]
    if discrete:
        found["discrete"] = sum(discrete)
    return {name: float(value) for name, value in found.items()}


def figures(results: Results, runs: Path, out: Path) -> Sequence[str]:
    """Plot every arm from −3 to 3 around an image; HFVAE also from code 0.

    Args:
        results: the results.
        runs: folder of the runs.
        out: folder for the figures.
    """
    from unbraid.figures.registry import FigureOptions, write_figure
    from unbraid.runs.run import Run

    names = []
    for arm in results.arms:
        for seed in results.seeds(arm)[:1]:
            run = Run.load(runs / str(results.metadata["runs"][f"{arm}/{seed}"]))
            for zero in (False, True) if "hfvae" in arm else (False,):
                names.append(f"traversals_{arm}{'_zero' if zero else ''}.png")
                write_figure("traversals", run, out / names[-1], FigureOptions(low=-3.0, high=3.0, zero=zero), dpi=80)
    return names


STUDY = Study(
    about="a gallery of traversals from −3 to 3, from an image and from code 0",
    cite=f"{ESMAEILI}, Figs. 5, 8, 11; {KIM}, Figs. 6, 13–15",
    cost={"tiny": "5 s", "cpu": "5 min", "paper": "15 runs × 1–20 h"},
    arms=arms,
    seeds={"tiny": (0,), "cpu": (0,), "paper": (0,)},
    measure=measure,
    figures=figures,
    deviations="2,500 steps at batch 64, the columns that carry less than 0.05 nats are left out. MNIST and Fashion-MNIST need "
    "their files ('unbraid data make mnist'); drawn strokes need none. Pictures of one seed judge nothing: there are "
    "no claims here. Below scale paper HFVAE's code is charged by its relaxed density, under which it dies.",
)
