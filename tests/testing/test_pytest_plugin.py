"""The pytest plugin, as a stranger's project uses it: one file of tests, no eval file."""

from __future__ import annotations

import json
import pkgutil
import re
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from typing import TypeAlias

import pytest

import germane
from germane import InputError, Report, evaluate
from germane.testing import FakeJudge, assert_retrieval

pytest_plugins = ["pytester"]

NAME = "germane.pytest_plugin"
USED = [] if any(one.value == NAME for one in entry_points(group="pytest11")) else ["-p", NAME]
"""An installation from before the plugin does not name it."""

SEARCH = """
    import pytest

    GOLD = {f"q{n}": f"d{n}" for n in range(8)}

    def search(query, at=0):
        found = ["a", "b", "c"]
        found.insert(at, GOLD[query])
        return [{"id": name, "text": f"text of {name}"} for name in found]
"""
RECORDS = f"""{SEARCH}
    @pytest.mark.parametrize("query", GOLD)
    def test_search(germane, query):
        germane.record(query=query, contexts=search(query, AT), qrels={{GOLD[query]: 1}}, measures="RR nDCG@2")
"""

Run: TypeAlias = Callable[..., pytest.RunResult]


@pytest.fixture(scope="module", autouse=True)
def _everything_is_imported() -> None:
    """What a session within this one imports is forgotten at its end: a second copy of a module would be another one."""
    for module in pkgutil.walk_packages(germane.__path__, "germane."):
        if not module.name.endswith("__main__"):
            with suppress(ImportError):  # what needs another tool
                import_module(module.name)


@pytest.fixture
def run(pytester: pytest.Pytester) -> Run:
    """Runs these tests in this process; `outside` in one of its own, as xdist needs."""

    def run(text: str, *words: str, outside: bool = False) -> pytest.RunResult:
        if text:
            pytester.makepyfile(test_search=text)
        method = pytester.runpytest_subprocess if outside else pytester.runpytest_inprocess
        return method(*USED, "-p", "no:cacheprovider", *words)

    return run


def test_two_lines_record_and_gate(run: Run) -> None:
    """The fixture records; an option decides at the end, in one block, by the exit code."""
    text = RECORDS.replace("AT", "0")
    passed = run(text, "--germane-gate", "mean(RR)>=0.9")
    assert passed.ret == pytest.ExitCode.OK
    passed.stdout.fnmatch_lines(
        ["=* germane =*", " RR * 1.0000 * 8/8", "verdict  passed*", "*passed  mean(RR)>=0.9*"]
    )
    failed = run(
        text.replace("query, 0", "query, 1"), "--germane-gate", "mean(RR)>=0.9", "--germane-gate", "RR>0"
    )
    assert failed.ret == pytest.ExitCode.TESTS_FAILED
    failed.assert_outcomes(passed=8)
    failed.stdout.fnmatch_lines(
        [
            "worst by RR*",
            "*test_search?q0?*",
            "verdict  failed*",
            "*failed  mean(RR)>=0.9  mean 0.5000*",
            "*passed  mean(RR)>0*",
        ]
    )


def test_without_gates_the_means_are_shown_and_nothing_fails(run: Run) -> None:
    """A recording test is a test like any other; one that records nothing leaves no block."""
    shown = run(RECORDS.replace("AT", "2"))
    assert shown.ret == pytest.ExitCode.OK
    shown.stdout.fnmatch_lines(["verdict  no gates*"])
    silent = run("def test_nothing(): pass")
    assert "germane ==" not in silent.stdout.str()


def test_gates_stand_in_the_config_file_too(run: Run, pytester: pytest.Pytester) -> None:
    """In pytest's own or germane.toml; those hold whose measure was recorded, since not all tests may run."""
    pytester.makeini("[pytest]\ngermane_gates =\n    mean(RR)>=0.9\n    mean(AP)>=0.9\n")
    pytester.path.joinpath("germane.toml").write_text('gates = ["nDCG@2>=0.95"]\n')
    found = run(RECORDS.replace("AT", "1"))
    assert found.ret == pytest.ExitCode.TESTS_FAILED
    found.stdout.fnmatch_lines(["*failed  mean(RR)>=0.9*", "*failed  mean(nDCG@2)>=0.95*"])
    found.stdout.fnmatch_lines(["gates not decided, since no test recorded their measure: mean(AP)>=0.9"])


def test_a_misspelt_gate_of_a_file_fails(run: Run, pytester: pytest.Pytester) -> None:
    """No measure is called so."""
    pytester.makeini("[pytest]\ngermane_gates =\n    mean(RRR)>=0.9\n")
    result = run(RECORDS.replace("AT", "0"))
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["*names RRR, which is not measured; name one of the measures RR, nDCG@2*"])


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["--germane-gate", "RR>>1"], pytest.ExitCode.USAGE_ERROR, "*'RR>>1' is not a gate*"),
        (["--germane-gate", "AP>=0"], pytest.ExitCode.TESTS_FAILED, "*names AP, which is not measured*"),
        (
            ["--germane-gate", "RR>=0", "-k", "nothing"],
            pytest.ExitCode.TESTS_FAILED,
            "*no test recorded a sample*",
        ),
    ],
)
def test_what_cannot_be_decided_fails(run: Run, words: list[str], code: int, said: str) -> None:
    """A gate that is none, or on what nobody recorded, is no gate that passed."""
    found = run(RECORDS.replace("AT", "0"), *words)
    assert found.ret == code
    assert any(stream.str() for stream in (found.stdout, found.stderr))
    (found.stderr if code == pytest.ExitCode.USAGE_ERROR else found.stdout).fnmatch_lines([said])


def test_the_report_of_another_evaluation_is_not_replaced(run: Run) -> None:
    """That of an earlier session is; a file is written by its ending."""
    text = RECORDS.replace("AT", "0")
    for _ in range(2):
        assert run(text, "--germane-report", "out").ret == pytest.ExitCode.OK
    assert Report.open("out")["RR"].n == 8
    evaluate([{"query": "a", "contexts": [], "qrels": {"a": 1}}], "RR").save("other")
    found = run(text, "--germane-report", "other")
    assert found.ret == pytest.ExitCode.TESTS_FAILED
    found.stdout.fnmatch_lines(["germane: *other*"])
    assert run(text, "--germane-report", "x.html", "--germane-report", "x.md").ret == pytest.ExitCode.OK
    assert Path("x.html").exists()
    assert Path("x.md").exists()
    assert Path("x.html").stat().st_size > 1000


def test_workers_of_xdist_hand_over_what_they_recorded(run: Run) -> None:
    """The scores are those of one process, byte by byte; the gates are decided once."""
    text = RECORDS.replace("AT", "1")
    one = run(text, "--germane-report", "one", "--germane-gate", "RR>=0.9")
    two = run(text, "--germane-report", "two", "--germane-gate", "RR>=0.9", "-n", "2", outside=True)
    assert (one.ret, two.ret) == (pytest.ExitCode.TESTS_FAILED,) * 2
    two.assert_outcomes(passed=8)
    assert Path("one/scores.jsonl").read_bytes() == Path("two/scores.jsonl").read_bytes()
    assert two.stdout.str().count("failed  mean(RR)>=0.9") == 1


def test_what_a_crashed_worker_recorded_is_missed(run: Run) -> None:
    """The session fails and says why, whatever the others recorded."""
    text = f"{RECORDS.replace('AT', '0')}\n    def test_crash():\n        import os; os._exit(1)\n"
    found = run(text, "-n", "1", "--germane-gate", "RR>=0", outside=True)
    assert found.ret == pytest.ExitCode.TESTS_FAILED
    found.stdout.fnmatch_lines(["germane: the gates cannot be decided, since these xdist workers crashed*"])


def test_nothing_is_imported_until_it_is_used(run: Run) -> None:
    """A project that has germane installed and does not use it pays for small modules alone."""
    text = f"""
    import sys

    def test_it():
        found = {{name for name in sys.modules if name.startswith("germane")}}
        assert found == {{"germane", "germane.lazy", "germane.version", "{NAME}"}}
        assert "numpy" not in sys.modules
    """
    assert run(text, "-p", "no:xdist", outside=True).ret == pytest.ExitCode.OK


def test_one_id_is_recorded_once(run: Run) -> None:
    """A test may record several samples; two under one id are refused, and a judge is the same in all."""
    text = f"""{SEARCH}
    def test_twice(germane):
        for query in ("q0", "q1"):
            germane.record(query=query, contexts=search(query), qrels={{GOLD[query]: 1}}, measures="RR")

    def test_again(germane):
        germane.record(id="mine", query="q2", contexts=search("q2"), qrels={{"d2": 1}}, measures="RR")
    """
    found = run(text, "--germane-report", "out")
    assert found.ret == pytest.ExitCode.OK
    names = ["mine", "test_search.py::test_twice", "test_search.py::test_twice 2"]
    assert sorted(sample.id for sample in Report.open("out").samples()) == names
    found = run(text.replace("germane.record(query", 'germane.record(id="mine", query'))
    assert found.ret == pytest.ExitCode.TESTS_FAILED
    found.stdout.fnmatch_lines(["germane: *recorded the id 'mine', which already has another query*"])


REPEATED = """
    import pytest

    GOLD = {"first": "d1", "second": "d2", "third": "d3"}

    @pytest.mark.parametrize("seed", range(4))
    @pytest.mark.parametrize("query", GOLD)
    def test_search(germane, query, seed):
        germane.record(FIELDS query=query, contexts=[{"id": "d1"}, {"id": "d2"}], qrels={GOLD[query]: 1}, measures="RR")
"""


@pytest.mark.parametrize(
    ("fields", "words", "n", "note"),
    [
        ("", [], "3/3 (4 trials each)", "9 repeats of a query with equal gold are trials of its case"),
        ("", ["-n", "2"], "3/3 (4 trials each)", "9 repeats of a query with equal gold are trials of its case"),
        ("id=query,", [], "3/3 (4 trials each)", "9 repeats of a query with equal gold are trials of its case"),
        ("trial=seed,", [], "3/3 (4 trials each)", "9 repeats of a query with equal gold are trials of its case"),
        ("id=query, trial=seed,", [], "3/3 (4 trials each)", ""),
        ("id=f'{query} {seed}',", [], "3/3 (4 trials each)", "9 repeats of a query with equal gold are trials of its case"),
        ("cluster=query,", [], "3/3 (4 trials each)", "9 repeats of a query with equal gold are trials of its case"),
        ("history=[{'role': 'user', 'content': f'{query} {seed}'}],", [], "12/12", ""),
    ],
)  # fmt: skip
def test_repeats_are_no_queries(run: Run, fields: str, words: list[str], n: str, note: str) -> None:
    """Equal queries with equal gold are averaged first, and a note says so; another history is another query."""
    text = REPEATED.replace("FIELDS", fields)
    gate = ["--germane-gate", "lower(RR)>=0.1", "--germane-report", "out"]
    result = run(text, *gate, *words, outside=bool(words))
    shown = result.stdout.str()
    assert re.findall(r"RR +0.5000 .* (\d+/.*)", shown) == [n]
    assert (
        ("0.0824 to 0.9176" in shown)
        == (result.ret == pytest.ExitCode.TESTS_FAILED)
        == ("history" not in fields)
    )
    assert list(json.loads(Path("out/manifest.json").read_text())["notes"]) == (
        [note.split(maxsplit=1)[1]] if note else []
    )


def test_tests_with_measures_of_their_own_make_one_report(run: Run) -> None:
    """What the report says of its rows is counted over all records; read back it is the same."""
    text = f"""{SEARCH}
    def test_nothing(germane):
        germane.record(id="a", query="q0", contexts=[], qrels={{"d0": 1}}, measures="RR")

    def test_search(germane):
        germane.record(id="b", query="q1", contexts=search("q1"), qrels={{"d1": 1}}, measures="RR nDCG@2 R@5")
    """
    assert run(text, "--germane-report", "out").ret == pytest.ExitCode.OK
    report = Report.open("out")
    whole = evaluate(list(report.samples()), "RR")
    assert report["RR"].basis.beside == whole["RR"].basis.beside != {}
    assert report.explain("b", "nDCG@2").hits


def test_errors_end_at_the_line_of_the_test(run: Run) -> None:
    """No frame of this package is shown; a misspelt field is warned of."""
    text = """
    from germane.testing import assert_retrieval

    def test_measure(germane):
        germane.record(query="q", contexts=[], qrels={"d": 1}, measures="RRR")

    def test_check():
        assert_retrieval({"query": "q", "contexts": []}, "RR is good")

    def test_field(germane):
        germane.record(query="q", contexts=[], qrel={"d": 1}, measures="RR")
    """
    found = run(text, "-p", "no:xdist", outside=True)
    found.assert_outcomes(passed=1, failed=2, warnings=1)
    found.stdout.fnmatch_lines(
        ["E *unknown measure 'RRR'; did you mean RR[?]", "E *is not a gate*", "*did you mean 'qrels'*"]
    )
    assert "germane/" not in found.stdout.str()


def test_judged_measures_are_recorded_with_their_judge(run: Run) -> None:
    """What was asked is added up; the note that nobody calibrated the judge is there."""
    text = """
    from germane.testing import FakeJudge

    JUDGE = FakeJudge(stored=True)

    def test_a(germane):
        for n in range(3):
            report = germane.record(query=f"q{n}", contexts=["x", "y"], measures="context_precision", judge=JUDGE, ledger="l.sqlite")
            assert report["context_precision"].mean == 1.0
    """
    found = run(text, "--germane-gate", "context_precision>=0.9", "--germane-report", "out")
    assert found.ret == pytest.ExitCode.OK
    judge = json.loads(Path("out/manifest.json").read_text())["judge"]
    assert (judge["calls"], judge["source"]) == (6, "fake")
    found.stdout.fnmatch_lines(["*uncalibrated*"])
    text = text.replace("judge=JUDGE", 'judge="lexical"').replace("mean == 1.0", "mean is not None")
    undecided = run(text, "--germane-gate", "context_precision>=0")
    assert undecided.ret == pytest.ExitCode.TESTS_FAILED
    decided = run(text, "--germane-gate", "context_precision>=0", "--germane-allow-stand-in")
    assert decided.ret == pytest.ExitCode.OK


def test_the_page_is_a_project_that_works(run: Run, pytester: pytest.Pytester) -> None:
    """The files that docs/pytest.md shows, beside an application."""
    page = Path(__file__).parents[2].joinpath("docs", "pytest.md").read_text("utf-8")
    files = re.findall(r"^```python\n# (test_\w+)\.py\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    assert len(files) == 2
    pytester.makepyfile(
        my_app="""
        def search(query):
            return [{"id": "d1", "text": "the moon"}, {"id": "d2", "text": "coffee"}]
        """,
        **dict(files),
    )
    found = run("", "--germane-gate", "mean(RR)>=0.7", *(f"{name}.py" for name, _ in files))
    found.assert_outcomes(passed=3)
    assert found.ret == pytest.ExitCode.OK


SAMPLE = {
    "query": "what makes the tides",
    "contexts": [{"id": "d2", "text": "coffee"}, {"id": "d1", "text": "the moon"}],
    "qrels": {"d1": 1, "d3": 2},
    "reference": "The moon. The sun.",
}


def test_an_assertion_shows_the_list_and_what_is_missing() -> None:
    """The labels at each rank, the gold that did not come back, the formula with its numbers."""
    assert_retrieval(SAMPLE, "RR>=0.5", "R@2>0.4")
    with pytest.raises(AssertionError) as failed:
        assert_retrieval(SAMPLE, "RR>=0.9", "R@2>0.4")
    lines = str(failed.value).splitlines()
    assert [line.split()[:2] for line in lines[1:3]] == [
        ["failed", "mean(RR)>=0.9"],
        ["passed", "mean(R@2)>0.4"],
    ]
    assert any(line.split() == ["2", "■", "gold", "1", "d1", "the", "moon"] for line in lines)
    assert "missing gold: d3 (grade 2)" in lines
    assert "  numbers  1 / 2 = 0.5000" in lines


def test_an_assertion_on_a_judged_measure_asks_the_judge() -> None:
    """What is missing are claims; a verdict that failed makes it undecided, which is no pass."""
    judge = FakeJudge(stored=False)
    assert_retrieval(SAMPLE, "context_recall>=0.8", judge=judge)
    with pytest.raises(AssertionError, match="context_recall"):
        assert_retrieval(SAMPLE, "context_recall>=0.8", judge=judge, contexts=[])
    with pytest.raises(AssertionError, match=r"undecided +mean\(context_recall.*stand-in"):
        assert_retrieval(SAMPLE, "context_recall>=0", judge="lexical")
    assert_retrieval(SAMPLE, "context_recall>=0", judge="lexical", allow_stand_in=True)
    broken = FakeJudge({"relevance": RuntimeError("ill")})
    with pytest.raises(AssertionError, match="undecided"):
        assert_retrieval(SAMPLE, "context_precision>=0.5", judge=broken)


def test_an_assertion_that_cannot_be_made_is_an_error() -> None:
    """Nothing asserted, no judge, no gold, a query where a sample is asked for, ids given as texts."""
    with pytest.raises(InputError, match="assert_retrieval has no check"):
        assert_retrieval(SAMPLE)
    with pytest.raises(
        InputError, match="the sample is 'tides', not a mapping or a Sample; name each field: query="
    ):
        assert_retrieval("tides", "RR>=0.5")  # type: ignore[arg-type]
    with (
        pytest.warns(
            UserWarning, match="the context 'd1' is read as the text of a passage, but qrels has it as an id"
        ),
        suppress(AssertionError),
    ):
        assert_retrieval({"query": "a", "contexts": ["d1"], "qrels": {"d1": 1}}, "RR>=0.5")
    with pytest.raises(InputError, match="a check of one sample cannot use change"):
        assert_retrieval(SAMPLE, "RR>=0.5", "change(RR)>=0")
    with pytest.raises(InputError, match="these measures need a judge"):
        assert_retrieval(SAMPLE, "context_recall>=0.8")
    with pytest.raises(AssertionError, match="RR"):
        assert_retrieval({"query": "a", "contexts": ["b"]}, "RR>=0")
