"""Page of a study as Markdown and HTML, computed from results.json."""

from __future__ import annotations

import base64
import html
import math
import re
import textwrap
from collections.abc import Sequence
from pathlib import Path

from unbraid.comparing.statistics import t_interval
from unbraid.core.errors import UnbraidError
from unbraid.core.files import read_bytes, write_bytes, write_text
from unbraid.studies.framework.results import Results
from unbraid.studies.framework.study import Claim, Study
from unbraid.studies.framework.verdicts import Verdict, judge_claims

PAGE_FILE = "page.md"
GATES_HEADING = "Why this setting can show the effects (means over seeds)"
CONTROLS_NOTE = "contrasts whose answer is known"
QUESTION_NOTE = "our question: the threshold or contrast is not the paper's"
NO_GATES_NOTE = (
    "None of these claims has a gate: that the models are alive and the metrics away from floor and ceiling was not "
    "checked; the table below has the numbers."
)
TINY_NOTE = "Scale tiny only shows that everything runs: it yields no verdict."
OWN_STUDY_CITE = "unbraid"  # `cite` of a study of our own
VERDICT_MARKS = {
    "holds": "✔ holds",
    "does not hold": "✘ does not hold",
    "undecided": "… undecided",
    "not tested here": "– not tested here",
}


def judge_study(study: Study, results: Results) -> list[Verdict]:
    """Return the verdicts of a study's claims; none at scale tiny.

    Args:
        study: the study.
        results: its results.
    """
    return [] if results.scale == "tiny" else judge_claims(study.claims, results)


def summary_line(study: Study, results: Results) -> str:
    """Return one line with scale, seeds, runs, failures, duration and commit.

    Args:
        study: the study.
        results: its results.
    """
    ran_seeds, runs = len({row.seed for row in results.rows}), len(results.rows)
    meant = len(study.seeds.get(results.scale, ()))
    seeds = f"{ran_seeds} of {meant}" if ran_seeds < meant else f"{ran_seeds}"
    minutes = sum(row.seconds for row in results.rows) / 60
    # each run has one core; on a busy machine its time exceeds that of the processor
    cost = f"{minutes:.0f} core-minutes" if minutes >= 1 else "less than a core-minute"
    failed = f", {len(results.failed_rows)} not finished" if results.failed_rows else ""
    commit = results.metadata.get("commit") or "not under version control"
    seeds += " seed" if seeds == "1" else " seeds"
    ran = f"scale {results.scale} · {seeds} · {runs} runs{failed} · {cost}"
    later = ", ".join(results.metadata.get("changed", ()))
    return f"{ran} · claims as of commit {commit}" + (f", continued at {later}" if later else "")


def format_claim(claim: Claim, verdict: Verdict) -> str:
    """Format a claim and its verdict in lines of at most 80 characters.

    Args:
        claim: the claim.
        verdict: its verdict.
    """
    printed = f": {claim.paper_value}" if claim.paper_value else ""
    ours = f"; {QUESTION_NOTE}" if claim.question else ""
    first, *others = verdict.lines()
    lines = [
        claim.text,
        f"({claim.source}{printed}{ours})",
        first + (f"  [{claim.unit}]" if claim.unit else ""),
        *others,
    ]
    folded = [part for line in lines for part in wrap_line(line)]
    return "\n".join(f"{'CLAIM' if not i else '':5}  {line}" for i, line in enumerate(folded))


def wrap_line(line: str, width: int = 73) -> list[str]:
    """Wrap a line at its double spaces first, then between words.

    Args:
        line: the line.
        width: the maximum width.

    >>> wrap_line("ours +0.1  95% [+0.0, +0.2]  n = 10 seeds", 30)
    ['ours +0.1  95% [+0.0, +0.2]', 'n = 10 seeds']
    """
    pieces = [""]
    for part in line.split("  "):
        joined = f"{pieces[-1]}  {part}".strip()
        pieces[-1:] = [joined] if len(joined) <= width else [*pieces[-1:], part]
    return [piece for part in pieces if part for piece in textwrap.wrap(part, width, break_on_hyphens=False)]


def results_table(results: Results) -> tuple[list[str], list[list[str]]]:
    """Return header and rows of the table of arms × quantities: mean ± half the 95% t interval over seeds.

    Args:
        results: the results.
    """
    quantities = results.quantities
    cells = {arm: [format_cell(results.values(arm, quantity)) for quantity in quantities] for arm in results.arms}
    return ["arm", "n", *quantities], [[arm, str(len(results.seeds(arm))), *row] for arm, row in cells.items()]


def format_cell(values: Sequence[float]) -> str:
    """Format mean ± half-width with as many digits as the interval supports.

    Args:
        values: one number per seed.

    >>> format_cell([0.5, 0.6]), format_cell([0.55]), format_cell([3104.2]), format_cell([])
    ('0.55 ± 0.64', '0.55', '3104', '–')
    """
    if not values:
        return "–"
    found = t_interval(values)
    if not found.half_width > 0:
        return f"{found.mean:.3g}" if abs(found.mean) < 1000 else f"{found.mean:.0f}"
    digits = min(6, max(0, 1 - math.floor(math.log10(found.half_width))))
    return f"{found.mean:.{digits}f} ± {found.half_width:.{digits}f}"


def page_markdown(name: str, study: Study, results: Results, pictures: Sequence[str]) -> str:
    """Return the page as Markdown.

    Args:
        name: name of the study.
        study: the study.
        results: its results.
        pictures: file names of the figures.
    """
    verdicts = judge_study(study, results)
    parts = [f"# {name}: {study.about}", f"{study.cite}", summary_line(study, results)]
    if results.scale == "tiny":
        parts.append(f"*{TINY_NOTE}*")
    block = "```text\n{}\n```"
    parts += [block.format(format_claim(*pair)) for pair in zip(study.claims, verdicts, strict=False)]
    if judged := judge_controls(study, results):
        parts.append(f"**Positive controls** ({CONTROLS_NOTE}):")
        parts += [block.format(format_claim(*pair)) for pair in judged]
    if passed := passed_gates(verdicts):
        parts.append(f"**{GATES_HEADING}:** {'; '.join(passed)}.")
    if lacks_gates(verdicts):
        parts.append(f"**No gates:** {NO_GATES_NOTE}")
    if study.deviations:
        parts.append(f"**{deviations_heading(study)}:** {study.deviations} Verdicts apply to this setting only.")
    parts += [f"![{picture}]({picture})" for picture in pictures]
    heads, rows = results_table(results)
    parts.append("\n".join([table_row(heads), "|" + "---|" * len(heads), *map(table_row, rows)]))
    parts.append("Mean ± half a 95% t interval over seeds.")
    if results.mixed_versions:
        parts.append(f"**Measured by different code**: {describe_versions(results)}")
    if results.failed_rows:
        lost = "\n".join(f"- {row.arm}, seed {row.seed}: {row.status}. {row.reason}" for row in results.failed_rows)
        parts.append(f"**Runs that did not finish:**\n\n{lost}")
    parts.append(f"Run or continue: `unbraid study {name} --scale {results.scale}`; numbers: `results.json`.")
    return "\n\n".join(parts) + "\n"


def judge_controls(study: Study, results: Results) -> list[tuple[Claim, Verdict]]:
    """The positive controls with their verdicts; none where the study itself is not judged.

    Args:
        study: the study.
        results: its results.
    """
    if not judge_study(study, results):
        return []
    return list(zip(study.controls, judge_claims(study.controls, results), strict=True))


def describe_versions(results: Results) -> str:
    """The metrics that were measured by several versions, as a sentence.

    Args:
        results: the results.
    """
    mixed = "; ".join(f"{metric} {', '.join(map(str, v))}" for metric, v in results.mixed_versions.items())
    return f"versions differ between rows: {mixed}."


def passed_gates(verdicts: Sequence[Verdict]) -> list[str]:
    """The conditions that the runs of the judged claims meet, each once, with the numbers they were checked on.

    Args:
        verdicts: the verdicts of a study.
    """
    found: dict[str, dict[str, None]] = {}
    for gate in (gate for verdict in verdicts for gate in verdict.gates if gate.passed):
        found.setdefault(gate.text, {}).update(dict.fromkeys(gate.found.split(", ")))
    return [f"{text} ({', '.join(numbers)})" for text, numbers in found.items()]


def lacks_gates(verdicts: Sequence[Verdict]) -> bool:
    """Whether claims were judged and none of them has a gate.

    Args:
        verdicts: the verdicts of a study.
    """
    return bool(verdicts) and not any(verdict.gates for verdict in verdicts)


def deviations_heading(study: Study) -> str:
    """Return the heading of the deviations; a study of our own has no paper to deviate from.

    Args:
        study: the study.
    """
    return "The setting" if study.cite == OWN_STUDY_CITE else "Differences from the paper"


def table_row(cells: Sequence[str]) -> str:
    """A row of a Markdown table with these `cells`."""
    return "| " + " | ".join(c.replace("|", "\\|") for c in cells) + " |"


def write_page(
    name: str, study: Study, results: Results, out: Path, runs: Path | None = None, results_folder: Path | None = None
) -> list[Path]:
    """Draw the figures and write page.md and page.html; return the paths.

    Args:
        name: name of the study.
        study: the study.
        results: its results.
        out: folder of the study.
        runs: folder of the runs; None keeps the existing figures.
        results_folder: folder of kept results, whose figures are used if runs are missing.
    """
    pictures: Sequence[str] = sorted(p.name for p in out.glob("*.png"))
    if study.figures is not None and runs is not None:
        there = [(runs / str(place)).is_dir() for place in results.metadata.get("runs", {}).values()]
        kept = sorted((results_folder / name).glob("*.png")) if results_folder is not None else []
        try:  # without any run a figure would lack what is drawn from them
            pictures = study.figures(results, runs, out) if any(there) or not kept else _copy_pictures(kept, out)
        except UnbraidError:
            if all(there) or not kept:
                raise
            pictures = _copy_pictures(kept, out)
    write_text(out / PAGE_FILE, page_markdown(name, study, results, pictures))
    write_text(out / "page.html", _page_html(name, study, results, out, pictures))
    return [out / PAGE_FILE, out / "page.html", *(out / picture for picture in pictures)]


def _copy_pictures(kept: Sequence[Path], out: Path) -> list[str]:
    for old in kept:
        write_bytes(out / old.name, read_bytes(old, "part of a study"))
    return [old.name for old in kept]


STYLE = """
:root{color-scheme:light dark;--ink:#1c2430;--paper:#fff;--faint:#66707d;--line:#d8dde3;--good:#1a7f4b;--bad:#b3372f;
--open:#8a6d1d}
@media(prefers-color-scheme:dark){:root{--ink:#e6e9ee;--paper:#14181e;--faint:#9aa4b1;--line:#333c47;--good:#5ecb92;--bad:#ff8a80;
--open:#e6c25a}}
body{font:16px/1.5 system-ui,sans-serif;color:var(--ink);background:var(--paper);max-width:60rem;margin:2rem auto;padding:0 1rem}
h1{font-size:1.5rem}.faint{color:var(--faint)}section{border-left:4px solid var(--line);padding:.2rem 1rem;margin:1rem 0}
.not{border-color:var(--faint)}.holds{border-color:var(--good)}.does{border-color:var(--bad)}.undecided{border-color:var(--open)}
.word{font-weight:600}.holds .word{color:var(--good)}.does .word{color:var(--bad)}.undecided .word{color:var(--open)}
img{max-width:100%;background:#fff;border-radius:4px}.wide{overflow-x:auto}table{border-collapse:collapse;font-size:.85rem}
td,th{padding:.25rem .6rem;border-bottom:1px solid var(--line);text-align:right;white-space:nowrap}
td:first-child,th:first-child{text-align:left}
"""


def _page_html(name: str, study: Study, results: Results, out: Path, pictures: Sequence[str]) -> str:
    e = html.escape
    parts = [
        f"<h1>{e(name)}: {e(study.about)}</h1>",
        f"<p>{e(study.cite)}</p><p class=faint>{e(summary_line(study, results))}</p>",
    ]
    verdicts = judge_study(study, results)
    if results.scale == "tiny":
        parts.append(f"<p><i>{TINY_NOTE}</i></p>")
    parts += [_claim_html(*pair) for pair in zip(study.claims, verdicts, strict=False)]
    if judged := judge_controls(study, results):
        parts.append(f"<p><b>Positive controls</b> ({CONTROLS_NOTE}):</p>")
        parts += [_claim_html(*pair) for pair in judged]
    if passed := passed_gates(verdicts):
        parts.append(f"<p><b>{e(GATES_HEADING)}:</b> {e('; '.join(passed))}.</p>")
    if lacks_gates(verdicts):
        parts.append(f"<p><b>No gates:</b> {e(NO_GATES_NOTE)}</p>")
    if study.deviations:
        deviations = re.sub(r"`([^`]+)`", r"<code>\1</code>", e(study.deviations))
        parts.append(f"<p><b>{deviations_heading(study)}:</b> {deviations} Verdicts apply to this setting only.</p>")
    for picture in pictures:
        data = base64.b64encode((out / picture).read_bytes()).decode()
        parts.append(f'<p><img alt="{e(picture)}" src="data:image/png;base64,{data}"></p>')
    heads, rows = results_table(results)
    head = "".join(f"<th>{e(h)}</th>" for h in heads)
    body = "".join("<tr>" + "".join(f"<td>{e(c)}</td>" for c in row) + "</tr>" for row in rows)
    parts.append(f"<div class=wide><table><tr>{head}</tr>{body}</table></div>")
    parts.append("<p class=faint>Mean ± half a 95% t interval over seeds.</p>")
    if results.mixed_versions:
        parts.append(f"<p><b>Measured by different code</b>: {e(describe_versions(results))}</p>")
    again = f"<code>{e(f'unbraid study {name} --scale {results.scale}')}</code>"
    parts.append(f"<p class=faint>Run or continue: {again}; numbers: results.json in the same folder.</p>")
    parts += [f"<p>not finished: {e(row.arm)}, seed {row.seed}: {e(row.reason)}</p>" for row in results.failed_rows]
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f"<title>{e(name)}</title><style>{STYLE}</style><body>{''.join(parts)}</body></html>"
    )


def _claim_html(claim: Claim, verdict: Verdict) -> str:
    e, lines = html.escape, verdict.lines()
    printed = f" ({e(claim.paper_value)})" if claim.paper_value else ""
    printed += f" ({e(QUESTION_NOTE)})" if claim.question else ""
    return (
        f'<section class="{verdict.decision.split()[0]}"><p>{e(claim.text)}<br><span class=faint>{e(claim.source)}{printed}'
        f"</span></p><p>{e(lines[0].replace('  ', ' · '))} <span class=faint>{e(claim.unit)}</span><br>"
        f"<span class=word>{e(lines[1])}</span></p></section>"
    )
