"""Who won: the outcome of each measure, its sentence, the gates and the exit code, which cannot disagree."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from germane import Report, compare, evaluate
from germane.comparison.formats import render_comparison
from germane.comparison.regression import settle_changes
from germane.errors import InputError
from germane.judges.judge import FakeJudge
from germane.show.table import plain_text
from germane.statistics.systems import holm
from tests.command import invoke

N = 60


def ranked(first: int, *, n: int = N, **more: Any) -> list[dict[str, Any]]:
    """Queries of which the first ones have their gold document at rank 1, and the others at rank 3."""
    found = []
    for number in range(n):
        ids = ("good", "x", "y") if number < first else ("x", "y", "good")
        contexts = [{"id": name, "text": name} for name in ids]
        found.append(
            {
                "id": f"q{number}",
                "query": f"what {number}?",
                "qrels": {"good": 1},
                "contexts": contexts,
                **more,
            }
        )
    return found


def report(first: int, measures: str = "RR", **more: Any) -> Report:
    return evaluate(ranked(first, **more), measures)


@pytest.mark.parametrize(
    ("first", "second", "margin", "outcome", "sentence"),
    [
        (
            20,
            50,
            None,
            "better",
            r"B is better than A in RR: \+0\.33 \(95% interval \+0\.\d\d to \+0\.\d\d\)",
        ),
        (50, 20, None, "worse", r"B is worse than A in RR: -0\.33 \(95% interval -0\.\d\d to -0\.\d\d\)"),
        (30, 32, None, "not shown", r"no difference shown in RR: 60 queries detect 0\.\d+ or more"),
        (30, 30, None, "not shown", r"no difference shown in RR: 60 queries, no score differs"),
        (30, 32, 0.2, "same", r"B and A are the same within 0\.2 in RR: \+0\.02.*"),
        (20, 50, 0.5, "same", r"B and A are the same within 0\.5 in RR: \+0\.33.*"),
        (20, 50, 0.02, "better", r"B is better than A in RR: .*"),
    ],
)
def test_an_outcome_has_a_sentence(
    first: int, second: int, margin: float | None, outcome: str, sentence: str
) -> None:
    """Seen from the second report; within the margin comes before better; the output and the JSON begin with it."""
    found = compare(report(first), report(second), margin=None if margin is None else {"RR": margin})
    (row,) = found.to_json()["comparisons"]
    assert (found["RR"].outcome, row["outcome"]) == (outcome, outcome)
    assert re.fullmatch(sentence, row["sentence"]), row["sentence"]
    assert str(found).startswith(row["sentence"])


def test_less_is_better_where_the_measure_says_so() -> None:
    """A measure of which less is better: a rise is worse."""
    rows = [{**row, "forbidden": ["x"]} for row in ranked(0)]
    clean = [{**row, "contexts": row["contexts"][at % 4 > 0 :]} for at, row in enumerate(rows)]
    both = evaluate(rows, "leaks"), evaluate(clean, "leaks")
    assert compare(*both)["leaks"].outcome == "better"
    assert compare(*reversed(both))["leaks"].outcome == "worse"


def test_outcomes_are_adjusted_over_the_primary_measures() -> None:
    """A p-value below 0.05 alone, and above it by Holm over all that are printed, is shown where it alone is primary."""
    a, b = report(30, "RR P@1 P@2 P@3"), report(30, "RR P@1 P@2 P@3")
    for second in range(31, N):
        b = report(second, "RR P@1 P@2 P@3")
        p = compare(a, b, primary="RR")["RR"].p
        if p is not None and p < 0.03:
            break
    every, one = compare(a, b), compare(a, b, primary="RR")
    ps = [row.p for row in every.comparisons]
    assert [row.p_holm for row in every.comparisons] == holm([p or 0.0 for p in ps])
    assert (one["RR"].outcome, one["P@1"].outcome) == ("better", None)
    assert [row["outcome"] for row in one.to_json()["comparisons"]] == ["better", None, None, None]
    assert every["RR"].outcome == "not shown"
    assert "over 4 tests (Holm)" in every["RR"].sentence()
    assert len(one.sentences) == 1


def test_a_stand_in_shows_nothing() -> None:
    """Whatever its figures are, and where it is allowed to decide."""
    low, high = (
        [{**row, "query": "alpha beta", "contexts": [{"text": text} for text in texts]} for row in ranked(0)]
        for texts in (("nothing", "else"), ("alpha beta", "alpha beta gamma"))
    )
    both = [evaluate(rows, "context_precision", judge="lexical") for rows in (high, low)]
    found = compare(*both, fail_on_regression=True)
    assert found["context_precision"].outcome == "not shown"
    assert "stand-in" in found.sentences[0]
    assert (found.verdict, found.exit_code) == ("undecided", 3)
    allowed = compare(*both, fail_on_regression=True, allow_stand_in=True)
    assert (allowed["context_precision"].outcome, allowed.exit_code) == ("not shown", 1)


def test_other_judges_are_no_finding() -> None:
    """Where different judges judged the two systems nothing is shown, and a gate is undecided."""

    def judge(grade: int) -> FakeJudge:
        return FakeJudge(lambda _: {"grade": grade, "reasoning": ""}, name=f"j{grade}")

    a, b = (evaluate(ranked(30), "context_precision", judge=judge(grade)) for grade in (0, 3))
    found = compare(a, b, across_judges=True, fail_on_regression=True)
    assert found["context_precision"].outcome == "not shown"
    assert "judged by j0" in found.sentences[0]
    assert found.exit_code == 3


@pytest.mark.parametrize(
    ("first", "second", "code", "gate"),
    [
        (20, 50, 0, "passed     B is better than A in RR: "),
        (30, 32, 0, "passed     no difference shown in RR: 60 queries detect"),
        (50, 20, 1, "failed     RR got worse: -0.33 (95% interval -0."),
    ],
)
def test_a_regression_fails(first: int, second: int, code: int, gate: str, tmp_path: Path) -> None:
    """By --fail-on-regression, from the shell and in Python, in words that say what happened."""
    a, b = report(first), report(second)
    found = compare(a, b, fail_on_regression=True)
    assert (found.exit_code, found.to_json()["exit_code"]) == (code, code)
    assert gate in str(found)
    a.save(tmp_path / "a"), b.save(tmp_path / "b")
    done = invoke("compare", tmp_path / "a", tmp_path / "b", "--fail-on-regression")
    assert done.code == code
    assert gate.split(maxsplit=1)[0] in done.out
    assert invoke("compare", tmp_path / "a", tmp_path / "b").code == 0


def test_a_comparison_fits_a_screen() -> None:
    """Of four measures with gates at most 40 lines of 80 columns; a query that moved is one line with its gold's ranks."""
    a, b = (report(first, "RR nDCG@3 P@1 P@2") for first in (50, 20))
    found = compare(a, b, margin={"RR": 0.02}, fail_on_regression=True)
    lines = plain_text(render_comparison(found), 80).splitlines()
    assert len(lines) <= 40
    assert all(len(line) <= 80 for line in lines)
    assert "  -0.6667  q20 what 20?  good: 1 -> 3" in lines
    assert found.to_json()["moved"]["B"]["worst"][0]["gold"] == [["good", 1, 3]]


def test_reports_have_names() -> None:
    """Those given to `compare`, or to the report; a folder's else. Representations are short."""
    a, b = report(20), report(50)
    found = compare(a, b, names=("bm25", "stem"))
    assert found.systems == ("bm25", "stem")
    assert found.sentences[0].startswith("stem is better than bm25 in RR")
    assert a.name == ""
    b.name = "stem"
    assert compare(a, b).systems == ("A", "stem")
    a.name, b.name = "old", "new"
    assert compare(a, b).systems == ("old", "new")
    assert compare(a, b, names=["x", "y"]).systems == ("x", "y")
    assert repr(a) == "<Report old: RR=0.5556>"
    assert len(repr(compare(a, b))) < 120
    assert len(repr(compare(a, b)["RR"])) < 120
    for names in (("one",), ("same", "same"), "ab"):
        with pytest.raises(InputError, match="give 2 different names"):
            compare(a, b, names=names)


def test_the_page_and_markdown_begin_with_the_sentence(tmp_path: Path) -> None:
    """Written by -o; a page is that of the second report, compared with the first."""
    for name, first in (("a", 20), ("b", 50)):
        report(first).save(tmp_path / name)
    page, text, data = (tmp_path / f"c.{end}" for end in ("html", "md", "json"))
    done = invoke(
        "compare", tmp_path / "a", tmp_path / "b", *(w for f in (page, text, data) for w in ("-o", f))
    )
    assert done.code == 0
    (row,) = json.loads(data.read_text())["comparisons"]
    assert row["sentence"].startswith("b is better than a in RR: ")
    assert text.read_text().startswith(f"**{row['sentence']}**")
    assert row["sentence"] in page.read_text()
    done = invoke("compare", tmp_path / "a", tmp_path / "b", tmp_path / "a", "-o", page)
    assert (done.code, "an .html page compares two reports" in done.err) == (2, True)


def scores(path: Path, values: Sequence[float | None], measure: str = "RR") -> Path:
    """A file of scores as another program writes it; None is an empty cell."""
    cells = (f"q{n},{'' if value is None else value}" for n, value in enumerate(values))
    path.write_text("\n".join([f"id,{measure}", *cells]))
    return path


def test_figures_read_as_numbers(tmp_path: Path) -> None:
    """Hundreds are no powers of ten, and a difference that is 0 but for rounding has no sign."""
    a = scores(tmp_path / "a.csv", [100.0 * (n % 7) for n in range(40)], "cost")
    b = scores(tmp_path / "b.csv", [100.0 * ((n + 3) % 7) for n in range(40)], "cost")
    sentence = compare(a, b, ranges={"cost": (0, float("inf"))}).sentences[0]
    assert re.search(r"40 queries detect \d{3} or more", sentence)
    a = scores(tmp_path / "a.csv", [0.8, 0.3, 0.1] * 10)
    b = scores(tmp_path / "b.csv", [0.1, 0.8, 0.3] * 10)
    found = compare(b, a)
    assert found["RR"].difference != 0
    assert "+0.00 (95%" in found["RR"].figure
    assert "-0.0000 " not in str(found)


def test_the_adjustment_is_named_where_scores_are_missing(tmp_path: Path) -> None:
    """An interval above 0 beside "no difference shown" needs its reason."""
    rows = "id,RR,AP\n" + "".join(f"q{n},{{0}},{{1}}\n" for n in range(60))
    (tmp_path / "a.csv").write_text(rows.format("0.2", "0.5"))
    (tmp_path / "b.csv").write_text(rows.format("0.7", "0.5").replace("q3,0.7", "q3,"))
    sentence = compare(tmp_path / "a.csv", tmp_path / "b.csv")["RR"].in_words
    assert sentence is not None
    assert "p at most 0.05, as scores are missing; over 2 tests (Holm) 0.1000" in sentence


def test_gates_on_a_change_say_what_was_left_out(tmp_path: Path) -> None:
    """At once, and not only when the report is opened again; those of compare name the report."""
    data = tmp_path / "data.jsonl"
    data.write_text("".join(json.dumps(row) + "\n" for row in ranked(30)))
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    invoke("run", data, "-m", "RR", "-o", whole)
    gates = "--baseline", whole, "--fail-under", "change(RR)>-0.5"
    text = invoke("run", data, "-m", "RR", "-o", cut, "--limit", 40, *gates).out
    assert "--limit left out every case after the first 40" in " ".join(text.split())
    assert invoke("report", cut).out.count("--limit left out") == text.count("--limit left out")
    text = invoke("compare", whole, cut, "--margin", "RR: 0.5").out
    assert "measured on 40 of 60 queries; --limit left out every case after the first 40 of cut" in " ".join(
        text.split()
    )


def test_a_regression_gate_names_its_system(tmp_path: Path) -> None:
    """Whatever its outcome, where a report has several."""
    systems = [*ranked(30, system="bm25"), *ranked(55, system="dense"), *ranked(5, system="new")]
    before = evaluate(
        [*ranked(30, system="bm25"), *ranked(20, system="dense"), *ranked(40, system="new")], "RR"
    )
    after = evaluate(systems, "RR")
    settle_changes(after, before, every=True)
    texts = [gate.text for gate in after.verdict.gates]
    assert len(texts) == 3
    for name, text in zip(("bm25", "dense", "new"), texts, strict=True):
        assert name in text
