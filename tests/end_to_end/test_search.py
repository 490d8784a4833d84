"""The search of the site: queries in the words of beginners, and the page that must come first."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
QUERIES = {
    "own dataset": "tutorials/own_images",
    "own data set": "tutorials/own_images",
    "custom dataset": "tutorials/own_images",
    "my pictures": "tutorials/own_images",
    "image folder": "tutorials/own_images",
    "learning rate": "training",
    "GPU": "training",
    "epochs": "training",
    "batch size": "training",
    "early stopping": "training",
    "resume training": "training",
    "beta-vae": "reference/objectives",
    "β-TCVAE": "reference/objectives",
    "install": "install",
    "how to install": "install",
    "pretrained": "pretrained",
    "find a pretrained model": "pretrained",
    "quickstart": "tutorials/first_model",
    "FID": "scope",
    "conditional": "scope",
    "weak supervision": "weak_supervision",
    "out of memory": "troubleshooting",
    "posterior collapse": "troubleshooting",
    "latent dimension": "latent",
    "custom loss": "extending#an-objective",
    "own metric": "extending#a-metric",
    "tensorboard": "tools",
    "onnx export": "tools",
    "slurm": "cluster",
    "hyperparameter search": "tutorials/sweep",
    "which objective": "tutorials/which_objective",
    "latex table": "tutorials/own_codes",
    "dSprites": "data",
    "plot latent traversal": "gallery",
    "reconstruction loss": "likelihoods",
    "command line": "reference/commands",
    "bibtex": "papers",
    "train on my own pictures": "tutorials/own_images",
    "use a GPU": "training",
    "change the learning rate": "training",
    "set lr": "training",
    "continue training": "training",
    "score codes from another framework": "tutorials/own_codes",
    "compare seeds": "comparing",
    "own dataset class": "data",
    "few labels": "weak_supervision",
    "find factors": "tutorials/discover_factors",
    "run on a cluster": "cluster",
    "older versions": "releases",
    "train on my own folder of pictures": "tutorials/own_images",
    "score my own codes": "tutorials/own_codes",
    "what does MIG mean": "reference/metrics#metric-mig",
    "MIG": "reference/metrics#metric-mig",
    "DCI": "reference/metrics#metric-dci",
    "how to choose beta": "tutorials/which_objective#how-to-choose",
    "what value of beta": "tutorials/which_objective#how-to-choose",
    "install cpu only": "install#which-torch",
    "resume a killed run": "training#stopping-and-resuming",
    "results table for my paper": "comparing",
    "compare runs to LaTeX": "comparing",
    "add my own encoder": "extending#your-own-net-from-the-command-line",
    "weak labels": "weak_supervision",
    "partially labelled data": "weak_supervision#labels",
    "export to ONNX": "tools#export",
    "run on SLURM": "cluster#a-batch-system-job-arrays",
    "sample new images": "tutorials/first_model#the-same-in-python",
    "load checkpoint": "tutorials/first_model#the-same-in-python",
    "tabular data": "data#your-own",
    "name a latent": "discover#names",
    "encode new images": "discover#new-pictures",
    "anomaly detection": "discover#new-pictures",
    "KL vanishing": "troubleshooting#leaves-are-dead-or-the-kl-collapses",
    "remote server": "studio#on-another-machine",
    "mps": "install#which-torch",
    "license": "index",
    "tutorial": "tutorials/first_model",
    "multiple GPUs": "cluster#one-run-over-several-devices",
}
SCRIPT = """
const fs = require("fs"), window = {};
eval(fs.readFileSync(process.argv[1] + "/search_pages.js", "utf8"));
const search = require(process.argv[1] + "/search.js");
const prepared = search.prepare(window.SEARCH_PAGES);
const found = {};
for (const query of JSON.parse(process.argv[2])) {
  const results = search.rank(prepared, query);
  const first = results[0];
  const link = r => r.page.name + (r.section && r.section.anchor ? "#" + r.section.anchor : "");
  found[query] = { names: results.slice(0, 3).map(link), text: search.snippet(first.section.text, first.terms) };
}
console.log(JSON.stringify(found));
"""


def ask(static: Path, queries: list[str]) -> dict:
    """The first three pages and the first snippet of each query, from the files of a built site."""
    command = ["node", "-e", SCRIPT, str(static), json.dumps(queries)]
    return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def leads_to(link: str, expected: str) -> bool:
    """Whether a link is the expected page, or the expected section if one is named."""
    return link == expected or ("#" not in expected and link.split("#")[0] == expected)


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("node") is None, reason="needs node to run the script of the search")
def test_words_of_beginners_lead_to_the_page_first(tmp_path):
    import sys

    pytest.importorskip("sphinx")
    sys.path.insert(0, str(ROOT / "docs"))
    try:
        import make
    finally:
        sys.path.pop(0)
    done = make.build_site(tmp_path / "site", "-d", str(tmp_path / "doctrees"))
    assert done.returncode == 0, done.stdout + done.stderr
    found = ask(tmp_path / "site" / "_static", list(QUERIES))
    wrong = {
        query: found[query]["names"] for query, page in QUERIES.items() if not leads_to(found[query]["names"][0], page)
    }
    assert not wrong
    assert all(len(found[query]["text"]) > 20 for query in QUERIES)
