"""The pytest plugin with the cases of an eval file of AgentV's."""

from __future__ import annotations

import pytest

from germane import Report
from tests.testing.test_pytest_plugin import USED


def test_a_repeated_case_of_an_eval_file_keeps_what_its_graders_found(pytester: pytest.Pytester) -> None:
    """Each trial has its own results."""
    pytester.mkdir("evals").joinpath("a.yaml").write_text(
        "measures: [{type: contains, value: moon}]\ntests: [{id: a, input: what makes the tides}]\n"
    )
    text = """
    import pytest
    from germane.testing import germane_cases

    @pytest.mark.parametrize("answer", ["the moon", "the sun"])
    @germane_cases("evals/*.yaml")
    def test_case(case, germane, answer):
        germane.record(case, response=answer)
    """
    pytester.makepyfile(test_cases=text)
    words = (*USED, "-p", "no:cacheprovider", "--germane-report", "out")
    assert pytester.runpytest_subprocess(*words).ret == pytest.ExitCode.OK
    report = Report.open("out")
    assert report["contains"].mean == 0.5
    assert [sample.key for sample in report.samples()] == [("a", "", 0), ("a", "", 1)]
    results = {tuple(row.provenance["of"][:3]): row.answer for row in report.judgements()}
    assert [len(results["a", "", trial]["hits"]) for trial in "01"] == [1, 0]
