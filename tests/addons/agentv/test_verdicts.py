"""What graders of AgentV's eval files decide: verdicts of cases, thresholds, the exit code."""

from __future__ import annotations

from pathlib import Path

import pytest

from germane.graders.grader import GraderResult
from tests.cli.conftest import Cli
from tests.cli.test_verdicts import counted


def cases_file(tmp_path: Path, *graders: str, more: str = "") -> str:
    """An eval file of two cases with an answer, `abc` and `xyz`, graded by these."""
    listed = "".join(f"  - {one}\n" for one in graders)
    cases = "".join(
        f"  - {{id: {name}, query: q, response: {name}, qrels: {{d: 1}}}}\n" for name in ("abc", "xyz")
    )
    (tmp_path / "e.yaml").write_text(f"{more}evaluators:\n{listed}tests:\n{cases}")
    return "e.yaml"


@pytest.mark.parametrize(
    ("graders", "more", "verdicts", "failed"),
    [
        (["{type: contains, value: x}"], "", ["fail", "pass"], 1),
        (["{type: regex, value: '.'}"], "execution: {threshold: 0.9}\n", ["pass", "pass"], 0),
        (["{type: latency, threshold: 1}", "{type: contains, value: x}"], "", ["fail", "pass"], 1),
    ],
)
def test_failed_cases_are_counted_alike(
    inside: Cli, tmp_path: Path, graders: list[str], more: str, verdicts: list[str], failed: int
) -> None:
    """Terminal, Markdown, JUnit and page count the cases whose verdict is fail."""
    ran, counts = counted(inside, tmp_path, cases_file(tmp_path, *graders, more=more))
    assert [case["verdict"] for case in ran.json["cases"]] == verdicts
    assert counts == [failed] * 4


CONTAINS = "{type: contains, value: VALUE, required: true}"


@pytest.mark.parametrize(
    ("graders", "more", "code"),
    [
        ([CONTAINS.replace("VALUE", "x"), "{type: nDCG@5}"], "", 1),
        ([CONTAINS.replace("VALUE", "x"), "{type: latency, threshold: 5}"], "", 1),
        (["{type: regex, value: '.', weight: 2}", "{type: nDCG@5}"], "execution: {threshold: 0.5}\n", 2),
        (["{type: contains, value: n, weight: 2}", "{type: nDCG@5}"], "execution: {threshold: 0.5}\n", 1),
        (["{type: regex, value: '.'}", "{type: latency, threshold: 5, required: true}"], "", 3),
        (["{type: latency, threshold: 5}"], "execution: {threshold: 0.5}\n", 2),
    ],
)
def test_the_exit_code(inside: Cli, tmp_path: Path, graders: list[str], more: str, code: int) -> None:
    """A gate that failed is told before a measure that no sample could have; a required grader that is skipped is 3."""
    assert inside("run", cases_file(tmp_path, *graders, more=more), "--no-cache").code == code


def test_a_stand_in_decides_nothing_of_a_script(inside: Cli, tmp_path: Path) -> None:
    """A required script of the user's decides, whoever judges the other measures."""
    script = "{type: code_judge, name: s, required: true, script: ['echo', '{\"score\": 1}']}"
    (tmp_path / "s.jsonl").write_text('{"query": "q", "contexts": ["what q is"]}')
    (tmp_path / "e.yaml").write_text(
        f"data: s.jsonl\njudge: lexical\nmeasures: [{script}, context_precision]\n"
    )
    assert inside("run", "e.yaml").code == 0


def test_a_case_exactly_at_its_threshold_passes(inside: Cli, tmp_path: Path) -> None:
    """The mean of .7, .8 and .9 is .8, although their sum as numbers ends just below 2.4."""
    scripts = [
        f"{{type: code_judge, name: s{n}, script: ['echo', '{{\"score\": 0.{n}}}']}}" for n in (7, 8, 9)
    ]
    file = cases_file(tmp_path, *scripts, more="execution: {threshold: 0.8}\n")
    ran = inside("run", file, "--json", "--no-cache")
    assert ran.code == 0
    assert [case["verdict"] for case in ran.json["cases"]] == ["pass", "pass"]


def test_a_grader_s_fail_holds_for_a_score_that_is_borderline_but_for_rounding() -> None:
    """The outcome says that the verdict is strict, as it does with the score .6 itself."""
    whole, rounded = (GraderResult(score=score, verdict="fail").outcome.why for score in (0.6, 0.6 - 1e-16))
    assert whole == rounded == "strict: the verdict of the grader is fail"
