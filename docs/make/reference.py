"""Pages of names: every entry of every dict, in the words that `unbraid show` prints, to docs/reference/ before each build."""

from __future__ import annotations

from pathlib import Path

from unbraid.catalogue import KINDS, markdown
from unbraid.catalogue.printed import anchor, brief, safe
from unbraid.ground.files import write_text

GUIDES = {  # where a kind is taught
    "fields": "recipes", "data": "data", "nets": "nets", "likelihoods": "likelihoods", "posteriors": "posteriors", "priors": "priors",
    "objectives": "objectives", "terms": "theory", "estimators": "estimators", "schedules": "training", "metrics": "metrics",
}  # fmt: skip


def page(kind: str) -> str:
    """All names of a kind on one page."""
    known = KINDS[kind]
    entries = known.entries()
    head = [
        f"# {kind.capitalize()} by name",
        f"{known.about[0].upper()}{known.about[1:].replace('[', '`[').replace(']', ']`')}. The guide is [here](../{GUIDES[kind]}.md); "
        f"on the command line: `unbraid list {kind}`, `unbraid show {known.one} NAME`.",
        "\n".join(f"- [{safe(name)}](#{known.one}-{anchor(name)}): {safe(brief(entry))}" for name, entry in entries.items()),
    ]
    return "\n\n".join([*head, *(markdown(_still(entry)) for entry in entries.values())]) + "\n"


def _still(entry):
    """A data set's status is this machine's affair, not the site's."""
    from dataclasses import replace

    return replace(entry, facts={head: said for head, said in entry.facts.items() if head != "status"})


def index() -> str:
    """The page of pages."""
    lines = [f"- [{kind.capitalize()}]({kind}.md): {known.about.split(';')[0]}" for kind, known in KINDS.items()]
    tree = "\n".join(KINDS)
    return (
        "# Names and options\n\nEvery name that a recipe or a command takes, with formula, options, defaults and paper. These pages are "
        f"made from the docstrings and signatures of the code.\n\n{chr(10).join(lines)}\n\n"
        f"```{{toctree}}\n:hidden:\n\n{tree}\n```\n"
    )


def write(folder: Path) -> None:
    """Write what has changed (an untouched page is not read again)."""
    folder.mkdir(exist_ok=True)
    pages = {"index": index(), **{kind: page(kind) for kind in KINDS}}
    for name, text in pages.items():
        path = folder / f"{name}.md"
        if not path.is_file() or path.read_text() != text:
            write_text(path, text)
