"""The front page of all results: every claim of every study and its verdict, worked out from the results files."""

from __future__ import annotations

from pathlib import Path

from unbraid.ground.files import read_bytes, writable, write_bytes, write_text
from unbraid.studies import STUDIES
from unbraid.studies.page import MARKS, PAGE, judged
from unbraid.studies.results import RESULTS, Results
from unbraid.studies.study import Study

FRONT = "index.md"
INTRO = """# What still stands of five papers, on one footing

Every claim below was trained anew, seeds paired, and judged by one rule: the t interval of its effect over seeds, at the
Holm-adjusted level over the claims of its page, lies on the claimed side of 0 (**holds**), on the other side or wholly inside the
margin of no interest (**does not hold**), or neither (**undecided**). A verdict is about the setting named on its page, not about
the paper's own: the pages say what is not alike. *Pilot*: a headline claim with fewer than ten seeds."""

MANY = {"holds": "hold", "does not hold": "do not hold"}


def found(folder: Path) -> dict[str, Results]:
    """The results that lie in the subfolders of a folder, by study."""
    return {path.parent.name: Results.load(path) for path in sorted(folder.glob(f"*/{RESULTS}"))}


def markdown(folder: Path) -> str:
    """The front page of a folder of results."""
    known = found(folder)
    parts = [INTRO]
    counts = dict.fromkeys(MARKS, 0)
    for name, study in STUDIES.items():
        if name in known and study.claims:
            parts.append(_section(name, study, known[name], counts))
    waiting = [name for name, study in STUDIES.items() if study.claims and name not in known]
    total = sum(counts.values())
    said = ", ".join(f"{count} {word if count == 1 else MANY.get(word, word)}" for word, count in counts.items())
    ran = sum(name in known for name, study in STUDIES.items() if study.claims)
    parts.insert(1, f"{ran} of {ran + len(waiting)} studies have run; {total} claims judged: {said}.")
    shown = [name for name, study in STUDIES.items() if name in known and not study.claims]
    if shown:
        parts.append("Pictures that judge nothing: " + ", ".join(f"[{name}]({name}/page.md)" for name in shown) + ".")
    if waiting:
        parts.append("Written down and not run yet: " + ", ".join(f"`{name}`" for name in waiting) + ".")
    return "\n\n".join(parts) + "\n"


def _section(name: str, study: Study, results: Results, counts: dict[str, int]) -> str:
    lines = [
        f"## [{name}]({name}/page.md): {study.about}",
        "",
        "| claim | verdict | ours (95%, before Holm) | n | paper |",
        "|---|---|---|---|---|",
    ]
    for claim, verdict in zip(study.claims, judged(study, results), strict=True):
        counts[verdict.word] += 1
        ours = f"{verdict.contrast.mean:+.3g} [{verdict.low:+.3g}, {verdict.high:+.3g}] {claim.unit}"
        pilot = " (pilot)" if verdict.pilot else ""
        word = MARKS[verdict.word] + pilot  # second: a narrow screen shows it beside the claim
        cells = (claim.text, word, ours, str(verdict.contrast.n), claim.printed or "no number")
        lines.append("| " + " | ".join(c.replace("|", "\\|") for c in cells) + " |")
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
    """Write the front page beside the results."""
    path = Path(folder) / FRONT
    write_text(path, markdown(Path(folder)))
    return path
