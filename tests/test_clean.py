"""Hostile text is harmless once shown."""

import csv
import io
import sys

import pytest

from germane import evaluate
from germane.clean import cell, clean, shorten
from germane.reports.formats import FORMATS
from germane.show.table import Table, document_lines

HOSTILE = "\x1b[31mred\x1b[0m\u202e evil\x07 =HYPERLINK() | `x` <script>"


def test_terminal_escapes_and_direction_overrides_go() -> None:
    """No control character survives; ordinary text of any script does."""
    assert clean(HOSTILE) == "[31mred[0m evil =HYPERLINK() | `x` <script>"
    assert clean("Grüße 你好 مرحبا 👍") == "Grüße 你好 مرحبا 👍"


def test_text_is_cut_to_one_short_line() -> None:
    """Line breaks become blanks, and an ellipsis says that there was more."""
    assert shorten("one\ntwo\tthree", 9) == "one two…"


def test_a_formula_is_no_formula_in_a_spreadsheet() -> None:
    """Cells that a spreadsheet would compute get an apostrophe; numbers stay numbers."""
    assert cell("=1+1") == "'=1+1"
    assert cell("plain") == "plain"
    assert cell(-1.5) == -1.5


def test_every_format_survives_hostile_ids() -> None:
    """A report on samples with hostile ids renders in every format without an escape character."""
    samples = [
        {
            "id": HOSTILE,
            "query": HOSTILE,
            "qrels": {"a": 1, "b": 0},
            "metadata": {"spans": [HOSTILE]},
            "contexts": [{"id": "b", "text": HOSTILE, "grade": 1}, {"id": "a", "text": HOSTILE}],
        }
    ]
    report = evaluate(samples, "RR P@2")
    for extension, render in FORMATS.items():
        text = "".join(render(report))
        assert "\x1b" not in text, extension
    rows = list(csv.DictReader(io.StringIO("".join(FORMATS[".csv"](report)))))
    assert [row["measure"] for row in rows] == ["RR", "P@2"]


def test_no_text_is_a_workflow_command() -> None:
    """Neither at its start nor where a long line is broken; names with colons stay."""
    assert clean("::add-mask::x") == ": :add-mask::x"
    assert clean("a ::error file=a.py::x ##[group]y") == "a : :error file=a.py::x # #[group]y"
    assert clean("##vso[task.complete]z ##teamcity[x]") == "# #vso[task.complete]z # #teamcity[x]"
    assert clean("::Stop-Commands::x ::endgroup::") == ": :Stop-Commands::x : :endgroup::"
    assert clean("std::vector, 10:20") == "std::vector, 10:20"
    assert clean("a/test_b.py::TestB::test_c[x::y]") == "a/test_b.py::TestB::test_c[x::y]"


def test_markup_in_an_id_stays_in_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    """Headings and tables are laid out; stars, underscores, tags and links within them are characters, which Markdown escapes."""
    row = ["__init__", "*a* <b> | [x](y)\x1b[31m"]
    document: list[str | Table] = ["# Audit", "", Table(["id", "query"], "l", [row]), "", "- `c`_d_"]
    sys.stdout.writelines(document_lines(document))
    shown = capsys.readouterr().out
    assert "| ---" not in shown
    assert "# Audit" not in shown
    markdown = "".join(document_lines(document, markdown=True))
    assert "\x1b" not in shown + markdown
    for text in ("__init__", "*a* <b> | [x](y)", "`c`_d_"):
        assert text in shown
        assert text not in markdown


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (
            "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645",
            "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645",
        ),
        ("\u0915\u094d\u200c\u0937", "\u0915\u094d\u200c\u0937"),
        ("pass\u200bword", "password"),
    ],
)
def test_the_non_joiner_of_a_script_that_is_spelt_with_it_is_kept(text, shown):
    """Persian and Indic words have it."""
    assert clean(text) == shown
