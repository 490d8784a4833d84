"""Study pages on the site: numbered columns are folded, and verdicts are marked."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "docs" / "make"))
try:
    import study_pages
finally:
    sys.path.pop(0)


def table(*names: str) -> str:
    rule = "|---" * len(names) + "|"
    return "\n".join([f"| {' | '.join(names)} |", rule, f"| {' | '.join(f'{name}!' for name in names)} |"]) + "\n"


def test_numbered_columns_are_folded_and_nothing_is_lost():
    wide = table("arm", "mig", *(f"mig_100_{k}" for k in range(6)), "kl")
    shown = study_pages.fold_numbered_columns(f"before\n\n{wide}\nafter\n")
    first, folded = shown.split("<details>")
    assert "| arm | mig | kl |\n| --- | --- | --- |\n| arm! | mig! | kl! |" in first
    assert "with 6 more columns: mig_100_0 … mig_100_5" in folded
    assert wide in folded
    assert shown.startswith("before")
    assert shown.endswith("after\n")


@pytest.mark.parametrize("names", [("arm", "mig"), ("arm", *(f"mig_{k}" for k in range(4)))])
def test_a_table_with_few_numbered_columns_stays(names):
    assert study_pages.fold_numbered_columns(table(*names)) == table(*names)


@pytest.mark.parametrize(
    ("line", "mark"),
    [
        ("HOLDS  (Holm)", "holds"),
        ("DOES NOT HOLD", "fails"),
        ("UNDECIDED", "undecided"),
        ("NOT TESTED HERE", "untested"),
    ],
)
def test_a_claim_has_the_class_of_its_verdict(line, mark):
    nodes = pytest.importorskip("docutils.nodes")
    claim, other = (
        nodes.literal_block(text=f"CLAIM  a is above b\n       ours +1\n       {line}"),
        nodes.literal_block(text="HOLDS"),
    )
    study_pages.mark_verdicts(nodes.section("", claim, other))
    assert claim["classes"] == ["claim", mark]
    assert other["classes"] == []
