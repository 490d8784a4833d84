"""The front page of all results: every claim of every study and its verdict, worked out from the results files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from unbraid.comparing.statistics import one_sample_contrast
from unbraid.core.files import ensure_writable_folder, read_bytes, write_bytes, write_text
from unbraid.studies import STUDIES
from unbraid.studies.framework.results import RESULTS_FILE, Results
from unbraid.studies.framework.study import Study
from unbraid.studies.framework.study_page import OWN_STUDY_CITE, PAGE_FILE, VERDICT_MARKS, judge_study
from unbraid.studies.framework.verdicts import Verdict

if TYPE_CHECKING:
    from matplotlib.figure import Figure

INDEX_FILE, CLAIMS_PLOT_FILE = "index.md", "claims.png"
MAX_DRAWN_EFFECT = 100  # an effect further out, whose interval is next to nothing, is drawn here
COLOURS = {"holds": "#1a7f4b", "does not hold": "#b3372f", "undecided": "#b08a1e"}
INTRO = """# What still stands of five papers, on one footing

Every claim below was trained anew, seeds paired, and judged by one rule: the t interval of its effect over seeds, at the
Holm-adjusted level over the claims of its page, lies on the claimed side of 0 (**holds**), on the other side or wholly inside the
margin of no interest (**does not hold**), or neither (**undecided**). A verdict is about the setting named on its page, not about
the paper's own: the pages say what is not alike. *Pilot*: a headline claim with fewer than ten seeds."""

CAPTION = (
    "Every claim a dot: its effect over half the width of the interval that judges it. Right of 1 the interval lies on the "
    "claimed side of 0, left of −1 on the other."
)
REPLICATIONS = {
    "isa_tradeoff": "isa_latents"
}  # studies whose recipes another one ran with further seeds: their claims, once more
PLURALS = {"holds": "hold", "does not hold": "do not hold"}


def load_all_results(folder: Path) -> dict[str, Results]:
    """The results that lie in the subfolders of a folder, by study."""
    return {path.parent.name: Results.load(path) for path in sorted(folder.glob(f"*/{RESULTS_FILE}"))}


def index_markdown(folder: Path) -> str:
    """The front page of a folder of results."""
    known = load_all_results(folder)
    said = {name: judge_study(study, known[name]) for name, study in STUDIES.items() if name in known and study.claims}
    waiting = [name for name, study in STUDIES.items() if study.claims and name not in known]
    words = [verdict.decision for verdicts in said.values() for verdict in verdicts if verdict.contrast.n > 1]
    alone = sum(verdict.contrast.n < 2 for verdicts in said.values() for verdict in verdicts)
    counted = ", ".join(
        f"{n} {word if n == 1 else PLURALS.get(word, word)}" for word in VERDICT_MARKS for n in [words.count(word)]
    )
    parts = [
        INTRO,
        f"{len(said)} of {len(said) + len(waiting)} studies have run; {len(words)} claims judged: {counted}.",
    ]
    parts[-1] += f" {alone} more have one seed or none, which judges nothing." if alone else ""
    if words:
        parts += [_tally(said), f"![{CAPTION}]({CLAIMS_PLOT_FILE})\n\n{CAPTION}"]
    for name, verdicts in said.items():
        parts.append(_section(name, STUDIES[name], verdicts))
        if REPLICATIONS.get(name) in known:
            parts.append(replication_markdown(name, known[name], REPLICATIONS[name], known[REPLICATIONS[name]]))
    shown = [name for name, study in STUDIES.items() if name in known and not study.claims]
    if shown:
        parts.append("Pictures that judge nothing: " + ", ".join(f"[{name}]({name}/page.md)" for name in shown) + ".")
    if waiting:
        parts.append("Written down and not run yet: " + ", ".join(f"`{name}`" for name in waiting) + ".")
    return "\n\n".join(parts) + "\n"


def _tally(verdicts_by_study: Mapping[str, Sequence[Verdict]]) -> str:
    """Verdicts counted by the paper whose claims they judge."""
    papers: dict[str, list[str]] = {}
    for name in verdicts_by_study:
        papers.setdefault(STUDIES[name].cite.split(",")[0], []).append(name)
    lines = [
        f"| whose claims | {' | '.join(VERDICT_MARKS.values())} | studies |",
        "|---" * (len(VERDICT_MARKS) + 2) + "|",
    ]
    for paper in sorted(papers, key=lambda p: (p == OWN_STUDY_CITE, p)):
        words = [
            verdict.decision for name in papers[paper] for verdict in verdicts_by_study[name] if verdict.contrast.n > 1
        ]
        links = ", ".join(f"[{name}]({name}/page.md)" for name in papers[paper])
        numbers = " | ".join(str(words.count(word)) for word in VERDICT_MARKS)
        lines.append(f"| {'our own questions' if paper == OWN_STUDY_CITE else paper} | {numbers} | {links} |")
    return "\n".join(lines)


def _section(name: str, study: Study, verdicts: Sequence[Verdict]) -> str:
    lines = [
        f"## [{name}]({name}/page.md): {study.about}",
        "",
        "| claim | verdict | ours (95%, before Holm) | n | paper |",
        "|---|---|---|---|---|",
    ]
    for claim, verdict in zip(study.claims, verdicts, strict=True):
        within = (
            f" [{verdict.low:+.3g}, {verdict.high:+.3g}]" if verdict.contrast.n > 1 else ""
        )  # one seed has no interval
        ours = f"{verdict.contrast.mean:+.3g}{within} {claim.unit}" if verdict.contrast.n else "not measured"
        pilot = " (pilot)" if verdict.pilot else ""
        word = VERDICT_MARKS[verdict.decision] + pilot  # second: a narrow screen shows it beside the claim
        cells = (claim.text, word, ours, str(verdict.contrast.n), claim.paper_value or "no number")
        lines.append("| " + " | ".join(c.replace("|", "\\|") for c in cells) + " |")
    return "\n".join(lines)


def replication_markdown(name: str, original: Results, replication_name: str, replication: Results) -> str:
    """The claims of a study on the seeds that another one ran with the same recipes, and on both together, at 95%."""
    lines = [
        f"Again, on {len(replication.seeds())} further seeds of the same recipes ([{replication_name}]({replication_name}/page.md)):",
        "",
    ]
    for claim in STUDIES[name].claims:
        told, new = ([claim.effect(r, s) for s in r.seeds()] for r in (original, replication))
        fresh, every = ([v for v in values if v is not None] for values in (new, told + new))
        if fresh:
            there, both = (
                f"{c.mean:+.3g} [{c.low:+.3g}, {c.high:+.3g}]" for c in map(one_sample_contrast, (fresh, every))
            )
            lines.append(f"- {claim.text}: {there} {claim.unit} there, {both} over all {len(every)} seeds")
    return "\n".join(lines)


def publish_results(name: str, study_folder: str | Path, folder: str | Path) -> list[Path]:
    """Copy a study's results, page and pictures into a folder of results (docs/results, say) and make its front page anew."""
    source, target = Path(study_folder), ensure_writable_folder(Path(folder) / name)
    files = [source / RESULTS_FILE, source / PAGE_FILE, *sorted(source.glob("*.png"))]
    for file in files:
        write_bytes(target / file.name, read_bytes(file, "part of a study"))
    for old in set(target.glob("*.png")) - {target / file.name for file in files}:
        old.unlink()
    return [*(target / file.name for file in files), write_index(folder)]


def write_index(folder: str | Path) -> Path:
    """Write the front page and its picture beside the results."""
    path = Path(folder) / INDEX_FILE
    write_text(path, index_markdown(Path(folder)))
    dots = claim_points(Path(folder))
    if dots:
        draw_claims(dots).savefig(Path(folder) / CLAIMS_PLOT_FILE, dpi=110)
    return path


def claim_points(folder: Path) -> dict[str, list[tuple[float, str]]]:
    """For each study the place of its claims on the picture, and their words; those without an interval are left out."""
    known = load_all_results(folder)
    made: dict[str, list[tuple[float, str]]] = {}
    for name, study in STUDIES.items():
        said = judge_study(study, known[name]) if name in known and study.claims else []
        placed = [
            (v.contrast.mean, (v.contrast.high - v.contrast.low) / 2, v.decision) for v in said if v.contrast.n > 1
        ]
        dots = [(mean / max(half, abs(mean) / MAX_DRAWN_EFFECT, 1e-12), word) for mean, half, word in placed]
        made |= {name: dots} if dots else {}
    return made


def draw_claims(points_by_study: Mapping[str, Sequence[tuple[float, str]]]) -> Figure:
    """A row a study, a dot a claim, on an axis that is linear up to 1 and logarithmic from there."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8.2, 0.9 + 0.27 * len(points_by_study)), layout="constrained")
    axes = figure.subplots()
    axes.axvspan(-1, 1, color="#8887", lw=0, alpha=0.25)
    axes.axvline(0, color="#888", lw=0.8)
    for row, claims in enumerate(points_by_study.values()):
        ordered = sorted(claims)
        lift = [0.22 * (i % 3 - 1) for i in range(len(ordered))]  # so that neighbours do not hide each other
        for (x, word), up in zip(ordered, lift, strict=True):
            axes.plot(x, row + up, "o", ms=5, color=COLOURS[word], alpha=0.85)
    for word, colour in COLOURS.items():
        axes.plot([], [], "o", ms=5, color=colour, label=word)
    axes.set_xscale("symlog", linthresh=1, linscale=0.8)
    axes.set_xticks([-10, -1, 0, 1, 10, 100], ["−10", "−1", "0", "1", "10", "100"])
    axes.set_yticks(range(len(points_by_study)), list(points_by_study))
    axes.set(
        ylim=(len(points_by_study) - 0.5, -0.5), xlabel="effect over half its interval, positive on the claimed side"
    )
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize=8, ncols=3, loc="lower center", bbox_to_anchor=(0.5, 1.0))
    return figure
