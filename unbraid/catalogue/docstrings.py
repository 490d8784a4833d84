"""Parse docstrings: summary, formula, text, description of each option, when to use a part and when not, example.

A paragraph with its paper to the right, after four spaces or more, is a formula. Without one, the first sentence is the
formula if it has an equals sign. `name: text` describes an option; `Use:` and `Not:` say when to use the part.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import zip_longest

from unbraid.core.papers import papers_in

USAGE_HEADS = ("Use", "Not")
WIDE_GAP = re.compile(r"(?<=\S) {4,}(?=\S)")


@dataclass(frozen=True)
class ParsedDocstring:
    """The parts of a docstring as plain text, empty where a part is missing.

    Args:
        summary: the first paragraph.
        formula: the equation.
        text: further paragraphs.
        options: the description of each option.
        use: when to use the part.
        avoid: when not to use it.
        example: the doctest.

    >>> ParsedDocstring("Half.", use="always.").use
    'always.'
    """

    summary: str = ""
    formula: str = ""
    text: tuple[str, ...] = ()
    options: dict[str, str] = field(default_factory=dict)
    use: str = ""
    avoid: str = ""
    example: str = ""


def capitalise(text: str) -> str:
    """Capitalise the first word; a formula keeps its letters.

    Args:
        text: a sentence.

    >>> capitalise("the prior"), capitalise("log p(x|z) = 0"), capitalise("β₁ of Adam")
    ('The prior', 'log p(x|z) = 0', 'β₁ of Adam')
    """
    return text[:1].upper() + text[1:] if re.match(r"(?!log\b|p\b|\w\()[a-z]", text) else text


def parse_docstring(doc: str | None, options: Iterable[str] = ()) -> ParsedDocstring:
    """Split a docstring into its parts.

    Args:
        doc: the docstring.
        options: the names of the options it may describe.

    >>> found = parse_docstring('''How much a code knows.
    ...
    ... I(z; y) / H(y)        Chen et al. 2018
    ...
    ... bins: how many. Use: on large sets.
    ... ''', ["bins"])
    >>> found.formula, found.options, found.use
    ('I(z; y) / H(y)', {'bins': 'how many.'}, 'on large sets.')
    """
    before, _, example = inspect.cleandoc(doc or "").partition(">>>")
    paragraphs = [p for p in re.split(r"\n\s*\n", before.strip()) if p.strip()]
    if not paragraphs:
        return ParsedDocstring()
    summary, formula = _collapse_spaces(paragraphs[0]), ""
    texts: list[str] = []
    described: dict[str, str] = {}
    for paragraph in paragraphs[1:]:
        if not formula and not paragraph.startswith("Args:") and (set_apart := _formula(paragraph)):
            formula = set_apart
            continue
        rest = _extract_options(_collapse_spaces(paragraph).removeprefix("Args: "), [*options, *USAGE_HEADS], described)
        texts += [rest] if rest else []
    summary = _extract_options(summary, list(options), described)
    formula = formula or _first_equation(summary)
    use, avoid = described.pop("Use", ""), described.pop("Not", "")
    return ParsedDocstring(
        summary, formula, tuple(texts), described, use, avoid, f">>>{example}".rstrip() if example else ""
    )


def first_sentence(text: str) -> str:
    """The first sentence of a text, without the full stop.

    Args:
        text: the text.

    >>> first_sentence("Half of z. Kim & Mnih 2018, Eq. 2."), first_sentence("Chen et al. 2018 say so. Yes.")
    ('Half of z', 'Chen et al. 2018 say so')
    """
    found = re.match(r"(.*?(?<!al)(?<!Eq)(?<!Eqs)(?<!Sec)(?<!Fig)(?<!Figs)(?<!App)(?<!vs)(?<!such as))\.(?= |$)", text)
    return (found[1] if found else text).strip()


def _collapse_spaces(paragraph: str) -> str:
    return " ".join(paragraph.split())


def _formula(paragraph: str) -> str:
    """The formula of a paragraph without the paper at its right; "" if it is none."""
    lines = paragraph.splitlines()
    cited = [line for line in lines if papers_in(WIDE_GAP.split(line.strip())[-1]) or "this library" in line]
    apart = WIDE_GAP.search(paragraph) is not None or any(line.startswith(" " * 8) for line in lines)
    if not apart or not (cited or "=" in paragraph):
        return ""
    kept = []
    for line in lines:
        parts = WIDE_GAP.split(line.strip())
        parts = [p for p in parts if not (papers_in(p) and (len(parts) > 1 or line.startswith(" " * 8)))]
        kept.append("    ".join(p for p in parts if p != "this library"))
    return "\n".join(line for line in kept if line)


def _first_equation(summary: str) -> str:
    first = first_sentence(summary)
    return first if re.search(r" [=∝] ", first) else ""


def _extract_options(text: str, names: Iterable[str], found: dict[str, str]) -> str:
    """Move every `name: text` into `found`; return the text before the first one."""
    known = "|".join(map(re.escape, names))
    if not known:
        return text
    marks = list(re.finditer(rf"(?:^|(?<=[.;)] ))`?({known})`?: ", text))
    for mark, after in zip_longest(marks, marks[1:]):
        words = text[mark.end() : after.start() if after else len(text)].strip()
        found[mark[1]] = f"{found[mark[1]]} {words}" if mark[1] in found else words
    return text[: marks[0].start()].strip() if marks else text
