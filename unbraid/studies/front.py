"""The front page of all results: every claim of every study and its verdict, worked out from the results files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from unbraid.comparing.statistics import one_sample
from unbraid.ground.files import read_bytes, writable, write_bytes, write_text
from unbraid.studies import STUDIES
from unbraid.studies.page import MARKS, OURS, PAGE, judged
from unbraid.studies.results import RESULTS, Results
from unbraid.studies.study import Study
from unbraid.studies.verdicts import Verdict

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FRONT, PICTURE = "index.md", "claims.png"
FAR = 100  # an effect further out, whose interval is next to nothing, is drawn here
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
AGAIN = {
    "isa_tradeoff": "isa_latents"
}  # studies whose recipes another one ran with further seeds: their claims, once more
MANY = {"holds": "hold", "does not hold": "do not hold"}


def found(folder: Path) -> dict[str, Results]:
    """The results that lie in the subfolders of a folder, by study."""
    return {path.parent.name: Results.load(path) for path in sorted(folder.glob(f"*/{RESULTS}"))}


def markdown(folder: Path) -> str:
    """The front page of a folder of results."""
    known = found(folder)
    said = {name: judged(study, known[name]) for name, study in STUDIES.items() if name in known and study.claims}
    waiting = [name for name, study in STUDIES.items() if study.claims and name not in known]
    words = [verdict.word for verdicts in said.values() for verdict in verdicts if verdict.contrast.n > 1]
    alone = sum(verdict.contrast.n < 2 for verdicts in said.values() for verdict in verdicts)
    counted = ", ".join(
        f"{n} {word if n == 1 else MANY.get(word, word)}" for word in MARKS for n in [words.count(word)]
    )
    parts = [
        INTRO,
        f"{len(said)} of {len(said) + len(waiting)} studies have run; {len(words)} claims judged: {counted}.",
    ]
    parts[-1] += f" {alone} more have one seed or none, which judges nothing." if alone else ""
    if words:
        parts += [_tally(said), f"![{CAPTION}]({PICTURE})\n\n{CAPTION}"]
    for name, verdicts in said.items():
        parts.append(_section(name, STUDIES[name], verdicts))
        if AGAIN.get(name) in known:
            parts.append(again(name, known[name], AGAIN[name], known[AGAIN[name]]))
    shown = [name for name, study in STUDIES.items() if name in known and not study.claims]
    if shown:
        parts.append("Pictures that judge nothing: " + ", ".join(f"[{name}]({name}/page.md)" for name in shown) + ".")
    if waiting:
        parts.append("Written down and not run yet: " + ", ".join(f"`{name}`" for name in waiting) + ".")
    return "\n\n".join(parts) + "\n"


def _tally(said: Mapping[str, Sequence[Verdict]]) -> str:
    """Verdicts counted by the paper whose claims they judge."""
    papers: dict[str, list[str]] = {}
    for name in said:
        papers.setdefault(STUDIES[name].cite.split(",")[0], []).append(name)
    lines = [f"| whose claims | {' | '.join(MARKS.values())} | studies |", "|---" * (len(MARKS) + 2) + "|"]
    for paper in sorted(papers, key=lambda p: (p == OURS, p)):
        words = [verdict.word for name in papers[paper] for verdict in said[name] if verdict.contrast.n > 1]
        links = ", ".join(f"[{name}]({name}/page.md)" for name in papers[paper])
        numbers = " | ".join(str(words.count(word)) for word in MARKS)
        lines.append(f"| {'our own questions' if paper == OURS else paper} | {numbers} | {links} |")
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
        word = MARKS[verdict.word] + pilot  # second: a narrow screen shows it beside the claim
        cells = (claim.text, word, ours, str(verdict.contrast.n), claim.printed or "no number")
        lines.append("| " + " | ".join(c.replace("|", "\\|") for c in cells) + " |")
    return "\n".join(lines)


def again(name: str, first: Results, other: str, further: Results) -> str:
    """The claims of a study on the seeds that another one ran with the same recipes, and on both together, at 95%."""
    lines = [f"Again, on {len(further.seeds())} further seeds of the same recipes ([{other}]({other}/page.md)):", ""]
    for claim in STUDIES[name].claims:
        told, new = ([claim.effect(r, s) for s in r.seeds()] for r in (first, further))
        fresh, every = ([v for v in values if v is not None] for values in (new, told + new))
        if fresh:
            there, both = (f"{c.mean:+.3g} [{c.low:+.3g}, {c.high:+.3g}]" for c in map(one_sample, (fresh, every)))
            lines.append(f"- {claim.text}: {there} {claim.unit} there, {both} over all {len(every)} seeds")
    return "\n".join(lines)


def keep(name: str, made: str | Path, folder: str | Path) -> list[Path]:
    """Copy a study's results, page and pictures into a folder of results (docs/results, say) and make its front page anew."""
    source, target = Path(made), writable(Path(folder) / name)
    files = [source / RESULTS, source / PAGE, *sorted(source.glob("*.png"))]
    for file in files:
        write_bytes(target / file.name, read_bytes(file, "part of a study"))
    for old in set(target.glob("*.png")) - {target / file.name for file in files}:
        old.unlink()
    return [*(target / file.name for file in files), write(folder)]


def write(folder: str | Path) -> Path:
    """Write the front page and its picture beside the results."""
    path = Path(folder) / FRONT
    write_text(path, markdown(Path(folder)))
    dots = points(Path(folder))
    if dots:
        draw(dots).savefig(Path(folder) / PICTURE, dpi=110)
    return path


def points(folder: Path) -> dict[str, list[tuple[float, str]]]:
    """For each study the place of its claims on the picture, and their words; those without an interval are left out."""
    known = found(folder)
    made: dict[str, list[tuple[float, str]]] = {}
    for name, study in STUDIES.items():
        said = judged(study, known[name]) if name in known and study.claims else []
        placed = [(v.contrast.mean, (v.contrast.high - v.contrast.low) / 2, v.word) for v in said if v.contrast.n > 1]
        dots = [(mean / max(half, abs(mean) / FAR, 1e-12), word) for mean, half, word in placed]
        made |= {name: dots} if dots else {}
    return made


def draw(dots: Mapping[str, Sequence[tuple[float, str]]]) -> Figure:
    """A row a study, a dot a claim, on an axis that is linear up to 1 and logarithmic from there."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8.2, 0.9 + 0.27 * len(dots)), layout="constrained")
    axes = figure.subplots()
    axes.axvspan(-1, 1, color="#8887", lw=0, alpha=0.25)
    axes.axvline(0, color="#888", lw=0.8)
    for row, claims in enumerate(dots.values()):
        ordered = sorted(claims)
        lift = [0.22 * (i % 3 - 1) for i in range(len(ordered))]  # so that neighbours do not hide each other
        for (x, word), up in zip(ordered, lift, strict=True):
            axes.plot(x, row + up, "o", ms=5, color=COLOURS[word], alpha=0.85)
    for word, colour in COLOURS.items():
        axes.plot([], [], "o", ms=5, color=colour, label=word)
    axes.set_xscale("symlog", linthresh=1, linscale=0.8)
    axes.set_xticks([-10, -1, 0, 1, 10, 100], ["−10", "−1", "0", "1", "10", "100"])
    axes.set_yticks(range(len(dots)), list(dots))
    axes.set(ylim=(len(dots) - 0.5, -0.5), xlabel="effect over half its interval, positive on the claimed side")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize=8, ncols=3, loc="lower center", bbox_to_anchor=(0.5, 1.0))
    return figure
