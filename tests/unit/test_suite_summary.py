"""The summary of a test run: counts, failures by name, reasons of skips; the rest of the page is unchanged."""

from __future__ import annotations

from tests.suite_summary import summary, write_section

REPORT = """<?xml version="1.0"?><testsuites><testsuite name="pytest" tests="5" time="600.0" timestamp="2026-01-02T03:04:05">
<testcase classname="tests.a" name="test_one" time="1"/><testcase classname="tests.a" name="test_two[x]" time="1"/>
<testcase classname="tests.a" name="test_bad" time="2"><failure message="no">trace</failure></testcase>
<testcase classname="tests.b" name="test_broken" time="0"><error message="set-up"/></testcase>
<testcase classname="tests.b" name="test_far" time="0"><skipped message="no GPU"/></testcase></testsuite></testsuites>"""


def test_counts_failures_and_reasons(tmp_path):
    (tmp_path / "all.xml").write_text(REPORT)
    text = summary(tmp_path / "all.xml")
    assert "**2 passed, 2 failed, 1 skipped** in 10 minutes, in one piece (2026-01-02, commit" in text
    assert "- failed: `tests.a.test_bad`" in text
    assert "- failed: `tests.b.test_broken`" in text
    assert "- skipped, 1: no GPU" in text


def test_only_what_stands_between_the_marks_is_written_anew(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("# A\n\n<!-- tests: begin -->\nold\n<!-- tests: end -->\n\nrest\n")
    write_section("tests", "new", page)
    write_section("tests", "newer", page)
    assert page.read_text() == "# A\n\n<!-- tests: begin -->\nnewer\n<!-- tests: end -->\n\nrest\n"
