"""Every record carries keys into one table of papers, and no equation is cited of a text that is not at hand."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from typer.testing import CliRunner

import unbraid
from unbraid.cli import app
from unbraid.core.papers import PAPERS, papers_in
from unbraid.data import DATASETS
from unbraid.metrics import METRICS
from unbraid.runs.describing import citations
from unbraid.runs.run import Run

PACKAGE_ROOT = Path(unbraid.__file__).parent
OLD_RUNS = Path(__file__).parents[1] / "data" / "runs_of_0_1"
AVAILABLE_PAPERS = {
    "Esmaeili et al. 2018",
    "Kim & Mnih 2018",
    "Mathieu et al. 2019",
    "Kumar et al. 2017",
    "Stühmer et al. 2019",
}
LAST_EQUATION = {  # the highest equation number of each text
    "Esmaeili et al. 2018": 20,
    "Kim & Mnih 2018": 16,
    "Mathieu et al. 2019": 9,
    "Kumar et al. 2017": 8,
    "Stühmer et al. 2019": 23,
}
CITATION_PATTERN = r"[A-Z][\w\-]+(?: & [A-Z][\w\-]+| et al\.)? (?:19|20)\d\d"
LINES = [(kind, name, line) for kind, table in citations.citation_tables().items() for name, line in table.items()]


def test_every_record_has_keys():
    for kind, name, line in LINES:
        if line.startswith("your own data"):
            assert name in ("images", "vectors")
            continue
        assert papers_in(line), (kind, name)
        assert set(re.findall(CITATION_PATTERN, line)) <= set(PAPERS), (kind, name)


def test_every_metric_and_data_set_has_bibtex():
    assert len(METRICS) >= 25
    assert all(metric.papers for metric in METRICS.values())
    assert {name for name, source in DATASETS.items() if not source.papers} == {"images", "vectors"}


def test_what_is_called_ours_is_ours():
    ours = {name for kind, name, line in LINES if line == "this library" and kind in ("objective", "metric")}
    assert ours <= {"row", "r2", "reconstruction", "clustering_accuracy", "code_information"}


def test_bibtex_is_whole():
    entries = [paper.bibtex(key) for key, paper in PAPERS.items()]
    names = [re.match(r"@\w+\{([a-z0-9]+),", entry)[1] for entry in entries]
    assert len(set(names)) == len(names)
    for entry in entries:
        assert entry.count("{") == entry.count("}")
        assert re.search(r"  year = \{\d{4}\}", entry)
        assert not re.search(r"(?<!\\)&", entry)


def test_equations_are_cited_of_texts_at_hand_only():
    for path in PACKAGE_ROOT.rglob("*.py"):
        text = " ".join(path.read_text().split())
        for paper, numbers in re.findall(rf"({CITATION_PATTERN}),? \(?Eqs?\. ((?:\d+(?:–|, | and )?)+)", text):
            assert paper in AVAILABLE_PAPERS, f"{path.name} cites an equation of {paper}"
            assert max(int(n) for n in re.findall(r"\d+", numbers)) <= LAST_EQUATION[paper], (
                f"{path.name}: {paper}, {numbers}"
            )
        assert not re.search(r"Kumar et al\. 2017[^;.\"]*Eqs?\.[^;.\"]*7", text), f"{path.name}: Kumar's Eq. 7 is β-VAE"


def test_cite_names_and_runs(tmp_path):
    def cite_output(*arguments):
        done = CliRunner().invoke(app, ["cite", *arguments])
        assert done.exit_code == 0, done.output
        return done.output

    assert "Kim & Mnih 2018, Sec. 4" in cite_output("factor_vae")
    assert cite_output("info_gan", "--bibtex").count("@inproceedings") == 2
    assert "Hyvärinen" in cite_output("mcc", "--bibtex")
    run = Path(shutil.copytree(OLD_RUNS / "hfvae_discrete", tmp_path / "run"))
    text = cite_output(str(run))
    for what in (
        "objective hfvae",
        "estimator stratified",
        "prior discrete",
        "data set ",
        "metric mig",
        "optimiser adam",
    ):
        assert f"% {what}" in text
    for key in citations.paper_keys(citations.run_citations(Run.load(run))):
        assert PAPERS[key].bibtex(key) in text
    assert "@misc{burgess" not in text
