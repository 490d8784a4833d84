"""Make the figures and numbers of the tutorials `which_objective` and `latent_tree`, which train for minutes.

    python docs/make/tutorials.py [--work FOLDER]      seven runs in FOLDER (about six minutes on one core)

Trains the runs of the pages, draws docs/pictures/tutorials/, and prints the tables of the pages.
"""

from __future__ import annotations

import argparse
import re
import tempfile
from pathlib import Path

import numpy as np

DOCS = Path(__file__).resolve().parents[1]
PICTURES = DOCS / "pictures" / "tutorials"
OBJECTIVE_PAIRS = (("vae", "beta_vae"), ("beta_tcvae", "factor_vae"), ("dip_vae_i", "wae"))
TABLE_COLUMNS = ("mig", "dci", "factor_vae", "reconstruction", "mi", "tc:root", "dw")


def compare_objectives(work: Path) -> None:
    """Run the sweep of the page in a folder, print its table and draw its figures."""
    import unbraid
    from unbraid.figures import traversals

    page = (DOCS / "tutorials" / "which_objective.md").read_text()
    found = re.search(r"```toml file=objectives.toml\n(.*?)```", page, re.DOTALL)
    assert found
    (work / "objectives.toml").write_text(found[1])
    unbraid.sweep(work / "objectives.toml", work / "objectives", workers=1)
    found_runs = [unbraid.Run.load(path.parent) for path in sorted((work / "objectives").glob("*/recipe.toml"))]
    runs = {run.recipe.objective["name"]: run for run in found_runs}
    for name, run in runs.items():
        audited = unbraid.audit(run)["nats"]
        scored = unbraid.score(run, metrics="mig,dci,factor_vae")
        shown = [f"{scored[m].value:.2f}".lstrip("0") if m in TABLE_COLUMNS[:3] else f"{audited[m]:.1f}" for m in TABLE_COLUMNS]
        print(f"| `{name}` | " + " | ".join(shown) + " |")
    for left, right in OBJECTIVE_PAIRS:
        two = [(name, runs[name], runs[name].codes()) for name in (left, right)]
        traversals.side_by_side(two).savefig(PICTURES / f"which_{left}.png", dpi=100)


def train_tree_model(work: Path) -> None:
    """Train the run of the page in a folder, draw its traversals, and print the information of its discrete leaf."""
    import unbraid
    from unbraid.figures import registry

    path = work / "tree"
    run = (
        unbraid.Run.load(path) if (path / "model.safetensors").is_file() else unbraid.fit("hfvae_colour_sprites", path)
    )
    codes = run.codes() if (path / "codes.npz").is_file() else unbraid.encode(run)
    print(unbraid.score(run, metrics="mig,dci"))
    registry.write_figure("traversals", run, PICTURES / "tree_traversals.png")
    leaf = codes.mean[:, :3].argmax(1)
    for factor in codes.factors.names:
        truth = codes.values[:, codes.factors.names.index(factor)].astype(int)
        print(factor)
        print(np.array([[np.sum((leaf == a) & (truth == b)) for b in range(truth.max() + 1)] for a in range(3)]))


def main() -> None:
    """Train or open the runs, draw, print."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--work", type=Path, default=None, help="where runs are, or go (default: a new temporary folder)")
    given = options.parse_args()
    given.work = given.work or Path(tempfile.mkdtemp(prefix="unbraid-tutorials-"))
    print(f"runs: {given.work}")
    given.work.mkdir(parents=True, exist_ok=True)
    train_tree_model(given.work)
    compare_objectives(given.work)


if __name__ == "__main__":
    main()
