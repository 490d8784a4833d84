"""Index page of all results: every claim of every study with its verdict, computed from the results files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from unbraid.comparing.statistics import one_sample_contrast
from unbraid.core.files import ensure_writable_folder, read_bytes, write_bytes, write_text
from unbraid.studies import STUDIES
from unbraid.studies.framework.paper_numbers import ESMAEILI, KIM, KUMAR, MATHIEU, STUEHMER
from unbraid.studies.framework.paper_summaries import summary_of
from unbraid.studies.framework.results import RESULTS_FILE, Results
from unbraid.studies.framework.study import Study
from unbraid.studies.framework.study_page import (
    OWN_STUDY_CITE,
    PAGE_FILE,
    VERDICT_MARKS,
    judge_study,
    table_row,
)
from unbraid.studies.framework.verdicts import NOT_TESTED, Verdict

if TYPE_CHECKING:
    from matplotlib.figure import Figure

INDEX_FILE, CLAIMS_PLOT_FILE = "index.md", "claims.png"
MAX_DRAWN_EFFECT = 100  # larger ratios, of claims with tiny intervals, are drawn here
COLOURS = {"holds": "#1a7f4b", "does not hold": "#b3372f", "undecided": "#b08a1e", "not tested here": "#8a8f98"}
TITLE = "# Which claims of the papers hold?"
HEADLINES = "## Headline claims by paper"
RULE = """Each claim was tested by training with paired seeds. The verdict follows from the t interval of its effect over
seeds, at the 95% level with Holm's correction over the claims of its page:

- **holds**: the interval is on the claimed side of 0;
- **does not hold**: it is on the other side, or so narrow around 0 that the effect is too small to matter;
- **undecided**: neither. More seeds may decide it;
- **not tested here**: our setting could not have shown the effect (a collapsed model, a saturated metric, a critic at chance).

A claim is tested only if its gates are met: conditions on the same runs, such as that models are alive and the metric is
away from floor and ceiling. Pages that were declared without gates say so.

A verdict applies to the setting of its page, which lists the differences from the paper. *Pilot* marks a headline
claim with fewer than ten seeds."""

CAPTION = (
    "One dot per claim: its effect divided by half the width of its interval. Right of 1 the interval is on the claimed "
    "side of 0, left of −1 on the other side. A red dot between −1 and 1 has an interval so narrow that the effect is too "
    "small to matter."
)
REPLICATIONS = {"isa_tradeoff": "isa_latents"}  # study → study with the same recipes and further seeds
NOT_JUDGED = "– not judged: fewer than 2 seeds"
PLURALS = {"holds": "hold", "does not hold": "do not hold"}
METHODS = {  # by the first paper that a study cites
    ESMAEILI: "HFVAE",
    KIM: "FactorVAE",
    KUMAR: "DIP-VAE",
    MATHIEU: "α-β decomposition",
    STUEHMER: "ISA-VAE",
    "Locatello et al. 2020": "weak supervision",
}


def load_all_results(folder: Path) -> dict[str, Results]:
    """Load the results in the subfolders of a folder, by study.

    Args:
        folder: folder of results, such as docs/results.
    """
    return {path.parent.name: Results.load(path) for path in sorted(folder.glob(f"*/{RESULTS_FILE}"))}


def index_markdown(folder: Path) -> str:
    """Return the index page of a folder of results as Markdown.

    Args:
        folder: folder of results.
    """
    known = load_all_results(folder)
    judged = {
        name: judge_study(study, known[name]) for name, study in STUDIES.items() if name in known and study.claims
    }
    waiting = [name for name, study in STUDIES.items() if study.claims and name not in known]
    every = [verdict for verdicts in judged.values() for verdict in verdicts]
    untested = sum(verdict.decision == NOT_TESTED for verdict in every)
    decisions = [v.decision for v in every if v.contrast.n > 1 and v.decision != NOT_TESTED]
    alone = len(every) - len(decisions) - untested
    counts = {mark: decisions.count(mark) for mark in VERDICT_MARKS if mark != NOT_TESTED}
    counted = ", ".join(f"{n} {mark if n == 1 else PLURALS.get(mark, mark)}" for mark, n in counts.items())
    parts = [
        TITLE,
        f"{len(judged)} of {len(judged) + len(waiting)} studies have run; {len(decisions)} claims judged: {counted}.",
    ]
    parts[-1] += f" {untested} more could not be tested in our settings: a gate failed." if untested else ""
    parts[-1] += f" {alone} more have at most one seed and are not judged." if alone else ""
    parts += [_tally(judged)] if judged else []
    parts += [summaries] if (summaries := _summaries(judged)) else []
    parts += [RULE, *([f"![One dot per claim, by study]({CLAIMS_PLOT_FILE})\n\n{CAPTION}"] if decisions else [])]
    parts += [headlines] if (headlines := _headline_claims(judged)) else []
    for name, verdicts in judged.items():
        parts.append(_section(name, STUDIES[name], verdicts))
        if REPLICATIONS.get(name) in known:
            parts.append(replication_markdown(name, known[name], REPLICATIONS[name], known[REPLICATIONS[name]]))
    shown = [name for name, study in STUDIES.items() if name in known and not study.claims]
    if shown:
        parts.append("Studies without claims: " + ", ".join(f"[{name}]({name}/page.md)" for name in shown) + ".")
    if waiting:
        parts.append("Not run yet: " + ", ".join(f"`{name}`" for name in waiting) + ".")
    return "\n\n".join(parts) + "\n"


def _tally(verdicts_by_study: Mapping[str, Sequence[Verdict]]) -> str:
    """Table of verdict counts by paper."""
    papers = _studies_by_paper(verdicts_by_study)
    lines = [
        f"| paper | tested | {' | '.join(VERDICT_MARKS.values())} | studies |",
        "|---" * (len(VERDICT_MARKS) + 3) + "|",
    ]
    for paper, names in papers.items():
        decisions = [v.decision for name in names for v in verdicts_by_study[name] if v.contrast.n > 1]
        links = ", ".join(f"[{name}]({name}/page.md)" for name in names)
        numbers = " | ".join(str(decisions.count(decision)) for decision in VERDICT_MARKS)
        tested = sum(decision != NOT_TESTED for decision in decisions)
        lines.append(f"| {_paper_title(paper)} | {tested} | {numbers} | {links} |")
    return "\n".join(lines)


def _summaries(verdicts_by_study: Mapping[str, Sequence[Verdict]]) -> str:
    """One sentence per paper on what stands."""
    lines = [
        f"- **{_paper_title(paper)}**: {text}"
        for paper in _studies_by_paper(verdicts_by_study)
        if (text := summary_of(paper, verdicts_by_study))
    ]
    return "\n".join(lines)


def _headline_claims(verdicts_by_study: Mapping[str, Sequence[Verdict]]) -> str:
    """Section with the verdict of each headline claim, by paper; "" if there is none."""
    lines = []
    for paper, names in _studies_by_paper(verdicts_by_study).items():
        judged = [
            (verdict.decision, claim.text)
            for name in names
            for claim, verdict in zip(STUDIES[name].claims, verdicts_by_study[name], strict=True)
            if claim.headline and verdict.contrast.n > 1
        ]
        if judged:
            listed = "\n".join(f"- {VERDICT_MARKS[decision]}: {text}" for decision, text in judged)
            lines.append(f"**{_paper_title(paper)}**\n\n{listed}")
    return "\n\n".join([HEADLINES, *lines]) if lines else ""


def _studies_by_paper(verdicts_by_study: Mapping[str, Sequence[Verdict]]) -> dict[str, list[str]]:
    """Names of studies by the first paper that they cite; our own come last."""
    papers: dict[str, list[str]] = {}
    for name in verdicts_by_study:
        papers.setdefault(STUDIES[name].cite.split(",")[0], []).append(name)
    return dict(sorted(papers.items(), key=lambda item: (item[0] == OWN_STUDY_CITE, item[0])))


def _paper_title(paper: str) -> str:
    """The method of a paper with its authors, or a title for our own studies."""
    if paper == OWN_STUDY_CITE:
        return "our own questions"
    method = METHODS.get(paper.split(";")[0])
    return f"{method} ({paper})" if method else paper


def is_judged(verdict: Verdict) -> bool:
    """Whether a claim has a verdict: one seed gives no interval, and a failed gate needs none.

    Args:
        verdict: the verdict.
    """
    return verdict.contrast.n > 1 or verdict.decision == NOT_TESTED


def _section(name: str, study: Study, verdicts: Sequence[Verdict]) -> str:
    lines = [
        f"## [{name}]({name}/page.md): {study.about}",
        "",
        "| claim | verdict | ours (95%, before Holm) | n | paper |",
        "|---|---|---|---|---|",
    ]
    for claim, verdict in zip(study.claims, verdicts, strict=True):
        # one seed has no interval
        within = f" [{verdict.low:+.3g}, {verdict.high:+.3g}]" if verdict.contrast.n > 1 else ""
        ours = f"{verdict.contrast.mean:+.3g}{within} {claim.unit}" if verdict.contrast.n else "not measured"
        pilot = " (pilot)" if verdict.pilot else ""
        # the second column is visible on narrow screens too
        mark = VERDICT_MARKS[verdict.decision] + pilot if is_judged(verdict) else NOT_JUDGED
        printed = claim.paper_value or ("our question" if claim.question else "no number")
        lines.append(table_row((claim.text, mark, ours, str(verdict.contrast.n), printed)))
    return "\n".join(lines)


def replication_markdown(name: str, original: Results, replication_name: str, replication: Results) -> str:
    """Effects of a study's claims on another study's seeds with the same recipes, and on all seeds, at 95%.

    Args:
        name: name of the study.
        original: its results.
        replication_name: name of the study with further seeds.
        replication: the results of that study.
    """
    lines = [
        f"Replication on {len(replication.seeds())} further seeds of the same recipes "
        f"([{replication_name}]({replication_name}/page.md)):",
        "",
    ]
    for claim in (claim for claim in STUDIES[name].claims if claim.pooled is None):
        old, new = ([claim.effect(r, s) for s in r.seeds()] for r in (original, replication))
        fresh, every = ([v for v in values if v is not None] for values in (new, old + new))
        if fresh:
            contrasts = map(one_sample_contrast, (fresh, every))
            there, both = (f"{c.mean:+.3g} [{c.low:+.3g}, {c.high:+.3g}]" for c in contrasts)
            lines.append(f"- {claim.text}: {there} {claim.unit} there, {both} over all {len(every)} seeds")
    return "\n".join(lines)


def publish_results(name: str, study_folder: str | Path, folder: str | Path) -> list[Path]:
    """Copy results, page and figures of a study into a folder of results and rewrite its index.

    Args:
        name: name of the study.
        study_folder: output folder of the study.
        folder: folder of results, such as docs/results.
    """
    source, target = Path(study_folder), ensure_writable_folder(Path(folder) / name)
    files = [source / RESULTS_FILE, source / PAGE_FILE, *sorted(source.glob("*.png"))]
    for file in files:
        write_bytes(target / file.name, read_bytes(file, "part of a study"))
    for old in set(target.glob("*.png")) - {target / file.name for file in files}:
        old.unlink()
    return [*(target / file.name for file in files), write_index(folder)]


def write_index(folder: str | Path) -> Path:
    """Write the index page and its figure.

    Args:
        folder: folder of results.
    """
    path = Path(folder) / INDEX_FILE
    write_text(path, index_markdown(Path(folder)))
    points = claim_points(Path(folder))
    if points:
        draw_claims(points).savefig(Path(folder) / CLAIMS_PLOT_FILE, dpi=110)
    return path


def claim_points(folder: Path) -> dict[str, list[tuple[float, str]]]:
    """Return position and decision of each claim in the figure, by study; claims without an interval are omitted.

    Args:
        folder: folder of results.
    """
    known = load_all_results(folder)
    made: dict[str, list[tuple[float, str]]] = {}
    for name, study in STUDIES.items():
        verdicts = judge_study(study, known[name]) if name in known and study.claims else []
        dots = []
        for c, decision in ((v.contrast, v.decision) for v in verdicts if v.contrast.n > 1):
            dots.append((c.mean / max((c.high - c.low) / 2, abs(c.mean) / MAX_DRAWN_EFFECT, 1e-12), decision))
        made |= {name: dots} if dots else {}
    return made


def draw_claims(points_by_study: Mapping[str, Sequence[tuple[float, str]]]) -> Figure:
    """Draw one row per study and one dot per claim; the axis is linear up to 1 and logarithmic beyond.

    Args:
        points_by_study: positions and decisions from `claim_points`.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8.2, 0.9 + 0.27 * len(points_by_study)), layout="constrained")
    axes = figure.subplots()
    axes.axvspan(-1, 1, color="#8887", lw=0, alpha=0.25)
    axes.axvline(0, color="#888", lw=0.8)
    for row, claims in enumerate(points_by_study.values()):
        ordered = sorted(claims)
        lift = [0.22 * (i % 3 - 1) for i in range(len(ordered))]  # so that dots do not overlap
        for (x, decision), up in zip(ordered, lift, strict=True):
            axes.plot(x, row + up, "o", ms=5, color=COLOURS[decision], alpha=0.85)
    for decision, colour in COLOURS.items():
        remark = " (in the grey band: too small to matter)" if decision == "does not hold" else ""
        axes.plot([], [], "o", ms=5, color=colour, label=decision + remark)
    axes.set_xscale("symlog", linthresh=1, linscale=0.8)
    axes.set_xticks([-10, -1, 0, 1, 10, 100], ["−10", "−1", "0", "1", "10", "100"])
    axes.set_yticks(range(len(points_by_study)), list(points_by_study))
    axes.set_ylim(len(points_by_study) - 0.5, -0.5)
    axes.set_xlabel("effect over half its interval, positive on the claimed side")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize=8, ncols=2, loc="lower center", bbox_to_anchor=(0.5, 1.0))
    return figure
